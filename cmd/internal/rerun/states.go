package rerun

import (
	"bytes"
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// Changelog is what a partition of a changelog holds.
type Changelog struct {
	Mark   task.Mark // the last one
	Marked bool      // there is one
	Erased Erased    // what there is of erased users
	End    int64     // up to where it was read
}

// ReadChangelog copies the last state of each user into a map, with its offset, and returns the
// last mark.
func ReadChangelog(ctx context.Context, r *topics.Reader, states *Map) (Changelog, error) {
	found := Changelog{Erased: Erased{}}
	err := r.ScanCompacted(ctx, func(r consumer.Record) error {
		switch {
		case string(r.Key) == task.MarkKey:
			mark, err := task.DecodeMark(r.Value)
			if err != nil {
				return fmt.Errorf("the changelog's record at offset %d: %w", r.Offset, err)
			}
			found.Mark, found.Marked = mark.Clone(), true
			return nil
		case !task.ValidKey(r.Key):
			return found.Erased.take(r)
		case len(r.Value) == 0:
			return states.Remove(r.Key)
		}
		return states.Put(r.Key, r.Offset, r.Value)
	})
	found.End = r.End
	return found, err
}

// StateDifference says how a user's state in the changelog differs from the recomputed one.
type StateDifference uint8

// Values of StateDifference.
const (
	StateUnfounded StateDifference = iota // no fix of the user was accepted
	StateOther                            // it is another one
	StateMissing                          // the changelog has none
)

// CompareStates compares the states of a changelog with the recomputed ones. It tells of each
// difference, with the changelog's offset of the state and the raw offset of the user's last
// change, each -1 where there is none; and returns how many states the changelog has.
func CompareStates(recomputed, stored *Map, differs func(is StateDifference, at, last int64)) (
	users int64, err error,
) {
	if err := recomputed.Flush(); err != nil {
		return 0, err
	}
	err = stored.Each(func(user []byte, at int64, state []byte) error {
		users++
		last, want, err := recomputed.Get(user)
		switch {
		case err != nil:
			return err
		case want == nil:
			differs(StateUnfounded, at, -1)
		case !bytes.Equal(want, state):
			differs(StateOther, at, last)
		}
		return nil
	})
	if err != nil {
		return users, err
	}
	return users, recomputed.Each(func(user []byte, last int64, _ []byte) error {
		known, err := stored.Has(user)
		if err == nil && !known {
			differs(StateMissing, -1, last)
		}
		return err
	})
}
