package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errTooOld ends a replay that may have missed tombstones.
var errTooOld = errors.New("the store is older than tombstones are kept")

// replay is one pass over the changelog.
type replay struct {
	from    Positions // where it began
	end     int64     // where it ends
	known   bool      // the store was found with an input offset, so there was a mark
	full    string    // why from the log start; "" if not
	lost    bool      // the changelog is lost, and that was accepted
	keep    bool      // the store may be the only copy of what is given up
	cut     bool      // the changelog's beginning was deleted
	at      Positions // where it has come to
	records int
	last    lastMark
	start   time.Time // of the restore
	told    time.Time // when the observer heard last
}

// lastMark is what is at the end of a changelog.
type lastMark struct {
	mark  Mark
	found bool
	at    int64 // where the mark is; none if there is none
	tail  int64 // after the last record of any kind
	seen  int   // records looked at
}

// agrees compares what the changelog says with the committed offset. No
// committed offset agrees with any mark: group offsets expire, and the mark was
// written by the same transaction as the last one. An empty changelog that is not
// lost, or whose loss was accepted, agrees with any offset.
func (r *replay) agrees(committed int64) bool {
	if r.at.Input == none {
		return r.full != "" && r.records == 0 && !r.known
	}
	if r.last.found && r.last.mark.Input != r.at.Input {
		return false
	}
	return committed == none || committed == r.at.Input
}

func (r *replay) disagreement(committed int64) error {
	if r.at.Input == none {
		return fmt.Errorf("%w: the changelog has %d records, but no mark of geodither's: is it another topic, or has its mark been deleted? "+
			"Set topics.changelog to the right one; or, to start over with another account of ε for every user, which adds to the one so far, set another group and an empty topics.changelog",
			ErrDiverged, r.records)
	}
	return fmt.Errorf("%w: the group is at %d, the changelog at %d: were the group's offsets moved, or has the cluster lost data? "+
		"To go on, set the group's offset to %[3]d. Another group with an empty topics.changelog would start every user's account of ε at 0, beside what is spent already",
		ErrDiverged, committed, r.at.Input)
}

// foreign is the error of a changelog that has records, but not the marks that the
// store has seen.
func (r *replay) foreign() error {
	return fmt.Errorf("%w: the store here has the states up to input offset %d, but the changelog has no mark of geodither's "+
		"among its %d records: is it another topic? Set topics.changelog to the right one, or bring its records back",
		ErrDiverged, r.from.Input, r.last.seen)
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
	return t.scan(ctx, r.from.Changelog, r.end, func(batch Batch) error {
		if len(batch.Records) > 0 && t.tooOld(r) {
			if r.full == "" {
				return errTooOld
			}
			return t.doubt(fmt.Errorf("read the changelog at offset %d: this restore has taken longer than %v, and tombstones that it has not come to yet "+
				"may be gone: let the cleaner leave less to read (min.cleanable.dirty.ratio of the changelog), or give the worker a faster way to the brokers "+
				"and a faster disk, and start again", r.at.Changelog, t.o.MaxStoreAge))
		}
		if err := t.replayBatch(r, batch); err != nil {
			return err
		}
		t.tell(r)
		return nil
	})
}

// progressInterval is how often a restore that takes long says how far it is.
const progressInterval = time.Second

func (t *Task) tell(r *replay) {
	now := t.o.Clock.Now()
	if now.Sub(r.told) < progressInterval {
		return
	}
	r.told = now
	t.o.Observer.Restoring(RestoreProgress{Records: r.records, At: r.at.Changelog, End: r.end, Took: now.Sub(r.start)})
}

// findMark looks for the last mark between two offsets of the changelog. It lies at
// the end, with nothing but aborted transactions after it, so that is where it
// looks first: one fetch, unless there is no mark.
func (t *Task) findMark(ctx context.Context, from, end int64) (lastMark, error) {
	l := lastMark{at: none, tail: from}
	for step := int64(16); end > from && !l.found; step *= 8 {
		at := max(from, end-step)
		err := t.scan(ctx, at, end, func(batch Batch) error {
			for i := range batch.Records {
				rec := &batch.Records[i]
				l.seen++
				l.tail = max(l.tail, rec.Offset+1)
				if rec.Offset < l.at || string(rec.Key) != MarkKey {
					continue
				}
				m, err := DecodeMark(rec.Value)
				if err != nil {
					return WithRemedy(fmt.Errorf("read the changelog at offset %d: %w", rec.Offset, err), Fatal)
				}
				l.mark, l.at, l.found = m.Clone(), rec.Offset, true
			}
			return nil
		})
		if err != nil {
			return l, err
		}
		end = at
	}
	return l, nil
}

// scan reads the changelog from at to end.
func (t *Task) scan(ctx context.Context, at, end int64, visit func(Batch) error) error {
	for stalls := 0; at < end; {
		var batch Batch
		err := t.retry(ctx, func() (err error) {
			batch, err = t.d.Changelog.Fetch(ctx, at)
			return err
		})
		if err == nil {
			err = batch.check(at)
		}
		if err != nil {
			return fmt.Errorf("read the changelog at offset %d: %w", at, err)
		}
		if batch.Next == at {
			if stalls++; stalls > t.o.Retries {
				return fmt.Errorf("the changelog delivers nothing from offset %d, though it is said to end at %d", at, end)
			}
			continue
		}
		if err := visit(batch); err != nil {
			return err
		}
		at, stalls = batch.Next, 0
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
			m, err := DecodeMark(rec.Value)
			if err != nil {
				return WithRemedy(fmt.Errorf("read the changelog at offset %d: %w", rec.Offset, err), Fatal)
			}
			r.at.Input = m.Input
			t.changes = append(t.changes, Change{Key: markKey, Value: rec.Value})
		case ValidKey(rec.Key):
			t.changes = append(t.changes, Change{Key: rec.Key, Value: rec.Value})
		}
	}
	r.at.Changelog = batch.Next
	return t.apply(r.at)
}
