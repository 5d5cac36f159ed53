package traces

import (
	"context"

	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/schemas"
)

// lane is what one goroutine reads with: the buffers that its files share, one
// after another, and what it left out of them.
type lane struct {
	source source
	names  names
	skips  Skips
}

// Parallel reads the files as Fixes does, up to so many workers at a time, and
// gives each fix to take, with the number of its worker, from 0. A worker reads
// one file after another, each from its start to its end, and calls take from
// one goroutine; those of different workers call it at the same time. A single
// file cannot be split: it is one worker's.
//
// What is skipped, and the error, are those of Fixes: of several files that
// cannot be read, or bad lines in strict reading, the first in the order of the
// files. An error of take ends the reading likewise. Memory is 200 kB a worker.
func (r *Reader) Parallel(workers int, take func(worker int, fix schemas.Raw) error) error {
	if r.used {
		return errUsed
	}
	r.used = true
	lanes := make([]lane, max(1, min(workers, len(r.files))))
	err := parallel.Pool{Workers: len(lanes)}.Do(len(r.files), func(worker int) func(*parallel.Task) error {
		return func(t *parallel.Task) error {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			ctx, stop := context.WithCancel(r.ctx)
			defer stop()
			t.OnStop(stop)
			var refused error
			err := r.read(ctx, &lanes[worker], t.Number, func(fix schemas.Raw, _ error) bool {
				refused = take(worker, fix)
				return refused == nil
			})
			if refused != nil {
				return refused
			}
			return err
		}
	})
	parts := make([]*Skips, len(lanes))
	for i := range lanes {
		parts[i] = &lanes[i].skips
	}
	r.lane.skips = Merge(parts...)
	return err
}
