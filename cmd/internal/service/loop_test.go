package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
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
	broker *devbroker.Broker
	life   *loopLife
	plant  func(*task.Dependencies)
	lost   int // lives that found less on the disk than was applied
}

// loopLife is one life of the task.
type loopLife struct {
	w       *loopWorld
	mu      sync.Mutex
	calls   int // of the task to what it drives
	crash   int // the call at which it crashes; 0: it does not
	after   bool
	running sync.WaitGroup // calls
}

type loopCrash struct{}

const (
	loopRecords = 600
	loopUsers   = 17
)

// TestLoopCrashes runs the task on the real adapters, the embedded broker and a store on a file
// system that loses what was not synced, and crashes it at random calls, before or after their
// effect, and the disk with it. What is committed at the end is what an undisturbed run commits,
// and the store is what the changelog says.
func TestLoopCrashes(t *testing.T) {
	t.Parallel()
	seeds := uint64(6)
	if s := os.Getenv(CrashesEnv); s != "" {
		_, err := fmt.Sscan(s, &seeds)
		servicetest.OK(t, err)
	}
	lost := 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			problems, n := crashLoop(t, seed, func(*task.Dependencies) {})
			for _, problem := range problems {
				t.Error(problem)
			}
			lost += n
		})
	}
	if lost == 0 {
		t.Error("no start had to catch up from what a crash had left: the test shows nothing of it")
	}
	t.Run("planted", func(t *testing.T) {
		// What a crash loses is up to the disk, so one world may lose nothing that counts.
		const worlds = 10
		for seed := range uint64(worlds) {
			problems, _ := crashLoop(t, seed,
				func(d *task.Dependencies) { d.Store = forgetful{d.Store} })
			if len(problems) > 0 {
				t.Logf("noticed with seed %d: %s", seed, problems[0])
				return
			}
		}
		t.Error("a store that claims to be up to date after a crash goes unnoticed")
	})
}

// forgetful is a planted fault: after a crash it takes what it has for all.
type forgetful struct{ task.Store }

func (f forgetful) Positions() (task.Positions, bool, error) {
	p, found, err := f.Store.Positions()
	if l, ok := f.Store.(loopStore); ok && found {
		p.Input, p.Changelog, err = l.life.w.newest()
	}
	return p, found, err
}

// newest is where the group and the changelog end.
func (w *loopWorld) newest() (input, changelog int64, err error) {
	input, _, err = consumer.Committed(w.t.Context(), w.client, wire.Options{}, "loop", "raw", 0)
	f, err2 := consumer.NewFetcher(w.client, "log", 0, consumer.FetcherOptions{})
	if err = errors.Join(err, err2); err != nil {
		return 0, 0, err
	}
	_, changelog, err = f.Bounds(w.t.Context())
	return input, changelog, err
}

// newLoopWorld has all records in its input.
func newLoopWorld(t *testing.T, seed uint64, plant func(*task.Dependencies)) *loopWorld {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{Partitions: 1, Topics: []devbroker.Topic{
		{Name: "raw"},
		{Name: "out"},
		{Name: "dead"},
		{Name: "log", Configs: map[string]string{"cleanup.policy": "compact"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servicetest.OK(t, broker.Close()) })
	w := &loopWorld{
		t: t, plant: plant, broker: broker, rng: rand.New(rand.NewPCG(seed, 2)),
		client: kafkaconn.NewClient([]string{broker.Addr()}), disk: vfs.NewCrashableMem(),
	}
	w.feed()
	return w
}

// crashLoop runs one world to its end and lists what is wrong with it, and how
// many starts had to catch up.
func crashLoop(
	t *testing.T, seed uint64, plant func(*task.Dependencies),
) (problems []string, lost int) {
	t.Helper()
	w := newLoopWorld(t, seed, plant)
	const crashes = 20
	for life := range crashes {
		w.live(1 + w.rng.IntN(60))
		if life%9 == 4 {
			w.disk = vfs.NewCrashableMem() // the disk is gone
		}
		if life%5 == 2 {
			// The cleaner must keep away from what a crash has left open.
			if err := w.broker.Compact("out", "log", "dead"); err != nil &&
				!errors.Is(err, devbroker.ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	return w.check(w.live(0)), w.lost
}

func (w *loopWorld) feed() {
	p, err := producer.NewIdempotent(w.client, producer.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	batch := producer.Batch{TopicPartition: producer.TopicPartition{Topic: "raw"}}
	for i := range loopRecords {
		batch.Records = append(batch.Records, producer.Record{
			Key: fmt.Appendf(nil, "user%d", w.rng.IntN(loopUsers)), Value: fmt.Append(nil, i),
			Timestamp: int64(1_700_000_000_000 + i),
		})
	}
	if _, err := p.Produce(w.t.Context(), batch); err != nil {
		w.t.Fatal(err)
	}
}

// live runs a task until the input is used up, or until it crashes at a call. It
// answers with the states in the store at the end.
func (w *loopWorld) live(crash int) map[string]string {
	w.t.Helper()
	states, err := w.try(crash)
	if err != nil && !errors.Is(err, errLoopCrash) {
		w.t.Fatalf("the task ended with %v (%v)", err, task.RemedyOf(err))
	}
	return states
}

// try is live with the task's error. A crash takes the disk as it is at that
// moment, with more or less of what was not synced.
func (w *loopWorld) try(crash int) (map[string]string, error) {
	w.t.Helper()
	w.life = &loopLife{w: w, crash: crash, after: w.rng.IntN(2) == 0}
	// A small memtable is flushed every few transactions, so a crash leaves some of them.
	store, err := state.Open("state",
		state.Options{FS: w.disk, MemTableBytes: 8 << 10, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	group, err := group.Join(w.client, group.Options{
		ID: "loop", Topic: "raw", SessionTimeout: 2 * time.Second,
		HeartbeatInterval: 50 * time.Millisecond,
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
	lease := generation.Leases[0]
	lease.Start(func(ctx context.Context) {
		ended <- w.run(ctx, store.Partition(0), lease)
	})
	end := <-ended
	if errors.Is(end, errLoopCrash) {
		w.disk = w.disk.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: []int{0, 50, 90, 100}[w.rng.IntN(4)], RNG: w.rng,
		})
	}
	states := map[string]string{}
	if crash == 0 {
		if err := store.Partition(0).Iterate(func(k, v []byte) error {
			states[string(k)] = string(v)
			return nil
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := errors.Join(group.Close(), store.Close()); err != nil {
		w.t.Fatal(err)
	}
	return states, end
}

var errLoopCrash = errors.New("crashed")

func (w *loopWorld) run(
	ctx context.Context, partition *state.Partition, lease *group.Lease,
) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case loopCrash:
			w.life.running.Wait() // those beside the task
			err = errLoopCrash
		default:
			panic(r)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := func(topic string) *partitionLog {
		f, err := consumer.NewFetcher(w.client, topic, 0,
			consumer.FetcherOptions{MaxWait: 5 * time.Millisecond, MaxBytes: 2000})
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
		Input:     &loopInput{Log: loopLog{log("raw"), w.life}, stop: cancel},
		Changelog: loopLog{log("log"), w.life},
		Transactions: loopTransactions{&transactions{
			producer: tx, client: w.client, group: "loop", lease: lease,
			outputs:     newOutputs(slog.New(slog.DiscardHandler)),
			input:       producer.TopicPartition{Topic: "raw"},
			output:      producer.TopicPartition{Topic: "out"},
			changelog:   producer.TopicPartition{Topic: "log"},
			deadLetters: producer.TopicPartition{Topic: "dead"},
		}, w.life},
		Store: loopStore{partition, w.life}, Processor: &loopProcessor{},
	}
	w.plant(&d)
	t, err := task.New(d, task.Options{
		MaxRecords: 1 + w.rng.IntN(12), MaxInterval: time.Millisecond, Settings: []byte("loop"),
		Observer:     loopObserver{w: w},
		CleanerTrims: true, // devbroker's Compact
	})
	if err != nil {
		return err
	}
	return t.Run(ctx)
}

// at makes a call of the task's goroutine, or crashes before or after it.
func (l *loopLife) at(call func() error) error {
	err := l.beside(call)
	if errors.Is(err, errLoopCrash) {
		panic(loopCrash{})
	}
	return err
}

// beside makes a call that may come from another goroutine. If the process crashes there, the task
// hears of it by an error after which it touches nothing.
func (l *loopLife) beside(call func() error) error {
	l.running.Add(1)
	defer l.running.Done()
	l.mu.Lock()
	l.calls++
	n := l.calls
	l.mu.Unlock()
	crashed := task.WithRemedy(errLoopCrash, task.Leave)
	if l.crash > 0 && (n > l.crash || n == l.crash && !l.after) {
		return crashed
	}
	err := call()
	if n == l.crash {
		return crashed
	}
	return err
}

// loopObserver counts the starts that had to catch up.
type loopObserver struct {
	task.NopObserver
	w *loopWorld
}

func (o loopObserver) Restored(r task.Restore) {
	if r.Wiped == "" && r.Records > 0 {
		o.w.lost++
	}
}

type loopLog struct {
	task.Log
	life *loopLife
}

func (l loopLog) Bounds(ctx context.Context) (first, end int64, err error) {
	err = l.life.at(func() error { first, end, err = l.Log.Bounds(ctx); return err })
	return first, end, err
}

func (l loopLog) Fetch(ctx context.Context, offset int64, wait time.Duration) (
	b task.Batch, err error,
) {
	err = l.life.beside(func() error { b, err = l.Log.Fetch(ctx, offset, wait); return err })
	return b, err
}

// loopInput stops the task when there is nothing more to read or to commit.
type loopInput struct {
	task.Log
	stop context.CancelFunc
	idle int
}

func (l *loopInput) Fetch(ctx context.Context, offset int64, wait time.Duration) (
	task.Batch, error,
) {
	b, err := l.Log.Fetch(ctx, offset, wait)
	if err == nil && len(b.Records) == 0 && offset >= loopRecords {
		if l.idle++; l.idle == 2 {
			l.stop()
		}
	}
	return b, err
}

type loopTransactions struct {
	task.Transactions
	life *loopLife
}

func (x loopTransactions) Fence(ctx context.Context) error {
	return x.life.at(func() error { return x.Transactions.Fence(ctx) })
}

func (x loopTransactions) Committed(ctx context.Context) (offset int64, found bool, err error) {
	err = x.life.at(func() error { offset, found, err = x.Transactions.Committed(ctx); return err })
	return offset, found, err
}

func (x loopTransactions) Abort(ctx context.Context) error {
	return x.life.at(func() error { return x.Transactions.Abort(ctx) })
}

func (x loopTransactions) Produce(ctx context.Context, out task.Outputs) (end int64, err error) {
	err = x.life.beside(func() error { end, err = x.Transactions.Produce(ctx, out); return err })
	return end, err
}

func (x loopTransactions) Commit(ctx context.Context, next int64) (end int64, err error) {
	err = x.life.beside(func() error { end, err = x.Transactions.Commit(ctx, next); return err })
	return end, err
}

type loopStore struct {
	task.Store
	life *loopLife
}

func (s loopStore) Apply(changes []task.Change, p task.Positions) error {
	return s.life.at(func() error { return s.Store.Apply(changes, p) })
}

func (s loopStore) Positions() (p task.Positions, found bool, err error) {
	err = s.life.at(func() error { p, found, err = s.Store.Positions(); return err })
	return p, found, err
}

func (s loopStore) Wipe() error { return s.life.at(s.Store.Wipe) }

// loopProcessor makes a chain of hashes for each user, and a dead letter of every
// thirteenth record.
type loopProcessor struct{ state, out []byte }

func (p *loopProcessor) Process(rec task.Record, old []byte, fx *task.Effects) error {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q", rec.Key, rec.Value, old)
	if h.Sum64()%13 == 0 {
		fx.DeadLetters = append(fx.DeadLetters,
			task.Message{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
		return nil
	}
	p.state = p.state[:0]
	for range 60 { // so long that a crash may lose some states and keep others
		p.state = binary.BigEndian.AppendUint64(p.state, h.Sum64())
	}
	p.out = fmt.Appendf(p.out[:0], "%s:%x", rec.Value, h.Sum64())
	fx.State = p.state
	fx.Output = append(fx.Output,
		task.Message{Key: rec.Key, Value: p.out, Timestamp: rec.Timestamp})
	return nil
}

// check compares what is committed with a plain loop over the raw records.
func (w *loopWorld) check(got map[string]string) (problems []string) {
	w.t.Helper()
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	states, processor := map[string]string{}, &loopProcessor{}
	var out, dead []string
	for _, r := range w.read("raw", false) {
		var fx task.Effects
		if err := processor.Process(task.Record{Key: r.Key, Value: r.Value},
			[]byte(states[string(r.Key)]), &fx); err != nil {
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
			wrong("%s holds %d committed records, want %d, or in another order",
				topic, len(committed), len(want))
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
		wrong("the store holds %d states that are not the %d of an undisturbed run",
			len(got), len(states))
	}
	return problems
}

// read reads a topic to its end.
func (w *loopWorld) read(topic string, uncommitted bool) (records []consumer.Record) {
	w.t.Helper()
	f, err := consumer.NewFetcher(w.client, topic, 0,
		consumer.FetcherOptions{Uncommitted: uncommitted})
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
