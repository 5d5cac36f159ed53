//go:build kafka

package kafkatest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/producer"
)

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
