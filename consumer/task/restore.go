package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// restoration brings the store up to the end of the changelog. It happens once after each fence.
//
// The changelog holds every key's state, and with it whatever the processor counts there, such as
// an account that must not start over unseen. So an empty changelog is good only where nothing was
// ever processed. Three things show that something was:
//
//   - The group's committed offset, if it is not 0. Every offset that a task commits comes with a
//     mark, and nothing lies before offset 0. An offset that somebody has set by hand looks the
//     same, and somebody has to accept it (Options.AcceptLost).
//   - A store that a transaction has written. It may be the only copy left, so the task neither
//     wipes it nor writes to it. To accept the loss is to give the store up; a Keeper keeps a copy
//     first.
//   - The changelog's start, if it is not 0: retention or a person has deleted records.
//
// A changelog that has lost its beginning but still has its last mark is lost too if all of it has
// to be restored: users whose states were in that part would start over. A store that is ahead of
// that part has those states, so a task with such a store goes on.
//
// A changelog that is deleted and made again while a task works shows at the task's next
// transaction: its records lie at lower offsets than records that were there before. The task sees
// that before the commit (sameChangelog), so nothing is committed beside an empty changelog. It
// drops the transaction and is assigned again, which finds the loss.
type restoration struct {
	t         *Task
	committed int64 // the group's offset

	store Positions // of the store before the restoration
	first int64     // bounds of the changelog, read after the fence: before it, a predecessor's
	end   int64     // last states could be missed
	last  lastMark
	known bool  // the store was found with an input offset, so there was a mark
	cut   bool  // the changelog's beginning was deleted
	stale error // why the store is no copy of this changelog; nil if it is one

	full string // why the store is restored in full; "" if it is not
	lost bool   // the changelog is lost, and that was accepted
	keep bool   // the store may be the only copy of what is given up

	from    Positions // where the replay began
	at      Positions // where it is
	records int       // how many it has read
	start   time.Time // of the restoration
	told    time.Time // when the observer heard last
}

// run brings the store up to the changelog's end. The result's Input is none if nothing was ever
// processed.
func (r *restoration) run(ctx context.Context) (Restore, error) {
	if err := r.readPositions(ctx); err != nil {
		return Restore{}, err
	}
	if err := r.judge(); err != nil {
		return Restore{}, err
	}
	if err := r.bringUp(ctx); err != nil {
		return Restore{}, err
	}
	if !r.agrees() {
		return Restore{}, r.t.doubt(r.disagreement())
	}
	return r.done()
}

// readPositions reads where the store and the changelog are, and the last mark.
func (r *restoration) readPositions(ctx context.Context) error {
	t := r.t
	store, found, err := t.d.Store.Positions()
	if err != nil {
		return storeError("read its positions", err)
	}
	err = t.retry(ctx, func() (err error) {
		r.first, r.end, err = t.d.Changelog.Bounds(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the changelog's bounds: %w", err)
	}
	r.store, r.from = store, store
	r.known = found && store.Input != none
	r.cut = r.first > 0 && !t.o.CleanerTrims
	r.full = r.whole(found)
	if err := r.findMark(ctx); err != nil {
		return err
	}
	return r.compareMarks()
}

var (
	// errGivenUp: the changelog was emptied, and somebody has accepted that.
	errGivenUp = errors.New("the states in the store were given up: the changelog has begun again")
	// errRebuilt: from some offset on, the changelog is another one than the store was a copy of.
	errRebuilt = errors.New("the changelog was written back since the store was last used")
)

// compareMarks finds out whether the store's states were given up (AcceptLost), or the changelog
// written back, while the store was not in use. It then has to be restored in full, or it would
// bring back what is in no account.
func (r *restoration) compareMarks() error {
	if !r.known || !r.last.found {
		return nil // a changelog that was made again has another id, and its stores are set aside
	}
	value, err := r.t.d.Store.Get(markKey)
	if err != nil {
		return storeError("read its mark", err)
	}
	if len(value) == 0 {
		return nil // no mark, so no states were given up
	}
	own, err := DecodeMark(value)
	if err != nil {
		return WithRemedy(fmt.Errorf("read the store's mark: %w", err), Fatal)
	}
	switch {
	case own.Rebuilt != r.last.mark.Rebuilt:
		r.stale = errRebuilt
	case r.cut && startsOver(r.last.mark, own.Origin):
		r.stale = errGivenUp
	default:
		return nil
	}
	if r.full == "" {
		r.full = r.stale.Error()
	}
	r.keep = errors.Is(r.stale, errGivenUp) || r.store.Input > r.last.mark.Input
	return nil
}

// startsOver reports whether a mark says that processing has begun again, without states, after a
// mark of another origin. Where records were skipped (SkipLost), the origin moves and the states
// stay.
func startsOver(m Mark, origin int64) bool {
	return !m.Lost && m.Origin > origin && origin != none
}

// StoreEmpty is the reason for a full restore of a store that nothing was written to yet.
const StoreEmpty = "the store is empty"

// whole returns why the store cannot be caught up from where it is; "" if it can.
func (r *restoration) whole(found bool) string {
	switch {
	case !found:
		return StoreEmpty
	case r.committed == none:
		return "the group has no committed offset"
	case r.store.Input > r.committed:
		return "the store is ahead of the committed offset"
	case r.store.Changelog < r.first:
		return "the changelog no longer holds the store's position"
	case r.store.Changelog > r.end:
		return "the changelog ends before the store's position"
	}
	return ""
}

// judge decides whether the task may go on with what it has found.
func (r *restoration) judge() error {
	t := r.t
	if r.lost = r.isLost(); r.lost {
		if err := r.give(r.lostError()); err != nil {
			return err
		}
		r.full, r.known = "the changelog is lost, and that was accepted", false
	}
	if !r.last.found {
		return nil
	}
	if err := CheckSource(r.last.mark, t.source); err != nil {
		return WithRemedy(err, Fatal)
	}
	// Before anything is wiped: what the changelog lacks may be in the store alone.
	if r.leads() {
		return t.doubt(r.tailError())
	}
	if err := CheckCommitted(r.committed, r.last.mark.Input); err != nil {
		return t.doubt(err)
	}
	// It is checked now, and not after a long replay.
	return t.accept(r.last.mark, t.o)
}

// leads reports whether the store has what the changelog has lost at its end: records that moved
// the input offset, or others, such as an erasure.
func (r *restoration) leads() bool {
	input := r.last.mark.Input
	return r.known && r.stale == nil &&
		(r.store.Input > input || r.store.Input == input && r.store.Changelog > r.end)
}

// give returns the error of a loss, or nil if the loss was accepted; the store is then kept. A
// broker may show wrong bounds for a moment, so only a loss that would be fatal can be accepted.
func (r *restoration) give(loss error) error {
	if err := r.t.doubt(loss); !r.t.o.AcceptLost || RemedyOf(err) != Fatal {
		return err
	}
	r.keep = r.known
	return nil
}

// isLost reports whether the changelog holds nothing although something was processed. A changelog
// with records but without a mark is not lost: its records are not of this package.
func (r *restoration) isLost() bool {
	return !r.last.found && r.last.seen == 0 && (r.known || r.committed > 0 || r.cut)
}

// bringUp replays what the store lacks, or everything.
func (r *restoration) bringUp(ctx context.Context) (err error) {
	if r.full == "" {
		if r.full, err = r.catchUp(ctx); err != nil {
			return err
		}
	}
	if r.full == "" {
		return nil
	}
	if r.cut && r.last.found {
		if err := r.give(r.cutError()); err != nil {
			return err
		}
	}
	return r.startOver(ctx)
}

// catchUp replays what the store lacks. It returns why the store has to be restored in full
// instead, "" if the store is up to date.
func (r *restoration) catchUp(ctx context.Context) (why string, err error) {
	if r.known && !r.last.found {
		return "the changelog has no mark", nil
	}
	if r.known && r.last.at < r.from.Changelog && r.last.tail > r.from.Changelog {
		// Every transaction ends with a mark, so records without one are not geodither's, and must
		// not get into a good copy.
		return "the changelog goes on without a mark", nil
	}
	switch err := r.replay(ctx); {
	case errors.Is(err, errTooOld):
		return errTooOld.Error(), nil
	case err != nil:
		return "", err
	case !r.agrees():
		return "the store does not agree with the committed offset", nil
	}
	return "", nil
}

// startOver wipes the store and replays the whole changelog. A store that belongs to marks that the
// changelog no longer has is the only copy left, and stays.
func (r *restoration) startOver(ctx context.Context) error {
	if r.known && !r.last.found {
		return r.t.doubt(r.foreign())
	}
	if k, ok := r.t.d.Store.(Keeper); ok && r.keep {
		if err := k.Keep(); err != nil {
			return storeError("keep a copy of a partition that is given up", err)
		}
	}
	if err := r.t.d.Store.Wipe(); err != nil {
		return storeError("wipe a partition", err)
	}
	r.from = Positions{Input: none, Changelog: r.first, AppliedMS: r.start.UnixMilli()}
	return r.replay(ctx)
}

// agrees compares what the changelog says with the committed offset. No committed offset agrees
// with any mark: group offsets expire, and the mark was written by the same transaction as the last
// offset. An empty changelog that is not lost, or whose loss was accepted, agrees with any offset.
func (r *restoration) agrees() bool {
	if r.at.Input == none {
		return r.full != "" && r.records == 0 && !r.known
	}
	if r.last.found && r.last.mark.Input != r.at.Input {
		return false
	}
	return CheckCommitted(r.committed, r.at.Input) == nil
}

// done writes the positions into the store and sums up.
func (r *restoration) done() (Restore, error) {
	t := r.t
	done := Restore{
		Wiped: r.full, Records: r.records, From: r.from.Changelog, To: r.at.Changelog,
		Committed: r.committed, Input: r.at.Input, Assumed: r.lost,
		Mark: r.last.mark, Marked: r.last.found,
		OtherSettings: r.last.found && t.other(r.last.mark),
	}
	// The store does not get these offsets: an offset there says that there was a mark.
	if done.Input == none {
		done.Input = r.committed
	}
	if done.Input == none && r.lost {
		done.Input = r.store.Input // the group's offset is lost too
	}
	t.changes = t.changes[:0]
	r.at.AppliedMS = r.start.UnixMilli()
	if err := t.apply(r.at); err != nil {
		return done, err
	}
	t.tail, t.checked, t.looked = r.at.Changelog, r.at.Changelog, t.o.Clock.Now()
	if err := t.erasure.purge(); err != nil {
		return done, err
	}
	done.Took = t.o.Clock.Now().Sub(r.start)
	t.o.Observer.Restored(done)
	return done, nil
}

// errTooOld ends a replay that may have missed tombstones.
var errTooOld = errors.New("the store is older than tombstones are kept")

// replay reads the changelog from r.from to its end and applies it, one fetched batch at a time. A
// crash in between is harmless: the positions say how far it has come, and values are whole.
func (r *restoration) replay(ctx context.Context) error {
	r.at, r.records = r.from, 0
	return r.scan(ctx, r.from.Changelog, r.end, func(batch Batch) error {
		if len(batch.Records) > 0 && r.tooOld() {
			if r.full == "" {
				return errTooOld
			}
			return r.t.doubt(r.tooSlow())
		}
		if err := r.replayBatch(batch); err != nil {
			return err
		}
		r.tell()
		return nil
	})
}

// tooOld reports whether a tombstone that is still ahead may be gone. A tombstone is kept for at
// least delete.retention.ms, counted from when the value that it deletes was last seen in the log,
// which is not before r.from.AppliedMS.
func (r *restoration) tooOld() bool {
	return r.t.o.Clock.Now().Sub(time.UnixMilli(r.from.AppliedMS)) > r.t.o.MaxStoreAge
}

func (r *restoration) replayBatch(batch Batch) error {
	t := r.t
	t.changes = t.changes[:0]
	for _, rec := range batch.Records {
		r.records++
		e, err := ReadEntry(rec)
		if err != nil {
			return err
		}
		if e.Kind == Marked {
			r.at.Input = e.Mark.Input
		}
		if e.Kind != Foreign {
			t.changes = append(t.changes, Change{Key: e.Key, Value: e.Value})
		}
	}
	r.at.Changelog = batch.Next
	return t.apply(r.at)
}

// progressInterval is how often a restoration that takes long says how far it is.
const progressInterval = time.Second

func (r *restoration) tell() {
	now := r.t.o.Clock.Now()
	if now.Sub(r.told) < progressInterval {
		return
	}
	r.told = now
	r.t.o.Observer.Restoring(RestoreProgress{
		Records: r.records, From: r.from.Changelog, At: r.at.Changelog, End: r.end,
		Took: now.Sub(r.start),
	})
}

// lastMark is what lies at the end of a changelog.
type lastMark struct {
	mark  Mark
	found bool
	at    int64 // where the mark is; none if there is none
	tail  int64 // after the last record of any kind
	seen  int   // records looked at
}

// findMark looks for the changelog's last mark. The mark lies at the end, with nothing but aborted
// transactions after it, so findMark looks there first: it takes one fetch unless there is no mark.
func (r *restoration) findMark(ctx context.Context) error {
	r.last = lastMark{at: none, tail: r.first}
	end := r.end
	for step := int64(16); end > r.first && !r.last.found; step *= 8 {
		at := max(r.first, end-step)
		if err := r.scan(ctx, at, end, r.last.noteMarks); err != nil {
			return err
		}
		end = at
	}
	return nil
}

// noteMarks takes note of the marks in a batch.
func (l *lastMark) noteMarks(batch Batch) error {
	for _, rec := range batch.Records {
		l.seen++
		l.tail = max(l.tail, rec.Offset+1)
		e, err := ReadEntry(rec)
		if err != nil {
			return err
		}
		if e.Kind == Marked && e.Offset > l.at {
			l.mark, l.at, l.found = e.Mark.Clone(), e.Offset, true
		}
	}
	return nil
}

// scan reads the changelog from at to end. While a batch is visited, the next one is on its way.
func (r *restoration) scan(ctx context.Context, at, end int64, visit func(Batch) error) error {
	t := r.t
	ctx, cancel := context.WithCancel(ctx)
	next := fetching{t: t}
	defer func() {
		cancel()
		next.wait()
	}()
	for stalls := 0; at < end; {
		batch, err := next.fetch(ctx, at)
		if err == nil {
			err = batch.check(at)
		}
		if err != nil {
			return fmt.Errorf("read the changelog at offset %d: %w", at, err)
		}
		if batch.Next == at {
			if stalls++; stalls > t.o.Retries {
				return fmt.Errorf("the changelog delivers nothing from offset %d, though it is "+
					"said to end at %d", at, end)
			}
			continue
		}
		if at, stalls = batch.Next, 0; at < end {
			batch = next.own(batch)
			next.start(ctx, at)
		}
		if err := visit(batch); err != nil {
			return err
		}
	}
	return nil
}

// fetching is a fetch of the changelog that is on its way, one at most.
type fetching struct {
	t      *Task
	errand errand // nil: none is
	batch  Batch
	err    error

	arena   arena // of the batch that is visited meanwhile
	records []Record
}

// own returns the batch in memory that is valid until its next call. The log's own memory is valid
// until the next fetch only.
func (f *fetching) own(b Batch) Batch {
	f.arena.reset()
	f.records = f.records[:0]
	for _, rec := range b.Records {
		rec.Key, rec.Value, rec.Headers = f.arena.copy(rec.Key), f.arena.copy(rec.Value), nil
		f.records = append(f.records, rec)
	}
	b.Records = f.records
	return b
}

// start has the records from an offset on fetched, by one attempt.
func (f *fetching) start(ctx context.Context, at int64) {
	f.errand = f.t.beside(func() {
		f.batch, f.err = f.t.d.Changelog.Fetch(ctx, at, f.t.o.MaxInterval)
	})
}

// fetch returns the records from an offset on: those that were started for, or else it asks now.
func (f *fetching) fetch(ctx context.Context, at int64) (Batch, error) {
	retry := f.t.retry
	if f.wait() {
		if RemedyOf(f.err) != Retry {
			return f.batch, f.err
		}
		retry = f.t.resume(f.err)
	}
	var batch Batch
	err := retry(ctx, func() (err error) {
		batch, err = f.t.d.Changelog.Fetch(ctx, at, f.t.o.MaxInterval)
		return err
	})
	return batch, err
}

// wait returns when no fetch is on its way. It reports whether one was.
func (f *fetching) wait() bool {
	if f.errand == nil {
		return false
	}
	f.errand.wait()
	f.errand = nil
	return true
}

// lostError returns the error of a lost changelog: what shows the loss, and what can be done.
func (r *restoration) lostError() error {
	known := ""
	switch {
	case r.committed > 0 && r.known:
		known = fmt.Sprintf("the group is at input offset %d and the store here has the states "+
			"up to %d", r.committed, r.from.Input)
	case r.committed <= 0 && !r.known:
		known = "records were deleted from its beginning"
	case r.known:
		known = fmt.Sprintf("the store here has the states up to input offset %d", r.from.Input)
	default:
		known = fmt.Sprintf("the group is at input offset %d", r.committed)
	}
	return fmt.Errorf("%w: %s, but the changelog is empty (changelog-lost)", ErrLost, known)
}

// tailError returns the error of a changelog that ends before the store does. The states at its end
// may be in the store alone, so the store is left as it is, whatever is accepted.
func (r *restoration) tailError() error {
	return fmt.Errorf("%w at its end: it goes up to input offset %d, the store here up to %d "+
		"(changelog-end-lost)", ErrLost, r.last.mark.Input, r.store.Input)
}

// cutError returns the error of a changelog that has lost its beginning. It says why the store does
// not help, which is the reason for a full restore.
func (r *restoration) cutError() error {
	return fmt.Errorf("%w: it begins at offset %d, and all of it is needed here, since %s "+
		"(changelog-cut)", ErrLost, r.first, r.full)
}

// foreign returns the error of a changelog that has records, but not the marks that the store has
// seen.
func (r *restoration) foreign() error {
	return fmt.Errorf("%w: the store here is at input offset %d, but the changelog's %d records "+
		"have no mark (changelog-foreign)", ErrDiverged, r.from.Input, r.last.seen)
}

// disagreement returns the error of a changelog that does not agree with the committed offset.
func (r *restoration) disagreement() error {
	if r.at.Input == none {
		return fmt.Errorf("%w: the changelog's %d records have no mark (changelog-foreign)",
			ErrDiverged, r.records)
	}
	return diverged(r.committed, r.at.Input)
}

// CheckCommitted returns an ErrDiverged if a group's committed offset is not that of the
// changelog's last mark. A group without an offset, -1, agrees with any mark.
func CheckCommitted(committed, input int64) error {
	if committed == none || committed == input {
		return nil
	}
	return diverged(committed, input)
}

func diverged(committed, input int64) error {
	return &DivergedError{committed, input}
}

// DivergedError is ErrDiverged with both input offsets: the group's committed one, and that of the
// changelog's last mark. A group that is ahead shows a changelog that lost its end, or a group that
// was moved; one that is behind was moved.
type DivergedError struct{ Committed, Input int64 }

// Error says both, and which remedy there is.
func (e *DivergedError) Error() string {
	remedy := "(group-moved)"
	if e.Committed > e.Input {
		remedy = "(changelog-end-lost)"
	}
	return fmt.Sprintf("%v: the group is at %d, the changelog at %d %s", ErrDiverged, e.Committed,
		e.Input, remedy)
}

// Unwrap returns ErrDiverged.
func (e *DivergedError) Unwrap() error { return ErrDiverged }

// tooSlow returns the error of a full replay that took so long that tombstones may be gone.
func (r *restoration) tooSlow() error {
	return fmt.Errorf("read the changelog at offset %d: the restore took longer than %v "+
		"(changelog-slow)", r.at.Changelog, r.t.o.MaxStoreAge)
}
