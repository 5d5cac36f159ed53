package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

func TestFetchReadsCommittedRecords(t *testing.T) {
	h := newHarness(t)
	a, b := h.Writer("a"), h.Writer("b")
	h.Transact(a, kgo.TryCommit, "in", 1, "a0", "a1")
	h.Transact(b, kgo.TryAbort, "in", 1, "b0", "b1", "b2")
	h.OK(a.BeginTransaction())
	h.Write(a, "in", 1, "a2")
	h.Transact(b, kgo.TryCommit, "in", 1, "b3")
	h.OK(a.EndTransaction(t.Context(), kgo.TryCommit))
	h.Write(h.Writer(""), "in", 1, "plain")
	f := h.fetcher("in", 1, FetcherOptions{})
	h.expect(f, 0, "a0", "a1", "a2", "b3", "plain")
	h.expect(h.fetcher("in", 1, FetcherOptions{Uncommitted: true}), 0, "a0", "a1", "b0", "b1", "b2",
		"a2", "b3", "plain")
	h.expect(f, 1, "a1", "a2", "b3", "plain")

	// Small answers: the same, a batch at a time.
	h.expect(h.fetcher("in", 1, FetcherOptions{MaxBytes: 1}), 0, "a0", "a1", "a2", "b3", "plain")
}

func TestOpenTransactionsAreNotRead(t *testing.T) {
	h := newHarness(t)
	w, f := h.Writer("w"), h.fetcher("in", 0, FetcherOptions{})
	h.Write(h.Writer(""), "in", 0, "before")
	h.OK(w.BeginTransaction())
	h.Write(w, "in", 0, "pending")
	h.Write(h.Writer(""), "in", 0, "behind")
	first, end, err := f.Bounds(t.Context())
	h.OK(err)
	if first != 0 || end != 1 {
		t.Errorf("bounds %d and %d, want 0 and 1", first, end)
	}
	if end, err = f.High(t.Context()); err != nil || end != 3 {
		t.Errorf("with open transactions it ends at %d, %v, want 3", end, err)
	}
	got, err := f.Fetch(t.Context(), 1)
	h.OK(err)
	if len(got.Records) != 0 || got.Next != 1 || got.StableEnd != 1 || got.End != 3 {
		t.Errorf("in front of an open transaction: %+v", got)
	}
	h.expect(h.fetcher("in", 0, FetcherOptions{Uncommitted: true}), 0, "before", "pending",
		"behind")
	h.OK(w.EndTransaction(t.Context(), kgo.TryCommit))
	h.expect(f, 1, "pending", "behind")
}

// The trap of a compacted topic: aborted records go, their markers stay, and
// a reader that opens a transaction only at its records hides the producer forever.
func TestFetchAfterCompaction(t *testing.T) {
	h := newHarness(t, kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "3600000"}))
	h.OK(h.CreateTopic("log", 1, map[string]string{"cleanup.policy": "compact"}))
	w := h.Writer("w")
	var want []string
	for round := range 30 {
		end := kgo.TryCommit
		if round%3 == 1 {
			end = kgo.TryAbort
		}
		values := wiretest.Numbered(fmt.Sprintf("r%d-", round), 10)
		if round%2 == 0 {
			values = append(values, "again") // superseded by every later one
		}
		h.Transact(w, end, "log", 0, values...)
		if end {
			want = append(want, values...)
		}
	}
	f := h.fetcher("log", 0, FetcherOptions{})
	h.expect(f, 0, want...)
	h.Compact()
	last := -1
	for i, v := range want {
		if v == "again" {
			if last >= 0 {
				want[last] = ""
			}
			last = i
		}
	}
	want = slices.DeleteFunc(want, func(v string) bool { return v == "" })
	h.expect(f, 0, want...)
	for from := range int64(40) { // from inside the gaps, too
		got, next := h.readAll(f, from)
		if _, end, _ := f.Bounds(t.Context()); next != end || len(got) > len(want) {
			t.Errorf("from %d: %d records, next %d, end %d", from, len(got), next, end)
		}
	}
}

func TestOffsetOutOfRange(t *testing.T) {
	h := newHarness(t)
	h.Write(h.Writer(""), "in", 0, wiretest.Numbered("", 10)...)
	h.OK(h.DeleteRecords("in", 0, 5))
	f := h.fetcher("in", 0, FetcherOptions{})
	for _, offset := range []int64{4, 11, -1} {
		_, err := f.Fetch(t.Context(), offset)
		h.Is(err, ErrOffsetOutOfRange)
		var e *OffsetError
		if !errors.As(err, &e) || *e != (OffsetError{"in", 0, offset}) {
			t.Errorf("at %d: %v", offset, err)
		}
		if errors.Is(err, wire.ErrTemporary) {
			t.Errorf("at %d: temporary", offset)
		}
	}
	first, end, err := f.Bounds(t.Context())
	h.OK(err)
	if first != 5 || end != 10 {
		t.Errorf("bounds %d and %d", first, end)
	}
	h.expect(f, 5, "5", "6", "7", "8", "9")
}

func TestPassingRefusalsAreRepeated(t *testing.T) {
	h := newHarness(t)
	h.Write(h.Writer(""), "in", 2, "a")
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata} {
		for _, code := range []int16{3, 5, 6, 9, 56, 74, 75, 78} {
			if key == kmsg.Metadata && code != 3 && code != 5 {
				continue
			}
			f := h.fetcher("in", 2, FetcherOptions{})
			fault := h.Refuse(key, code, 2)
			h.expect(f, 0, "a")
			if fault.Hits() != 2 {
				t.Errorf("%s was refused with %d %d times, not twice", key.Name(), code,
					fault.Hits())
			}
			fault.Remove()
		}
	}
	f := h.fetcher("in", 2, FetcherOptions{Options: wiretest.Impatient})
	h.Refuse(kmsg.Fetch, 6, -1)
	_, err := f.Fetch(t.Context(), 0)
	h.Is(err, wire.ErrTemporary)
	h.Is(err, kafka.NotLeaderForPartition)
	h.Is(err, context.DeadlineExceeded)
}

func TestRefusalsForGood(t *testing.T) {
	h := newHarness(t)
	f := h.fetcher("in", 2, FetcherOptions{})
	h.Refuse(kmsg.Fetch, 29, 1)
	_, err := f.Fetch(t.Context(), 0)
	h.Is(err, kafka.TopicAuthorizationFailed)
	if errors.Is(err, wire.ErrTemporary) {
		t.Error("a missing permission is not temporary")
	}
	h.Refuse(kmsg.Fetch, 2, 1)
	_, err = f.Fetch(t.Context(), 0)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		t.Errorf("the broker finds damage: %v", err)
	}
}

func TestMovedLeaderIsFollowed(t *testing.T) {
	h := newHarness(t)
	w, f := h.Writer(""), h.fetcher("in", 0, FetcherOptions{})
	for round := range 6 {
		h.OK(h.MoveTopicPartition("in", 0, int32(round%3)))
		h.Write(w, "in", 0, fmt.Sprint(round))
		if round%2 == 0 { // both calls find it
			got, err := f.Fetch(t.Context(), int64(round))
			h.OK(err)
			if !slices.Equal(valuesOf(got.Records), []string{fmt.Sprint(round)}) {
				t.Errorf("round %d: %q", round, valuesOf(got.Records))
			}
			continue
		}
		h.expect(f, int64(round), fmt.Sprint(round))
	}
}

func TestNewTopicIsWaitedFor(t *testing.T) {
	h := newHarness(t)
	f := h.fetcher("late", 0, FetcherOptions{})
	asked := 0
	h.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Metadata}, Observe: true, Count: -1,
		When: func(kmsg.Request) bool {
			if asked++; asked == 4 {
				go h.CreateTopic("late", 1, nil)
			}
			return true
		},
	})
	got, err := f.Fetch(t.Context(), 0)
	h.OK(err)
	if len(got.Records) != 0 || got.Next != 0 {
		t.Errorf("an empty topic: %+v", got)
	}
	_, err = h.fetcher("never", 0, FetcherOptions{Options: wiretest.Impatient}).Fetch(t.Context(),
		0)
	h.Is(err, wire.ErrTemporary)
	h.Is(err, kafka.UnknownTopicOrPartition)
}

func TestBufferIsReusedOnlyAfterAnAnswer(t *testing.T) {
	h := newHarness(t)
	h.Write(h.Writer(""), "in", 0, wiretest.Numbered("", 50)...)
	f := h.fetcher("in", 0, FetcherOptions{})
	_, err := f.Fetch(t.Context(), 0)
	h.OK(err)
	buf := &f.buf[:1][0]
	_, err = f.Fetch(t.Context(), 0)
	h.OK(err)
	if buf != &f.buf[:1][0] {
		t.Error("the buffer of an answered fetch is not used again")
	}
	h.Network.Lose(protocol.Fetch, wiretest.Loss{Times: 1, Answer: true})
	_, err = f.Fetch(t.Context(), 0)
	h.OK(err)
	if buf == &f.buf[:1][0] {
		t.Error("the buffer of a lost fetch is used again: its connection may still write to it")
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	h := newHarness(t)
	f := h.fetcher("in", 0, FetcherOptions{MaxWait: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := f.Fetch(ctx, 0)
	h.Is(err, context.DeadlineExceeded)
}

func TestFetcherOptions(t *testing.T) {
	for _, bad := range []FetcherOptions{
		{MaxBytes: -1},
		{MaxBytes: 1 << 30},
		{MaxWait: -1},
		{Options: wire.Options{RetryTimeout: -1}},
	} {
		if _, err := NewFetcher(nil, "in", 0, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
