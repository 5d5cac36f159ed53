package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTopicIDs: a topic that is made anew has another id.
func TestTopicIDs(t *testing.T) {
	h := newGroupHarness(t, 2)
	read := func() [16]byte {
		t.Helper()
		ids, err := TopicIDs(t.Context(), h.client, quick, h.topic)
		h.ok(err)
		if len(ids) != 1 || ids[h.topic] == [16]byte{} {
			t.Fatalf("ids %v", ids)
		}
		return ids[h.topic]
	}
	first := read()
	if again := read(); again != first {
		t.Errorf("one topic has the ids %x and %x", first, again)
	}
	_, err := TopicIDs(t.Context(), h.client, quick, h.topic+"-b", h.topic, h.topic+"-a")
	var missing *MissingTopicsError
	if !errors.As(err, &missing) || !slices.Equal(missing.Topics, []string{h.topic + "-a", h.topic + "-b"}) {
		t.Errorf("missing topics: %v", err)
	}
	if ids, err := TopicIDs(t.Context(), h.client, quick); err != nil || len(ids) != 0 {
		t.Errorf("no topic: %v, %v", ids, err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(h.topic)
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, topic), []string{h.topic}, 5000
	_, err = req.RequestWith(t.Context(), h.franz())
	h.ok(err)
	h.within("the deletion", func() bool {
		_, err := TopicIDs(t.Context(), h.client, quick, h.topic)
		return errors.As(err, &missing)
	})
	h.ok(CreateTopics(t.Context(), h.client, quick, Topic{Name: h.topic, Partitions: 2, Replication: 1}))
	if again := read(); again == first {
		t.Errorf("the topic that was made anew still has the id %x", again)
	}
}

func TestTopicIDsAreReadWhole(t *testing.T) {
	for size := range 40 {
		if err := readTopicIDs("test", make([]byte, size), map[string][16]byte{}); size < 12 && !errors.Is(err, wire.ErrTemporary) {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
	}
}

// TestOffsetAt goes by the records' own times, at which nothing is in order.
func TestOffsetAt(t *testing.T) {
	h := newGroupHarness(t, 1)
	f, err := NewFetcher(h.client, h.topic, 0, FetcherOptions{Options: quick})
	h.ok(err)
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	expect := func(when time.Time, want int64) {
		t.Helper()
		if got, err := f.OffsetAt(t.Context(), when); err != nil || got != want {
			t.Errorf("at %d: offset %d, %v, want %d", when.UnixMilli(), got, err, want)
		}
	}
	now := time.Now().UnixMilli()
	expect(at(now), 0) // an empty log
	w := h.franz()
	for _, ms := range []int64{now, now + 10, now + 5, now + 20} {
		h.ok(w.ProduceSync(t.Context(), &kgo.Record{Topic: h.topic, Value: []byte("v"), Timestamp: at(ms)}).FirstErr())
	}
	expect(time.Time{}, 0)
	expect(at(-1), 0)
	expect(at(now), 0)
	expect(at(now+1), 1)
	expect(at(now+10), 1)
	expect(at(now+10).Add(time.Microsecond), 3)
	expect(at(now+11), 3)
	expect(at(now+21), 4)

	// Of a transaction that is not committed nothing can be read yet.
	tx, err := kgo.NewClient(kgo.SeedBrokers(h.brokers...), kgo.TransactionalID(h.topic))
	h.ok(err)
	defer tx.Close()
	h.ok(tx.BeginTransaction())
	h.ok(tx.ProduceSync(t.Context(), &kgo.Record{Topic: h.topic, Value: []byte("v"), Timestamp: at(now + 30)}).FirstErr())
	expect(at(now+25), 4)
	h.ok(tx.EndTransaction(t.Context(), kgo.TryCommit))
	h.within("the commit's marker", func() bool { // Kafka answers before it is written
		_, end, err := f.Bounds(t.Context())
		return err == nil && end == 6
	})
	expect(at(now+25), 4)
	expect(at(now+3600_000), 6)
	got, err := f.OffsetAt(t.Context(), at(now+31))
	h.ok(err)
	t.Logf("the marker's time leads to offset %d of 6", got)
}
