package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Following says how far Follow is.
type Following struct {
	At, End int64 // changelog offsets: where the copy is, and where the committed records end
	// Doubt says why the copy is left as it is; nil if it is not.
	Doubt error
}

// Follow is what a standby does: it keeps a store close to the end of its changelog, so that a task
// that begins on the store later finds little to restore. It works until ctx is done and then
// returns nil; any other return is an error of the store. Of the options it needs those about
// restorations, retries, the clock and the observer. It calls tell after each answer.
//
// A standby owns nothing. It fences nobody, knows no committed offset, and publishes nothing. So it
// reads what is committed and judges nothing: where a task would stop, or would need somebody's
// permission to go on, the standby leaves its copy as it is, tells why, and looks again later. The
// task that gets the partition judges, on the path of every start: Fence, Committed, restore.
//
// Guarantee: the store never leads what is committed. At the end of the changelog it is at a mark,
// as a task's store after a commit. While it catches up, the changelog's cleaner may have removed
// marks and values that were replaced later, and the store may be in between, as in a restoration.
//
// The caller makes sure that Follow has returned before a task uses the store.
func Follow(ctx context.Context, changelog Log, store Store, o Options,
	tell func(Following),
) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return newFollower(changelog, store, o, tell).run(ctx)
}

func newFollower(changelog Log, store Store, o Options, tell func(Following)) *follower {
	return &follower{
		t: &Task{
			d: Dependencies{Changelog: changelog, Store: store}, o: o.withDefaults(),
			overlay: newOverlay(), beside: inGoroutine,
		},
		tell: tell,
	}
}

// run is Follow.
func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.begin(ctx)
		for err == nil && ctx.Err() == nil {
			err = f.step(ctx)
		}
		if errors.Is(err, ErrStore) {
			return fmt.Errorf("%s: %w", f.t.o.Name, err)
		}
		if ctx.Err() == nil {
			f.tell(Following{At: f.at.Changelog, End: f.end, Doubt: err})
			_ = f.t.o.Clock.Sleep(ctx, doubtInterval) // the loop looks at the context
		}
	}
	return nil
}

const (
	// followInterval is the least time between two reads of a standby that has come to the end: it
	// writes many transactions to its store at once.
	followInterval = 500 * time.Millisecond
	// doubtInterval is how often a standby that leaves its copy alone looks again.
	doubtInterval = 30 * time.Second
	// freshInterval is how often a standby notes in its store that it is up to date.
	freshInterval = time.Minute
	// pieceBytes is how much waits in memory for a mark while the standby catches up.
	pieceBytes = 4 << 20
)

// follower is the state of Follow. What was read behind the last mark waits in the task's overlay.
type follower struct {
	t    *Task // for its store, changelog, clock, and calls that are tried again
	tell func(Following)

	at      Positions // of the copy
	saved   int64     // at.AppliedMS as the store has it
	next    int64     // changelog offset to read from
	end     int64     // of the changelog, as it was last said
	vouched int64     // changelog offset of a mark that was seen
	origin  int64     // of the last mark that was seen; none if there was none
	dirty   bool      // removed values may be in the store's files
}

// begin finds out from where the store can follow, or why it cannot.
func (f *follower) begin(ctx context.Context) error {
	t := f.t
	t.overlay.reset()
	now := t.o.Clock.Now()
	r := restoration{t: t, committed: none, start: now, told: now}
	if err := r.look(ctx); err != nil {
		return err
	}
	found := r.full != StoreEmpty
	why := r.outside()
	if why == "" && r.stale != nil {
		why = r.stale.Error()
	}
	if why == "" && r.end > r.store.Changelog && r.tooOld() {
		why = errTooOld.Error()
	}
	f.at, f.end, f.vouched, f.origin, f.dirty = r.store, r.end, r.last.at, none, true
	if r.last.found {
		f.origin = r.last.mark.Origin
	}
	switch {
	case r.last.seen > 0 && !r.last.found:
		return errors.New("the changelog has records, but no mark")
	case !found && r.cut:
		return fmt.Errorf("the changelog begins at offset %d, and there is no copy here", r.first)
	case !found:
		f.at = r.beginning()
	case !r.last.found && r.known:
		return fmt.Errorf("the changelog is empty, the copy here is at input offset %d",
			r.store.Input)
	case r.store.Input > r.last.mark.Input:
		return fmt.Errorf("the copy here is at input offset %d, the changelog at %d", r.store.Input,
			r.last.mark.Input)
	case why != "" && (r.cut || r.store.Changelog > r.end):
		return errors.New(why)
	case why != "": // and all that the copy has is in the changelog
		if err := t.d.Store.Wipe(); err != nil {
			return storeError("wipe a partition", err)
		}
		f.at = r.beginning()
	}
	f.saved, f.next = f.at.AppliedMS, f.at.Changelog
	return nil
}

// step reads once, applies what is whole, and purges and pauses at the end.
func (f *follower) step(ctx context.Context) error {
	t := f.t
	asked := t.o.Clock.Now()
	var batch Batch
	err := t.retry(ctx, func() (err error) {
		batch, err = t.d.Changelog.Fetch(ctx, f.next, longestWait)
		return err
	})
	if err == nil {
		err = batch.check(f.next)
	}
	if err != nil {
		return fmt.Errorf("read the changelog at offset %d: %w", f.next, err)
	}
	// Now, and not when it was asked for: the machine may have slept since.
	age := t.o.Clock.Now().Sub(time.UnixMilli(f.at.AppliedMS))
	if len(batch.Records) > 0 && age > t.o.MaxStoreAge {
		return errTooOld
	}
	moved := batch.Next > f.next
	f.next, f.end = batch.Next, max(batch.StableEnd, batch.Next)
	atEnd := batch.Next >= batch.StableEnd
	if err := f.take(batch, asked); err != nil {
		return err
	}
	f.tell(Following{At: f.at.Changelog, End: f.end})
	switch waits := len(t.overlay.entries) > 0; {
	case !atEnd:
		return nil
	case waits && !moved:
		return errors.New("the changelog goes on without a mark")
	case !waits:
		if err := f.purge(); err != nil {
			return err
		}
	}
	_ = t.o.Clock.Sleep(ctx, followInterval) // Follow looks at the context
	return nil
}

// take applies what was read up to the last mark. What comes after it belongs to a transaction
// whose mark is still to come, and waits.
func (f *follower) take(batch Batch, asked time.Time) error {
	at, whole, origin := f.at, 0, f.origin
	for i, rec := range batch.Records {
		e, err := ReadEntry(rec)
		if err != nil {
			return err
		}
		if e.Kind != Marked {
			continue
		}
		if startsOver(e.Mark, origin) {
			return errGivenUp
		}
		at.Input, at.Changelog, whole, origin = e.Mark.Input, e.Offset+1, i+1, e.Mark.Origin
	}
	f.put(batch.Records[:whole])
	rest := batch.Records[whole:]
	if len(rest) == 0 && (whole > 0 || len(f.t.overlay.entries) == 0) {
		at.Changelog = batch.Next
		if batch.Next >= batch.StableEnd {
			// The answer came after it was asked for, so the copy has all that was committed then.
			at.AppliedMS = asked.UnixMilli()
		}
	}
	f.at, f.origin = at, origin
	age := time.Duration(at.AppliedMS-f.saved) * time.Millisecond
	if whole > 0 || at.Input != none && age >= freshInterval {
		if err := f.apply(); err != nil {
			return err
		}
	}
	f.put(rest)
	bytes, most := f.t.overlay.bytes, 2*f.t.o.MaxBytes // the last record of a transaction is beyond
	switch {
	case batch.Next <= f.vouched && bytes > pieceBytes:
		// The cleaner has removed the marks of long ago, and a later one is there.
		f.at.Changelog = batch.Next
		return f.apply()
	case bytes > most:
		return fmt.Errorf("the changelog has %d MiB without a mark", most>>20)
	}
	return nil
}

// put adds records to what is applied next.
func (f *follower) put(records []Record) {
	for _, rec := range records {
		if kindOf(rec) != Foreign {
			f.t.overlay.put(rec.Key, rec.Value, len(rec.Value) == 0, 0)
		}
	}
}

// apply writes what has come together, and the positions.
func (f *follower) apply() error {
	t := f.t
	t.changes = t.changes[:0]
	for i := range t.overlay.entries {
		e := &t.overlay.entries[i]
		f.dirty = f.dirty || e.forgotten
		t.changes = append(t.changes, Change{Key: e.key, Value: e.value})
	}
	if err := t.apply(f.at); err != nil {
		return err
	}
	f.saved = f.at.AppliedMS
	if t.overlay.bytes > pieceBytes {
		t.overlay = newOverlay() // one so large is seldom needed
	}
	t.overlay.reset()
	return nil
}

// purge makes the store's files forget what was removed, as a task does after a restoration.
func (f *follower) purge() error {
	store, able := f.t.d.Store.(Eraseable)
	if !able || !f.dirty {
		return nil
	}
	if err := store.Purge(); err != nil {
		return storeError("remove erased users from its files", err)
	}
	f.dirty = false
	return nil
}
