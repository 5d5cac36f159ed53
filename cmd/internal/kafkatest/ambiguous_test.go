//go:build kafka

package kafkatest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/producer"
)

// TestACommitWithoutAnAnswer cuts the connection around EndTxn, before the broker
// gets it or after it has acted on it. Asked again, it says how it ended.
func TestACommitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, forward := range []bool{false, true} {
		network := newProxy(t)
		client, spied := h.newClient(network.dial)
		name := fmt.Sprintf("forwarded-%t", forward)
		topic, group := h.topic(name, 1, nil), h.prefix+name
		p := h.transactional(client, name, producer.Options{})
		want := []string{}
		for i := range 10 {
			record := strconv.Itoa(i)
			h.produce(p, topic, 0, record)
			h.ok(h.commitOffsets(p, group, member{generation: -1},
				map[producer.TopicPartition]int64{at(topic, 0): int64(i)}))
			network.cut(protocol.EndTxn, rule{times: 1 + i%3, forward: forward})
			if i%5 == 4 { // an abort is no less in doubt
				h.ok(p.Abort(t.Context()))
				continue
			}
			h.commit(p)
			want = append(want, record)
		}
		if n := network.count(); n != 18+1 {
			t.Errorf("%s: %d connections were cut", name, n)
		}
		h.expect(topic, 0, want...)
		if got := h.committed(group, topic); got != 8 {
			t.Errorf("%s: the group is at %d, want the last committed transaction's 8", name, got)
		}
		t.Logf("%s: %d cuts, %v", name, network.count(), spied)
	}
}

// TestACommitWithoutAnyAnswer loses the broker at EndTxn for good. The outcome is
// unknown to the producer, and Init and the committed offset tell it: records are
// written again if and only if they were not committed.
func TestACommitWithoutAnyAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, forward := range []bool{false, true} {
		network := newProxy(t)
		client, _ := h.newClient(network.dial)
		name := fmt.Sprintf("lost-%t", forward)
		topic, group := h.topic(name, 1, nil), h.prefix+name
		p := h.transactional(client, name, producer.Options{
			RequestTimeout: time.Second, RetryTimeout: 2 * time.Second,
		})
		transaction := func() error {
			if _, err := p.Produce(t.Context(), batch(topic, 0, "first", "second")); err != nil {
				return err
			}
			if err := h.commitOffsets(p, group, member{generation: -1},
				map[producer.TopicPartition]int64{at(topic, 0): 2}); err != nil {
				return err
			}
			_, err := p.Commit(t.Context())
			return err
		}
		network.cut(protocol.EndTxn, rule{times: 1, forward: forward, forGood: true})
		err := transaction()
		t.Logf("%s: %v", name, err)
		h.is(err, producer.ErrUnknownOutcome)
		_, err = p.Produce(t.Context(), batch(topic, 0, "third"))
		h.is(err, producer.ErrState)

		network.open()
		h.ok(p.Init(t.Context()))
		committed := h.committed(group, topic)
		if want := map[bool]int64{false: -1, true: 2}[forward]; committed != want {
			t.Errorf("%s: the group is at %d, want %d", name, committed, want)
		}
		if committed < 0 {
			h.ok(transaction())
		}
		h.expect(topic, 0, "first", "second")
	}
}

// TestAnAnswerToProduceIsLost: the batch is written or not, and the transaction is
// given up and done again under a new epoch.
func TestAnAnswerToProduceIsLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, forward := range []bool{false, true} {
		network := newProxy(t)
		client, _ := h.newClient(network.dial)
		name := fmt.Sprintf("produce-%t", forward)
		topic := h.topic(name, 1, nil)
		p := h.transactional(client, name, producer.Options{})
		h.produce(p, topic, 0, "first")
		h.commit(p)
		network.cut(protocol.Produce, rule{times: 1, forward: forward})
		_, err := p.Produce(t.Context(), batch(topic, 0, "second"))
		t.Logf("%s: %v", name, err)
		h.is(err, producer.ErrAbortable)
		h.ok(p.Abort(t.Context()))
		_, err = p.Produce(t.Context(), batch(topic, 0, "second"))
		h.is(err, producer.ErrState) // a sequence number is in doubt
		h.ok(p.Init(t.Context()))
		h.produce(p, topic, 0, "second")
		h.commit(p)
		h.expect(topic, 0, "first", "second")
		written := map[bool]int{false: 2, true: 3}[forward]
		if got := h.read(topic, 0, true); len(got) != written {
			t.Errorf("%s: uncommitted, it holds %q, want %d records", name, got, written)
		}
	}
}
