package task

import (
	"bytes"
	"fmt"
)

// PartitionKey begins the changelog's keys of the states of a partition; see Partitioned. What
// follows is a state's name.
const PartitionKey = "\x00partition"

// RequestKey and KeptKey begin the changelog's keys of requests to erase a key, and of what remains
// of an erased key. What follows is a name that does not tell the key.
const (
	RequestKey = "\x00erase"
	KeptKey    = "\x00kept"
)

// Kind is what a record of a changelog is.
type Kind uint8

// Values of Kind.
const (
	Foreign   Kind = iota // no record of this package
	Marked                // the last record of a transaction, under MarkKey
	Stated                // the state of a key
	Tombstone             // a key has no state any more
	Kept                  // what remains of an erased key; empty: it was taken back
	Requested             // a request to erase a key; empty: it was carried out
	Common                // a state of the partition; empty: it has none of this name any more
)

// Entry is a record of a changelog, decoded as far as its kind tells. It shares the record's
// memory.
type Entry struct {
	Kind              Kind
	Offset, Timestamp int64
	Key, Value        []byte
	Mark              Mark // of kind Marked
}

// ReadEntry decodes a record of a changelog. A mark that cannot be read is a Fatal error, because
// whatever follows from it would be wrong.
func ReadEntry(rec Record) (e Entry, err error) {
	e = Entry{
		Kind: kindOf(rec), Offset: rec.Offset, Timestamp: rec.Timestamp, Key: rec.Key,
		Value: rec.Value,
	}
	if e.Kind != Marked {
		return e, nil
	}
	if e.Mark, err = DecodeMark(rec.Value); err != nil {
		err = WithRemedy(fmt.Errorf("read the changelog at offset %d: %w", rec.Offset, err), Fatal)
	}
	return e, err
}

func kindOf(rec Record) Kind {
	switch {
	case string(rec.Key) == MarkKey:
		return Marked
	case ValidKey(rec.Key) && len(rec.Value) == 0:
		return Tombstone
	case ValidKey(rec.Key):
		return Stated
	case bytes.HasPrefix(rec.Key, []byte(KeptKey)):
		return Kept
	case bytes.HasPrefix(rec.Key, []byte(RequestKey)):
		return Requested
	case bytes.HasPrefix(rec.Key, []byte(PartitionKey)):
		return Common
	}
	return Foreign
}
