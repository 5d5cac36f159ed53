package recompute

import (
	"bytes"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
)

// Erased is what a changelog has of erased users, by the key under which it lies there. Its memory
// grows with their number.
type Erased map[string]engine.Kept

// take takes note of an entry of kind Kept.
func (e Erased) take(entry task.Entry) error {
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

// erasures erases users in a recomputation where they were erased in the first release.
type erasures struct {
	names *engine.Eraser
	all   Erased
	done  map[string]int    // erasures that were carried out, by key
	kept  map[string][]byte // what remains, recomputed
}

// newErasures returns nil if nobody was erased.
func newErasures(key noise.Key, all Erased) *erasures {
	if len(all) == 0 {
		return nil
	}
	return &erasures{
		names: engine.NewEraser(key), all: all, done: map[string]int{}, kept: map[string][]byte{},
	}
}

// state returns the state with which a raw record is processed, and the key under which the account
// of an erased user lies if the state was made from it.
func (e *erasures) state(user []byte, offset int64, states *Map) (state []byte, from string,
	err error,
) {
	_, state, err = states.Get(user)
	if err != nil || e == nil {
		return state, "", err
	}
	key := string(e.names.Kept(user))
	if _, erased := e.all[key]; !erased {
		return state, "", nil
	}
	if state, err = e.apply(key, user, state, offset, e.all, states); err != nil || len(state) > 0 {
		return state, "", err
	}
	state, _, err = e.names.Recall(e.kept[key])
	return state, key, err
}

// apply carries out a user's erasures up to a raw offset, and returns the state then.
func (e *erasures) apply(key string, user, state []byte, offset int64, listed Erased,
	states *Map,
) ([]byte, error) {
	list := listed[key].Erasures
	for e.done[key] < len(list) && list[e.done[key]].Offset <= offset {
		x := list[e.done[key]]
		e.done[key]++
		kept, err := e.names.Erase(task.Request{Key: user, Reset: x.Reset}, x.Offset, state,
			e.kept[key])
		if err == nil {
			err = states.Remove(user)
		}
		if err != nil {
			return nil, err
		}
		e.kept[key], state = bytes.Clone(kept), nil
	}
	return state, nil
}

// recalled notes that an account went over to a new state.
func (e *erasures) recalled(key string) error {
	_, remains, err := e.names.Recall(e.kept[key])
	if len(remains) > 0 {
		e.kept[key] = bytes.Clone(remains)
	}
	return err
}

// finish carries out what is listed up to a raw offset of users without a later record, and returns
// how many accounts are not the recomputed ones.
func (e *erasures) finish(offset int64, listed Erased, states *Map) (differ int, err error) {
	if e == nil {
		return 0, nil
	}
	if err := states.Flush(); err != nil {
		return 0, err
	}
	var users [][]byte
	err = states.Each(func(user []byte, _ int64, _ []byte) error {
		if _, erased := listed[string(e.names.Kept(user))]; erased {
			users = append(users, bytes.Clone(user))
		}
		return nil
	})
	for _, user := range users {
		if err != nil {
			return 0, err
		}
		var state []byte
		if _, state, err = states.Get(user); err == nil {
			_, err = e.apply(string(e.names.Kept(user)), user, slices.Clone(state), offset, listed,
				states)
		}
	}
	for key, kept := range listed {
		own, problem := engine.DecodeKept(e.kept[key])
		if problem != nil {
			return differ, problem
		}
		if !bytes.Equal(own.Account, kept.Account) {
			differ++
		}
	}
	return differ, err
}
