package topics

import (
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// compacted is a changelog of one partition, with what a test does to it.
type compacted struct {
	*testing.T
	broker *devbroker.Broker
	client *kafka.Client
	feeder *producer.Idempotent
}

func newCompacted(t *testing.T) *compacted {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	c := &compacted{T: t, broker: broker}
	c.client = Cluster{Brokers: []string{broker.Addr()}}.Client()
	c.must(admin.CreateTopics(t.Context(), c.client, wire.Options{},
		admin.Topic{Name: "log", Partitions: 1, Configs: Compacted}))
	c.feeder, err = producer.NewIdempotent(c.client, producer.Options{})
	c.must(err)
	return c
}

func (c *compacted) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// put writes one record, in a batch of its own.
func (c *compacted) put(key string, value []byte) {
	c.Helper()
	_, err := c.feeder.Produce(c.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: "log"},
		Records:        []producer.Record{{Key: []byte(key), Value: value, Timestamp: 1}},
	})
	c.must(err)
}

// clean replaces a value by a newer one and runs the cleaner, which leaves the newest batch alone.
func (c *compacted) clean(key string, value []byte) {
	c.Helper()
	c.put(key, value)
	c.put("other", []byte("last"))
	c.must(c.broker.Compact())
}

// TestScanCompacted: a value that the cleaner removes for the sake of one behind the end is not
// missed, however short the topic is.
func TestScanCompacted(t *testing.T) {
	c := newCompacted(t)
	c.put("first", []byte("-")) // the broker's log begins at its first record
	c.put("a", []byte("one"))
	c.put("b", []byte("one"))
	r, err := Open(t.Context(), c.client, "log", 0, consumer.FetcherOptions{})
	c.must(err)
	c.clean("a", []byte("two"))
	last := map[string]string{}
	c.must(r.ScanCompacted(t.Context(), func(r consumer.Record) error {
		last[string(r.Key)] = string(r.Value)
		return nil
	}))
	if last["a"] != "two" || last["b"] != "one" {
		t.Errorf("it has seen %v", last)
	}
}
