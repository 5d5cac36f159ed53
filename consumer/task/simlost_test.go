package task

import (
	"context"
	"maps"
	"slices"
)

// loseChangelog deletes the changelog and makes it again. What it held is kept aside,
// as a mirror of it would have it.
func (w *world) loseChangelog() {
	if w.backup != nil || !w.marked || w.committed <= 0 {
		return // there is nothing to lose
	}
	if w.staled {
		// both at once cannot be told from a fresh start: an old offset of 0, and nothing in the
		// changelog
		return
	}
	lost := w.changelog
	w.backup, w.changelog = &lost, simLog{visible: -1}
	w.logID++
}

// copied is the changelog that a node's store is a copy of, nil if it is gone.
func (n *node) copied() *simLog {
	switch w := n.w; n.store.of {
	case w.logID:
		return &w.changelog
	case w.logID - 1:
		return w.backup
	}
	return nil
}

// pendingMark is the mark of the open transaction, nil if there is none.
func (l *simLog) pendingMark() []byte {
	i := slices.IndexFunc(l.entries, func(e logEntry) bool {
		return e.status == pending && string(e.rec.Key) == MarkKey
	})
	if i < 0 {
		return nil
	}
	return l.entries[i].rec.Value
}

// openStore is what a process does with its state folder: one of another changelog is
// set aside, unless the changelog is lost.
func (n *node) openStore() {
	w := n.w
	n.acceptLost = w.acceptLost
	if s := n.store; s.of != w.logID && (w.backup == nil || w.acceptLost) {
		s.applied, s.synced, s.of = nil, 0, w.logID
	}
	n.logID = n.store.of
}

// bookLoss is called when a transaction is committed whose mark lies in a changelog
// that was made again: right only if somebody has accepted the loss.
func (w *world) bookLoss() {
	if !w.open.acceptLost {
		w.violated("a transaction is committed beside a changelog that is lost")
	}
	w.events["lost: accepted"]++
	w.emptied = append(w.emptied, w.mark.Input)
	w.mark, w.marked, w.lost, w.accepted = Mark{Input: w.mark.Input}, false, false, true
	w.backup, w.acceptLost = nil, false
}

// recover is what the operator does about a loss that a task has reported.
func (w *world) recover(n *node) error {
	if w.backup == nil {
		if n.logID != w.logID || n != w.owner && w.owner != nil {
			w.events["lost: another id"]++
			return nil
		}
		return n.err
	}
	w.events["lost: told"]++
	w.epoch++ // to write the changelog back fences what is left
	w.complete()
	if w.backup == nil {
		return nil
	}
	switch w.rng.IntN(3) {
	case 0:
		w.acceptLost = true
	case 1:
		for _, s := range w.stores {
			if w.rebuild(s) {
				return nil
			}
		}
		fallthrough
	default:
		w.events["lost: put back"]++
		w.changelog, w.backup = *w.backup, nil
		w.logID++
	}
	return nil
}

// rebuild writes the changelog back from a store that is where the group is.
func (w *world) rebuild(s *simStore) bool {
	states, at, found := s.contents()
	if !found || at.Input != w.committed || s.of != w.logID-1 {
		return false
	}
	var mark []byte
	for _, a := range s.applied {
		for _, c := range a.changes {
			if string(c.Key) == MarkKey {
				mark = c.Value
			}
		}
		if a.wipe {
			mark = nil
		}
	}
	m, err := DecodeMark(mark)
	if err != nil || m.Input != w.committed {
		w.violated("the store at %d has the mark %+v, %v", at.Input, m, err)
		return true
	}
	// A mark alone commits no other offset than the one before, so the store may have
	// missed it: that something was left open is to be assumed, and a list that it brought is
	// gone. Nothing is committed with it, but it may have been seen.
	m.Open = true
	last := w.mark
	if last.Open = true; !m.sameBut(last) {
		w.events["lost: the store's mark is not the last"]++
		w.accepted = true
	}
	mark, w.mark = AppendMark(nil, m), m.Clone()
	if want := w.backup.fold(int64(len(w.backup.history))); !maps.Equal(states, want) {
		w.violated("the store at the group's offset differs from the lost changelog: %q, want %q",
			states, want)
	}
	for _, key := range slices.Sorted(maps.Keys(states)) {
		w.changelog.write(Message{Key: []byte(key), Value: []byte(states[key])})
	}
	w.changelog.write(Message{Key: markKey, Value: mark})
	w.backup = nil
	w.logID++
	w.events["lost: rebuilt from a store"]++
	return true
}

// write appends a record that is committed.
func (l *simLog) write(m Message) {
	l.append(plain, m)
	l.history[len(l.history)-1] = clone(m)
}

// lostMutants are mistakes about a changelog that is lost.
var lostMutants = []mutant{
	{
		"an empty changelog is a fresh start, whatever the group's offset and the store say",
		func(_ *node, _ *Dependencies, o *Options) {
			o.AcceptLost = true
		},
	},
	{
		"where the changelog's records come to lie is not looked at",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = anywhere{n}
		},
	},
	{
		"a store that is written back is not the one at the group's offset",
		func(n *node, d *Dependencies, _ *Options) {
			d.Store = hollow{n.store}
		},
	},
}

// anywhere says of each transaction that its records lie after all others.
type anywhere struct{ *node }

func (m anywhere) Produce(ctx context.Context, out Outputs) (int64, error) {
	end, err := m.node.Produce(ctx, out)
	return end + 1<<20, err
}

// hollow forgets the first of several states that are written at once.
type hollow struct{ *simStore }

func (m hollow) Apply(changes []Change, p Positions) error {
	if len(changes) > 2 {
		changes = changes[1:]
	}
	return m.simStore.Apply(changes, p)
}
