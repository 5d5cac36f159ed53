package task

import (
	"bytes"
	"errors"
	"fmt"
)

// erasure is what a task has to erase, and what it has to look for.
//
// The changelog holds a request: a caller that wants a key erased fences the partition's owner, and
// writes the request with the last mark once more, in a transaction. The owner's next restore
// brings the request into the store. The owner then carries it out at the first boundary between
// transactions where nobody can have seen results from the offset on: a
// record that is processed again without the state would give other bytes. One transaction removes
// the state and the request, and writes what remains. It is repeated as a whole or not at all, so a
// crash at any point is harmless.
//
// When an erased key has a record again, the transaction that makes its new state also rewrites
// what remains, so it counts once.
type erasure struct {
	by       Eraser // nil: the task erases nothing
	store    Store
	requests [][]byte // changelog keys of requests that are to be carried out
	any      bool     // something remains of erased keys in this partition

	recalled bool   // the state in hand was made from what remains of its key
	kept     []byte // then: the key of what remains,
	remains  []byte // and its new value
}

// errEnough ends a visit.
var errEnough = errors.New("enough")

// find lists what there is to erase, after a restoration.
func (e *erasure) find() error {
	e.requests, e.any = nil, false
	if e.by == nil {
		return nil
	}
	err := e.store.Reserved(RequestKey, func(key, _ []byte) error {
		e.requests = append(e.requests, bytes.Clone(key))
		return nil
	})
	if err == nil {
		err = e.store.Reserved(KeptKey, func(_, _ []byte) error {
			e.any = true
			return errEnough
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		return storeError("look for users to erase", err)
	}
	return nil
}

// owes reports whether an account of an erased key is kept.
func (e *erasure) owes() (owes bool, err error) {
	if e.by == nil || !e.any {
		return false, nil
	}
	err = e.store.Reserved(KeptKey, func(_, value []byte) error {
		var err error
		if owes, err = e.by.Owes(value); owes {
			return errEnough
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return false, storeError("look for accounts of erased users", err)
	}
	return owes, nil
}

// carryOut adds the effects of one request to the overlay. The key is erased at an input offset.
func (e *erasure) carryOut(name []byte, offset, now int64, o *overlay) error {
	value, err := e.store.Get(name)
	if err != nil {
		return storeError("read a request to erase", err)
	}
	r, err := DecodeRequest(value)
	if err != nil {
		return WithRemedy(err, Fatal)
	}
	// From now on, and not from when it was asked for, the state is on its way out of the files.
	r.Key, r.TimeMS = bytes.Clone(r.Key), now
	state, err := e.store.Get(r.Key)
	if err != nil {
		return storeError("read a state to erase", err)
	}
	state = bytes.Clone(state)
	kept := e.by.Kept(r.Key)
	before, err := e.store.Get(kept)
	if err != nil {
		return storeError("read what remains of an erased user", err)
	}
	remains, err := e.by.Erase(r, offset, state, before)
	if err != nil {
		return otherwise(fmt.Errorf("erase a user: %w", err), Fatal)
	}
	o.put(r.Key, nil, true, now)
	if len(remains) > 0 {
		o.put(kept, remains, false, now)
	}
	o.put(name, nil, true, now)
	return nil
}

// purge makes the store's files forget what was removed.
func (e *erasure) purge() error {
	if e.by == nil {
		return nil
	}
	if err := e.store.(Eraseable).Purge(); err != nil {
		return storeError("remove erased users from its files", err)
	}
	return nil
}

// recall returns the state of a key that has none, if something remains of it. The transaction in
// hand has not changed it.
func (e *erasure) recall(key []byte) ([]byte, error) {
	kept := e.by.Kept(key)
	value, err := e.store.Get(kept)
	if err != nil {
		return nil, storeError("read what remains of an erased user", err)
	}
	if len(value) == 0 {
		return nil, nil
	}
	state, remains, err := e.by.Recall(value)
	if err != nil {
		return nil, otherwise(fmt.Errorf("read an erased user's remainder: %w", err), Fatal)
	}
	e.recalled = len(state) > 0
	e.kept, e.remains = kept, remains
	return state, nil
}
