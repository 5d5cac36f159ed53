package servicetest

import (
	"context"
	"net"
	"sync"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// NewCompacted returns a world with a compacted topic of one partition, "log". It has a record,
// because the broker lets a compacted log begin at its first record that is left.
func NewCompacted(tb testing.TB) *World {
	tb.Helper()
	w := NewWorld(tb, 1)
	OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "log", Partitions: 1, Configs: topics.Compacted}))
	w.Put(tb, "log", "first", []byte("-"))
	return w
}

// Cleaned returns a client before whose first fetch a value of a topic's first partition is
// replaced and the cleaner removes the old one: a reader has taken the partition's bounds by then.
func (w *World) Cleaned(tb testing.TB, topic, key string, value []byte) *kafka.Client {
	tb.Helper()
	own := *w.Client
	own.Transport = &beforeFetch{RoundTripper: w.Client.Transport, do: func() {
		w.Put(tb, topic, key, value)
		w.Put(tb, topic, "the newest batch, which the cleaner leaves alone", []byte("-"))
		OK(tb, w.Broker.Compact())
	}}
	return &own
}

// Put writes a record into a topic's first partition, in a batch of its own.
func (w *World) Put(tb testing.TB, topic, key string, value []byte) {
	tb.Helper()
	_, err := w.Feeder.Produce(tb.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: topic},
		Records:        []producer.Record{{Key: []byte(key), Value: value, Timestamp: StartMS}},
	})
	OK(tb, err)
}

// beforeFetch is a connection that does something before its first fetch.
type beforeFetch struct {
	kafka.RoundTripper
	once sync.Once
	do   func()
}

// RoundTrip implements kafka.RoundTripper.
func (b *beforeFetch) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if req.ApiKey() == protocol.Fetch {
		b.once.Do(b.do)
	}
	return b.RoundTripper.RoundTrip(ctx, addr, req)
}
