// Package parallel does independent tasks on several goroutines: numbered ones, or a sequence whose
// results are used in its order.
package parallel

import (
	"sync"
	"sync/atomic"
)

// Tasks does tasks numbered from 0 on so many goroutines, one at least. Each of them asks worker once for what does a task, with scratch memory of its
// own, and returns how much work it was. Progress, if it is set, is told after each task how much is done, one call at a time. The first error in
// time, of a task or of progress, ends the work and is returned.
func Tasks(workers, tasks int, worker func() func(task int) (work int64, err error), progress func(done int64) error) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		mu    sync.Mutex
		done  int64
		first error
	)
	ended := func(work int64, err error) (stop bool) {
		mu.Lock()
		defer mu.Unlock()
		done += work
		if err == nil && first == nil && progress != nil {
			err = progress(done)
		}
		if first == nil {
			first = err
		}
		return first != nil
	}
	for range max(workers, 1) {
		group.Go(func() {
			do := worker()
			for i := next.Add(1) - 1; i < int64(tasks); i = next.Add(1) - 1 {
				if ended(do(int(i))) {
					return
				}
			}
		})
	}
	group.Wait()
	return first
}
