package parallel

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// TestAllOnce: every task is done once, by a worker that does nothing else meanwhile, and all work
// is told.
func TestAllOnce(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 7, 200} {
		const tasks = 100
		var done [tasks]atomic.Int32
		var made int
		var told []int64
		pool := Pool{
			Workers: workers,
			Size:    func(task int) int64 { return int64(task % 2) },
			Progress: func(done int64) error {
				told = append(told, done)
				return nil
			},
		}
		err := pool.Do(tasks, func(number int) func(*Task) error {
			if number != made {
				t.Errorf("worker %d is made after %d others", number, made)
			}
			made++
			var busy atomic.Bool
			return func(task *Task) error {
				if busy.Swap(true) {
					t.Errorf("worker %d has two tasks at once", number)
				}
				done[task.Number].Add(1)
				busy.Store(false)
				return nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for task := range done {
			if n := done[task].Load(); n != 1 {
				t.Errorf("%d workers: task %d was done %d times", workers, task, n)
			}
		}
		if want := min(max(workers, 1), tasks); made != want {
			t.Errorf("%d workers were made, want %d", made, want)
		}
		if len(told) != tasks || told[tasks-1] != tasks/2 || !slices.IsSorted(told) {
			t.Errorf("%d workers: told %v", workers, told)
		}
	}
}

// each returns a worker's function that takes no note of the worker.
func each(do func(*Task) error) func(int) func(*Task) error {
	return func(int) func(*Task) error { return do }
}

// TestFirstFailure: the first failure in order is the answer, though a later task fails before it
// and another waits until it is stopped.
func TestFirstFailure(t *testing.T) {
	begun, stopped := make(chan struct{}), make(chan struct{})
	err := Pool{Workers: 3}.Do(5, each(func(task *Task) error {
		switch task.Number {
		case 0:
			<-stopped
			if task.Stopped() {
				return errors.New("an earlier task was stopped by a later one's failure")
			}
			return errors.New("task 0")
		case 1:
			<-begun
			return errors.New("task 1")
		case 2:
			over := make(chan struct{})
			task.OnStop(func() { close(over) })
			close(begun)
			<-over
			if !task.Stopped() {
				t.Error("a task that was stopped does not know it")
			}
			late := false
			if task.OnStop(func() { late = true }); !late {
				t.Error("what comes after the stop is not called")
			}
			close(stopped)
			return errors.New("task 2")
		}
		return fmt.Errorf("task %d was begun behind a failure", task.Number)
	}))
	if err == nil || err.Error() != "task 0" {
		t.Errorf("got %v, want the error of task 0", err)
	}
}

// TestEnds: an error of a task or of progress ends the work.
func TestEnds(t *testing.T) {
	stop := errors.New("stop")
	for _, test := range []struct {
		name     string
		do       func(task int) error
		progress func(done int64) error
		want     int // tasks that are done
	}{
		{"a task's", func(task int) error {
			if task == 3 {
				return stop
			}
			return nil
		}, nil, 4},
		{"progress", func(int) error { return nil }, func(done int64) error {
			if done == 2 {
				return stop
			}
			return nil
		}, 2},
	} {
		done := 0
		err := Pool{Progress: test.progress}.Each(50, func(task int) error {
			done++
			return test.do(task)
		})
		if !errors.Is(err, stop) || done != test.want {
			t.Errorf("%s error: %v after %d tasks, want %d", test.name, err, done, test.want)
		}
	}
}

// TestInterrupted: no task begins behind one that has failed.
func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	var begun atomic.Int32
	err := Pool{Workers: 2}.Do(100, each(func(task *Task) error {
		begun.Add(1)
		if task.Number == 0 {
			return stop
		}
		over := make(chan struct{})
		task.OnStop(func() { close(over) })
		<-over
		return nil // a task may end well all the same
	}))
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want that of the first task", err)
	}
	if n := begun.Load(); n > 2 {
		t.Errorf("%d tasks were begun, though the first one failed", n)
	}
}

func TestNothingToDo(t *testing.T) {
	if err := (Pool{Workers: 4}).Do(0, nil); err != nil {
		t.Error(err)
	}
}
