package service

import (
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/consumer/task"
)

// timed is a processor that says when it has processed a record, and whose time is measured: what
// a service spends on records beside waiting for them and writing them. No result depends on it.
type timed struct {
	task.Processor
	busy  *atomic.Int64 // nanoseconds
	board *monitor.Partition
}

// Process implements task.Processor.
func (t timed) Process(rec task.Record, state []byte, fx *task.Effects) error {
	begun := time.Now()
	err := t.Processor.Process(rec, state, fx)
	t.busy.Add(int64(time.Since(begun)))
	t.board.Processed(rec.Timestamp)
	return err
}
