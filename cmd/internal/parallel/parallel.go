// Package parallel does numbered tasks on several goroutines, so that which of
// them is said to have failed does not depend on which was the quickest.
package parallel

import (
	"context"
	"sync"
)

// InOrder calls do for each task from 0 to tasks-1, by up to so many workers at
// a time. Tasks begin in ascending order, and a worker, numbered from 0, does
// one after another.
//
// It returns, after all have ended, the error of the first task in order that
// fails, which is the error that one worker would have met: a failure ends the
// context of the tasks behind it, and those before it are brought to their end.
// When ctx ends no task begins any more.
func InOrder(ctx context.Context, workers, tasks int, do func(ctx context.Context, worker, task int) error) error {
	workers = min(workers, tasks)
	r := &run{end: tasks, doing: make([]task, workers)}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for {
				t, ok := r.begin(ctx, worker)
				if !ok {
					return
				}
				r.ended(worker, do(t.ctx, worker, t.number))
			}
		})
	}
	group.Wait()
	return r.err
}

// task is one that a worker is doing.
type task struct {
	number int
	ctx    context.Context //nolint:containedctx // it is the task's, from begin to ended
	stop   context.CancelFunc
}

type run struct {
	mu    sync.Mutex
	next  int    // task to begin with
	end   int    // the first task that failed, or how many there are
	err   error  // of that task
	doing []task // by worker
}

// begin gives a worker its next task; false if there is none.
func (r *run) begin(ctx context.Context, worker int) (task, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next >= r.end {
		return task{}, false
	}
	if err := ctx.Err(); err != nil {
		r.fail(r.next, err)
		return task{}, false
	}
	t := task{number: r.next}
	t.ctx, t.stop = context.WithCancel(ctx)
	r.doing[worker] = t
	r.next++
	return t, true
}

// ended takes note of what became of a worker's task.
func (r *run) ended(worker int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.doing[worker]
	r.doing[worker] = task{}
	t.stop()
	if err != nil {
		r.fail(t.number, err)
	}
}

// fail ends what lies behind a task, unless an earlier one has failed.
func (r *run) fail(number int, err error) {
	if number >= r.end {
		return
	}
	r.end, r.err = number, err
	for _, t := range r.doing {
		if t.stop != nil && t.number > number {
			t.stop()
		}
	}
}
