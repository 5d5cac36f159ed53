package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/fleet"
)

// sampleFeed writes the demo's fixes to the raw topic, at their pace times a factor, with a few
// records among them that no pipeline may choke on.
type sampleFeed struct {
	feeder *fleet.Feeder
	items  []feedItem
	speed  float64
	sent   atomic.Int64 // records acknowledged
	at     atomic.Int64 // event time of the last of them, ms
}

type feedItem struct {
	key, value []byte
	timeMS     int64
}

type feedResult struct {
	sent int64
	err  error
}

// run feeds all items. The Kafka timestamp is the event time, so that two runs write the same
// records.
func (f *sampleFeed) run(ctx context.Context) feedResult {
	began, first := time.Now(), f.items[0].timeMS
	for _, item := range f.items {
		if f.speed > 0 {
			due := began.Add(
				time.Duration(float64(item.timeMS-first) / f.speed * float64(time.Millisecond)))
			if wait := time.Until(due); wait > 0 {
				if err := f.flush(ctx); err != nil {
					return feedResult{f.sent.Load(), err}
				}
				if err := cli.Sleep(ctx, wait); err != nil {
					return feedResult{f.sent.Load(), err}
				}
			}
		}
		if err := f.feeder.Add(ctx, item.key, item.value, item.timeMS); err != nil {
			return feedResult{f.sent.Load(), err}
		}
		f.at.Store(item.timeMS)
		f.sent.Store(f.feeder.Sent())
	}
	err := f.flush(ctx)
	return feedResult{f.sent.Load(), err}
}

func (f *sampleFeed) flush(ctx context.Context) error {
	err := f.feeder.Flush(ctx)
	f.sent.Store(f.feeder.Sent())
	return err
}
