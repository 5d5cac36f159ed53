// Package wiretest gives the tests of the packages that talk to Kafka a cluster in the test's
// own process, and a network on which requests and answers get lost.
package wiretest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
)

// Quick are options for tests: short pauses, and patience for a busy machine.
var Quick = wire.Options{
	MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, RetryTimeout: 20 * time.Second,
}

// Impatient gives up soon, for tests of giving up.
var Impatient = wire.Options{
	MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	RetryTimeout: 100 * time.Millisecond,
}

// Patience is more than anything takes in a test, on a busy machine too.
const Patience = 2 * time.Minute

// Harness is a test with a cluster, written to by franz-go, which is not what is tested.
type Harness struct {
	*testing.T
	*kfake.Cluster // nil if the brokers are real
	Brokers        []string
	Real           bool
	Topic          string // a name that no other test uses; OwnTopic sets it, and creates nothing
	Client         *kafka.Client
	Network        *Network // of Client
}

// New starts three brokers in this process, with a topic "in" of four partitions.
func New(t *testing.T, opts ...kfake.Opt) *Harness {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, "in")}, opts...)
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	h := &Harness{T: t, Cluster: cluster, Brokers: cluster.ListenAddrs()}
	h.Client, h.Network = h.NewClient()
	return h
}

// OwnTopic is New with the name of a topic for this test alone. If GEODITHER_BROKERS names real
// brokers, it uses those instead.
func OwnTopic(t *testing.T, opts ...kfake.Opt) *Harness {
	t.Helper()
	var h *Harness
	if named := os.Getenv("GEODITHER_BROKERS"); named == "" {
		h = New(t, opts...)
	} else {
		h = &Harness{T: t, Real: true, Brokers: strings.Split(named, ",")}
		h.Client, h.Network = h.NewClient()
	}
	h.Topic = fmt.Sprintf("test-%d", time.Now().UnixNano())
	return h
}

// NewClient returns a client with connections of its own, and the network that it uses.
func (h *Harness) NewClient() (*kafka.Client, *Network) {
	transport := &kafka.Transport{}
	h.Cleanup(transport.CloseIdleConnections)
	network := newNetwork(transport)
	return &kafka.Client{Addr: kafka.TCP(h.Brokers...), Transport: network}, network
}

// OK ends the test if there is an error.
func (h *Harness) OK(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// Is fails the test unless the error matches.
func (h *Harness) Is(err, target error) {
	h.Helper()
	if !errors.Is(err, target) {
		h.Errorf("error %v\nis not %v", err, target)
	}
}

// Within fails the test unless something happens in time.
func (h *Harness) Within(what string, happens func() bool) {
	h.Helper()
	for deadline := time.Now().Add(Patience); !happens(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("%s does not happen", what)
		}
	}
}

// Franz returns a franz-go client with its defaults.
func (h *Harness) Franz(opts ...kgo.Opt) *kgo.Client {
	h.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(h.Brokers...)}, opts...)...)
	h.OK(err)
	h.Cleanup(c.Close)
	return c
}

// Writer returns a franz-go producer, transactional if it has an id.
func (h *Harness) Writer(id string) *kgo.Client {
	h.Helper()
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
	}
	if id != "" {
		opts = append(opts, kgo.TransactionalID(id))
	}
	return h.Franz(opts...)
}

// Write produces values, each under itself as the key.
func (h *Harness) Write(w *kgo.Client, topic string, partition int32, values ...string) {
	h.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: partition, Key: []byte(v), Value: []byte(v),
		})
	}
	h.OK(w.ProduceSync(h.Context(), records...).FirstErr())
}

// Transact writes values in a transaction and ends it.
func (h *Harness) Transact(w *kgo.Client, commit kgo.TransactionEndTry, topic string,
	partition int32, values ...string,
) {
	h.Helper()
	h.OK(w.BeginTransaction())
	h.Write(w, topic, partition, values...)
	h.OK(w.EndTransaction(h.Context(), commit))
}

// Refuse makes the cluster answer the next requests of a kind with an error.
func (h *Harness) Refuse(key kmsg.Key, code int16, count int) *kfake.FaultHandle {
	return h.Fault(kfake.Fault{
		Keys: []kmsg.Key{key}, Err: kerr.TypedErrorForCode(code), Count: count,
	})
}

// Numbered returns n values: the prefix and a number from 0.
func Numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}
