package task

import (
	"context"
	"fmt"
	"time"
)

// Task is one partition's worker. Make one per assignment; it runs once and is
// used by one goroutine.
type Task struct {
	d     Dependencies
	o     Options
	state State

	next   int64     // input offset after the last one that was processed
	from   int64     // what t.next was when the last restore had ended
	safe   int64     // what t.next was at the last commit or at the start
	tail   int64     // the changelog's offset behind all that was restored and committed
	saved  time.Time // when that was
	mark   Mark      // the last one; if there is none, what it would have been
	opened bool      // it is open, and of this task
	// proposed is what the mark alone that is being committed adds to the list.
	proposed [][]byte
	seen     int64    // before it a reader of uncommitted data may have seen results
	overlay  *overlay // of the records since the last commit
	records  int      // how many those are
	began    time.Time
	last     int64 // Kafka timestamp of the last of them, and of the mark
	fx       Effects
	hand     hand

	attempt int // recoveries since the last progress
	doubts  int // restores in a row whose result did not add up

	changelog []Message // scratch of commit
	changes   []Change  // scratch of commit and replay
	value     []byte    // scratch of commit: the mark
}

// hand says what is known about the transaction in hand.
type hand uint8

const (
	empty  hand = iota // nothing written
	opened             // Produce was called: there may be a transaction
	undone             // Commit was called and has not answered well: either way
)

// New checks the options and makes a task. A missing dependency panics.
func New(d Dependencies, o Options) (*Task, error) {
	if d.Input == nil || d.Changelog == nil || d.Transactions == nil || d.Store == nil || d.Processor == nil {
		panic("task: every field of Dependencies but Amender is required")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Task{d: d, o: o.withDefaults(), overlay: newOverlay()}, nil
}

// Run works until ctx is done, Options.End is reached, or something ends it for
// good. It returns nil when all before End is committed, or when ctx is done and the transaction in hand was committed or dropped
// definitely; else an error whose RemedyOf is Leave or Fatal. When ctx is done,
// the records already processed are committed if that succeeds within
// Options.Grace. It may be called once.
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

// cycle is a fresh start and the work after it. It ends with nil when ctx is
// done or End is reached, and the records in hand are committed; else with an
// error.
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
	stable, err := t.locate(ctx, r.Input)
	if err != nil {
		return err
	}
	t.doubts = 0
	t.stand(r.Mark, r.Marked, r.Input, stable)
	t.safe, t.saved = r.Input, t.o.Clock.Now()
	fresh := r.Input == none
	if fresh {
		t.safe = t.next // without an offset there is none that could get lost
	}
	if err := t.amended(t.nextMark(true).Amendments); err != nil {
		return err
	}
	t.move(Running)
	if r.Assumed {
		if err := t.beginAccount(work, stable); err != nil {
			return err
		}
	}
	if fresh && t.o.Start == Latest {
		// Without this commit a crash before the first one would start at a
		// later end, and what arrived in between would never be processed.
		if err := t.open(work); err != nil {
			return err
		}
	}
	return t.consume(ctx, work)
}

// settle cleans up after a cycle and decides whether the task ends. result is
// what Run returns then.
func (t *Task) settle(ctx, work context.Context, err error) (done bool, result error) {
	if err == nil {
		return true, nil
	}
	remedy := RemedyOf(err)
	t.o.Observer.Dropped(t.records, err)
	t.overlay.reset()
	t.records = 0
	if t.hand == opened && remedy != Leave && t.d.Transactions.Abort(work) == nil {
		t.hand = empty
	}
	clean := t.hand == empty
	t.hand = empty // whatever it was: Fence decides it, ours or the next owner's
	switch {
	case remedy == Leave, remedy == Fatal:
		return true, err
	case ctx.Err() == nil:
		return false, nil
	case clean:
		return true, nil
	}
	return true, WithRemedy(fmt.Errorf("%w; the next owner of the partition finds out how it ended: %w", ErrUnclean, err), Leave)
}

// backoff is the wait before repetition n, from 0.
func (t *Task) backoff(n int) time.Duration {
	wait := t.o.BackoffMin
	for ; n > 0 && wait < t.o.BackoffMax; n-- {
		wait *= 2
	}
	return min(wait, t.o.BackoffMax)
}

// retry makes a call until it answers with something other than Retry, which
// after Options.Retries repetitions reads as Rebuild.
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

// withGrace is a context that outlives ctx by grace. It runs on real time: a
// goroutine cannot wait on an injected clock without racing the task for it.
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
