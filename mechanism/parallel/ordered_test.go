package parallel

import (
	"errors"
	"runtime"
	"slices"
	"testing"
)

// squares yields tasks that square 0 to n-1; at the number of fails its task fails, and at that of
// ends an error comes in place of a task.
func squares(n, fails, ends int, failed, ended error) func(
	yield func(func() (int, error), error) bool,
) {
	return func(yield func(func() (int, error), error) bool) {
		for i := range n {
			if i == ends {
				yield(nil, ended)
				return
			}
			if !yield(func() (int, error) {
				if i == fails {
					return 0, failed
				}
				return i * i, nil
			}, nil) {
				return
			}
		}
	}
}

// TestOrdered: results come in the order of the tasks, up to the first error in that order, on any
// number of cores.
func TestOrdered(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	failed, ended, refused := errors.New("failed"), errors.New("ended"), errors.New("refused")
	for _, tt := range []struct {
		fails, ends, refuses, used int
		want                       error
	}{
		{-1, -1, -1, 100, nil},
		{0, -1, -1, 0, failed},
		{40, 41, -1, 40, failed},
		{41, 40, -1, 40, ended},
		{-1, 60, 60, 60, ended},
		{50, -1, 49, 49, refused},
		{-1, -1, 99, 99, refused},
	} {
		for _, cores := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(cores)
			var used []int
			err := Ordered(squares(100, tt.fails, tt.ends, failed, ended), func(v int) error {
				if len(used) == tt.refuses {
					return refused
				}
				used = append(used, v)
				return nil
			})
			if !errors.Is(err, tt.want) || len(used) != tt.used || !slices.IsSorted(used) {
				t.Errorf("%+v on %d cores: error %v after %d results", tt, cores, err, len(used))
			}
		}
	}
}

func TestProgress(t *testing.T) {
	planted := errors.New("planted")
	var calls []int64
	p := Progress{Total: 7, Report: func(done, total int64) error {
		calls = append(calls, done, total)
		if done == total {
			return planted
		}
		return nil
	}}
	if first, second := p.Add(3), p.Add(4); first != nil || !errors.Is(second, planted) ||
		!slices.Equal(calls, []int64{3, 7, 7, 7}) {
		t.Errorf("errors %v and %v, calls %v", first, second, calls)
	}
}
