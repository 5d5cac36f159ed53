// Package servicetest is what the tests of the service and of the commands beside it share: a world
// with an embedded broker, a map and a fleet (World), fixes and what comes of them (Sentinel,
// Process), the secrets that must not get out (RequireNoLeak), and something at work beside a test
// (Run, Await). It knows none of the packages that it helps to test but topics, so that their
// internal tests can use it.
package servicetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// World is a broker with a raw topic that outlives the services which read it.
// Each service is named by its group, and so are its other topics.
type World struct {
	Addr   string            // of the broker
	Broker *devbroker.Broker // nil: it was there before
	Client *kafka.Client
	Model  *mobility.Model
	Dir    string // for the folders of services

	Feeder *producer.Idempotent
	Codec  *schemas.Codec
	Fleet  *rand.Rand
	Cells  []grid.Cell // of each vehicle
	Step   int64       // of the next Feed
	Fed    int64       // records in the raw topic
}

// Partitions is how many the raw topic has.
const Partitions = 4

// Patience is how long a test waits for what must happen. It decides how soon a
// broken test ends, and nothing else.
const Patience = 5 * time.Minute

// NewWorld starts a broker, with a raw topic and a fleet of vehicles that has fed nothing yet.
func NewWorld(tb testing.TB, vehicles int) *World {
	tb.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = broker.Close() })
	w := NewWorldAt(tb, broker.Addr(), vehicles)
	w.Broker = broker
	return w
}

// NewWorldAt is NewWorld at a broker that is there.
func NewWorldAt(tb testing.TB, addr string, vehicles int) *World {
	tb.Helper()
	w := &World{
		Addr: addr, Client: kafkaconn.NewClient([]string{addr}), Dir: tb.TempDir(),
		Model: NeighbourModel(tb, Town, 1000, 4), Codec: NewCodec(tb, schemas.Avro),
		Fleet: rand.New(rand.NewPCG(1, 1)),
	}
	OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "raw", Partitions: Partitions}))
	var err error
	w.Feeder, err = producer.NewIdempotent(w.Client, producer.Options{})
	OK(tb, err)
	for range vehicles {
		w.Cells = append(w.Cells, w.Model.SampleInitial(w.Fleet))
	}
	return w
}

// OK ends the test on an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Feed writes one step of the fleet to the raw topic: a fix of every vehicle,
// the first one's twice, a late one every tenth step, and one that is cut short.
func (w *World) Feed(tb testing.TB) {
	tb.Helper()
	var records []producer.Record
	add := func(vehicle int, ms int64) {
		lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[vehicle]))
		fix := schemas.Raw{
			UserID: fmt.Sprintf("vehicle-%03d", vehicle), Timestamp: ms, Latitude: lat,
			Longitude: lon,
		}
		value, err := w.Codec.AppendRaw(nil, fix)
		OK(tb, err)
		records = append(records,
			producer.Record{Key: []byte(fix.UserID), Value: value, Timestamp: ms})
	}
	at := StartMS + w.Step*60_000
	for v := range w.Cells {
		add(v, at)
		w.Cells[v] = w.Model.SampleNext(w.Fleet, w.Cells[v], w.Step)
	}
	add(0, at+1)
	if w.Step%10 == 9 {
		add(1, at-60_000)
	}
	bad := records[w.Step%int64(len(records))]
	bad.Value = bad.Value[:len(bad.Value)-3]
	w.Send(tb, append(records, bad)...)
	w.Step++
}

// Send writes records to the raw topic.
func (w *World) Send(tb testing.TB, records ...producer.Record) {
	tb.Helper()
	_, err := w.Feeder.Send(tb.Context(), "raw", Partitions, records)
	OK(tb, err)
	w.Fed += int64(len(records))
}

// Topics are those of the service of a group.
func Topics(group string) topics.Set {
	return topics.Set{
		Raw: "raw", Sanitized: group + ".out", Changelog: group + ".log",
		DeadLetters: group + ".dead", Create: true,
	}
}

// Running is a service at work, or whatever else is run beside a test.
type Running struct {
	Log    *Log
	cancel context.CancelFunc
	done   chan struct{}
	Err    error // when it is done
}

// Run runs something with its log captured. It is stopped at the test's end if not
// before.
func Run(tb testing.TB, log *Log, run func(context.Context) error) *Running {
	tb.Helper()
	r := &Running{Log: log, done: make(chan struct{})}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(tb.Context()))
	go func() {
		r.Err = run(ctx)
		close(r.done)
	}()
	tb.Cleanup(func() {
		r.cancel()
		<-r.done
	})
	return r
}

// Stop ends the service as a signal would, and requires that it ends well.
func (r *Running) Stop(tb testing.TB) {
	tb.Helper()
	r.cancel()
	if err := r.Wait(tb); err != nil {
		tb.Fatalf("the service did not stop cleanly: %v\n%s", err, r.Log)
	}
	if bytes.Contains(r.Log.Bytes(), []byte("level=ERROR")) {
		tb.Errorf("the service logged errors:\n%s", r.Log)
	}
}

// Wait waits for the service's end, and returns what it ended with.
func (r *Running) Wait(tb testing.TB) error {
	tb.Helper()
	select {
	case <-r.done:
		return r.Err
	case <-time.After(Patience):
		tb.Fatalf("the service does not end\n%s", r.Log)
		return nil
	}
}

// Cancel stops the service as a signal would, and does not wait.
func (r *Running) Cancel() { r.cancel() }

// Done is closed when the service has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

func (r *Running) beside() *Running { return r }

// AtWork is a running service in whatever type.
type AtWork interface{ beside() *Running }

// Log is a log in memory, everything from debug up.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (c *Log) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

// Bytes returns a copy of the text.
func (c *Log) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text.Bytes())
}

// String returns the text.
func (c *Log) String() string { return string(c.Bytes()) }

// Logger returns a logger that writes here.
func (c *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Await waits until a condition holds, while services work.
func Await(tb testing.TB, what string, holds func() bool, services ...AtWork) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !holds() {
		for _, s := range services {
			r := s.beside()
			select {
			case <-r.done:
				tb.Fatalf("a service ended before %s: %v\n%s", what, r.Err, r.Log)
			default:
			}
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
