package demo

import (
	"context"
	"sync/atomic"

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

func (f *sampleFeed) flush(ctx context.Context) error {
	err := f.feeder.Flush(ctx)
	f.sent.Store(f.feeder.Sent())
	return err
}
