package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Task is one partition's worker. Make one for each assignment; it runs once and is used by one
// goroutine.
type Task struct {
	d     Dependencies
	o     Options
	state State
	marks
	erasure erasure
	pass    pass

	next  int64     // input offset after the last record that was processed
	safe  int64     // next at the last commit, or at the start
	tail  int64     // changelog offset after everything that was restored and committed
	saved time.Time // when safe was set

	overlay *overlay // effects of the records in hand: those after the transaction in flight
	records int      // how many those are
	began   time.Time
	last    int64 // Kafka timestamp of the last of them, and of the mark
	fx      Effects

	flight flight   // the transaction that is being written
	spare  *overlay // nil: the flight has it
	hand   hand
	beside func(work func()) errand

	attempt int // recoveries since the last progress
	doubts  int // restores in a row whose result did not add up

	waits   time.Duration // of an idle task's next fetch; 0: MaxInterval
	looked  time.Time     // at the changelog while idle
	checked int64         // up to where

	changelog []Message // of the flight
	changes   []Change  // of the flight; scratch of restore
	value     []byte    // of the flight: the mark
}

// hand says what is known about the transaction that was written last.
type hand uint8

const (
	empty  hand = iota // nothing is written
	opened             // Produce was called: there may be a transaction
	undone             // Commit was called and did not succeed: it may be committed or not
)

// New checks the options and makes a task. It panics if a dependency is missing.
func New(d Dependencies, o Options) (*Task, error) {
	if d.Input == nil || d.Changelog == nil || d.Transactions == nil || d.Store == nil ||
		d.Processor == nil {
		panic("task: a required field of Dependencies is missing")
	}
	if _, able := d.Store.(Eraseable); d.Eraser != nil && !able {
		panic("task: an Eraser needs a store that is Eraseable")
	}
	if _, able := d.Input.(Ended); d.Partitioned != nil && !able {
		panic("task: a Partitioned needs an input that is Ended")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	own := marks{
		settings: o.Settings, source: o.Source, names: o.Names, partitioner: o.Partitioner,
		versions: o.Versions, passes: d.Partitioned != nil,
	}
	o = o.withDefaults()
	return &Task{
		d: d, o: o, overlay: newOverlay(), spare: newOverlay(), marks: own,
		erasure: erasure{by: d.Eraser, store: d.Store}, beside: inGoroutine,
		pass: pass{
			by: d.Partitioned, input: d.Input, store: d.Store, clock: o.Clock,
			skewMS: o.Skew.Milliseconds(),
		},
	}, nil
}

// Run works until ctx is done, Options.End is reached, or an error ends it for good.
//
// It returns nil when everything before End is committed, or when ctx is done and the transaction
// in hand is known to be committed or dropped. Otherwise it returns an error whose RemedyOf is
// Leave or Fatal. When ctx is done, it commits the records that are already processed if that
// succeeds within Options.Grace. Run may be called once.
func (t *Task) Run(ctx context.Context) error {
	if t.state != Created {
		panic("task: Run was called twice")
	}
	work, release := withGrace(ctx, t.o.Grace)
	defer release()
	for {
		err := t.cycle(ctx, work)
		if done, result := t.settle(ctx, work, err); done {
			t.move(Closed)
			if result == nil {
				return nil
			}
			return fmt.Errorf("%s: %w", t.o.Name, result)
		}
		t.move(Suspended)
		wait := t.backoff(t.attempt)
		t.attempt++
		t.o.Observer.Retried(err, wait)
		if t.o.Clock.Sleep(ctx, wait) != nil {
			t.move(Closed)
			return nil
		}
	}
}

// cycle is a fresh start and the work after it. It returns nil when ctx is done or End is reached,
// and the records in hand are committed.
func (t *Task) cycle(ctx, work context.Context) error {
	t.move(Fencing)
	committed, err := t.fence(ctx)
	if err != nil {
		return err
	}
	t.move(Restoring)
	r, err := t.restore(ctx, committed)
	if err != nil {
		return err
	}
	stable, lost, err := t.locate(ctx, r)
	if err != nil {
		return err
	}
	t.doubts = 0
	t.found(r.Mark, r.Marked, lost, t.next, stable)
	t.safe, t.saved = r.Input, t.o.Clock.Now()
	fresh := r.Input == none
	if fresh {
		t.safe = t.next // there is no committed offset that retention could overtake
	}
	if err := t.erasure.find(); err != nil {
		return err
	}
	if err := t.pass.restored(); err != nil {
		return err
	}
	renamed, moved := false, false
	if r.Marked {
		if renamed, err = t.renamed(r.Mark); err != nil {
			return err
		}
		moved = CheckPartitioner(r.Mark, t.partitioner) != nil // else accept has refused it
	}
	t.move(Running)
	if r.Assumed {
		t.shown(stable) // what a predecessor has shown beyond the loss is not known
	}
	if r.Assumed || renamed || moved || lost && t.next == r.Input {
		// A mark alone says that the loss was accepted, so that it need not be accepted again.
		// Where the input has lost its beginning, the offset says it.
		if err := t.commit(work, !t.closes(t.next)); err != nil {
			return err
		}
	}
	if fresh && t.o.Start == Latest {
		// Without this commit, a crash before the first one would start at a later end, and the
		// records that arrived in between would never be processed.
		if err := t.open(work); err != nil {
			return err
		}
	}
	return t.consume(ctx, work)
}

// renamed reports whether accounts of erased keys are kept that this task may not find, because the
// last mark's worker named them otherwise, or does not say how. It is an error unless that was
// accepted.
func (t *Task) renamed(m Mark) (bool, error) {
	if !t.renames(m) {
		return false, nil
	}
	owes, err := t.erasure.owes()
	if err != nil || !owes || t.o.AcceptLost {
		return owes, err
	}
	why := "the mark names none"
	if len(m.Names) > 0 {
		why = fmt.Sprintf("it was %.4x, now %.4x", m.Names, t.names)
	}
	return true, WithRemedy(fmt.Errorf("%w; %s (erased-accounts)", ErrKept, why), Fatal)
}

// fence shuts out earlier owners, and only then reads the committed offset; none if there is none.
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

// restore brings the store up to the changelog's end.
func (t *Task) restore(ctx context.Context, committed int64) (Restore, error) {
	start := t.o.Clock.Now()
	r := restoration{t: t, committed: committed, start: start, told: start}
	return r.run(ctx)
}

// locate sets t.next to where processing goes on: at the restored offset, or where Start or
// SkipLost says; lost says that SkipLost did. It returns the end of what there is to read.
func (t *Task) locate(ctx context.Context, r Restore) (end int64, lost bool, err error) {
	var first int64
	err = t.retry(ctx, func() (err error) {
		first, end, err = t.d.Input.Bounds(ctx)
		return err
	})
	if err != nil {
		return none, false, fmt.Errorf("read the input's bounds: %w", err)
	}
	input := r.Input
	if input == none && t.o.Start == At {
		input = t.o.Begin
	}
	t.next = input
	switch {
	case input == none && t.o.Start == Latest:
		t.next = end
		return end, false, nil
	case input == none:
		t.next = first
		return end, false, nil
	}
	epoch := int32(none)
	if r.Marked {
		epoch = r.Mark.Epoch
	}
	known, err := t.epochEnd(ctx, epoch)
	if err != nil {
		return none, false, err
	}
	err = CheckInput(input, first, end, known)
	if err != nil && input >= first {
		err = t.doubt(err) // a broker may show an old end for a moment
	}
	err = otherwise(err, Fatal)
	if t.o.SkipLost && RemedyOf(err) == Fatal && input <= end {
		t.next = max(input, first)
		return end, true, nil
	}
	return end, false, err
}

// CheckInput returns an ErrInputLost if a worker that is at an input offset cannot go on there. The
// log begins at first and ends at end, and the leader epoch of what the worker has read ends at
// known in the log as it is now; -1 if that is not known.
func CheckInput(input, first, end, known int64) error {
	switch {
	case input < first:
		return fmt.Errorf("%w: the group is at %d, the input begins at %d (input-lost)",
			ErrInputLost, input, first)
	case input > end:
		return fmt.Errorf("%w: the group is at %d, the input ends at %d (input-lost)",
			ErrInputLost, input, end)
	case known != none && known < input:
		return fmt.Errorf("%w: it lost its end from offset %d on and has grown again; the group "+
			"is at %d (input-lost)", ErrInputLost, known, input)
	}
	return nil
}

// epochEnd returns where the records of a leader epoch end in the input; none if that is not known.
func (t *Task) epochEnd(ctx context.Context, epoch int32) (end int64, err error) {
	input, able := t.d.Input.(Epochs)
	if !able || epoch == none {
		return none, nil
	}
	err = t.retry(ctx, func() (err error) {
		end, err = input.EpochEnd(ctx, epoch)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("read where leader epoch %d of the input ends: %w", epoch, err)
	}
	return end, nil
}

// lookInterval is how often an idle task looks whether somebody has written to its changelog, to
// within longestWait. A look takes two requests.
const lookInterval = 10 * time.Second

// errDisturbed: a request to erase was written, or carried out, behind the back of an idle task.
// Its store has to catch up.
var errDisturbed = errors.New("somebody else has written to the changelog")

// settle cleans up after a cycle and decides whether the task ends. The result is what Run returns
// then.
func (t *Task) settle(ctx, work context.Context, err error) (done bool, result error) {
	if err == nil {
		return true, nil
	}
	err = t.drop(err)
	remedy := RemedyOf(err)
	if t.hand == opened && remedy != Leave && t.d.Transactions.Abort(work) == nil {
		t.hand = empty
	}
	clean := t.hand == empty
	t.hand = empty // the next Fence, this task's or the next owner's, decides how it ends
	switch {
	case remedy == Leave, remedy == Fatal:
		return true, err
	case ctx.Err() == nil:
		return false, nil
	case clean:
		return true, nil
	}
	return true, WithRemedy(fmt.Errorf("%w; the next owner of the partition finds out how it "+
		"ended: %w", ErrUnclean, err), Leave)
}

// move goes to another state. A transition that is not in the table is a bug of this package.
func (t *Task) move(to State) {
	from := t.state
	if !slices.Contains(transitions[from], to) {
		panic(fmt.Sprintf("task: no transition from %v to %v", from, to))
	}
	t.state = to
	t.o.Observer.Moved(from, to)
}

// doubt makes an error Rebuild the first few times in a row, and then Fatal.
func (t *Task) doubt(err error) error {
	t.doubts++
	if t.doubts >= t.o.Doubts {
		return WithRemedy(err, Fatal)
	}
	return WithRemedy(err, Rebuild)
}

// backoff returns the wait before repetition n, from 0.
func (t *Task) backoff(n int) time.Duration {
	wait := t.o.BackoffMin
	for ; n > 0 && wait < t.o.BackoffMax; n-- {
		wait *= 2
	}
	return min(wait, t.o.BackoffMax)
}

// retry makes a call until it answers something other than Retry. After Options.Retries repetitions
// it reads Retry as Rebuild.
func (t *Task) retry(ctx context.Context, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		if RemedyOf(err) != Retry {
			return err
		}
		if n == t.o.Retries || ctx.Err() != nil {
			return WithRemedy(err, Rebuild)
		}
		wait := t.backoff(n)
		t.o.Observer.Retried(err, wait)
		if t.o.Clock.Sleep(ctx, wait) != nil {
			return WithRemedy(err, Rebuild)
		}
	}
}

// withGrace returns a context that outlives ctx by grace. It runs on real time, because a goroutine
// cannot wait on an injected clock without racing the task for it.
func withGrace(ctx context.Context, grace time.Duration) (work context.Context, release func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-work.Done():
		}
	})
	return work, func() {
		stop()
		cancel()
	}
}

// disturbed returns an error if somebody else has written to the changelog. A task that has work to
// do finds out by being fenced. An idle one would keep what it should forget until its next record.
func (t *Task) disturbed(ctx context.Context) error {
	now := t.o.Clock.Now()
	if t.d.Eraser == nil || now.Sub(t.looked) < lookInterval {
		return nil
	}
	t.looked = now
	var end int64
	err := t.retry(ctx, func() (err error) {
		_, end, err = t.d.Changelog.Bounds(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the changelog's bounds: %w", err)
	}
	r := restoration{t: t}
	err = r.scan(ctx, max(t.tail, t.checked), end, func(b Batch) error {
		if len(b.Records) > 0 {
			return WithRemedy(errDisturbed, Rebuild)
		}
		return nil
	})
	t.checked = max(t.checked, end)
	return err
}
