package consumer

import (
	"errors"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// TestOffsetAt goes by the records' own times, at which nothing is in order.
func TestOffsetAt(t *testing.T) {
	h := wiretest.OwnTopic(t)
	h.OK(admin.CreateTopics(t.Context(), h.Client, wiretest.Quick,
		admin.Topic{Name: h.Topic, Partitions: 1, Replication: 1}))
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
		h.OK(w.ProduceSync(t.Context(),
			&kgo.Record{Topic: h.Topic, Value: []byte("v"), Timestamp: at(ms)}).FirstErr())
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
	h.OK(tx.ProduceSync(t.Context(),
		&kgo.Record{Topic: h.Topic, Value: []byte("v"), Timestamp: at(now + 30)}).FirstErr())
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

func TestCommitted(t *testing.T) {
	h := newHarness(t)
	read := func(group string, partition int32) (int64, bool) {
		t.Helper()
		offset, found, err := Committed(t.Context(), h.Client, wiretest.Quick, group, "in",
			partition)
		h.OK(err)
		return offset, found
	}
	if _, found := read("nobody", 0); found {
		t.Error("a group that does not exist has an offset")
	}
	_, err := h.Client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "group", GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{"in": {
			{Partition: 1, Offset: 42},
			{Partition: 2, Offset: 0},
		}},
	})
	h.OK(err)
	if offset, found := read("group", 1); !found || offset != 42 {
		t.Errorf("offset %d, %v", offset, found)
	}
	if offset, found := read("group", 2); !found || offset != 0 {
		t.Errorf("an offset of 0: %d, %v", offset, found)
	}
	if offset, found := read("group", 3); found {
		t.Errorf("a partition without an offset has %d", offset)
	}
	for _, code := range []int16{14, 15, 16, 88} {
		fault := h.Refuse(kmsg.OffsetFetch, code, 2)
		if offset, _ := read("group", 1); offset != 42 || fault.Hits() != 2 {
			t.Errorf("refused with %d: offset %d after %d attempts", code, offset, fault.Hits())
		}
	}
	h.Refuse(kmsg.OffsetFetch, 30, 1)
	_, _, err = Committed(t.Context(), h.Client, wiretest.Quick, "group", "in", 1)
	h.Is(err, kafka.GroupAuthorizationFailed)
}

// An offset that a transaction is about to commit is waited for. kafka-go's own
// OffsetFetch returns the old one, which would process records twice.
func TestCommittedWaitsForPendingTransactions(t *testing.T) {
	h := newHarness(t)
	w := h.Writer("w")
	pend := func(offset int64) {
		t.Helper()
		id, epoch, err := w.ProducerID(t.Context())
		h.OK(err)
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "w", id, epoch, "group"
		added, err := add.RequestWith(t.Context(), w)
		h.OK(errors.Join(err, kerr.ErrorForCode(added.ErrorCode)))
		commit := kmsg.NewPtrTxnOffsetCommitRequest()
		commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch,
			commit.Generation = "w", "group", id, epoch, -1
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		topic.Topic, topic.TopicID, part.Partition, part.Offset = "in", h.TopicInfo("in").TopicID,
			0, offset
		topic.Partitions = append(topic.Partitions, part)
		commit.Topics = append(commit.Topics, topic)
		committed, err := commit.RequestWith(t.Context(), w)
		h.OK(errors.Join(err, kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)))
	}
	_, err := h.Client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "group", GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{"in": {{Partition: 0, Offset: 6}}},
	})
	h.OK(err)
	h.OK(w.BeginTransaction())
	h.Write(w, "in", 3, "x")
	pend(7)
	_, _, err = Committed(t.Context(), h.Client, wiretest.Impatient, "group", "in", 0)
	h.Is(err, kafka.UnstableOffsetCommit)
	h.Is(err, wire.ErrTemporary)
	naive, err := h.Client.OffsetFetch(t.Context(),
		&kafka.OffsetFetchRequest{GroupID: "group", Topics: map[string][]int{"in": {0}}})
	h.OK(err)
	if parts := naive.Topics["in"]; len(parts) != 1 || parts[0].CommittedOffset != 6 {
		t.Errorf("kafka-go reads %v and not the old offset: this test proves nothing", parts)
	}
	h.OK(w.EndTransaction(t.Context(), kgo.TryCommit))
	offset, found, err := Committed(t.Context(), h.Client, wiretest.Quick, "group", "in", 0)
	h.OK(err)
	if !found || offset != 7 {
		t.Errorf("offset %d, %v", offset, found)
	}
}

// TestEpochEnd: a fetch says which leader appended its last batch, and the leader where that one's
// records end. It does not know an epoch that had none, and disowns one that is still to come.
func TestEpochEnd(t *testing.T) {
	h := newHarness(t)
	f := h.fetcher("in", 0, FetcherOptions{})
	w := h.Writer("")
	elect := func() { h.OK(h.MoveTopicPartition("in", 0, 1)) }
	if got, err := f.Fetch(t.Context(), 0); err != nil || got.Epoch != noEpoch {
		t.Errorf("an empty log: epoch %d, %v", got.Epoch, err)
	}
	h.Write(w, "in", 0, "a", "b", "c")
	elect()
	h.Write(w, "in", 0, "d", "e")
	got, err := f.Fetch(t.Context(), 0)
	h.OK(err)
	last := got.Epoch
	elect()
	for epoch, want := range map[int32]int64{last - 1: 3, last: -1, last + 9: 0, noEpoch: -1} {
		if end, err := f.EpochEnd(t.Context(), epoch); err != nil || end != want {
			t.Errorf("epoch %d ends at %d, %v, want %d", epoch, end, err, want)
		}
	}
	h.Write(w, "in", 0, "f")
	if end, err := f.EpochEnd(t.Context(), last); err != nil || end != 5 {
		t.Errorf("epoch %d ends at %d, %v, want 5", last, end, err)
	}
	h.Refuse(kmsg.OffsetForLeaderEpoch, kerr.TopicAuthorizationFailed.Code, 1)
	_, err = f.EpochEnd(t.Context(), last)
	h.Is(err, kafka.TopicAuthorizationFailed)
	for n := range 20 {
		if _, err := readEpochEnd("ask", make([]byte, n)); err == nil {
			t.Errorf("an answer of %d bytes is taken", n)
		}
	}
}
