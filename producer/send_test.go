package producer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func (h *harness) idempotent(o Options) *Idempotent {
	h.Helper()
	p, err := NewIdempotent(h.Client, o)
	h.OK(err)
	return p
}

func TestSplitBatchesKeepTheOrder(t *testing.T) {
	h := newHarness(t)
	o := quick
	o.MaxBatchBytes = minBatchBytes
	p := h.started("worker", o)
	offsets, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 300)},
		Batch{TopicPartition{"log", 1}, values(0, 5)},
		Batch{TopicPartition{"out", 0}, values(300, 50)})
	h.OK(err)
	if offsets[TopicPartition{"out", 0}] != 349 || offsets[TopicPartition{"log", 1}] != 4 {
		t.Errorf("last offsets %v", offsets)
	}
	if n := h.Network.Sent(protocol.Produce); n < 5 {
		t.Errorf("only %d requests: nothing was split", n)
	}
	_, err = p.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, names(0, 350)...)
	h.expect("log", 1, names(0, 5)...)
}

func TestCompressedBatchesAreRead(t *testing.T) {
	h := newHarness(t)
	for _, codec := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		o := quick
		o.Compression = codec
		p := h.idempotent(o)
		_, err := p.Produce(t.Context(),
			Batch{TopicPartition{"out", int32(codec) - 1}, values(0, 100)})
		h.OK(err)
		h.expect("out", int32(codec)-1, names(0, 100)...)
	}
}

func TestOneRequestForEachLeader(t *testing.T) {
	h := newHarness(t, kfake.NumBrokers(3))
	for partition := range int32(4) {
		h.OK(h.MoveTopicPartition("out", partition, partition%2))
		h.OK(h.MoveTopicPartition("log", partition, partition%2))
	}
	p := h.started("worker", quick)
	var batches []Batch
	for partition := range int32(4) {
		batches = append(batches, Batch{TopicPartition{"out", partition}, values(0, 1)},
			Batch{TopicPartition{"log", partition}, values(0, 1)})
	}
	_, err := p.Produce(t.Context(), batches...)
	h.OK(err)
	if n := h.Network.Sent(protocol.Produce); n != 2 {
		t.Errorf("%d produce requests to two leaders", n)
	}
}

func TestMovedLeaderIsFound(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	for round := range 6 {
		h.OK(h.MoveTopicPartition("out", 0, int32(round%3)))
		h.produce(p, "out", 0, values(round, 1))
	}
	_, err := p.Commit(t.Context())
	h.OK(err)
	h.expect("out", 0, names(0, 6)...)
}

func TestMovedCoordinatorIsFound(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	for round := range 6 {
		h.RehashCoordinators()
		h.produce(p, "out", 0, values(round, 1))
		h.OK(p.CommitOffsets(t.Context(), Member{Group: "group", Generation: -1},
			map[TopicPartition]int64{{"in", 0}: int64(round)}))
		_, err := p.Commit(t.Context())
		h.OK(err)
	}
	h.expect("out", 0, names(0, 6)...)
}

func TestBrokerGoesAway(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	run := func(round int) {
		h.produce(p, "out", 0, values(round, 1))
		_, err := p.Commit(t.Context())
		h.OK(err)
	}
	run(0)
	h.OK(h.MoveTopicPartition("out", 0, (h.CoordinatorFor("worker")+1)%3))
	run(1)
	h.OK(h.RemoveNode(h.CoordinatorFor("worker")))
	run(2)
	h.expect("out", 0, names(0, 3)...)
}

// A coordinator that does not answer may have moved.
func TestSilentCoordinatorIsLookedUpAgain(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	before := h.Network.Sent(protocol.FindCoordinator)
	h.Network.Lose(protocol.AddPartitionsToTxn, wiretest.Loss{Times: 1})
	h.produce(p, "out", 0, values(0, 1))
	if n := h.Network.Sent(protocol.FindCoordinator) - before; n != 1 {
		t.Errorf("looked up %d times, want once", n)
	}
}

func TestNewTopicIsWaitedFor(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	var asked atomic.Int32
	h.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Observe: true, Count: -1,
		When: func(kmsg.Request) bool {
			if asked.Add(1) == 3 {
				go h.CreateTopic("late", 1, nil)
			}
			return true
		},
	})
	h.produce(p, "late", 0, values(0, 2))
	_, err := p.Commit(t.Context())
	h.OK(err)
	h.expect("late", 0, names(0, 2)...)
}

func TestMissingTopicIsNotWaitedForForEver(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", impatient)
	_, err := p.Produce(t.Context(), Batch{TopicPartition{"nowhere", 0}, values(0, 1)})
	h.Is(err, ErrAbortable)
	h.Is(err, kafka.UnknownTopicOrPartition)
	if !strings.Contains(err.Error(), "nowhere/0") {
		t.Errorf("%v does not name the topic", err)
	}
	q := h.idempotent(impatient)
	for _, tp := range []TopicPartition{{"nowhere", 0}, {"out", 99}} {
		_, err = q.Produce(t.Context(), Batch{tp, values(0, 1)})
		h.Is(err, ErrRetriable)
		h.Is(err, kafka.UnknownTopicOrPartition)
	}
	_, err = q.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 1)})
	h.OK(err)
}

func TestTooLarge(t *testing.T) {
	h := newHarness(t)
	h.OK(h.CreateTopic("small", 1, map[string]string{"max.message.bytes": "2000"}))
	big := []Record{{Value: make([]byte, 3000)}}
	for name, o := range map[string]Options{"here": {MaxBatchBytes: 2000}, "there": {}} {
		_, err := h.started(name, o).Produce(t.Context(), Batch{TopicPartition{"small", 0}, big})
		h.Is(err, ErrFatal)
		var size *TooLargeError
		if !errors.As(err, &size) || size.Topic != "small" || size.Bytes < 3000 ||
			size.Bytes > 3100 || size.Limit != o.MaxBatchBytes {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range []string{"small/0", "max.message.bytes"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

// TestRefusedTimesAreNamed: the time that is furthest from the clock names the setting.
func TestRefusedTimesAreNamed(t *testing.T) {
	h := newHarness(t)
	now := time.Now()
	for _, c := range []struct {
		want  string
		times []time.Duration // from now on
	}{
		{"before", []time.Duration{-10 * 365 * 24 * time.Hour}},
		{"before", []time.Duration{0, -48 * time.Hour, time.Hour}},
		{"after", []time.Duration{48 * time.Hour, -time.Hour}},
	} {
		var records []Record
		for _, at := range c.times {
			records = append(records, Record{Timestamp: now.Add(at).UnixMilli()})
		}
		h.Refuse(kmsg.Produce, int16(kafka.InvalidTimestamp), 1)
		_, err := h.started("worker", quick).Produce(t.Context(),
			Batch{TopicPartition{"out", 0}, records})
		h.Is(err, ErrFatal)
		if want := "raise its message.timestamp." + c.want + ".max.ms"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v does not say %q", c.times, err, want)
		}
	}
}

// A connection whose answer never came may read its request later. The bytes
// that it was given must still be the same then.
func TestBuffersOfLostRequestsAreNotReused(t *testing.T) {
	h := newHarness(t)
	p := h.started("worker", quick)
	h.produce(p, "out", 0, values(0, 3)) // fills the pool of buffers
	var kept [][]io.Reader
	h.Network.Sending = func(message protocol.Message) {
		r, ok := message.(*rawproduce.Request)
		if !ok {
			return
		}
		var readers []io.Reader
		for range 2 {
			readers = append(readers, readerOf(r))
		}
		kept = append(kept, readers)
	}
	h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 1})
	_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(3, 3)})
	h.Is(err, ErrAbortable)
	before, err := io.ReadAll(kept[0][0])
	h.OK(err)
	h.OK(p.Init(t.Context()))
	for i := range 5 {
		h.produce(p, "out", 0, values(10*i, 3))
	}
	after, err := io.ReadAll(kept[0][1])
	h.OK(err)
	if !bytes.Equal(before, after) {
		t.Error("the bytes of a request that was lost have changed")
	}
	if len(p.sender.free) == 0 {
		t.Error("no buffer is reused at all: this test proves nothing")
	}

	// The same if the repetition of a lost request was answered.
	q := h.idempotent(quick)
	kept = nil
	h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 1})
	for i := range 5 {
		_, err = q.Produce(t.Context(), Batch{TopicPartition{"log", 0}, values(10*i, 3)})
		h.OK(err)
	}
	lost, err := io.ReadAll(kept[0][0])
	h.OK(err)
	again, err := io.ReadAll(kept[1][0])
	h.OK(err)
	if !bytes.Contains(lost, []byte("v0")) || !bytes.Equal(lost, again) {
		t.Error("the bytes of a request that was repeated have changed")
	}
}

// readerOf reads a request's only record set as a slow connection would: from
// the producer's memory. It takes a copy of the reader, not of the bytes.
func readerOf(r *rawproduce.Request) io.Reader {
	set, ok := r.Topics[0].Partitions[0].RecordSet.Reader.(*bytes.Reader)
	if !ok {
		panic("the record set is not a bytes.Reader")
	}
	same := *set
	return &same
}

func TestIdempotentRetriesDoubleNothing(t *testing.T) {
	h := newHarness(t)
	p := h.idempotent(quick)
	h.Network.Lose(protocol.InitProducerId, wiretest.Loss{Times: 1, Answer: true})
	want := 0
	for _, deliver := range []bool{true, false} {
		for range 3 {
			h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 2, Answer: deliver})
			last, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(want, 4)})
			h.OK(err)
			want += 4
			if last[TopicPartition{"out", 0}] != int64(want-1) {
				t.Errorf("last offset %v, want %d", last, want-1)
			}
		}
	}
	for _, code := range []int16{6, 7, 19, 20} {
		h.Refuse(kmsg.Produce, code, 2)
		_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(want, 4)})
		h.OK(err)
		want += 4
	}
	h.expect("out", 0, names(0, want)...)
}

// Without a producer id, the same losses do double: the test above can fail.
func TestPlainRetriesDouble(t *testing.T) {
	h := newHarness(t)
	p := h.idempotent(quick)
	p.started, p.session.producerID, p.session.producerEpoch = true, -1, -1 // the planted fault
	p.session.sequences[TopicPartition{"out", 0}] = -1
	h.Network.Lose(protocol.Produce, wiretest.Loss{Times: 2, Answer: true})
	_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 2)})
	h.OK(err)
	h.expect("out", 0, "v0", "v1", "v0", "v1", "v0", "v1")
}

func TestIdempotentSpreadsByKey(t *testing.T) {
	h := newHarness(t)
	p := h.idempotent(quick)
	records := append(values(0, 40), Record{Value: []byte("a")}, Record{Value: []byte("b")},
		Record{Value: []byte("c")}, Record{Value: []byte("d")})
	last, err := p.Send(t.Context(), "out", 4, records)
	h.OK(err)
	if len(last) != 4 {
		t.Errorf("last offsets %v", last)
	}
	want := make([][]string, 4)
	for _, r := range records[:40] {
		to := kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: r.Key}, 0, 1, 2, 3)
		want[to] = append(want[to], string(r.Value))
	}
	for i, v := range []string{"a", "b", "c", "d"} { // without a key, around
		want[i] = append(want[i], v)
	}
	for partition := range int32(4) {
		h.expect("out", partition, want[partition]...)
	}
}

func TestIdempotentWithoutAnswersIsBroken(t *testing.T) {
	h := newHarness(t)
	o := quick
	p := h.idempotent(o)
	_, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 1)})
	h.OK(err)
	p.sender.options.RetryTimeout = 100 * time.Millisecond
	h.Network.Lose(protocol.Produce, wiretest.Loss{Times: -1})
	_, err = p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(1, 1)})
	h.Is(err, ErrUnknownOutcome)
	h.Network.Heal()
	_, again := p.Produce(t.Context(), Batch{TopicPartition{"out", 1}, values(1, 1)})
	if !errors.Is(again, ErrUnknownOutcome) {
		t.Errorf("a broken producer goes on: %v", again)
	}
}

func TestDuplicateSequenceAnswer(t *testing.T) {
	h := newHarness(t)
	p := h.idempotent(quick)
	h.Refuse(kmsg.Produce, 46, 1)
	last, err := p.Produce(t.Context(), Batch{TopicPartition{"out", 0}, values(0, 1)})
	h.OK(err)
	if len(last) != 0 {
		t.Errorf("an offset that nobody knows: %v", last)
	}
}

func TestOptions(t *testing.T) {
	for _, bad := range []Options{
		{TransactionTimeout: -1},
		{RequestTimeout: -1},
		{RetryTimeout: -1},
		{MinBackoff: -1},
		{MaxBackoff: time.Nanosecond},
		{MaxBatchBytes: 10},
		{MaxBatchBytes: 2 << 30},
		{Compression: 9},
		{Compression: -1},
		{TransactionTimeout: 40 * 24 * time.Hour},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
		if _, err := NewIdempotent(nil, bad); err == nil {
			t.Errorf("NewIdempotent accepts %+v", bad)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := NewTransactional(nil, "", Options{}); err == nil {
		t.Error("a transactional producer without an id")
	}
}

// TestRetrying: each attempt that is repeated is told, long before the producer gives up.
func TestRetrying(t *testing.T) {
	h := newHarness(t)
	var told []*Error
	o := quick
	o.Retrying = func(_ context.Context, err *Error) { told = append(told, err) }
	p := h.started("retrying", o)
	h.Refuse(kmsg.Produce, kerr.NotEnoughReplicas.Code, 2)
	h.Refuse(kmsg.EndTxn, kerr.CoordinatorNotAvailable.Code, 1)
	h.produce(p, "out", 0, values(1, 1))
	_, err := p.Commit(t.Context())
	h.OK(err)
	if len(told) != 3 || told[0].Where == nil || told[0].Where.Topic != "out" ||
		!errors.Is(told[1], kafka.NotEnoughReplicas) || told[2].Where != nil {
		t.Errorf("it was told %v", told)
	}
}
