package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// seen is a record as a reader remembers it.
type seen struct {
	offset int64
	hash   uint64
}

// hashes tell records apart: of 64 bits, so that a million of them are all
// different but for a chance of 3 in 100 million.
var hashes = maphash.MakeSeed()

func hashRecord(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(hashes)
	for _, part := range [][]byte{r.Key, r.Value} {
		fmt.Fprintf(&h, "%d %t ", len(part), part == nil)
		h.Write(part)
	}
	fmt.Fprint(&h, r.Timestamp.UnixMilli())
	return h.Sum64()
}

func hashFix(user string, timestampMS int64) uint64 {
	var h maphash.Hash
	h.SetSeed(hashes)
	fmt.Fprintf(&h, "%d %s", timestampMS, user)
	return h.Sum64()
}

// witness reads what the service publishes while things break, read_committed,
// and keeps what it saw in the order in which it saw it.
type witness struct {
	client *kgo.Client

	mu      sync.Mutex
	saw     map[string][][]seen // by topic and partition
	records int
	last    []time.Time   // of each partition of the sanitized topic
	gap     time.Duration // longest time between two records of a partition
	delay   time.Duration // longest time from a raw record to its sanitized one
	late    string        // which one that was
	errs    []string
}

func newWitness(brokers []string, partitions int) (*witness, error) {
	topics := []string{sanitizedTopic, deadTopic}
	client, err := newClient(brokers, append(from(topics, partitions, false), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, err
	}
	w := &witness{client: client, saw: map[string][][]seen{}, last: make([]time.Time, partitions)}
	for _, topic := range topics {
		w.saw[topic] = make([][]seen, partitions)
	}
	return w, nil
}

// run reads until the context ends.
func (w *witness) run(ctx context.Context) {
	for {
		fetches := w.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		w.take(fetches, time.Now())
	}
}

func (w *witness) take(fetches kgo.Fetches, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachError(func(topic string, p int32, err error) {
		w.errs = append(w.errs, fmt.Sprintf("%s/%d: %v", topic, p, err))
	})
	fetches.EachRecord(func(r *kgo.Record) {
		if r.Attrs.IsControl() {
			return
		}
		w.saw[r.Topic][r.Partition] = append(w.saw[r.Topic][r.Partition], seen{r.Offset, hashRecord(r)})
		w.records++
		if r.Topic != sanitizedTopic {
			return
		}
		if before := w.last[r.Partition]; !before.IsZero() {
			w.gap = max(w.gap, now.Sub(before))
		}
		w.last[r.Partition] = now
		if delay := now.Sub(r.Timestamp); delay > w.delay {
			w.delay, w.late = delay, fmt.Sprintf("partition %d, of %s", r.Partition, r.Timestamp.UTC().Format(time.TimeOnly))
		}
	})
}

// count is how many records it has seen in both topics.
func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records
}
