package cli

import (
	"context"
	"errors"
	"testing"
)

// Work that hears of no interruption does not hold up who waits for it.
func TestInterruptibly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	forever := make(chan struct{})
	defer close(forever)
	cancel()
	if err := Interruptibly(ctx, func() error {
		<-forever
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	failed := errors.New("failed")
	if err := Interruptibly(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
