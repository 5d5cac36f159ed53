//go:build kafka

package kafkatest

import (
	"testing"
	"time"

	"github.com/geodither/geodither/producer"
)

// TestASilentProducerIsTimedOut leaves a transaction open. Committed readers wait
// behind it until the broker aborts it; then they go on, and the silent producer
// is fenced. A successor's Init frees them at once.
func TestASilentProducerIsTimedOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const timeout = 3 * time.Second
	feed, err := producer.NewIdempotent(h.client, producer.Options{})
	h.ok(err)
	for _, succeeded := range []bool{false, true} {
		name := map[bool]string{false: "timeout", true: "successor"}[succeeded]
		topic, group := h.topic(name, 1, nil), h.prefix+name
		p := h.transactional(h.client, name, producer.Options{TransactionTimeout: timeout})
		h.produce(p, topic, 0, "silent")
		h.ok(h.commitOffsets(p, group, member{generation: -1},
			map[producer.TopicPartition]int64{at(topic, 0): 1}))
		start := time.Now()
		_, err := feed.Send(t.Context(), topic, 1, batch(topic, 0, "behind").Records)
		h.ok(err)
		if got := h.read(topic, 0, false); len(got) != 0 {
			t.Errorf("%s: committed readers see %q beside an open transaction", name, got)
		}
		if succeeded {
			next := h.transactional(h.client, name, producer.Options{TransactionTimeout: timeout})
			h.expect(topic, 0, "behind")
			t.Logf("a successor's Init frees committed readers %v after the last sign of life",
				since(start))
			h.produce(next, topic, 0, "successor")
			h.commit(next)
			h.expect(topic, 0, "behind", "successor")
		} else {
			h.expect(topic, 0, "behind")
			t.Logf("with a transaction timeout of %v committed readers go on %v after the last "+
				"sign of life", timeout, since(start))
		}
		_, err = p.Commit(t.Context())
		t.Logf("%s: the silent producer's commit: %v", name, err)
		h.is(err, producer.ErrFenced)
		if got := h.committed(group, topic); got != -1 {
			t.Errorf("%s: the group is at %d by an aborted transaction", name, got)
		}
	}
}
