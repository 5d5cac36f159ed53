//go:build kafka

package kafkatest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/producer"
)

// TestTransactionsAreWhole writes transactions over several topics and
// partitions, of which every third is aborted. Committed readers see all of one
// or nothing; uncommitted readers see everything.
func TestTransactionsAreWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topics := []string{h.topic("a", 2, nil), h.topic("b", 2, nil), h.topic("c", 2, nil)}
	p := h.transactional(h.client, "id", producer.Options{})
	var kept, all []string
	for i := range 30 {
		name := "kept-" + strconv.Itoa(i)
		if i%3 == 2 {
			name = "dropped-" + strconv.Itoa(i)
		}
		for _, topic := range topics {
			h.produce(p, topic, 0, name)
			h.produce(p, topic, 1, name)
		}
		all = append(all, name)
		if i%3 == 2 {
			h.ok(p.Abort(t.Context()))
			continue
		}
		for _, topic := range topics {
			if got := h.read(topic, 0, false); slices.Contains(got, name) {
				t.Fatalf("%s shows a record of an open transaction", topic)
			}
		}
		h.commit(p)
		kept = append(kept, name)
	}
	for _, topic := range topics {
		for partition := range int32(2) {
			h.expect(topic, partition, kept...)
			if got := h.read(topic, partition, true); !slices.Equal(got, all) {
				t.Errorf("uncommitted, %s/%d holds %q, want %q", topic, partition, got, all)
			}
		}
	}
	t.Log(h.spy)
}

// TestAbortedRecordsUnderCompaction has the cleaner remove an aborted transaction
// while its marker stays. The producer's later records are read all the same, and
// the reader's position moves over what is gone.
func TestAbortedRecordsUnderCompaction(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.dynamic("log.cleaner.backoff.ms", "200")
	topic := h.topic("log", 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01",
		"min.compaction.lag.ms": "3600000", // not yet
	})
	p := h.transactional(h.client, "id", producer.Options{})
	dropped, kept := numbered("dropped", 300), numbered("kept", 50)
	h.produce(p, topic, 0, dropped...)
	h.ok(p.Abort(t.Context()))
	h.produce(p, topic, 0, kept...)
	h.commit(p)
	h.expect(topic, 0, kept...)
	before := len(h.read(topic, 0, true))
	if before != len(dropped)+len(kept) {
		t.Fatalf("%d records before compaction", before)
	}
	h.alter(topic, "min.compaction.lag.ms", "0")
	// A segment is closed by a record that comes when it is old, and the cleaner
	// leaves the last one alone.
	rolled := 0
	h.eventually("the aborted records are gone", func() bool {
		h.produce(p, topic, 0, fmt.Sprint("roll-", rolled))
		h.commit(p)
		rolled++
		time.Sleep(250 * time.Millisecond)
		return !slices.Contains(h.read(topic, 0, true), "dropped-0")
	})
	h.expect(topic, 0, append(kept, numbered("roll", rolled)...)...)
	h.settled(topic, 0)
	first := int64(-1)
	h.scan(topic, 0, false, func(r consumer.Record) {
		if first < 0 {
			first = r.Offset
		}
	})
	if first != int64(len(dropped))+1 { // and the abort's marker
		t.Errorf("the first record lies at %d", first)
	}
	start, _, err := h.fetcher(topic, 0, false).Bounds(t.Context())
	h.ok(err)
	t.Logf("the log start stays at %d when compaction has removed all before %d", start, first)
}
