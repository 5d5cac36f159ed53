//go:build kafka

package kafkatest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// TestADeathInATransaction kills an instance between its writing and its commit.
// Committed readers wait at the open transaction: until the broker times it out,
// or until a successor fences it. Either way nothing is lost and nothing is twice.
func TestADeathInATransaction(t *testing.T) {
	t.Parallel()
	for _, succeeded := range []bool{false, true} {
		t.Run(fmt.Sprintf("successor-%t", succeeded), func(t *testing.T) {
			t.Parallel()
			w := newHarness(t).world(1, 30)
			o := w.options("service")
			o.SessionTimeout, o.TransactionTimeout = 2*time.Second, 6*time.Second
			if succeeded {
				// more than anybody waits here: it is the successor who ends it
				o.TransactionTimeout = 10 * time.Minute
			}
			w.createRaw()
			w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
			first := w.spawn(o, "first")
			w.eventually("it has joined",
				func() bool { return strings.Contains(first.log.String(), "partitions assigned") })
			var second *process
			if succeeded {
				second = w.spawn(o, "second")
				w.eventually("it has joined too",
					func() bool {
						return strings.Contains(second.log.String(), "partitions assigned")
					})
				if strings.Contains(second.log.String(), "partitions=[0]") {
					first, second = second, first
				}
			}
			w.frozenInTransaction(first, o.Topics.Sanitized)
			start := time.Now()
			first.signal(syscall.SIGKILL)
			w.settled(o.Topics.Sanitized, 0)
			t.Logf("transaction timeout %v, session timeout %v: committed readers waited %v "+
				"after the death",
				o.TransactionTimeout, o.SessionTimeout, since(start))
			if !succeeded {
				second = w.spawn(o, "second")
			}
			w.eventually("all is answered", func() bool { return w.answered(o) })
			second.terminate()
			w.exactlyOnce(o)
		})
	}
}

// frozenInTransaction feeds an instance and freezes it again and again, until it
// stands still with an open transaction.
func (w *world) frozenInTransaction(p *process, topic string) {
	w.Helper()
	stable, all := w.fetcher(topic, 0, false), w.fetcher(topic, 0, true)
	open := func() bool {
		_, end, err := stable.Bounds(w.Context())
		w.ok(err)
		_, high, err := all.Bounds(w.Context())
		w.ok(err)
		return end < high
	}
	w.eventually("it stands still in a transaction", func() bool {
		w.feed(3)
		for deadline := time.Now().Add(5 * time.Second); !open(); {
			if time.Now().After(deadline) {
				return false
			}
		}
		p.signal(syscall.SIGSTOP)
		time.Sleep(200 * time.Millisecond) // a commit that was under way comes through
		if open() {
			return true
		}
		p.signal(syscall.SIGCONT)
		return false
	})
}
