package producer

import (
	"context"
	"time"
)

// backoff is the pause between two attempts: it doubles, up to a bound. There
// is no jitter: a worker has its partition to itself, so that there is no crowd
// to spread.
type backoff struct{ next, longest time.Duration }

// wait pauses, and returns false if the context ended first.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(2*b.next, b.longest)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
