package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quick are options for tests: short pauses, and patience for a busy machine.
var quick = wire.Options{MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, RetryTimeout: 20 * time.Second}

// impatient gives up soon, for tests of giving up.
var impatient = wire.Options{MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, RetryTimeout: 100 * time.Millisecond}

// harness is a cluster in this process, written to by franz-go.
type harness struct {
	*testing.T
	*kfake.Cluster
	client *kafka.Client
	lossy  *lossy
}

func newHarness(t *testing.T, opts ...kfake.Opt) *harness {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, "in")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	transport := &kafka.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cluster.Close()
	})
	network := &lossy{real: transport}
	return &harness{t, cluster, &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()...), Transport: network}, network}
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) is(err, target error) {
	h.Helper()
	if !errors.Is(err, target) {
		h.Errorf("error %v\nis not %v", err, target)
	}
}

// writer is a franz-go producer, transactional if it has an id.
func (h *harness) writer(id string) *kgo.Client {
	h.Helper()
	opts := []kgo.Opt{
		kgo.SeedBrokers(h.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
	}
	if id != "" {
		opts = append(opts, kgo.TransactionalID(id))
	}
	w, err := kgo.NewClient(opts...)
	h.ok(err)
	h.Cleanup(w.Close)
	return w
}

func (h *harness) write(w *kgo.Client, topic string, partition int32, values ...string) {
	h.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Key: []byte(v), Value: []byte(v)})
	}
	h.ok(w.ProduceSync(h.Context(), records...).FirstErr())
}

// transact writes values in a transaction and ends it.
func (h *harness) transact(w *kgo.Client, commit kgo.TransactionEndTry, topic string, partition int32, values ...string) {
	h.Helper()
	h.ok(w.BeginTransaction())
	h.write(w, topic, partition, values...)
	h.ok(w.EndTransaction(h.Context(), commit))
}

func (h *harness) fetcher(topic string, partition int32, o FetcherOptions) *Fetcher {
	h.Helper()
	if o.Options == (wire.Options{}) {
		o.Options = quick
	}
	o.MaxWait = cmp.Or(o.MaxWait, 5*time.Millisecond)
	f, err := NewFetcher(h.client, topic, partition, o)
	h.ok(err)
	return f
}

// readAll fetches from an offset until the stable end, or the end.
func (h *harness) readAll(f *Fetcher, from int64) (values []string, next int64) {
	h.Helper()
	_, end, err := f.Bounds(h.Context())
	h.ok(err)
	values = []string{}
	for rounds := 0; from < end; rounds++ {
		got, err := f.Fetch(h.Context(), from)
		h.ok(err)
		if rounds > 10_000 {
			h.Fatalf("no progress at %d", from)
		}
		for i, r := range got.Records {
			if r.Offset < from || r.Offset >= got.Next || i > 0 && r.Offset <= got.Records[i-1].Offset {
				h.Fatalf("offset %d is out of place from %d to %d", r.Offset, from, got.Next)
			}
		}
		values = append(values, valuesOf(got.Records)...)
		from = got.Next
	}
	return values, from
}

func (h *harness) expect(f *Fetcher, from int64, want ...string) {
	h.Helper()
	if got, _ := h.readAll(f, from); !slices.Equal(got, append([]string{}, want...)) {
		h.Errorf("read %q, want %q", got, want)
	}
}

// refuse makes the cluster answer the next requests of a kind with an error.
func (h *harness) refuse(key kmsg.Key, code int16, count int) *kfake.FaultHandle {
	return h.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.TypedErrorForCode(code), Count: count})
}

func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// lossy is a transport that can lose answers of one kind, lose requests, or hold
// them up.
type lossy struct {
	real  kafka.RoundTripper
	mutex sync.Mutex
	key   protocol.ApiKey
	times int
	drop  bool            // requests, not answers
	held  <-chan struct{} // requests wait for it, whatever their context says
}

func (l *lossy) lose(key protocol.ApiKey, times int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.key, l.times, l.drop, l.held = key, times, false, nil
}

// lost returns how many are still to be lost.
func (l *lossy) lost() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.times
}

// dropNext loses the next requests of a kind before they arrive.
func (l *lossy) dropNext(key protocol.ApiKey, times int) {
	l.lose(key, times)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.drop = true
}

// hold lets all requests of a kind wait until the function is called.
func (l *lossy) hold(key protocol.ApiKey) (release func()) {
	held := make(chan struct{})
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.key, l.times, l.held = key, 0, held
	return sync.OnceFunc(func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.held = nil
		close(held)
	})
}

// take reports what becomes of a request or its answer.
func (l *lossy) take(key protocol.ApiKey, answer bool) (lost bool, held <-chan struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if key != l.key {
		return false, nil
	}
	if l.times > 0 && l.drop != answer {
		l.times--
		return true, nil
	}
	return false, l.held
}

func (l *lossy) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (kafka.Response, error) {
	errLost := errors.New("connection reset by test")
	lost, held := l.take(req.ApiKey(), false)
	if lost {
		return nil, errLost
	}
	if held != nil {
		<-held
	}
	res, err := l.real.RoundTrip(ctx, addr, req)
	if lost, _ := l.take(req.ApiKey(), true); lost {
		return nil, errLost
	}
	return res, err
}
