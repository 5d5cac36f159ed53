package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

// loopWorld is a broker and a disk that outlive the task. The broker keeps what
// it has acknowledged; the disk forgets what was not synced.
type loopWorld struct {
	t      *testing.T
	rng    *rand.Rand
	client *kafka.Client
	disk   *vfs.MemFS
	calls  int // of the task to what it drives, in this life
	crash  int // the call at which it crashes; 0: it does not
	after  bool
	plant  func(*task.Dependencies)
}

type loopCrash struct{}

const (
	loopRecords = 600
	loopUsers   = 17
)

// TestLoopCrashes runs the task on the real adapters, the embedded broker and a
// store on a file system that loses what was not synced, and crashes it at random
// calls, before or after their effect. What is committed at the end is what an
// undisturbed run commits, and the store is what the changelog says.
func TestLoopCrashes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, problem := range crashLoop(t, seed, func(*task.Dependencies) {}) {
				t.Error(problem)
			}
		})
	}
	t.Run("planted", func(t *testing.T) {
		problems := crashLoop(t, 1, func(d *task.Dependencies) { d.Store = forgetful{d.Store} })
		if len(problems) == 0 {
			t.Error("a store that claims to be up to date after a crash goes unnoticed")
		}
	})
}

// forgetful is a planted fault: after a crash it takes what it has for all.
type forgetful struct{ task.Store }

func (f forgetful) Positions() (task.Positions, bool, error) {
	p, found, err := f.Store.Positions()
	if l, ok := f.Store.(loopStore); ok && found {
		p.Input, p.Changelog, err = l.w.newest()
	}
	return p, found, err
}

// newest is where the group and the changelog end.
func (w *loopWorld) newest() (input, changelog int64, err error) {
	input, _, err = consumer.Committed(w.t.Context(), w.client, consumer.Options{}, "loop", "raw", 0)
	f, err2 := consumer.NewFetcher(w.client, "log", 0, consumer.FetcherOptions{})
	if err = errors.Join(err, err2); err != nil {
		return 0, 0, err
	}
	_, changelog, err = f.Bounds(w.t.Context())
	return input, changelog, err
}

// crashLoop runs one world to its end and lists what is wrong with it.
func crashLoop(t *testing.T, seed uint64, plant func(*task.Dependencies)) []string {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{Partitions: 1, Topics: []devbroker.Topic{
		{Name: "raw"}, {Name: "out"}, {Name: "dead"}, {Name: "log", Configs: map[string]string{"cleanup.policy": "compact"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	w := &loopWorld{
		t: t, plant: plant, rng: rand.New(rand.NewPCG(seed, 2)),
		client: NewClient([]string{broker.Addr()}), disk: vfs.NewCrashableMem(),
	}
	w.feed()
	const crashes = 20
	for life := range crashes {
		w.live(1 + w.rng.IntN(60))
		w.disk = w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[life%3], RNG: w.rng})
		if life%9 == 4 {
			w.disk = vfs.NewCrashableMem() // the disk is gone
		}
		if life%5 == 2 {
			// The cleaner must keep away from what a crash has left open.
			if err := broker.Compact("out", "log", "dead"); err != nil && !errors.Is(err, devbroker.ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	return w.check(w.live(0))
}

func (w *loopWorld) feed() {
	p, err := producer.NewIdempotent(w.client, producer.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	batch := producer.Batch{TopicPartition: producer.TopicPartition{Topic: "raw"}}
	for i := range loopRecords {
		batch.Records = append(batch.Records, producer.Record{Key: fmt.Appendf(nil, "user%d", w.rng.IntN(loopUsers)), Value: fmt.Append(nil, i), Timestamp: int64(1_700_000_000_000 + i)})
	}
	if _, err := p.Produce(w.t.Context(), batch); err != nil {
		w.t.Fatal(err)
	}
}

// live runs a task until the input is used up, or until it crashes at a call. It
// answers with the states in the store at the end.
func (w *loopWorld) live(crash int) map[string]string {
	w.t.Helper()
	w.calls, w.crash, w.after = 0, crash, w.rng.IntN(2) == 0
	store, err := state.Open("state", state.Options{FS: w.disk, MemTableBytes: 256 << 10, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	group, err := consumer.NewGroup(w.client, consumer.GroupOptions{
		ID: "loop", Topic: "raw", SessionTimeout: 2 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	generation, err := group.Next(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	generation.Start(func(ctx context.Context) { ended <- w.run(ctx, store.Partition(0), generation) })
	if err := <-ended; err != nil && !errors.Is(err, errLoopCrash) {
		w.t.Fatalf("the task ended with %v (%v)", err, task.RemedyOf(err))
	}
	states := map[string]string{}
	if crash == 0 {
		if err := store.Partition(0).Iterate(func(k, v []byte) error { states[string(k)] = string(v); return nil }); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := errors.Join(group.Close(), store.Close()); err != nil {
		w.t.Fatal(err)
	}
	return states
}

var errLoopCrash = errors.New("crashed")

func (w *loopWorld) run(ctx context.Context, partition *state.Partition, g *consumer.Generation) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case loopCrash:
			err = errLoopCrash
		default:
			panic(r)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := func(topic string) *partitionLog {
		f, err := consumer.NewFetcher(w.client, topic, 0, consumer.FetcherOptions{MaxWait: 5 * time.Millisecond, MaxBytes: 2000})
		if err != nil {
			panic(err)
		}
		return &partitionLog{fetcher: f}
	}
	tx, err := producer.NewTransactional(w.client, "loop-raw-0", producer.Options{})
	if err != nil {
		return err
	}
	d := task.Dependencies{
		Input: &loopInput{Log: loopLog{log("raw"), w}, stop: cancel}, Changelog: loopLog{log("log"), w},
		Transactions: loopTransactions{&transactions{
			producer: tx, client: w.client, group: "loop", generation: g,
			input: producer.TopicPartition{Topic: "raw"}, output: producer.TopicPartition{Topic: "out"},
			changelog: producer.TopicPartition{Topic: "log"}, deadLetters: producer.TopicPartition{Topic: "dead"},
		}, w},
		Store: loopStore{partition, w}, Processor: &loopProcessor{},
	}
	w.plant(&d)
	t, err := task.New(d, task.Options{MaxRecords: 1 + w.rng.IntN(40), MaxInterval: time.Millisecond})
	if err != nil {
		return err
	}
	return t.Run(ctx)
}

// at makes a call, or crashes before or after it.
func (w *loopWorld) at(call func() error) error {
	w.calls++
	now := w.crash > 0 && w.calls >= w.crash
	if now && !w.after {
		panic(loopCrash{})
	}
	err := call()
	if now {
		panic(loopCrash{})
	}
	return err
}

type loopLog struct {
	task.Log
	w *loopWorld
}

func (l loopLog) Fetch(ctx context.Context, offset int64) (b task.Batch, err error) {
	err = l.w.at(func() error { b, err = l.Log.Fetch(ctx, offset); return err })
	return b, err
}

// loopInput stops the task when there is nothing more to read or to commit.
type loopInput struct {
	task.Log
	stop context.CancelFunc
	idle int
}

func (l *loopInput) Fetch(ctx context.Context, offset int64) (task.Batch, error) {
	b, err := l.Log.Fetch(ctx, offset)
	if err == nil && len(b.Records) == 0 && offset >= loopRecords {
		if l.idle++; l.idle == 2 {
			l.stop()
		}
	}
	return b, err
}

type loopTransactions struct {
	task.Transactions
	w *loopWorld
}

func (x loopTransactions) Fence(ctx context.Context) error {
	return x.w.at(func() error { return x.Transactions.Fence(ctx) })
}

func (x loopTransactions) Produce(ctx context.Context, out task.Outputs) error {
	return x.w.at(func() error { return x.Transactions.Produce(ctx, out) })
}

func (x loopTransactions) Commit(ctx context.Context, next int64) (end int64, err error) {
	err = x.w.at(func() error { end, err = x.Transactions.Commit(ctx, next); return err })
	return end, err
}

type loopStore struct {
	task.Store
	w *loopWorld
}

func (s loopStore) Apply(changes []task.Change, p task.Positions) error {
	return s.w.at(func() error { return s.Store.Apply(changes, p) })
}

func (s loopStore) Wipe() error { return s.w.at(s.Store.Wipe) }

// loopProcessor makes a chain of hashes for each user, and a dead letter of every
// thirteenth record.
type loopProcessor struct{ state, out []byte }

func (p *loopProcessor) Process(rec task.Record, old []byte, fx *task.Effects) error {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q", rec.Key, rec.Value, old)
	if h.Sum64()%13 == 0 {
		fx.DeadLetters = append(fx.DeadLetters, task.Message{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
		return nil
	}
	p.state = binary.BigEndian.AppendUint64(p.state[:0], h.Sum64())
	p.out = fmt.Appendf(p.out[:0], "%s:%x", rec.Value, p.state)
	fx.State = p.state
	fx.Output = append(fx.Output, task.Message{Key: rec.Key, Value: p.out, Timestamp: rec.Timestamp})
	return nil
}

// check compares what is committed with a plain loop over the raw records.
func (w *loopWorld) check(got map[string]string) (problems []string) {
	w.t.Helper()
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	states, processor := map[string]string{}, &loopProcessor{}
	var out, dead []string
	for _, r := range w.read("raw", false) {
		var fx task.Effects
		if err := processor.Process(task.Record{Key: r.Key, Value: r.Value}, []byte(states[string(r.Key)]), &fx); err != nil {
			w.t.Fatal(err)
		}
		if len(fx.State) > 0 {
			states[string(r.Key)] = string(fx.State)
		}
		for _, m := range fx.Output {
			out = append(out, string(m.Value))
		}
		for _, m := range fx.DeadLetters {
			dead = append(dead, string(m.Value))
		}
	}
	for topic, want := range map[string][]string{"out": out, "dead": dead} {
		var committed []string
		for _, r := range w.read(topic, false) {
			committed = append(committed, string(r.Value))
		}
		if !slices.Equal(committed, want) {
			wrong("%s holds %d committed records, want %d, or in another order", topic, len(committed), len(want))
		}
		seen := map[string]string{}
		all := w.read(topic, true)
		for _, r := range all {
			id, _, _ := strings.Cut(string(r.Value), ":")
			if old, ok := seen[id]; ok && old != string(r.Value) {
				wrong("%s: record %s was made in two ways", topic, id)
			}
			seen[id] = string(r.Value)
		}
	}
	if !maps.Equal(got, states) {
		wrong("the store holds %d states that are not the %d of an undisturbed run", len(got), len(states))
	}
	return problems
}

// read reads a topic to its end.
func (w *loopWorld) read(topic string, uncommitted bool) (records []consumer.Record) {
	w.t.Helper()
	f, err := consumer.NewFetcher(w.client, topic, 0, consumer.FetcherOptions{Uncommitted: uncommitted})
	if err != nil {
		w.t.Fatal(err)
	}
	offset, end, err := f.Bounds(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for offset < end {
		b, err := f.Fetch(w.t.Context(), offset)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range b.Records {
			r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
			records = append(records, r)
		}
		offset = b.Next
	}
	return records
}
