package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// ledger holds the raw topic against what was published. Every raw record must be
// answered once, by a sanitized record of its partition or by a dead letter; the
// answers of a partition stand in the order of the raw records; and all records
// of a fix that a read_uncommitted reader can find are the same, byte for byte.
//
// It recomputes nothing: it knows a fix by its user and time alone. What was spent of
// each user's budget it adds up from the published records.
type ledger struct {
	codec    *schemas.Codec
	fixes    []map[uint64]int64 // of each partition, a fix's raw offset
	raw      []map[int64]int    // of each partition, a raw offset's number of answers
	releases []map[uint64]uint64
	order    map[string][]int64 // of each topic's partition, the raw offset last answered
	epochs   map[string]map[int64]int16
	costs    costs                // published, by user
	places   kgo.TopicPartitioner // where another client library puts a raw record
	// away are the raw offsets, of each partition, of misplaced fixes that have no dead
	// letter that says so.
	away []map[int64]struct{}

	Raw, Sanitized, Dead           int
	FedTwice                       int // two raw records of the same user and time: the feed's fault
	Lost, Duplicates, OutOfOrder   int
	Strangers                      int // published for no raw record
	Differing                      int // fixes of which there are two different releases
	Uncommitted                    int // records that only a read_uncommitted reader sees
	Committed, Aborted             int // transactions, by the changelog's markers
	Zombies                        int // records of a producer that had been fenced
	OpenTransactions, ReaderDiffer int // partitions
	Misplaced                      int // fixes in another partition than murmur2 of their key
	MisplacedLetters               int // dead letters that say so
	WronglyMisplaced               int // of these, of other records
	Unrefused                      int // misplaced fixes without such a dead letter
	Users, Exceeded                int // with a release; with more than the budget in a window
	MostSpent                      float64
}

func newLedger(partitions int) (*ledger, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return nil, err
	}
	l := &ledger{codec: codec, order: map[string][]int64{}, epochs: map[string]map[int64]int16{}, costs: costs{}}
	l.places = kgo.StickyKeyPartitioner(nil).ForTopic(rawTopic) // a record with a key: murmur2
	for range partitions {
		l.fixes = append(l.fixes, map[uint64]int64{})
		l.raw = append(l.raw, map[int64]int{})
		l.releases = append(l.releases, map[uint64]uint64{})
		l.away = append(l.away, map[int64]struct{}{})
		for _, topic := range []string{sanitizedTopic, deadTopic} {
			l.order[topic] = append(l.order[topic], -1)
		}
	}
	return l, nil
}

// addRaw takes a record of the raw topic.
func (l *ledger) addRaw(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	l.Raw++
	l.raw[r.Partition][r.Offset] = 0
	fix, err := l.codec.DecodeRaw(r.Value)
	if err != nil || fix.UserID != string(r.Key) {
		return // it can only become a dead letter
	}
	id := hashFix(fix.UserID, fix.Timestamp)
	if _, again := l.fixes[r.Partition][id]; again {
		l.FedTwice++
	}
	l.fixes[r.Partition][id] = r.Offset
	if l.places.Partition(r, len(l.raw)) != int(r.Partition) {
		l.Misplaced++
		l.away[r.Partition][r.Offset] = struct{}{}
	}
}

// addCommitted takes a record that a read_committed reader finds now.
func (l *ledger) addCommitted(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	if r.Topic == deadTopic {
		l.Dead++
		letter, err := l.codec.DecodeDeadLetter(r.Value)
		if err != nil || letter.Topic != rawTopic || letter.Partition != r.Partition {
			l.Strangers++
			return
		}
		if letter.Reason == schemas.ReasonWrongPartition {
			l.MisplacedLetters++
			if _, away := l.away[r.Partition][letter.Offset]; !away {
				l.WronglyMisplaced++
			}
			delete(l.away[r.Partition], letter.Offset)
		}
		l.answer(r.Topic, r.Partition, letter.Offset)
		return
	}
	l.Sanitized++
	release, err := l.codec.DecodeSanitized(r.Value)
	if err != nil || release.UserID != string(r.Key) {
		l.Strangers++
		return
	}
	l.costs.add(release)
	offset, known := l.fixes[r.Partition][hashFix(release.UserID, release.Timestamp)]
	if !known {
		l.Strangers++
		return
	}
	l.answer(r.Topic, r.Partition, offset)
}

// answer notes that a raw record was answered.
func (l *ledger) answer(topic string, partition int32, offset int64) {
	n, known := l.raw[partition][offset]
	switch {
	case !known:
		l.Strangers++
		return
	case n > 0:
		l.Duplicates++
	}
	l.raw[partition][offset] = n + 1
	if offset < l.order[topic][partition] {
		l.OutOfOrder++
	}
	l.order[topic][partition] = max(offset, l.order[topic][partition])
}

// addUncommitted takes a record of the sanitized topic, committed or not.
func (l *ledger) addUncommitted(r *kgo.Record) {
	l.fence(r)
	if r.Attrs.IsControl() {
		return
	}
	l.Uncommitted++
	release, err := l.codec.DecodeSanitized(r.Value)
	if err != nil {
		l.Strangers++
		return
	}
	id, hash := hashFix(release.UserID, release.Timestamp), hashRecord(r)
	if first, again := l.releases[r.Partition][id]; again && first != hash {
		l.Differing++
		return
	}
	l.releases[r.Partition][id] = hash
}

// addChangelog takes a record of the changelog, committed or not. Every
// transaction writes there.
func (l *ledger) addChangelog(r *kgo.Record) {
	l.fence(r)
	if !r.Attrs.IsControl() || len(r.Key) < 4 {
		return
	}
	if r.Key[3] == 1 { // the key of a control record: version, type, 16 bits each
		l.Committed++
	} else {
		l.Aborted++
	}
}

// fence holds a record's producer epoch against those before it in its partition.
func (l *ledger) fence(r *kgo.Record) {
	where := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
	if l.epochs[where] == nil {
		l.epochs[where] = map[int64]int16{}
	}
	latest, known := l.epochs[where][r.ProducerID]
	if known && r.ProducerEpoch < latest {
		l.Zombies++
		return
	}
	l.epochs[where][r.ProducerID] = r.ProducerEpoch
}

// count works out what was never answered.
func (l *ledger) count() {
	for _, offsets := range l.raw {
		for _, answers := range offsets {
			if answers == 0 {
				l.Lost++
			}
		}
	}
	l.Uncommitted -= l.Sanitized
	for _, offsets := range l.away {
		l.Unrefused += len(offsets)
	}
	l.Users = len(l.costs)
	l.Exceeded, l.MostSpent = l.costs.exceeded(budgetEpsilon, budgetSteps)
}

// compare holds what the witness saw of a topic against what it holds now.
func (l *ledger) compare(topic string, saw, now [][]seen) (violations []string) {
	for p := range now {
		if len(saw[p]) != len(now[p]) {
			violations = append(violations, fmt.Sprintf("%s/%d: the concurrent reader saw %d records, now there are %d", topic, p, len(saw[p]), len(now[p])))
		}
		for n := range min(len(saw[p]), len(now[p])) {
			if saw[p][n] != now[p][n] {
				violations = append(violations, fmt.Sprintf("%s/%d: the concurrent reader saw another record at offset %d", topic, p, now[p][n].offset))
				break
			}
		}
	}
	l.ReaderDiffer += len(violations)
	return violations
}

// violations are the broken promises.
func (l *ledger) violations() (broken []string) {
	say := func(n int, what string) {
		if n > 0 {
			broken = append(broken, fmt.Sprintf("%d %s", n, what))
		}
	}
	say(l.FedTwice, "fixes were fed twice")
	say(l.Lost, "raw records lost: neither sanitized nor dead letters")
	say(l.Duplicates, "raw records answered more than once")
	say(l.OutOfOrder, "answers out of order")
	say(l.Strangers, "published records that belong to no raw record")
	say(l.Differing, "fixes with two different releases, read uncommitted")
	say(l.Zombies, "records of fenced producers")
	say(l.Exceeded, "budgets exceeded: users with more ε published in a window than the budget")
	say(l.Unrefused, "misplaced records without a dead letter that says wrong_partition")
	say(l.WronglyMisplaced, "dead letters that say wrong_partition of a record in its place")
	say(l.OpenTransactions, "partitions with a transaction that nobody ends")
	if l.Raw != l.Sanitized+l.Dead {
		broken = append(broken, fmt.Sprintf("%d raw records, but %d sanitized and %d dead letters", l.Raw, l.Sanitized, l.Dead))
	}
	return broken
}

// untried names what a run has not put to the test, so that its passing says nothing of it.
func (l *ledger) untried() []string {
	if l.MostSpent >= budgetEpsilon {
		return nil
	}
	return []string{fmt.Sprintf("budgets were not tried: no user has reached the budget of ε %d, "+
		"the most in any %v is %g; give more --records or fewer --vehicles", budgetEpsilon, budgetWindow, l.MostSpent)}
}
