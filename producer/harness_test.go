package producer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// quick are options for tests: short pauses, and patience for a busy machine.
var quick = Options{
	MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	RetryTimeout: 20 * time.Second,
}

// impatient gives up soon, for tests of giving up.
var impatient = Options{
	MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	RetryTimeout: 150 * time.Millisecond,
}

// harness is a cluster in this process, and a client whose requests can be lost.
type harness struct{ *wiretest.Harness }

func newHarness(t *testing.T, opts ...kfake.Opt) *harness {
	t.Helper()
	topics := kfake.SeedTopics(4, "out", "log")
	return &harness{wiretest.New(t, append([]kfake.Opt{topics}, opts...)...)}
}

func (h *harness) transactional(id string, o Options) *Transactional {
	h.Helper()
	p, err := NewTransactional(h.Client, id, o)
	if err != nil {
		h.Fatal(err)
	}
	return p
}

// started returns a producer after its Init.
func (h *harness) started(id string, o Options) *Transactional {
	h.Helper()
	p := h.transactional(id, o)
	if err := p.Init(h.Context()); err != nil {
		h.Fatal(err)
	}
	return p
}

// read returns the values of a partition's committed records as franz-go reads
// them, up to the last stable offset.
func (h *harness) read(topic string, partition int32) []string {
	h.Helper()
	end := h.PartitionInfo(topic, partition).LastStableOffset
	values := []string{}
	if end == 0 {
		return values
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(h.ListenAddrs()...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {partition: kgo.NewOffset().AtStart()},
		}))
	if err != nil {
		h.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(h.Context(), 10*time.Second)
	defer cancel()
	for {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			h.Fatalf("read %s/%d: %v", topic, partition, err)
		}
		for _, r := range fetches.Records() {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
			if r.Offset == end-1 {
				return values
			}
		}
	}
}

// expect compares what read_committed readers see.
func (h *harness) expect(topic string, partition int32, want ...string) {
	h.Helper()
	if got := h.read(topic, partition); !slices.Equal(got, append([]string{}, want...)) {
		h.Errorf("%s/%d holds %q, want %q", topic, partition, got, want)
	}
}

func values(from, n int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{
			Key:   fmt.Appendf(nil, "k%d", from+i),
			Value: fmt.Appendf(nil, "v%d", from+i), Timestamp: int64(1000 + i),
		}
	}
	return records
}

func names(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("v%d", from+i)
	}
	return all
}

// produce sends through p and fails the test on an error.
func (h *harness) produce(p *Transactional, topic string, partition int32,
	records []Record,
) Offsets {
	h.Helper()
	offsets, err := p.Produce(h.Context(), Batch{TopicPartition{topic, partition}, records})
	h.OK(err)
	return offsets
}
