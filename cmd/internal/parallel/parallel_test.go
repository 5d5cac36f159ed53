package parallel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// Every task is done once, by a worker that does nothing else meanwhile.
func TestAllOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 200} {
		const tasks = 100
		var done [tasks]atomic.Int32
		busy := make([]atomic.Bool, workers)
		err := InOrder(t.Context(), workers, tasks, func(_ context.Context, worker, task int) error {
			if busy[worker].Swap(true) {
				t.Errorf("worker %d has two tasks at once", worker)
			}
			done[task].Add(1)
			busy[worker].Store(false)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for task := range done {
			if n := done[task].Load(); n != 1 {
				t.Errorf("%d workers: task %d was done %d times", workers, task, n)
			}
		}
	}
}

// The first failure in order is the answer, though a later task fails before it
// and another waits until it is told to stop.
func TestFirstFailure(t *testing.T) {
	begun, stopped := make(chan struct{}), make(chan struct{})
	err := InOrder(t.Context(), 3, 5, func(ctx context.Context, _, task int) error {
		switch task {
		case 0:
			<-stopped
			if ctx.Err() != nil {
				return errors.New("an earlier task was stopped by a later one's failure")
			}
			return errors.New("task 0")
		case 1:
			<-begun
			return errors.New("task 1")
		case 2:
			close(begun)
			<-ctx.Done()
			close(stopped)
			return ctx.Err()
		}
		return fmt.Errorf("task %d was begun behind a failure", task)
	})
	if err == nil || err.Error() != "task 0" {
		t.Errorf("got %v, want the error of task 0", err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var begun atomic.Int32
	err := InOrder(ctx, 2, 100, func(ctx context.Context, _, _ int) error {
		begun.Add(1)
		cancel()
		<-ctx.Done()
		return nil // a task may end well all the same
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context ended", err)
	}
	if n := begun.Load(); n > 2 {
		t.Errorf("%d tasks were begun, though the first two ended the context", n)
	}
}

func TestNothingToDo(t *testing.T) {
	if err := InOrder(t.Context(), 4, 0, nil); err != nil {
		t.Error(err)
	}
}
