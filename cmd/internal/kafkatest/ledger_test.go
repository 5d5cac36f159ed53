//go:build kafka

package kafkatest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/schemas"
)

// ledger compares the raw topic with what was published. It adds to a fleet.Ledger what only a run
// with faults shows. All records of a fix that a read_uncommitted reader finds have the same bytes,
// no fenced producer has written, misplaced fixes are refused, and no user has spent more than the
// budget, added up from the published records.
type ledger struct {
	*fleet.Ledger
	codec    *schemas.Codec
	releases []map[uint64]uint64 // of each partition, the hash of a fix's first record
	epochs   map[string]map[int64]int16
	costs    costs                // published, by user
	places   kgo.TopicPartitioner // where another client library puts a raw record
	// away holds, for each partition, the raw offsets of the misplaced fixes that have no dead
	// letter with reason wrong_partition.
	away []map[int64]struct{}

	Differing                      int // fixes with two different releases
	Uncommitted                    int // records that only a read_uncommitted reader sees
	Committed, Aborted             int // transactions, by the changelog's markers
	Zombies                        int // records of fenced producers
	OpenTransactions, ReaderDiffer int // partitions
	// fixes that are not in the partition that murmur2 gives their key
	Misplaced        int
	MisplacedLetters int // dead letters with reason wrong_partition
	WronglyMisplaced int // those of them for records in the right partition
	Unrefused        int // misplaced fixes without such a dead letter
	// users with a release; users with more than the budget in a window
	Users, Exceeded int
	MostSpent       float64
}

func newLedger(partitions int) (*ledger, error) {
	answered, err := fleet.NewLedger(rawTopic, partitions)
	if err != nil {
		return nil, err
	}
	codec, err := schemas.NewCodec(schemas.Avro)
	l := &ledger{
		Ledger: answered, codec: codec, epochs: map[string]map[int64]int16{}, costs: costs{},
		places: kgo.StickyKeyPartitioner(nil).ForTopic(rawTopic), // a record with a key: murmur2
	}
	for range partitions {
		l.releases = append(l.releases, map[uint64]uint64{})
		l.away = append(l.away, map[int64]struct{}{})
	}
	return l, err
}

func entry(r *kgo.Record) fleet.Entry {
	return fleet.Entry{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
}

// addRaw takes a record of the raw topic.
func (l *ledger) addRaw(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	l.Fed(entry(r))
	fix, err := l.codec.DecodeRaw(r.Value)
	if err == nil && fix.UserID == string(r.Key) &&
		l.places.Partition(r, len(l.away)) != int(r.Partition) {
		l.Misplaced++
		l.away[r.Partition][r.Offset] = struct{}{}
	}
}

// addCommitted takes a record that a read_committed reader finds now.
func (l *ledger) addCommitted(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	if r.Topic == sanitizedTopic {
		if release, ok := l.Released(entry(r)); ok {
			l.costs.add(release)
		}
		return
	}
	letter, ok := l.Refused(entry(r))
	if ok && letter.Reason == schemas.ReasonWrongPartition {
		l.MisplacedLetters++
		if _, away := l.away[r.Partition][letter.Offset]; !away {
			l.WronglyMisplaced++
		}
		delete(l.away[r.Partition], letter.Offset)
	}
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
	id, hash := fleet.FixID(release.UserID, release.Timestamp), hashRecord(r)
	if first, again := l.releases[r.Partition][id]; again && first != hash {
		l.Differing++
		return
	}
	l.releases[r.Partition][id] = hash
}

// addChangelog takes a record of the changelog, committed or not. Every transaction writes to
// the changelog.
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

// fence compares a record's producer epoch with the epochs before it in its partition.
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

// count completes the counts after the last record.
func (l *ledger) count() {
	l.Count()
	l.Uncommitted -= l.Sanitized
	for _, offsets := range l.away {
		l.Unrefused += len(offsets)
	}
	l.Users = len(l.costs)
	l.Exceeded, l.MostSpent = l.costs.exceeded(budgetEpsilon, budgetWindow)
}

// read reads all topics, and returns the broken promises and what the run did not test.
func (l *ledger) read(ctx context.Context, brokers []string,
	w *witness,
) (broken []string, err error) {
	partitions := len(l.away)
	now := map[string][][]seen{
		sanitizedTopic: make([][]seen, partitions),
		deadTopic:      make([][]seen, partitions),
	}
	committed := func(r *kgo.Record) {
		l.addCommitted(r)
		if !r.Attrs.IsControl() {
			now[r.Topic][r.Partition] = append(now[r.Topic][r.Partition],
				seen{r.Offset, hashRecord(r)})
		}
	}
	for _, s := range []struct {
		topic       string
		uncommitted bool
		each        func(*kgo.Record)
	}{
		{rawTopic, true, l.addRaw},
		{sanitizedTopic, false, committed},
		{deadTopic, false, committed},
		{sanitizedTopic, true, l.addUncommitted},
		{changelogTopic, true, l.addChangelog},
	} {
		if err := scan(ctx, brokers, s.topic, partitions, s.uncommitted, s.each); err != nil {
			return nil, err
		}
	}
	l.count()
	for _, topic := range []string{sanitizedTopic, deadTopic} {
		broken = append(broken, l.compare(topic, w.saw[topic], now[topic])...)
	}
	for _, err := range w.errs {
		broken = append(broken, "the concurrent reader: "+err)
	}
	broken = append(broken, l.violations()...)
	return append(broken, l.untried()...), nil
}

// compare compares what the witness saw of a topic with what the topic holds now.
func (l *ledger) compare(topic string, saw, now [][]seen) (violations []string) {
	for p := range now {
		if len(saw[p]) != len(now[p]) {
			violations = append(violations,
				fmt.Sprintf("%s/%d: the concurrent reader saw %d records, now there are %d",
					topic, p, len(saw[p]), len(now[p])))
		}
		for n := range min(len(saw[p]), len(now[p])) {
			if saw[p][n] != now[p][n] {
				violations = append(violations,
					fmt.Sprintf("%s/%d: the concurrent reader saw another record at offset %d",
						topic, p, now[p][n].offset))
				break
			}
		}
	}
	l.ReaderDiffer += len(violations)
	return violations
}

// violations are the broken promises.
func (l *ledger) violations() []string {
	broken := l.Violations(0)
	for _, v := range []struct {
		n    int
		what string
	}{
		{l.Differing, "fixes with two different releases, read uncommitted"},
		{l.Zombies, "records of fenced producers"},
		{l.Exceeded, "budgets exceeded: users with more ε published in a window than the budget"},
		{l.Unrefused, "misplaced records without a dead letter that says wrong_partition"},
		{l.WronglyMisplaced, "dead letters that say wrong_partition of a record in its place"},
		{l.OpenTransactions, "partitions with a transaction that nobody ends"},
	} {
		if v.n > 0 {
			broken = append(broken, fmt.Sprintf("%d %s", v.n, v.what))
		}
	}
	return broken
}

// untried names what a run has not tested, so that its success says nothing about it.
func (l *ledger) untried() []string {
	if l.MostSpent >= budgetEpsilon {
		return nil
	}
	return []string{fmt.Sprintf("budgets were not tried: no user reached the budget of ε %d, "+
		"the most in any %v is %g; give more --records or fewer --vehicles", budgetEpsilon,
		budgetWindow, l.MostSpent)}
}

// cost is the ε that one published record has cost its user.
type cost struct {
	ms      int64 // of the fix
	epsilon float64
}

// costs are the costs of each user's records in all partitions. An observer of the sanitized
// topic can add them up without knowing how the service keeps its account.
type costs map[string][]cost

func (c costs) add(r schemas.Sanitized) {
	if r.Epsilon != 0 {
		c[r.UserID] = append(c[r.UserID], cost{r.Timestamp, r.Epsilon})
	}
}

// exceeded counts the users whose costs in some stretch of fix times as long as the window exceed
// the budget. It also returns the largest sum of any user in any stretch.
func (c costs) exceeded(budget float64, window time.Duration) (users int, most float64) {
	const rounding = 1e-9 // error of a sum of at most a few thousand costs
	for _, all := range c {
		slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.ms, b.ms) })
		first, sum, largest := 0, 0.0, 0.0
		for _, last := range all {
			sum += last.epsilon
			for all[first].ms < last.ms-window.Milliseconds() {
				sum -= all[first].epsilon
				first++
			}
			largest = max(largest, sum)
		}
		if largest > budget+rounding {
			users++
		}
		most = max(most, largest)
	}
	return users, most
}
