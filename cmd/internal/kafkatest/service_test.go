//go:build kafka

package kafkatest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/service"
)

// running is a service at work in this process.
type running struct {
	t      *testing.T
	log    *captured
	cancel context.CancelFunc
	done   chan struct{}
	err    error // when it is done
}

// serve runs a service with its log captured. It is stopped at the test's end if
// not before.
func (h *harness) serve(o service.Options) *running {
	h.Helper()
	r := &running{t: h.T, log: new(captured), done: make(chan struct{})}
	o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := service.New(o)
	h.ok(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.Context()))
	r.cancel = cancel
	go func() {
		r.err = s.Run(ctx)
		close(r.done)
	}()
	h.Cleanup(func() {
		cancel()
		<-r.done
		if h.Failed() {
			h.Logf("the service ended with %v; its log:\n%s", r.err, r.log)
		}
	})
	return r
}

// stop ends the service as a signal would, and requires that it ends well.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.wait(); err != nil {
		r.t.Fatalf("the service did not stop cleanly: %v", err)
	}
	if r.log.has("level=ERROR") {
		r.t.Error("the service logged errors")
	}
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		r.t.Fatal("the service does not end")
		return nil
	}
}

// says waits until the log holds a text.
func (h *harness) says(r *running, text string) {
	h.Helper()
	h.eventually("the log says "+text, func() bool { return r.log.has(text) || r.ended() })
	if r.ended() && !r.log.has(text) {
		h.Fatalf("the service has ended: %v", r.err)
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// captured is a log in memory.
type captured struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *captured) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *captured) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func (c *captured) has(text string) bool { return strings.Contains(c.String(), text) }

// first are the first n lines with a text, for the log of a test.
func (c *captured) first(n int, text string) []string {
	var found []string
	for l := range strings.Lines(c.String()) {
		if strings.Contains(l, text) && len(found) < n {
			found = append(found, strings.TrimSpace(l))
		}
	}
	return found
}
