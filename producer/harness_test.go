package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
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

// harness is a cluster in this process and a client whose requests can be lost.
type harness struct {
	*testing.T
	*kfake.Cluster
	client *kafka.Client
	net    *lossy
}

func newHarness(t *testing.T, opts ...kfake.Opt) *harness {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(3), kfake.SeedTopics(4, "out", "log"), kfake.SeedTopics(4, "in"),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	transport := &kafka.Transport{}
	network := &lossy{
		real: transport, rules: map[protocol.ApiKey][]*rule{},
		sent: map[protocol.ApiKey]int{},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cluster.Close()
	})
	return &harness{t, cluster, &kafka.Client{
		Addr:      kafka.TCP(cluster.ListenAddrs()...),
		Transport: network,
	}, network}
}

func (h *harness) transactional(id string, o Options) *Transactional {
	h.Helper()
	p, err := NewTransactional(h.client, id, o)
	if err != nil {
		h.Fatal(err)
	}
	return p
}

// started is a producer behind its Init.
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

// is fails the test unless err matches target.
func (h *harness) is(err, target error) {
	h.Helper()
	if !errors.Is(err, target) {
		h.Errorf("error %v\nis not %v", err, target)
	}
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
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
	h.ok(err)
	return offsets
}

// lossy is a transport that can lose requests on the way there, or answers on
// the way back.
type lossy struct {
	real  kafka.RoundTripper
	mutex sync.Mutex
	rules map[protocol.ApiKey][]*rule
	sent  map[protocol.ApiKey]int
	// onProduce, if set, sees every produce request before it is sent.
	onProduce func(*rawproduce.Request)
}

type rule struct {
	times   int  // how often it applies, -1 always
	deliver bool // the request arrives, only its answer is lost
	skip    int  // how many requests to let through first
}

// lose adds a rule for a kind of request.
func (l *lossy) lose(key protocol.ApiKey, r rule) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rules[key] = append(l.rules[key], &r)
}

func (l *lossy) heal() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	clear(l.rules)
}

func (l *lossy) count(key protocol.ApiKey) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.sent[key]
}

func (l *lossy) match(key protocol.ApiKey) *rule {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.sent[key]++
	for _, r := range l.rules[key] {
		if r.skip > 0 {
			r.skip--
			return nil
		}
		if r.times != 0 {
			r.times--
			return r
		}
	}
	return nil
}

var errLost = errors.New("connection reset by test")

func (l *lossy) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if x, ok := req.(*wire.Exchange); ok && l.onProduce != nil {
		if p, ok := x.Message.(*rawproduce.Request); ok {
			l.onProduce(p)
		}
	}
	r := l.match(req.ApiKey())
	if r == nil {
		return l.real.RoundTrip(ctx, addr, req)
	}
	if r.deliver {
		if _, err := l.real.RoundTrip(ctx, addr, req); err != nil {
			return nil, err
		}
	}
	return nil, errLost
}

// refuse makes the cluster answer the next requests of a kind with an error.
func (h *harness) refuse(key kmsg.Key, code int16, count int) *kfake.FaultHandle {
	return h.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerrOf(code), Count: count})
}
