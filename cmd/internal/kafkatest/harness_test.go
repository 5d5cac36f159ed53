//go:build kafka

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// patience is how long a test waits for what must happen. It decides how soon a
// broken test ends, and nothing else.
const patience = 2 * time.Minute

// harness is a cluster, a client of the project's whose answers are watched, and
// franz-go as an independent administrator.
type harness struct {
	*testing.T
	brokers []string
	prefix  string // of every name in the cluster
	client  *kafka.Client
	spy     *spy
	admin   *kgo.Client
}

// runs tells apart the names of two harnesses of one process.
var runs atomic.Int64

// newHarness uses the cluster that GEODITHER_BROKERS names.
func newHarness(t *testing.T) *harness {
	t.Helper()
	brokers := os.Getenv("GEODITHER_BROKERS")
	if brokers == "" {
		t.Fatal("GEODITHER_BROKERS names no brokers: run these tests with \"make test-kafka\"")
	}
	return newHarnessAt(t, strings.Split(brokers, ",")...)
}

func newHarnessAt(t *testing.T, brokers ...string) *harness {
	t.Helper()
	return newHarnessBy(t, nil, brokers...)
}

// dialer connects to an address in its own way; nil is the usual one.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func newHarnessBy(t *testing.T, dial dialer, brokers ...string) *harness {
	t.Helper()
	h := &harness{
		T: t, brokers: brokers, prefix: fmt.Sprintf("t%d-%d-", time.Now().UnixMilli(), runs.Add(1)),
	}
	h.client, h.spy = h.newClient(dial)
	var err error
	options := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.RetryTimeout(patience)}
	if dial != nil {
		options = append(options, kgo.Dialer(dial))
	}
	h.admin, err = kgo.NewClient(options...)
	h.ok(err)
	t.Cleanup(h.admin.Close)
	return h
}

// newClient connects as the service does, or in a way of the test's.
func (h *harness) newClient(dial dialer) (*kafka.Client, *spy) {
	transport := &kafka.Transport{
		ClientID: "geodither", DialTimeout: 5 * time.Second, MetadataTTL: time.Second, Dial: dial,
	}
	h.Cleanup(transport.CloseIdleConnections)
	s := newSpy(transport)
	return &kafka.Client{Addr: kafka.TCP(h.brokers...), Transport: s}, s
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// is fails the test unless err matches target.
func (h *harness) is(err, target error) {
	h.Helper()
	if !errors.Is(err, target) {
		h.Errorf("error %v\nis not %v", err, target)
	}
}

// eventually waits until a condition holds.
func (h *harness) eventually(what string, holds func() bool) {
	h.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			h.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// topic makes a topic of the test's own, with the broker's replication.
func (h *harness) topic(name string, partitions int, configs map[string]string) string {
	h.Helper()
	return h.replicated(name, partitions, 0, configs)
}

func (h *harness) replicated(name string, partitions, replication int,
	configs map[string]string,
) string {
	h.Helper()
	name = h.prefix + name
	h.ok(admin.CreateTopics(h.Context(), h.client, wire.Options{}, admin.Topic{
		Name: name, Partitions: partitions, Replication: replication, Configs: configs,
	}))
	return name
}

// transactional is a producer behind its Init.
func (h *harness) transactional(client *kafka.Client, id string,
	o producer.Options,
) *producer.Transactional {
	h.Helper()
	p, err := producer.NewTransactional(client, h.prefix+id, o)
	h.ok(err)
	h.ok(p.Init(h.Context()))
	return p
}

func at(topic string, partition int32) producer.TopicPartition {
	return producer.TopicPartition{Topic: topic, Partition: partition}
}

// batch holds values, which are their own keys.
func batch(topic string, partition int32, values ...string) producer.Batch {
	b := producer.Batch{TopicPartition: at(topic, partition)}
	for _, v := range values {
		b.Records = append(b.Records, producer.Record{
			Key: []byte(v), Value: []byte(v), Timestamp: time.Now().UnixMilli(),
		})
	}
	return b
}

// produce adds values to p's transaction.
func (h *harness) produce(p *producer.Transactional, topic string, partition int32,
	values ...string,
) {
	h.Helper()
	_, err := p.Produce(h.Context(), batch(topic, partition, values...))
	h.ok(err)
}

func (h *harness) commit(p *producer.Transactional) {
	h.Helper()
	_, err := p.Commit(h.Context())
	h.ok(err)
}

func (h *harness) fetcher(topic string, partition int32, uncommitted bool) *consumer.Fetcher {
	h.Helper()
	f, err := consumer.NewFetcher(h.client, topic, partition, consumer.FetcherOptions{
		Uncommitted: uncommitted, MaxWait: 5 * time.Millisecond,
	})
	h.ok(err)
	return f
}

// scan reads what a partition holds now, up to the stable end or to the end.
func (h *harness) scan(topic string, partition int32, uncommitted bool,
	each func(consumer.Record),
) {
	h.Helper()
	f := h.fetcher(topic, partition, uncommitted)
	from, end, err := f.Bounds(h.Context())
	h.ok(err)
	for from < end {
		got, err := f.Fetch(h.Context(), from)
		h.ok(err)
		for _, r := range got.Records {
			each(r)
		}
		from = got.Next
	}
}

func (h *harness) read(topic string, partition int32, uncommitted bool) []string {
	h.Helper()
	values := []string{}
	h.scan(topic, partition, uncommitted, func(r consumer.Record) {
		values = append(values, string(r.Value))
	})
	return values
}

// settled waits until no transaction is open in a partition: Commit's nil says
// that the coordinator has decided, the markers come a moment later.
func (h *harness) settled(topic string, partition int32) {
	h.Helper()
	stable, all := h.fetcher(topic, partition, false), h.fetcher(topic, partition, true)
	h.eventually(fmt.Sprintf("%s/%d is stable", topic, partition), func() bool {
		_, end, err := all.Bounds(h.Context())
		h.ok(err)
		_, s, err := stable.Bounds(h.Context())
		h.ok(err)
		return s >= end
	})
}

// expect compares what read_committed readers see when all is settled.
func (h *harness) expect(topic string, partition int32, want ...string) {
	h.Helper()
	h.settled(topic, partition)
	if got := h.read(topic, partition, false); !slices.Equal(got, append([]string{}, want...)) {
		h.Errorf("%s/%d holds %q, want %q", topic, partition, got, want)
	}
}

// committed is a group's offset of partition 0, -1 if it has none.
func (h *harness) committed(group, topic string) int64 {
	h.Helper()
	offset, found, err := consumer.Committed(h.Context(), h.client, wire.Options{}, group, topic, 0)
	h.ok(err)
	if !found {
		return -1
	}
	return offset
}

// numbered is n values with a name.
func numbered(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return all
}

// within is a context of the test's that ends sooner.
func (h *harness) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(h.Context(), d)
	h.Cleanup(cancel)
	return ctx
}
