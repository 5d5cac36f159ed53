package service

import (
	"context"
	"errors"
	"time"

	"github.com/geodither/geodither/consumer/wire"
)

// Pauses between two looks at a cluster that is not ready: the first, doubled up
// to the last.
const (
	firstWait = time.Second
	lastWait  = 30 * time.Second
)

// until makes a call until it succeeds, or fails with an error that waiting does not mend. tell
// logs that it is tried again after a wait.
func until(ctx context.Context, call func() error, mends func(error) bool,
	tell func(cause error, wait time.Duration),
) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := call()
		if err == nil || !mends(err) {
			return err
		}
		tell(err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// patiently calls Kafka again, as long as that may help, and logs it.
func (s *Service) patiently(ctx context.Context, call func() error) error {
	return until(ctx, call, func(err error) bool { return errors.Is(err, wire.ErrTemporary) },
		func(cause error, wait time.Duration) {
			s.log.Warn("waiting to look at the first raw records", "cause", cause,
				"next_look_in", wait)
		})
}
