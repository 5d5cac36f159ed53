package fleet

import (
	"fmt"
	"hash/maphash"

	"github.com/geodither/geodither/schemas"
)

// Entry is a record of a topic, whatever client has read it.
type Entry struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
}

// Ledger holds what was published against what was fed. Each raw record has one answer: a sanitized
// record in its partition, or a dead letter. The answers of each topic are in the order of the raw
// records.
//
// It recomputes nothing: it identifies a fix by its user and time. Fill it with all raw records
// first, then with the answers, and call Count at the end.
type Ledger struct {
	raw   string // topic
	codec *schemas.Codec
	fixes []map[uint64]int64 // of each partition, a fix's raw offset
	asked []map[int64]int    // of each partition, a raw offset's number of answers
	order map[answers]int64  // the raw offset last answered

	Raw, Sanitized, Dead int
	FedTwice             int // raw records with the user and time of another: an error of the feed
	Lost                 int // raw records without an answer
	Duplicates           int // answers to raw records that had one
	OutOfOrder           int
	Strangers            int // published for no raw record
}

// answers are those of one partition in one of the two topics.
type answers struct {
	partition int32
	dead      bool
}

// NewLedger returns an empty ledger of a raw topic. Values are in any encoding that is read without
// a registry.
func NewLedger(raw string, partitions int) (*Ledger, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	l := &Ledger{raw: raw, codec: codec, order: map[answers]int64{}}
	for range partitions {
		l.fixes = append(l.fixes, map[uint64]int64{})
		l.asked = append(l.asked, map[int64]int{})
	}
	return l, err
}

// Fed takes a raw record.
func (l *Ledger) Fed(r Entry) {
	l.Raw++
	l.asked[r.Partition][r.Offset] = 0
	fix, err := l.codec.DecodeRaw(r.Value)
	if err != nil || fix.UserID != string(r.Key) {
		return // it can only become a dead letter
	}
	id := FixID(fix.UserID, fix.Timestamp)
	if _, again := l.fixes[r.Partition][id]; again {
		l.FedTwice++
	}
	l.fixes[r.Partition][id] = r.Offset
}

// Released takes a sanitized record, which it returns; false if it cannot be read.
func (l *Ledger) Released(r Entry) (schemas.Sanitized, bool) {
	l.Sanitized++
	record, err := l.codec.DecodeSanitized(r.Value)
	if err != nil || record.UserID != string(r.Key) {
		l.Strangers++
		return record, false
	}
	offset, known := l.fixes[r.Partition][FixID(record.UserID, record.Timestamp)]
	if !known {
		l.Strangers++
		return record, true
	}
	l.answer(answers{r.Partition, false}, offset)
	return record, true
}

// Refused takes a dead letter, which it returns; false if it is none of the raw topic's partition.
func (l *Ledger) Refused(r Entry) (schemas.DeadLetter, bool) {
	l.Dead++
	letter, err := l.codec.DecodeDeadLetter(r.Value)
	if err != nil || letter.Topic != l.raw || letter.Partition != r.Partition {
		l.Strangers++
		return letter, false
	}
	l.answer(answers{r.Partition, true}, letter.Offset)
	return letter, true
}

func (l *Ledger) answer(in answers, offset int64) {
	n, known := l.asked[in.partition][offset]
	if !known {
		l.Strangers++
		return
	}
	if n > 0 {
		l.Duplicates++
	}
	l.asked[in.partition][offset] = n + 1
	last, begun := l.order[in]
	if begun && offset < last {
		l.OutOfOrder++
	}
	l.order[in] = max(offset, last)
}

// Count completes the counts after the last record.
func (l *Ledger) Count() {
	for _, offsets := range l.asked {
		for _, n := range offsets {
			if n == 0 {
				l.Lost++
			}
		}
	}
}

// Violations says which promises are broken, if so many raw records were to have no answer.
func (l *Ledger) Violations(silent int) (broken []string) {
	for _, v := range []struct {
		n    int
		what string
	}{
		{l.FedTwice, "fixes were fed twice"},
		{l.Lost - silent, "raw records lost: neither sanitized nor dead letters"},
		{l.Duplicates, "raw records answered more than once"},
		{l.OutOfOrder, "answers out of order"},
		{l.Strangers, "published records that belong to no raw record"},
	} {
		if v.n > 0 {
			broken = append(broken, fmt.Sprintf("%d %s", v.n, v.what))
		}
	}
	if l.Raw != l.Sanitized+l.Dead+silent {
		broken = append(broken, fmt.Sprintf("%d raw records, but %d sanitized and %d dead letters",
			l.Raw, l.Sanitized, l.Dead))
	}
	return broken
}

// hashes is the seed of FixID. With 64 bits, two of a million fixes have the same hash with a
// probability of 3 in 100 million.
var hashes = maphash.MakeSeed()

// FixID is a hash of a fix's user and time, of this process alone.
func FixID(user string, timestampMS int64) uint64 {
	var h maphash.Hash
	h.SetSeed(hashes)
	fmt.Fprintf(&h, "%d %s", timestampMS, user)
	return h.Sum64()
}
