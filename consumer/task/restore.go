package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// none stands for an offset that is not there.
const none = -1

// fence shuts out earlier owners and then, not before, reads the committed
// offset; none if there is none.
func (t *Task) fence(ctx context.Context) (committed int64, err error) {
	err = t.retry(ctx, func() error { return t.d.Transactions.Fence(ctx) })
	if err != nil {
		return none, fmt.Errorf("fence earlier owners: %w", err)
	}
	found := false
	err = t.retry(ctx, func() (err error) {
		committed, found, err = t.d.Transactions.Committed(ctx)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("read the committed offset: %w", err)
	}
	if !found {
		return none, nil
	}
	return committed, nil
}

// restore brings the store up to the changelog's end and answers with the input
// offset that its states belong to; none if nothing was ever processed.
func (t *Task) restore(ctx context.Context, committed int64) (input int64, err error) {
	start := t.o.Clock.Now()
	p, found, err := t.d.Store.Positions()
	if err != nil {
		return none, storeError("read its positions", err)
	}
	var first, end int64 // after the fence, else a predecessor's last states are missed
	err = t.retry(ctx, func() (err error) {
		first, end, err = t.d.Changelog.Bounds(ctx)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("read the changelog's bounds: %w", err)
	}
	r := &replay{from: p, end: end, known: found && p.Input != none, full: whole(p, found, committed, first, end)}
	if r.full == "" {
		if r.full, err = t.catchUp(ctx, r, committed); err != nil {
			return none, err
		}
	}
	if r.full != "" {
		if err := t.startOver(ctx, r, first, start); err != nil {
			return none, err
		}
	}
	if !r.agrees(committed) {
		return none, t.doubt(r.disagreement(committed))
	}
	input = r.at.Input
	if input == none {
		// A group that was given its first offset by hand, or none. The store
		// does not get it: an offset there says that there was a mark.
		input = committed
	}
	return input, t.restored(r, committed, input, start)
}

// catchUp replays what the store lacks. why says that the store has to be
// restored in full instead; "" if it is up to date.
func (t *Task) catchUp(ctx context.Context, r *replay, committed int64) (why string, err error) {
	if r.known {
		// Every transaction ends with a mark, so records without one are not
		// geodither's, and must not get into a good copy.
		marked, records, err := t.marked(ctx, r.from.Changelog, r.end)
		if err != nil {
			return "", err
		}
		if !marked && records > 0 {
			return "the changelog goes on without a mark", nil
		}
	}
	switch err := t.replay(ctx, r); {
	case errors.Is(err, errTooOld):
		return errTooOld.Error(), nil
	case err != nil:
		return "", err
	case !r.agrees(committed):
		return "the store does not agree with the committed offset", nil
	}
	return "", nil
}

// startOver wipes the store and replays the whole changelog; but a store that
// belongs to marks that the changelog no longer has is the only copy left, and
// stays.
func (t *Task) startOver(ctx context.Context, r *replay, first int64, start time.Time) error {
	if r.known {
		marked, records, err := t.marked(ctx, first, r.end)
		if err != nil {
			return err
		}
		if !marked {
			return t.doubt(r.lost(records))
		}
	}
	if err := t.d.Store.Wipe(); err != nil {
		return storeError("wipe a partition", err)
	}
	r.from = Positions{Input: none, Changelog: first, AppliedMS: start.UnixMilli()}
	return t.replay(ctx, r)
}

// restored writes the positions at the end of a restore and reports it.
func (t *Task) restored(r *replay, committed, input int64, start time.Time) error {
	t.changes = t.changes[:0]
	r.at.AppliedMS = start.UnixMilli()
	if err := t.apply(r.at); err != nil {
		return err
	}
	t.o.Observer.Restored(Restore{
		Wiped: r.full, Records: r.records, From: r.from.Changelog, To: r.at.Changelog,
		Committed: committed, Input: input, Assumed: r.at.Input == none && committed > 0,
		Took: t.o.Clock.Now().Sub(start),
	})
	return nil
}

// whole says why the store cannot be caught up from where it is; "" if it can.
func whole(p Positions, found bool, committed, first, end int64) string {
	switch {
	case !found:
		return "the store is empty"
	case committed == none:
		return "the group has no committed offset"
	case p.Input > committed:
		return "the store is ahead of the committed offset"
	case p.Changelog < first:
		return "the changelog no longer holds the store's position"
	case p.Changelog > end:
		return "the changelog ends before the store's position"
	}
	return ""
}

// locate sets t.next to where processing goes on. fresh is true if nothing was
// ever processed and Options.Start has decided.
func (t *Task) locate(ctx context.Context, input int64) (fresh bool, err error) {
	var first, end int64
	err = t.retry(ctx, func() (err error) {
		first, end, err = t.d.Input.Bounds(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read the input's bounds: %w", err)
	}
	t.next = input
	switch {
	case input == none && t.o.Start == Latest:
		t.next = end
	case input == none:
		t.next = first
	case input < first && t.o.SkipLost:
		t.next = first
	case input < first:
		return false, WithRemedy(fmt.Errorf("%w: the group is at %d, the input begins at %d: retention has removed records before they were processed. "+
			"Set skip_lost: true to go on without them, and lengthen the topic's retention (retention.ms)", ErrInputLost, input, first), Fatal)
	case input > end:
		return false, t.doubt(fmt.Errorf("%w: the group is at %d, the input ends at %d: was the topic made anew, or has the cluster lost data? "+
			"To begin anew, set another group and an empty topics.changelog", ErrInputLost, input, end))
	}
	return input == none, nil
}
