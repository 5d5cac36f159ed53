package servicetest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// Running is a service at work, or whatever else is run beside a test.
type Running struct {
	Log    *Log
	cancel context.CancelFunc
	done   chan struct{}
	Err    error // when it is done
}

// Run runs something with its log captured. It is stopped at the test's end if not
// before.
func Run(tb testing.TB, log *Log, run func(context.Context) error) *Running {
	tb.Helper()
	r := &Running{Log: log, done: make(chan struct{})}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(tb.Context()))
	go func() {
		r.Err = run(ctx)
		close(r.done)
	}()
	tb.Cleanup(func() {
		r.cancel()
		<-r.done
	})
	return r
}

// Stop ends the service as a signal would, and requires that it ends well.
func (r *Running) Stop(tb testing.TB) {
	tb.Helper()
	r.cancel()
	if err := r.Wait(tb); err != nil {
		tb.Fatalf("the service did not stop cleanly: %v\n%s", err, r.Log)
	}
	if bytes.Contains(r.Log.Bytes(), []byte("level=ERROR")) {
		tb.Errorf("the service logged errors:\n%s", r.Log)
	}
}

// Wait waits for the service's end, and returns what it ended with.
func (r *Running) Wait(tb testing.TB) error {
	tb.Helper()
	select {
	case <-r.done:
		return r.Err
	case <-time.After(Patience):
		tb.Fatalf("the service does not end\n%s", r.Log)
		return nil
	}
}

// Cancel stops the service as a signal would, and does not wait.
func (r *Running) Cancel() { r.cancel() }

// Done is closed when the service has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

func (r *Running) beside() *Running { return r }

// AtWork is a running service in whatever type.
type AtWork interface{ beside() *Running }

// Log is a log in memory, everything from debug up.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (c *Log) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

// Bytes returns a copy of the text.
func (c *Log) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text.Bytes())
}

// String returns the text.
func (c *Log) String() string { return string(c.Bytes()) }

// Logger returns a logger that writes here.
func (c *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Await waits until a condition holds, while services work.
func Await(tb testing.TB, what string, holds func() bool, services ...AtWork) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !holds() {
		for _, s := range services {
			r := s.beside()
			select {
			case <-r.done:
				tb.Fatalf("a service ended before %s: %v\n%s", what, r.Err, r.Log)
			default:
			}
		}
		if time.Now().After(deadline) {
			for _, s := range services {
				tb.Logf("a service's log:\n%s", s.beside().Log)
			}
			tb.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
