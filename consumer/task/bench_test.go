package task

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// distant is a broker whose answers take a while, as those of Produce and of Commit do.
type distant struct {
	idleTxn
	takes time.Duration
}

func (d distant) Produce(ctx context.Context, out Outputs) (int64, error) {
	time.Sleep(d.takes)
	return d.idleTxn.Produce(ctx, out)
}

func (d distant) Commit(context.Context, int64) (int64, error) {
	time.Sleep(d.takes)
	return 0, nil
}

// BenchmarkConsume is the loop alone: one iteration is one record. The processor works for step,
// and each call of Transactions takes a while without working.
func BenchmarkConsume(b *testing.B) {
	const (
		step       = 15 * time.Microsecond
		fetched    = 500
		maxRecords = 1000
	)
	for _, takes := range []time.Duration{0, time.Millisecond, 4 * time.Millisecond} {
		b.Run(fmt.Sprintf("call=%v", takes), func(b *testing.B) {
			log := &endless{batch: make([]Record, fetched), left: b.N/fetched + 2}
			for i := range log.batch {
				log.batch[i] = Record{Key: fmt.Appendf(nil, "user%d", i), Value: make([]byte, 60)}
			}
			state := make([]byte, 400)
			process := processFunc(func(rec Record, _ []byte, fx *Effects) error {
				for begun := time.Now(); time.Since(begun) < step; {
				}
				fx.State = state
				fx.Output = append(fx.Output, Message{Key: rec.Key, Value: state[:170]})
				return nil
			})
			t, err := New(Dependencies{
				Input: log, Changelog: log, Transactions: distant{takes: takes},
				Store: emptyStore{}, Processor: process,
			}, Options{MaxRecords: maxRecords})
			if err != nil {
				b.Fatal(err)
			}
			t.state, t.opened = Running, true
			ctx, cancel := context.WithCancel(b.Context())
			log.cancel = cancel
			b.ReportAllocs()
			begun := cpuTime()
			b.ResetTimer()
			if err := t.consume(ctx, ctx); err != nil && ctx.Err() == nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpuTime()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
