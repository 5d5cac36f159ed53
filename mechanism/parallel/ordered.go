package parallel

import (
	"iter"
	"runtime"
)

// Ordered runs tasks on all cores and passes their results to use, one after the other in the order
// of the tasks. It holds at most a few more results than there are cores. Ordered stops at the
// first error in that order, whether it comes from a task, from use, or from the sequence in place
// of a task. No task is running when it returns.
func Ordered[T any](tasks iter.Seq2[func() (T, error), error], use func(T) error) error {
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

// Progress adds up how much of a long computation is done and reports it. It belongs to one
// goroutine, such as the one that uses the results of [Ordered].
type Progress struct {
	// Report is told the work done and the total, in units of the computation's own. The error that
	// it returns ends the computation. nil reports nothing.
	Report func(done, total int64) error
	Total  int64

	done int64
}

// Add adds n units to the work done. It returns what Report returns.
func (p *Progress) Add(n int) error {
	if p.Report == nil {
		return nil
	}
	p.done += int64(n)
	return p.Report(p.done, p.Total)
}
