//go:build kafka

package kafkatest

import (
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/producer"
)

// TestAPartitionForgetsAnIdleProducer: a partition that has forgotten a producer
// knows none of its sequence numbers. With the ids of a transactional producer it
// takes the next batch as it comes.
func TestAPartitionForgetsAnIdleProducer(t *testing.T) {
	t.Parallel()
	cluster := private(t, "producer.id.expiration.ms=1000",
		"producer.id.expiration.check.interval.ms=200")
	h := newHarnessAt(t, cluster.brokers()...)
	topic := h.topic("out", 1, nil)
	p := h.transactional(h.client, "id", producer.Options{})
	feed, err := producer.NewIdempotent(h.client, producer.Options{})
	h.ok(err)
	raw := h.topic("raw", 1, nil)
	for _, value := range []string{"first", "second", "third"} {
		h.produce(p, topic, 0, value)
		h.commit(p)
		_, err := feed.Send(t.Context(), raw, 1, batch(raw, 0, value).Records)
		h.ok(err)
		h.eventually("both are forgotten", func() bool {
			return len(h.producers(topic, 0)) == 0 &&
				len(h.producers(raw, 0)) == 0
		})
	}
	h.expect(topic, 0, "first", "second", "third")
	h.expect(raw, 0, "first", "second", "third")
	t.Log(h.spy)
}

// TestTheCoordinatorForgetsAnIdleProducer: a transactional id that is not used for
// transactional.id.expiration.ms is gone, with its producer id. The producer is
// told to abort and to begin again, and loses nothing.
func TestTheCoordinatorForgetsAnIdleProducer(t *testing.T) {
	t.Parallel()
	cluster := private(t, "transactional.id.expiration.ms=2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms=200")
	h := newHarnessAt(t, cluster.brokers()...)
	topic, group := h.topic("out", 1, nil), h.prefix+"group"
	p := h.transactional(h.client, "id", producer.Options{})
	transaction := func(value string, next int64) error {
		if _, err := p.Produce(t.Context(), batch(topic, 0, value)); err != nil {
			return err
		}
		if err := h.commitOffsets(p, group, member{generation: -1},
			map[producer.TopicPartition]int64{at(topic, 0): next}); err != nil {
			return err
		}
		_, err := p.Commit(t.Context())
		return err
	}
	h.ok(transaction("first", 1))
	start := time.Now()
	h.eventually("the id is forgotten", func() bool { return !h.knows(h.prefix + "id") })
	t.Logf("forgotten after %v", since(start))
	err := transaction("second", 2)
	t.Logf("the next call: %v; %v", err, h.spy)
	h.is(err, producer.ErrAbortable)
	if h.spy.saw(kafka.InvalidProducerIDMapping) == 0 {
		t.Error("code 49 was never seen")
	}
	// What the task does about it.
	if err := p.Abort(t.Context()); err != nil {
		t.Logf("abort: %v", err)
	}
	h.ok(p.Init(t.Context()))
	if got := h.committed(group, topic); got != 1 {
		t.Errorf("the group is at %d", got)
	}
	h.ok(transaction("second", 2))
	h.expect(topic, 0, "first", "second")
}

// TestAnIdleServiceIsForgotten leaves the service without work for longer than the
// coordinator and the partitions remember its producers. With the next records it
// is told so, begins again, and goes on.
func TestAnIdleServiceIsForgotten(t *testing.T) {
	t.Parallel()
	cluster := private(t, "producer.id.expiration.ms=1000",
		"producer.id.expiration.check.interval.ms=200",
		"transactional.id.expiration.ms=2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms=200")
	w := newHarnessAt(t, cluster.brokers()...).world(2, 10)
	o := w.options("service")
	w.createRaw()
	r := w.serve(o)
	for range 2 {
		w.feed(5)
		w.eventually("all is answered", func() bool { return w.answered(o) })
		w.eventually("its producers are forgotten",
			func() bool { return len(w.transactionalIDs()) == 0 })
	}
	w.feed(5)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	if lines := r.log.first(1, "Invalid Producer ID Mapping"); len(lines) == 0 {
		t.Error("the service never heard of it; the test shows nothing")
	} else {
		t.Log(lines[0])
	}
	w.exactlyOnce(o)
}
