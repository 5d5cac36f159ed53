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

// errTooOld ends a replay that may have missed tombstones.
var errTooOld = errors.New("the store is older than tombstones are kept")

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
	r := &replay{from: p, end: end, full: whole(p, found, committed, first, end)}
	if r.full == "" {
		if err = t.replay(ctx, r); errors.Is(err, errTooOld) {
			r.full = errTooOld.Error()
		} else if err == nil && !r.agrees(committed) {
			r.full = "the store does not agree with the committed offset"
		}
	}
	if r.full != "" {
		if err := t.d.Store.Wipe(); err != nil {
			return none, storeError("wipe a partition", err)
		}
		r.from = Positions{Input: none, Changelog: first, AppliedMS: start.UnixMilli()}
		err = t.replay(ctx, r)
	}
	if err != nil {
		return none, err
	}
	if !r.agrees(committed) {
		return none, t.doubt(r.disagreement(committed))
	}
	if r.at.Input == none {
		r.at.Input = committed // a group that was given its first offset by hand, or none
	}
	return r.at.Input, t.restored(r, committed, start)
}

// restored writes the positions at the end of a restore and reports it.
func (t *Task) restored(r *replay, committed int64, start time.Time) error {
	t.changes = t.changes[:0]
	r.at.AppliedMS = start.UnixMilli()
	if err := t.apply(r.at); err != nil {
		return err
	}
	t.o.Observer.Restored(Restore{
		Wiped: r.full, Records: r.records, From: r.from.Changelog, To: r.at.Changelog,
		Committed: committed, Input: r.at.Input, Took: t.o.Clock.Now().Sub(start),
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

// replay is one pass over the changelog.
type replay struct {
	from    Positions // where it began
	end     int64     // where it ends
	full    string    // why from the log start; "" if not
	at      Positions // where it has come to
	records int
}

// agrees compares what the changelog says with the committed offset. No
// committed offset agrees with any mark: group offsets expire, and the mark was
// written by the same transaction as the last one. A changelog that has never
// been written agrees with any offset: somebody has chosen where to begin.
func (r *replay) agrees(committed int64) bool {
	if r.at.Input == none {
		return r.full != "" && r.records == 0
	}
	return committed == none || committed == r.at.Input
}

func (r *replay) disagreement(committed int64) error {
	if r.at.Input == none {
		return fmt.Errorf("%w: the changelog has %d records, but no mark of geodither's: is it another topic, or has its mark been deleted? "+
			"Name the right changelog topic, or start anew with another group and an empty changelog", ErrDiverged, r.records)
	}
	return fmt.Errorf("%w: the group is at %d, the changelog at %d: were the group's offsets moved, or has the cluster lost data? "+
		"Set the group's offset to %[3]d to go on, or start anew with another group and an empty changelog", ErrDiverged, committed, r.at.Input)
}

// doubt makes an error Rebuild the first few times and then Fatal.
func (t *Task) doubt(err error) error {
	t.doubts++
	if t.doubts >= t.o.Doubts {
		return WithRemedy(err, Fatal)
	}
	return WithRemedy(err, Rebuild)
}

// replay reads the changelog from r.from to r.end and applies it, one fetched
// batch at a time. A crash in between is harmless: the positions say how far it
// has come, and values are whole.
func (t *Task) replay(ctx context.Context, r *replay) error {
	r.at, r.records = r.from, 0
	for stalls := 0; r.at.Changelog < r.end; {
		var batch Batch
		err := t.retry(ctx, func() (err error) {
			batch, err = t.d.Changelog.Fetch(ctx, r.at.Changelog)
			return err
		})
		if err == nil {
			err = batch.check(r.at.Changelog)
		}
		if err != nil {
			return fmt.Errorf("read the changelog at offset %d: %w", r.at.Changelog, err)
		}
		if batch.Next == r.at.Changelog {
			if stalls++; stalls > t.o.Retries {
				return fmt.Errorf("the changelog delivers nothing from offset %d, though it is said to end at %d", batch.Next, r.end)
			}
			continue
		}
		if len(batch.Records) > 0 && t.tooOld(r) {
			if r.full == "" {
				return errTooOld
			}
			return t.doubt(fmt.Errorf("%w: the restore takes too long; raise delete.retention.ms of the changelog, and MaxStoreAge with it", errTooOld))
		}
		if err := t.replayBatch(r, batch); err != nil {
			return err
		}
		stalls = 0
	}
	return nil
}

// tooOld: a tombstone still ahead may be gone. It is kept for
// delete.retention.ms at least, counted from when the value that it deletes was
// last seen in the log, which is not before r.from.AppliedMS.
func (t *Task) tooOld(r *replay) bool {
	return t.o.Clock.Now().Sub(time.UnixMilli(r.from.AppliedMS)) > t.o.MaxStoreAge
}

func (t *Task) replayBatch(r *replay, batch Batch) error {
	t.changes = t.changes[:0]
	for _, rec := range batch.Records {
		r.records++
		switch {
		case string(rec.Key) == MarkKey:
			input, err := DecodeMark(rec.Value)
			if err != nil {
				return WithRemedy(fmt.Errorf("read the changelog at offset %d: %w", rec.Offset, err), Fatal)
			}
			r.at.Input = input
		case ValidKey(rec.Key):
			t.changes = append(t.changes, Change{Key: rec.Key, Value: rec.Value})
		}
	}
	r.at.Changelog = batch.Next
	return t.apply(r.at)
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
			"Allow to skip them, and lengthen the topic's retention", ErrInputLost, input, first), Fatal)
	case input > end:
		return false, t.doubt(fmt.Errorf("%w: the group is at %d, the input ends at %d: was the topic made anew, or has the cluster lost data? "+
			"Start with another group and an empty changelog", ErrInputLost, input, end))
	}
	return input == none, nil
}
