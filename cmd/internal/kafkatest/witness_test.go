//go:build kafka

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newClient returns a client of franz-go: the checks must not rely on the product's own
// reading.
func newClient(brokers []string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}, options...)...)
}

// ends returns the end of each partition of a topic: its last stable offset or, with
// uncommitted, its high watermark.
func ends(ctx context.Context, client *kgo.Client, topic string, partitions int,
	uncommitted bool,
) ([]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	if !uncommitted {
		request.IsolationLevel = 1
	}
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	for p := range partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = int32(p), -1
		of.Partitions = append(of.Partitions, partition)
	}
	request.Topics = append(request.Topics, of)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", topic, err)
	}
	found := make([]int64, partitions)
	n := 0
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("end of %s/%d: error %d", topic, p.Partition, p.ErrorCode)
			}
			found[p.Partition] = p.Offset
			n++
		}
	}
	if n != partitions {
		return nil, fmt.Errorf("ends of %s: %d of %d partitions answered", topic, n, partitions)
	}
	return found, nil
}

// from returns the options to read whole topics, each partition from its start.
func from(topics []string, partitions int, uncommitted bool) []kgo.Opt {
	at := map[string]map[int32]kgo.Offset{}
	for _, topic := range topics {
		at[topic] = map[int32]kgo.Offset{}
		for p := range partitions {
			at[topic][int32(p)] = kgo.NewOffset().AtStart()
		}
	}
	level := kgo.ReadCommitted()
	if uncommitted {
		level = kgo.ReadUncommitted()
	}
	return []kgo.Opt{
		kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
}

// scan calls each for every record of a topic, control records included, in order
// within a partition, up to where the partitions end now.
func scan(ctx context.Context, brokers []string, topic string, partitions int, uncommitted bool,
	each func(*kgo.Record),
) error {
	client, err := newClient(brokers, from([]string{topic}, partitions, uncommitted)...)
	if err != nil {
		return err
	}
	defer client.Close()
	end, err := ends(ctx, client, topic, partitions, uncommitted)
	if err != nil {
		return err
	}
	left := 0
	for _, e := range end {
		if e > 0 {
			left++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	finished := make([]bool, partitions)
	for left > 0 {
		fetches := client.PollFetches(ctx)
		var failed error
		fetches.EachError(func(topic string, p int32, err error) {
			failed = errors.Join(failed, fmt.Errorf("scan of %s/%d: %w", topic, p, err))
		})
		if failed != nil {
			return failed
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < end[r.Partition] {
				each(r)
			}
			// If the last write was a transaction's, the last record is its marker.
			if r.Offset >= end[r.Partition]-1 && !finished[r.Partition] {
				finished[r.Partition] = true
				left--
			}
		})
	}
	return nil
}

// seen is a record as a reader remembers it.
type seen struct {
	offset int64
	hash   uint64
}

// hashes is the seed of the hashes that identify records. With 64 bits, two of a million records
// have the same hash with a probability of 3 in 100 million.
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

// witness reads what the service publishes, read_committed, while the faults happen. It keeps
// all records in the order in which it saw them.
type witness struct {
	mu      sync.Mutex
	saw     map[string][][]seen // by topic and partition
	records int
	last    []time.Time   // of each partition of the sanitized topic
	gap     time.Duration // longest time between two records of a partition
	delay   time.Duration // longest time from a raw record to its sanitized one
	late    string        // the record with that delay
	errs    []string
}

// watch starts a witness. The function that it returns ends the reading, and may be called twice.
func watch(ctx context.Context, brokers []string, partitions int) (*witness, func(), error) {
	topics := []string{sanitizedTopic, deadTopic}
	options := append(from(topics, partitions, false), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	client, err := newClient(brokers, options...)
	if err != nil {
		return nil, nil, err
	}
	w := &witness{saw: map[string][][]seen{}, last: make([]time.Time, partitions)}
	for _, topic := range topics {
		w.saw[topic] = make([][]seen, partitions)
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil || fetches.IsClientClosed() {
				return
			}
			w.take(fetches, time.Now())
		}
	})
	return w, sync.OnceFunc(func() {
		cancel()
		reading.Wait()
		client.Close()
	}), nil
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
		w.saw[r.Topic][r.Partition] = append(w.saw[r.Topic][r.Partition],
			seen{r.Offset, hashRecord(r)})
		w.records++
		if r.Topic != sanitizedTopic {
			return
		}
		if before := w.last[r.Partition]; !before.IsZero() {
			w.gap = max(w.gap, now.Sub(before))
		}
		w.last[r.Partition] = now
		if delay := now.Sub(r.Timestamp); delay > w.delay {
			w.delay, w.late = delay, fmt.Sprintf("partition %d, of %s",
				r.Partition, r.Timestamp.UTC().Format(time.TimeOnly))
		}
	})
}

// count returns the number of records in both topics.
func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records
}
