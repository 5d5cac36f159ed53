package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// OneWish is the time after the first signal in which another one counts as the same wish. Some
// senders send two at once: coreutils' timeout signals the command and then its whole group, and
// a terminal and a supervisor may both pass one Ctrl-C on.
const OneWish = 2 * time.Second

// UntilSignal returns a context that SIGTERM or Ctrl-C ends: the command is asked to finish well.
// Further signals are ignored for two seconds. A user who sends one after that cannot wait, and the
// process ends at once, as the system ends it.
func UntilSignal(parent context.Context) context.Context {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(OneWish, stop) })
	return ctx
}

// Interruptibly does work that knows no context. When the context ends, it returns at once and the
// work goes on until the program ends: the caller must not look at what the work assigns then.
func Interruptibly(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sleep waits for a time, or for the end of the context, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
