package consumer

import (
	"encoding/binary"
	"slices"
)

// aborted is one entry of a fetch answer: a producer whose transaction that
// began at first was aborted.
type aborted struct{ producerID, first int64 }

// filter decides which batches of an answer read_committed lets through. The
// broker lists the aborted transactions that touch the answer; a batch belongs
// to one if its producer has aborted and its abort marker is still ahead.
type filter struct {
	pending  []aborted // by first offset, not reached yet
	aborting []int64   // producers, few at any time
}

// newFilter takes the answer's list over and sorts it.
func newFilter(list []aborted) *filter {
	slices.SortFunc(list, func(a, b aborted) int { return int(min(max(a.first-b.first, -1), 1)) })
	return &filter{pending: list}
}

// skip tells whether a batch is hidden: it is a control batch, or its
// transaction was aborted. It has to be asked about every batch in order.
//
// Transactions are opened before the batch is looked at, also before a control
// batch: compaction can remove the aborted records and leave their marker, and a
// producer that is opened behind its own marker would stay hidden for ever.
func (f *filter) skip(b *batch) (bool, error) {
	f.open(b)
	if b.control() {
		abort, err := abortMarker(b)
		if abort {
			f.aborting = slices.DeleteFunc(f.aborting, func(id int64) bool { return id == b.producerID })
		}
		return true, err
	}
	return b.transactional() && slices.Contains(f.aborting, b.producerID), nil
}

// open moves the transactions that began at or before a batch to the aborting.
func (f *filter) open(b *batch) {
	for len(f.pending) > 0 && f.pending[0].first <= b.last {
		if id := f.pending[0].producerID; !slices.Contains(f.aborting, id) {
			f.aborting = append(f.aborting, id)
		}
		f.pending = f.pending[1:]
	}
}

// abortMarker tells whether a control batch ends its producer's transaction by
// aborting it. A compacted marker is an empty batch and ends nothing. The key of
// a control record is its version and its type, both int16.
func abortMarker(b *batch) (bool, error) {
	const abort = 0
	records, err := b.appendRecords(nil, b.base)
	if err != nil || len(records) == 0 {
		return false, err
	}
	key := records[0].Key
	if len(key) < 4 {
		return false, flaw("a control record's key is cut short")
	}
	return binary.BigEndian.Uint16(key[2:]) == abort, nil
}
