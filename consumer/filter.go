package consumer

import (
	"encoding/binary"
	"slices"
)

// aborted is one entry of a fetch answer: a producer, and the first offset of its transaction that
// was aborted.
type aborted struct{ producerID, first int64 }

// filter decides which batches of an answer a read_committed reader sees. The broker lists the
// aborted transactions that touch the answer. A batch belongs to one of them if it is listed for
// the batch's producer and its abort marker comes later.
type filter struct {
	pending  []aborted // sorted by first offset, not reached yet
	aborting []int64   // producers whose abort marker is still to come; few at any time
}

// newFilter takes ownership of the answer's list and sorts it.
func newFilter(list []aborted) *filter {
	slices.SortFunc(list, func(a, b aborted) int { return int(min(max(a.first-b.first, -1), 1)) })
	return &filter{pending: list}
}

// skip reports whether a batch is hidden, because it is a control batch or its transaction was
// aborted. It must be called for every batch, in order.
//
// It opens transactions before it looks at the batch, even if that is a control batch: compaction
// can remove the aborted records and leave their marker, and a producer that was opened after its
// own marker would stay hidden forever.
func (f *filter) skip(b *batch) (bool, error) {
	f.open(b)
	if b.control() {
		abort, err := abortMarker(b)
		if abort {
			f.aborting = slices.DeleteFunc(f.aborting, func(id int64) bool {
				return id == b.producerID
			})
		}
		return true, err
	}
	return b.transactional() && slices.Contains(f.aborting, b.producerID), nil
}

// open moves the transactions that begin in or before a batch from pending to aborting.
func (f *filter) open(b *batch) {
	for len(f.pending) > 0 && f.pending[0].first <= b.last {
		if id := f.pending[0].producerID; !slices.Contains(f.aborting, id) {
			f.aborting = append(f.aborting, id)
		}
		f.pending = f.pending[1:]
	}
}

// abortMarker reports whether a control batch aborts its producer's transaction. A marker that
// compaction has removed leaves an empty batch, which ends nothing. The key of a control record is
// its version and its type, both int16.
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
