//go:build kafka

package kafkatest

import (
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// TestFailover kills one of two instances, and measures how long it takes until the other one has
// answered every fix.
func TestFailover(t *testing.T) {
	t.Parallel()
	const vehicles, partitions = 1000, 4
	w := newHarness(t).world(partitions, vehicles)
	o := w.options("service")
	o.MaxRecords, o.MaxInterval = 5000, 100*time.Millisecond
	o.TransactionTimeout = 10 * time.Second
	w.createRaw()
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	join := func(name string) *process {
		p := w.start(w.config(o, name, ""), name)
		w.eventually(name+" has partitions", func() bool { return p.log.has("state restored") })
		return p
	}
	first, second := join("first"), join("second")
	w.feed(3)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	first.signal(syscall.SIGKILL)
	killed := time.Now()
	w.feed(1)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	t.Logf("session timeout %v: all was answered %v after the kill", o.SessionTimeout,
		since(killed))
	second.terminate()
	w.exactlyOnce(o)
}
