package mobility

import (
	"iter"
	"runtime"
)

// inOrder runs tasks on all cores and gives their results to use, one after the other in the order of the tasks. It holds
// a few results more than there are cores. The first error in that order, of a task, of use, or that comes in place of a
// task, ends it; no task runs any more when it returns.
func inOrder[T any](tasks iter.Seq2[func() (T, error), error], use func(T) error) error {
	type result struct {
		value T
		err   error
	}
	var waiting []chan result
	// oldest waits for the oldest task and uses its result, unless there was an error before.
	oldest := func(before error) error {
		r := <-waiting[0]
		waiting = waiting[1:]
		switch {
		case before != nil:
			return before
		case r.err != nil:
			return r.err
		}
		return use(r.value)
	}
	var ended, failed error
	for task, err := range tasks {
		if ended = err; err != nil {
			break
		}
		// Buffered: no task waits for its result to be used.
		done := make(chan result, 1)
		waiting = append(waiting, done)
		go func() {
			value, err := task()
			done <- result{value, err}
		}()
		if len(waiting) > runtime.GOMAXPROCS(0) {
			if failed = oldest(nil); failed != nil {
				break
			}
		}
	}
	for len(waiting) > 0 {
		failed = oldest(failed)
	}
	if failed != nil {
		return failed
	}
	return ended
}
