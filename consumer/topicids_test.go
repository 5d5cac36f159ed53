package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestTopicIDs: a topic that is made anew has another id.
func TestTopicIDs(t *testing.T) {
	h := newGroupHarness(t, 2)
	read := func() [16]byte {
		t.Helper()
		ids, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic)
		h.OK(err)
		if len(ids) != 1 || ids[h.Topic] == [16]byte{} {
			t.Fatalf("ids %v", ids)
		}
		return ids[h.Topic]
	}
	first := read()
	if again := read(); again != first {
		t.Errorf("one topic has the ids %x and %x", first, again)
	}
	_, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic+"-b", h.Topic, h.Topic+"-a")
	var missing *MissingTopicsError
	if !errors.As(err, &missing) || !slices.Equal(missing.Topics, []string{h.Topic + "-a", h.Topic + "-b"}) {
		t.Errorf("missing topics: %v", err)
	}
	if ids, err := TopicIDs(t.Context(), h.Client, wiretest.Quick); err != nil || len(ids) != 0 {
		t.Errorf("no topic: %v, %v", ids, err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(h.Topic)
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, topic), []string{h.Topic}, 5000
	_, err = req.RequestWith(t.Context(), h.Franz())
	h.OK(err)
	h.Within("the deletion", func() bool {
		_, err := TopicIDs(t.Context(), h.Client, wiretest.Quick, h.Topic)
		return errors.As(err, &missing)
	})
	h.OK(CreateTopics(t.Context(), h.Client, wiretest.Quick, Topic{Name: h.Topic, Partitions: 2, Replication: 1}))
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
	f, err := NewFetcher(h.Client, h.Topic, 0, FetcherOptions{Options: wiretest.Quick})
	h.OK(err)
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	expect := func(when time.Time, want int64) {
		t.Helper()
		if got, err := f.OffsetAt(t.Context(), when); err != nil || got != want {
			t.Errorf("at %d: offset %d, %v, want %d", when.UnixMilli(), got, err, want)
		}
	}
	now := time.Now().UnixMilli()
	expect(at(now), 0) // an empty log
	w := h.Franz()
	for _, ms := range []int64{now, now + 10, now + 5, now + 20} {
		h.OK(w.ProduceSync(t.Context(), &kgo.Record{Topic: h.Topic, Value: []byte("v"), Timestamp: at(ms)}).FirstErr())
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
	tx, err := kgo.NewClient(kgo.SeedBrokers(h.Brokers...), kgo.TransactionalID(h.Topic))
	h.OK(err)
	defer tx.Close()
	h.OK(tx.BeginTransaction())
	h.OK(tx.ProduceSync(t.Context(), &kgo.Record{Topic: h.Topic, Value: []byte("v"), Timestamp: at(now + 30)}).FirstErr())
	expect(at(now+25), 4)
	h.OK(tx.EndTransaction(t.Context(), kgo.TryCommit))
	h.Within("the commit's marker", func() bool { // Kafka answers before it is written
		_, end, err := f.Bounds(t.Context())
		return err == nil && end == 6
	})
	expect(at(now+25), 4)
	expect(at(now+3600_000), 6)
	got, err := f.OffsetAt(t.Context(), at(now+31))
	h.OK(err)
	t.Logf("the marker's time leads to offset %d of 6", got)
}
