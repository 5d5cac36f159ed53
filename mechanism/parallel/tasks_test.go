package parallel

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// TestTasks: each task is done once, with a worker's own memory, all work is told, and an error of either ends it.
func TestTasks(t *testing.T) {
	for _, workers := range []int{0, 1, 3} {
		times, made := make([]int, 50), atomic.Int64{}
		var told []int64
		worker := func() func(int) (int64, error) {
			made.Add(1)
			return func(i int) (int64, error) {
				times[i]++
				return 2, nil
			}
		}
		err := Tasks(workers, len(times), worker, func(done int64) error {
			told = append(told, done)
			return nil
		})
		if err != nil || slices.Min(times) != 1 || slices.Max(times) != 1 || len(told) != 50 || told[49] != 100 || !slices.IsSorted(told) || made.Load() != int64(max(workers, 1)) {
			t.Errorf("%d workers: %v, tasks %v, told %v, %d made", workers, err, times, told, made.Load())
		}
	}
	stop := errors.New("stop")
	var done atomic.Int64
	worker := func() func(int) (int64, error) {
		return func(i int) (int64, error) {
			if done.Add(1); i == 3 {
				return 0, stop
			}
			return 1, nil
		}
	}
	if err := Tasks(1, 50, worker, nil); !errors.Is(err, stop) || done.Load() != 4 {
		t.Errorf("a task's error: %v after %d", err, done.Load())
	}
	done.Store(100)
	if err := Tasks(1, 3, worker, func(int64) error { return stop }); !errors.Is(err, stop) || done.Load() != 101 {
		t.Errorf("an error of progress: %v after %d", err, done.Load()-100)
	}
}
