package verify

import (
	"bytes"
	"context"
	"maps"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// Changelog is what a partition of a changelog held when it was read.
type Changelog struct {
	Mark   task.Mark // the last one
	Marked bool      // there is one
	Erased Erased    // what there is of erased users

	log *topics.Reader
}

// ReadChangelog reads a partition of a changelog. It copies the last state of each user into a map,
// with its offset, unless states is nil.
func ReadChangelog(ctx context.Context, r *topics.Reader, states *Map) (Changelog, error) {
	c := Changelog{Erased: Erased{}, log: r}
	err := r.Entries(ctx, func(e task.Entry) error {
		if states != nil && e.Kind == task.Stated {
			return states.Put(e.Key, e.Offset, e.Value)
		}
		if states != nil && e.Kind == task.Tombstone {
			return states.Remove(e.Key)
		}
		return c.noteEntry(e)
	})
	return c, err
}

// Later returns the marks and erasures that there are by now, without the states.
func (c Changelog) Later(ctx context.Context) (Changelog, error) {
	c.Erased = maps.Clone(c.Erased)
	err := c.log.Entries(ctx, c.noteEntry)
	return c, err
}

// noteEntry takes note of what is no state.
func (c *Changelog) noteEntry(e task.Entry) error {
	if e.Kind == task.Marked {
		c.Mark, c.Marked = e.Mark.Clone(), true
	}
	if e.Kind == task.Kept {
		return c.Erased.noteKept(e)
	}
	return nil
}

// Erased is what a changelog has of erased users, by the key under which it lies there. Its memory
// grows with their number.
type Erased map[string]engine.Kept

// noteKept takes note of an entry of kind Kept.
func (e Erased) noteKept(entry task.Entry) error {
	if len(entry.Value) == 0 {
		delete(e, string(entry.Key))
		return nil
	}
	kept, err := engine.DecodeKept(bytes.Clone(entry.Value))
	e[string(entry.Key)] = kept
	return err
}

// Before returns the raw offset of the first erasure before an offset; -1 if there is none.
func (e Erased) Before(to int64) int64 {
	first := int64(-1)
	for _, kept := range e {
		for _, x := range kept.Erasures {
			if x.Offset < to && (first < 0 || x.Offset < first) {
				first = x.Offset
			}
		}
	}
	return first
}

// Partial reports whether there were more erasures of a user than are listed.
func (e Erased) Partial() bool {
	for _, kept := range e {
		if kept.Partial {
			return true
		}
	}
	return false
}

// StateDifference says how a user's state in the changelog differs from the recomputed one.
type StateDifference uint8

// Values of StateDifference.
const (
	StateUnfounded StateDifference = iota // no fix of the user was accepted
	StateOther                            // it is another one
	StateMissing                          // the changelog has none
)

// CompareStates compares the states of a changelog with the recomputed ones. It reports each
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
