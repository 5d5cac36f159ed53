package task

import (
	"context"
	"fmt"
	"time"
)

// flight is a transaction on its way to the broker: complete, written, and not known to be
// committed. There is one at most. While it is on its way, the task reads and processes the records
// of the next transaction, which sees the flight's states through stateOf. It does nothing else:
// nothing of the next transaction reaches the broker, and the store stays as it is.
//
//	process 1 ──► launch 1 ──► process 2 ──────► land 1 ──► launch 2 ──► process 3
//	                 │                              ▲
//	                 └── Produce 1 ──► Commit 1 ────┘
//
// Between launch and land, only the goroutine beside the task's uses tx and writes hand, end, ended
// and err. All other fields do not change.
type flight struct {
	beside errand // nil: nothing is on its way

	tx      Transactions
	clock   Clock
	overlay *overlay // its effects; reads go through it
	out     Outputs
	records int
	next    int64 // the input offset that it commits
	tail    int64 // where the changelog ended before
	mark    Mark
	began   time.Time // of its first record
	start   time.Time // of Produce

	hand  hand
	end   int64     // of the changelog, after its records
	ended time.Time // when it was known to be committed
	err   error
}

// errand is work beside the task's goroutine.
type errand interface {
	// done reports whether the work has ended.
	done() bool
	// wait returns when the work has ended.
	wait()
}

// goroutine is an errand on a goroutine of its own. It is closed at the end.
type goroutine chan struct{}

// inGoroutine starts work.
func inGoroutine(work func()) errand {
	g := make(goroutine)
	go func() {
		defer close(g)
		work()
	}()
	return g
}

func (g goroutine) done() bool {
	select {
	case <-g:
		return true
	default:
		return false
	}
}

func (g goroutine) wait() { <-g }

// attempt is how a call is made: once, or with repetitions.
type attempt func(ctx context.Context, call func() error) error

// once is the attempt beside the task's goroutine: waits between repetitions, and what the observer
// hears of them, belong to the task.
func once(_ context.Context, call func() error) error { return call() }

// fly makes the calls that are left.
func (f *flight) fly(ctx context.Context, try attempt) error {
	if f.hand != undone {
		f.hand = opened
		err := try(ctx, func() (err error) {
			f.end, err = f.tx.Produce(ctx, f.out)
			return err
		})
		if err == nil {
			err = f.sameChangelog()
		}
		if err != nil {
			return err
		}
		f.hand = undone
	}
	err := try(ctx, func() (err error) {
		f.end, err = f.tx.Commit(ctx, f.next)
		return err
	})
	if err == nil {
		f.hand, f.ended = empty, f.clock.Now()
	}
	return err
}

// sameChangelog returns an error if the changelog was deleted and made again, or cut, since the
// restore: the transaction's records lie at offsets that were taken before.
func (f *flight) sameChangelog() error {
	n := len(f.out.Changelog)
	if f.end-int64(n) >= f.tail {
		return nil
	}
	return WithRemedy(fmt.Errorf("the changelog was at offset %d, and has %d records up to %d: "+
		"was it made again?", f.tail, n, f.end),
		Rebuild)
}

// failed says which call has failed.
func (f *flight) failed(err error) error {
	what := "write"
	if f.hand == undone {
		what = "commit"
	}
	return fmt.Errorf("%s the transaction up to offset %d: %w", what, f.next, err)
}
