//go:build kafka

package kafkatest

import (
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/producer"
)

// TestTooFewReplicas freezes a follower of a partition that wants all three
// replicas. A batch that is sent before the leader has noticed is appended and
// refused; one that is sent after that is refused at once. Both are sent again
// with the same sequence number until the follower is back, and are there once.
func TestTooFewReplicas(t *testing.T) {
	h, cluster := newHarness(t), shared(t)
	if len(h.brokers) != 3 {
		t.Fatalf("%d brokers, want 3: start them with kafka.sh up --nodes 3", len(h.brokers))
	}
	topic := h.replicated("out", 1, 3, map[string]string{"min.insync.replicas": "3"})
	p := h.transactional(h.client, "id", producer.Options{
		RequestTimeout: 6 * time.Second, RetryTimeout: patience,
	})
	h.produce(p, topic, 0, "before")

	// A follower that nobody else needs here.
	leader, coordinator := h.partition(topic, 0).Leader, h.coordinator(h.prefix+"id", 1)
	follower := int32(1)
	for follower == leader || follower == coordinator {
		follower++
	}
	start := time.Now()
	thaw := cluster.frozen(follower)
	done := make(chan error, 1)
	send := func(value string) {
		go func() {
			_, err := p.Produce(t.Context(), batch(topic, 0, value))
			done <- err
		}()
	}
	send("unnoticed")
	refusals := func() int {
		return h.spy.saw(kafka.NotEnoughReplicas,
			protocol.Produce) + h.spy.saw(kafka.NotEnoughReplicasAfterAppend, protocol.Produce) +
			h.spy.saw(kafka.RequestTimedOut, protocol.Produce)
	}
	h.eventually("the leader has given the follower up",
		func() bool { return len(h.partition(topic, 0, leader).ISR) < 3 })
	h.eventually("the batch is refused", func() bool { return refusals() > 0 || len(done) > 0 })
	t.Logf("while the follower was being noticed, for %v: %v", since(start), h.spy)
	thaw()
	start = time.Now()
	h.ok(<-done)
	t.Logf("the batch is acknowledged %v after the follower goes on", since(start))

	h.eventually("the follower is back",
		func() bool { return len(h.partition(topic, 0, leader).ISR) == 3 })
	t.Logf("all replicas are in sync %v after the follower goes on", since(start))
	start = time.Now()
	thaw = cluster.frozen(follower)
	h.eventually("the leader has given the follower up",
		func() bool { return len(h.partition(topic, 0, leader).ISR) < 3 })
	before := h.spy.saw(kafka.NotEnoughReplicas, protocol.Produce)
	send("noticed")
	h.eventually("the batch is refused",
		func() bool { return h.spy.saw(kafka.NotEnoughReplicas, protocol.Produce) > before+2 })
	thaw()
	h.ok(<-done)
	h.commit(p)
	t.Logf("with the next batch, after %v: %v", since(start), h.spy)

	h.expect(topic, 0, "before", "unnoticed", "noticed")
	if got := h.read(topic, 0, true); len(got) != 3 {
		t.Errorf("uncommitted, the partition holds %q", got)
	}
	h.eventually("the follower is back",
		func() bool { return len(h.partition(topic, 0, leader).ISR) == 3 })
}
