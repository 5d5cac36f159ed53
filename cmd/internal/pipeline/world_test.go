package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// world is a broker with a raw topic that outlives the services which read it.
// Each service is named by its group, and so are its other topics.
type world struct {
	addr   string
	client *kafka.Client
	model  *mobility.Model
	dir    string

	feeder *producer.Idempotent
	codec  *schemas.Codec
	fleet  *rand.Rand
	cells  []grid.Cell // of each vehicle
	step   int64
	fed    int64 // records in the raw topic
}

const partitions = 4

// patience is how long a test waits for what must happen. It decides how soon a
// broken test ends, and nothing else.
const patience = 5 * time.Minute

func newWorld(tb testing.TB, vehicles int) *world {
	tb.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { broker.Close() })
	return newWorldAt(tb, broker.Addr(), vehicles)
}

func newWorldAt(tb testing.TB, addr string, vehicles int) *world {
	tb.Helper()
	w := &world{
		addr: addr, client: kafkaconn.NewClient([]string{addr}), dir: tb.TempDir(), model: neighbourModel(tb, town, 1000, 4),
		codec: newTestCodec(tb, schemas.Avro), fleet: rand.New(rand.NewPCG(1, 1)),
	}
	ok(tb, admin.CreateTopics(tb.Context(), w.client, wire.Options{}, admin.Topic{Name: "raw", Partitions: partitions}))
	var err error
	w.feeder, err = producer.NewIdempotent(w.client, producer.Options{})
	ok(tb, err)
	for range vehicles {
		w.cells = append(w.cells, w.model.SampleInitial(w.fleet))
	}
	return w
}

func ok(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// feed writes one step of the fleet to the raw topic: a fix of every vehicle,
// the first one's twice, a late one every tenth step, and one that is cut short.
func (w *world) feed(tb testing.TB) {
	tb.Helper()
	var records []producer.Record
	add := func(vehicle int, ms int64) {
		lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[vehicle]))
		fix := schemas.Raw{UserID: fmt.Sprintf("vehicle-%03d", vehicle), Timestamp: ms, Latitude: lat, Longitude: lon}
		value, err := w.codec.AppendRaw(nil, fix)
		ok(tb, err)
		records = append(records, producer.Record{Key: []byte(fix.UserID), Value: value, Timestamp: ms})
	}
	at := startMS + w.step*60_000
	for v := range w.cells {
		add(v, at)
		w.cells[v] = w.model.SampleNext(w.fleet, w.cells[v], w.step)
	}
	add(0, at+1)
	if w.step%10 == 9 {
		add(1, at-60_000)
	}
	bad := records[w.step%int64(len(records))]
	bad.Value = bad.Value[:len(bad.Value)-3]
	w.send(tb, append(records, bad)...)
	w.step++
}

// send writes records to the raw topic.
func (w *world) send(tb testing.TB, records ...producer.Record) {
	tb.Helper()
	_, err := w.feeder.Send(tb.Context(), "raw", partitions, records)
	ok(tb, err)
	w.fed += int64(len(records))
}

// topics are those of a service.
func topicsOf(group string) topics.Set {
	return topics.Set{Raw: "raw", Sanitized: group + ".out", Changelog: group + ".log", DeadLetters: group + ".dead", Create: true}
}

// options are those of a service with small transactions.
func (w *world) options(group string) Options {
	return Options{
		Cluster:    topics.Cluster{Brokers: []string{w.addr}, Group: group, Topics: topicsOf(group)},
		Settings:   Settings{Model: w.model, Key: testKey, Release: testRelease},
		StateDir:   filepath.Join(w.dir, group),
		MaxRecords: 20, MaxInterval: 20 * time.Millisecond, SessionTimeout: 6 * time.Second,
		Counters: new(Counters), Logger: slog.New(slog.DiscardHandler),
	}
}

// running is a service at work.
type running struct {
	*Service
	log    *captured
	cancel context.CancelFunc
	done   chan struct{}
	err    error // when it is done
}

// start runs a service with its log captured. It is stopped at the test's end
// if not before.
func start(tb testing.TB, o Options, change ...func(*Service)) *running {
	tb.Helper()
	r := &running{log: new(captured), done: make(chan struct{})}
	o.Logger = r.log.logger()
	var err error
	r.Service, err = NewService(o)
	ok(tb, err)
	for _, c := range change {
		c(r.Service)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(tb.Context()))
	go func() {
		r.err = r.Run(ctx)
		close(r.done)
	}()
	tb.Cleanup(func() {
		r.cancel()
		<-r.done
	})
	return r
}

// stop ends the service as a signal would, and requires that it ends well.
func (r *running) stop(tb testing.TB) {
	tb.Helper()
	r.cancel()
	if err := r.wait(tb); err != nil {
		tb.Fatalf("the service did not stop cleanly: %v\n%s", err, r.log)
	}
	if bytes.Contains(r.log.bytes(), []byte("level=ERROR")) {
		tb.Errorf("the service logged errors:\n%s", r.log)
	}
}

func (r *running) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		tb.Fatalf("the service does not end\n%s", r.log)
		return nil
	}
}

// captured is a log in memory, everything from debug up.
type captured struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *captured) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *captured) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text.Bytes())
}

func (c *captured) String() string { return string(c.bytes()) }

func (c *captured) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// await waits until a condition holds, while services work.
func await(tb testing.TB, what string, holds func() bool, services ...*running) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		for _, r := range services {
			select {
			case <-r.done:
				tb.Fatalf("a service ended before %s: %v\n%s", what, r.err, r.log)
			default:
			}
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
