// Package parallel does work on several goroutines so that nothing but its speed depends on how
// many there are: neither a result nor the error that is returned.
package parallel

import "sync"

// Pool says how numbered tasks are done. The zero value does one after another.
type Pool struct {
	// Workers is the number of goroutines, one if it is less. There are never more than tasks.
	Workers int
	// Progress, if set, is told after each task how much work is done, one call at a time. Its
	// error counts as the task's.
	Progress func(done int64) error
	// Size is how much work a task is; nil: each task is 1.
	Size func(task int) int64
}

// Each calls do for each task from 0 to tasks-1. It is [Pool.Do] for tasks that need no memory of
// their worker.
func (p Pool) Each(tasks int, do func(task int) error) error {
	return p.Do(tasks, func(int) func(*Task) error {
		return func(t *Task) error { return do(t.Number) }
	})
}

// Do does the tasks from 0 to tasks-1. It calls worker once for each goroutine, numbered from 0,
// one call after another; what worker returns does that goroutine's tasks, and may keep memory
// between them. Tasks begin in ascending order.
//
// Do returns, after all tasks have ended, the error of the first task in order that fails: the
// error that a single worker would have met. A failure stops the tasks behind it, see
// [Task.OnStop]; those before it are brought to their end, since one of them may fail too.
func (p Pool) Do(tasks int, worker func(number int) func(*Task) error) error {
	if tasks <= 0 {
		return nil
	}
	workers := min(max(p.Workers, 1), tasks)
	r := &run{pool: p, end: tasks, doing: make([]*Task, workers)}
	work := make([]func(*Task) error, workers)
	for number := range work {
		work[number] = worker(number)
	}
	var group sync.WaitGroup
	for number, do := range work {
		group.Go(func() {
			for t := r.begin(number); t != nil; t = r.begin(number) {
				r.ended(number, do(t))
			}
		})
	}
	group.Wait()
	return r.err
}

// Task is a task from its beginning to its end.
type Task struct {
	// Number is the task's, from 0.
	Number int

	run     *run
	stopped bool
	onStop  func()
}

// Stopped says whether an earlier task has failed, so that this one's result is of no use any more.
func (t *Task) Stopped() bool {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	return t.stopped
}

// OnStop has stop called as soon as an earlier task has failed, from another goroutine; at once if
// one has. It is for what a task waits in, such as the context of a read, and replaces the function
// that was given before. stop must not call t.
func (t *Task) OnStop(stop func()) {
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	t.onStop = stop
	if t.stopped {
		stop()
	}
}

// run is one call of Do.
type run struct {
	pool  Pool
	mu    sync.Mutex
	next  int     // task to begin with
	end   int     // the first task that failed, or how many there are
	err   error   // of that task
	done  int64   // work
	doing []*Task // by worker
}

// begin gives a worker its next task; nil if there is none.
func (r *run) begin(worker int) *Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next >= r.end {
		return nil
	}
	t := &Task{Number: r.next, run: r}
	r.doing[worker] = t
	r.next++
	return t
}

// ended takes note of what became of a worker's task.
func (r *run) ended(worker int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.doing[worker].Number
	r.doing[worker] = nil
	if number >= r.end {
		return
	}
	if err == nil {
		err = r.tell(number)
	}
	if err != nil {
		r.fail(number, err)
	}
}

// tell counts a task's work as done.
func (r *run) tell(number int) error {
	size := int64(1)
	if r.pool.Size != nil {
		size = r.pool.Size(number)
	}
	r.done += size
	if r.pool.Progress == nil {
		return nil
	}
	return r.pool.Progress(r.done)
}

// fail stops what lies behind a task. No earlier one has failed.
func (r *run) fail(number int, err error) {
	r.end, r.err = number, err
	for _, t := range r.doing {
		if t == nil || t.Number < number {
			continue
		}
		t.stopped = true
		if t.onStop != nil {
			t.onStop()
		}
	}
}
