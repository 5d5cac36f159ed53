package task

import (
	"context"
	"errors"
	"fmt"
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

// restore brings the store up to the changelog's end. The input offset that it
// answers with is none if nothing was ever processed.
func (t *Task) restore(ctx context.Context, committed int64) (done Restore, err error) {
	start := t.o.Clock.Now()
	p, found, err := t.d.Store.Positions()
	if err != nil {
		return done, storeError("read its positions", err)
	}
	var first, end int64 // after the fence, else a predecessor's last states are missed
	err = t.retry(ctx, func() (err error) {
		first, end, err = t.d.Changelog.Bounds(ctx)
		return err
	})
	if err != nil {
		return done, fmt.Errorf("read the changelog's bounds: %w", err)
	}
	r := &replay{
		from: p, end: end, known: found && p.Input != none, full: whole(p, found, committed, first, end),
		start: start, told: start,
	}
	if r.last, err = t.findMark(ctx, first, end); err != nil {
		return done, err
	}
	r.cut = first > 0 && !t.o.CleanerTrims
	if r.lost = r.isLost(committed); r.lost {
		// A broker may show wrong bounds for a moment, so what is accepted is what
		// would be fatal.
		if err := t.doubt(r.lostError(committed)); !t.o.AcceptLost || RemedyOf(err) != Fatal {
			return done, err
		}
		r.keep = r.known
		r.full, r.known = "the changelog is lost, and that was accepted", false
	}
	if r.last.found && (committed == none || committed == r.last.mark.Input) {
		// Now, and not after a long restore. A mark that does not agree with the
		// group may be an old one.
		if err := t.accept(r.last.mark); err != nil {
			return done, err
		}
	}
	if r.full == "" {
		if r.full, err = t.catchUp(ctx, r, committed); err != nil {
			return done, err
		}
	}
	if r.full != "" {
		if r.cut && r.last.found {
			if err := t.doubt(cutError(first, r.full)); !t.o.AcceptLost || RemedyOf(err) != Fatal {
				return done, err
			}
			r.keep = r.known
		}
		if err := t.startOver(ctx, r, first); err != nil {
			return done, err
		}
	}
	if !r.agrees(committed) {
		return done, t.doubt(r.disagreement(committed))
	}
	done = Restore{
		Wiped: r.full, Records: r.records, From: r.from.Changelog, To: r.at.Changelog,
		Committed: committed, Input: r.at.Input, Assumed: r.lost,
		Mark: r.last.mark, Marked: r.last.found, OtherSettings: r.last.found && t.other(r.last.mark),
	}
	if done.Input == none {
		// The store does not get it: an offset there says that there was a mark.
		done.Input = committed
	}
	if done.Input == none && r.lost {
		done.Input = p.Input // the group's offset is lost too
	}
	t.changes = t.changes[:0]
	r.at.AppliedMS = start.UnixMilli()
	if err := t.apply(r.at); err != nil {
		return done, err
	}
	t.tail = r.at.Changelog
	done.Took = t.o.Clock.Now().Sub(start)
	t.o.Observer.Restored(done)
	return done, nil
}

// catchUp replays what the store lacks. why says that the store has to be
// restored in full instead; "" if it is up to date.
func (t *Task) catchUp(ctx context.Context, r *replay, committed int64) (why string, err error) {
	if r.known && !r.last.found {
		return "the changelog has no mark", nil
	}
	if r.known && r.last.at < r.from.Changelog && r.last.tail > r.from.Changelog {
		// Every transaction ends with a mark, so records without one are not
		// geodither's, and must not get into a good copy.
		return "the changelog goes on without a mark", nil
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
// stays. Where its loss was accepted, a copy of it is kept first.
func (t *Task) startOver(ctx context.Context, r *replay, first int64) error {
	if r.known && !r.last.found {
		return t.doubt(r.foreign())
	}
	if k, ok := t.d.Store.(Keeper); ok && r.keep {
		if err := k.Keep(); err != nil {
			return storeError("keep a copy of a partition that is given up", err)
		}
	}
	if err := t.d.Store.Wipe(); err != nil {
		return storeError("wipe a partition", err)
	}
	r.from = Positions{Input: none, Changelog: first, AppliedMS: r.start.UnixMilli()}
	return t.replay(ctx, r)
}

// StoreEmpty is why a store is restored in full that nothing was written to yet.
const StoreEmpty = "the store is empty"

// whole says why the store cannot be caught up from where it is; "" if it can.
func whole(p Positions, found bool, committed, first, end int64) string {
	switch {
	case !found:
		return StoreEmpty
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

// locate sets t.next to where processing goes on: at input, or where Start or
// SkipLost says. It answers with the end of what there is to read.
func (t *Task) locate(ctx context.Context, input int64) (end int64, err error) {
	var first int64
	err = t.retry(ctx, func() (err error) {
		first, end, err = t.d.Input.Bounds(ctx)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("read the input's bounds: %w", err)
	}
	if input == none && t.o.Start == At {
		input = t.o.Begin
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
		return none, WithRemedy(fmt.Errorf("%w: the group is at %d, the input begins at %d: retention has removed records before they were processed. "+
			"Set skip_lost: true to go on without them, and lengthen the topic's retention (retention.ms)", ErrInputLost, input, first), Fatal)
	case input > end:
		return none, t.doubt(fmt.Errorf("%w: the group is at %d, the input ends at %d: was the topic made anew, or has the cluster lost data? "+
			"Another group with an empty topics.changelog starts over, with every user's account of ε at 0 beside what is spent already", ErrInputLost, input, end))
	}
	return end, nil
}
