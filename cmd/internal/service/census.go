package service

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/state"
)

const (
	// countEvery is the least time between two counts of the users of the same partitions.
	countEvery = time.Minute
	// countShare bounds the share of the time that counting takes: it reads every state.
	countShare = 50
	// countLook is how often it looks whether the partitions have changed.
	countLook = time.Second
)

// census counts the users with a state in an assigned partition, now and then: the store does not
// know how many there are.
type census struct {
	last atomic.Pointer[monitor.Store] // with what was counted last, and when; nil: nothing yet
}

// run counts until the context ends.
func (c *census) run(ctx context.Context, board *monitor.Board, store *state.Store) {
	look := time.NewTicker(countLook)
	defer look.Stop()
	var counted []int32
	var next time.Time
	for {
		if now := board.Restored(); !slices.Equal(now, counted) || !time.Now().Before(next) {
			began := time.Now()
			if users, err := countUsers(ctx, now, store); err == nil {
				at := began.UTC().Truncate(time.Second)
				c.last.Store(&monitor.Store{Users: users, CountedAt: at})
			} // else the store is closing, or has failed and reports it itself
			counted, next = now, time.Now().Add(max(countEvery, countShare*time.Since(began)))
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// countUsers counts the users of some partitions.
func countUsers(
	ctx context.Context, partitions []int32, store *state.Store,
) (users int64, err error) {
	for _, n := range partitions {
		err := store.Partition(n).Iterate(func(_, _ []byte) error {
			users++
			return ctx.Err()
		})
		if err != nil {
			return 0, err
		}
	}
	return users, ctx.Err()
}

// storeStats returns how the store is, whenever it is asked.
func (c *census) storeStats(store *state.Store) func() monitor.Store {
	return func() (shown monitor.Store) {
		if last := c.last.Load(); last != nil {
			shown = *last
		}
		s := store.Stats()
		shown.Bytes, shown.CacheHits, shown.CacheMisses = s.DiskBytes, s.CacheHits, s.CacheMisses
		return shown
	}
}
