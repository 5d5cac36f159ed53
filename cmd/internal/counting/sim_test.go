package counting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// sim is a broker in memory, the tasks of both stages, one at a time, and a clock. A seed decides
// which task works when and for how long, and how many calls fail. Where a task is when a call of
// its other goroutine fails is not decided by the seed.
type sim struct {
	t        *testing.T
	mu       sync.Mutex
	rng      *rand.Rand
	settings Settings
	key      noise.Key
	now      time.Time
	faults   int
	logs     map[string][]*entry
	nodes    []*simNode
	eraser   task.Eraser
	events   map[string]int
}

const targets = 2 // partitions of the partials' topic

type status int

const (
	pending status = iota
	committed
	aborted
)

// entry is a record of a log. Its offset is its place.
type entry struct {
	rec    task.Record
	status status
	fromMS int64 // when it was appended, by a right clock
}

// simNode is a stage's task of one partition, with what outlives it.
type simNode struct {
	*sim
	number                   int32
	input, changelog, output string // logs without a number
	offset                   int64  // the group's, -1 if there is none
	epoch                    int    // of the last life
	states                   map[string]string
	at                       task.Positions
	found                    bool
	backup                   map[string]string // an earlier store
	backupAt                 task.Positions
}

func newSim(t *testing.T, s Settings, seed uint64, log []fix) *sim {
	t.Helper()
	w := &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 9)), settings: s, key: noise.KeyFromSeed(1),
		now: time.UnixMilli(s.Plan.Windows(s.First)[0].StartMS), faults: 40,
		logs: map[string][]*entry{}, eraser: new(Eraser), events: map[string]int{},
	}
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for number, part := range byPartition(log) {
		from := make([]int64, len(part)) // as late as clocks and the order of the log allow
		for i, f := range slices.Backward(part) {
			if from[i] = f.append + s.SkewMS; i+1 < len(part) {
				from[i] = min(from[i], from[i+1])
			}
		}
		for i, f := range part {
			value, err := codec.AppendRaw(nil, schemas.Raw{
				UserID: f.user, Timestamp: f.eventMS, Latitude: 51.5, Longitude: f.longitude,
			})
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("raw/%d", number)
			rec := task.Record{
				Offset: int64(i), Timestamp: f.append, Key: []byte(f.user), Value: value,
			}
			w.logs[name] = append(w.logs[name], &entry{rec, committed, from[i]})
		}
		w.nodes = append(w.nodes, &simNode{
			sim: w, number: int32(number), input: "raw", changelog: "windows", output: "partials",
			offset: -1, states: map[string]string{},
		})
	}
	for number := range int32(targets) {
		w.nodes = append(w.nodes, &simNode{
			sim: w, number: number, input: "partials", changelog: "totals", output: "counts",
			offset: -1, states: map[string]string{},
		})
	}
	return w
}

var errCall = errors.New("no answer")

// call is what goes wrong at a call: nothing, an error before the effect, or after it.
func (n *simNode) call(name string, effect func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	fault := 0
	if n.faults > 0 && n.rng.IntN(60) == 0 {
		n.faults--
		fault = 1 + n.rng.IntN(4)
		n.events[name]++
	}
	if fault != 1 && fault != 2 {
		effect()
	}
	switch fault {
	case 1, 3:
		return task.WithRemedy(errCall, task.Rebuild)
	case 2, 4:
		return task.WithRemedy(errCall, task.Leave) // it dies
	}
	return nil
}

// life is one life of a node's task: a task.Transactions, and makes the rest.
type life struct {
	*simNode
	epoch  int
	idle   int // answers without a record, until it is told to stop
	cancel context.CancelFunc
}

func (l *life) log(name string) *simLog {
	return &simLog{l, fmt.Sprintf("%s/%d", name, l.number)}
}

// run runs a task until it was idle some times, or dies.
func (n *simNode) run(idle int) {
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	l := &life{simNode: n, idle: idle, cancel: cancel}
	d := task.Dependencies{
		Input: l.log(n.input), Changelog: l.log(n.changelog), Transactions: l,
		Store: (*simStore)(n),
	}
	if n.input == "raw" {
		source := engine.Source{Encoding: schemas.JSON, MaxAhead: engine.DefaultMaxAhead}
		p, err := NewWindows(n.settings, source, engine.Murmur2,
			engine.Partition{Number: n.number, Of: partitions}, targets)
		if err != nil {
			n.t.Fatal(err)
		}
		d.Processor, d.Partitioned, d.Key, d.Eraser = p, p, p.Key, n.eraser
	} else {
		p, err := NewTotals(n.settings, n.key, encodeText)
		if err != nil {
			n.t.Fatal(err)
		}
		d.Processor, d.Partitioned = p, p
	}
	worker, err := task.New(d, task.Options{
		Name: "sim", MaxRecords: 1 + n.rng.IntN(8), Clock: simClock{n.sim}, CleanerTrims: true,
		Settings: []byte(n.changelog), Skew: time.Duration(n.settings.SkewMS) * time.Millisecond,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil && !errors.Is(err, errCall) {
		n.t.Fatal(err)
	}
	switch n.rng.IntN(6) {
	case 0:
		n.states, n.found = map[string]string{}, false
		n.events["a disk is lost"]++
	case 1:
		if n.backup != nil {
			n.states, n.at = maps.Clone(n.backup), n.backupAt
		}
	case 2:
		if n.found {
			n.backup, n.backupAt = maps.Clone(n.states), n.at
		}
	}
}

// Fence implements task.Transactions.
func (l *life) Fence(context.Context) error {
	return l.call("fence", func() {
		l.simNode.epoch++
		l.epoch = l.simNode.epoch
		l.end(aborted)
	})
}

// end ends the transaction that is open.
func (l *life) end(to status) {
	for name, log := range l.logs {
		own := name == fmt.Sprintf("%s/%d", l.changelog, l.number) ||
			strings.HasPrefix(name, l.output+"/")
		for _, e := range log {
			if own && e.status == pending && string(e.rec.Headers.(writer)) == l.writer() {
				e.status = to
			}
		}
	}
}

// writer is who has written a record.
type writer string

// Last implements task.Headers.
func (writer) Last(string) ([]byte, bool) { return nil, false }

func (l *life) writer() string { return fmt.Sprintf("%s/%d", l.changelog, l.number) }

// Committed implements task.Transactions.
func (l *life) Committed(context.Context) (offset int64, found bool, err error) {
	err = l.call("committed", func() { offset = l.offset })
	return offset, offset >= 0 && err == nil, err
}

// Produce implements task.Transactions.
func (l *life) Produce(_ context.Context, out task.Outputs) (end int64, err error) {
	err = l.call("produce", func() {
		for _, m := range out.Output {
			l.checkTime(m)
			l.write(fmt.Sprintf("%s/%d", l.output, m.To.Partition(l.number)), m)
		}
		for _, m := range out.Changelog {
			l.write(l.writer(), m)
		}
		end = int64(len(l.logs[l.writer()]))
	})
	return end, err
}

// checkTime: no window is shown before its time, not even to readers of uncommitted data.
func (l *life) checkTime(m task.Message) {
	if l.output != "partials" {
		return
	}
	window := l.settings.Plan.At(read(l.t, m.Value).startMS)
	if l.now.UnixMilli() <= l.settings.deadline(window)+l.settings.SkewMS {
		l.t.Errorf("a window that ends at %d is closed at %d", window.EndMS, l.now.UnixMilli())
	}
}

func (l *life) write(name string, m task.Message) {
	l.logs[name] = append(l.logs[name], &entry{rec: task.Record{
		Offset: int64(len(l.logs[name])), Timestamp: m.Timestamp, Key: bytes.Clone(m.Key),
		Value: bytes.Clone(m.Value), Headers: writer(l.writer()),
	}})
}

// Commit implements task.Transactions.
func (l *life) Commit(_ context.Context, next int64) (end int64, err error) {
	err = l.call("commit", func() {
		l.end(committed)
		l.offset = next
		end = int64(len(l.logs[l.writer()]))
	})
	return end, err
}

// Abort implements task.Transactions.
func (l *life) Abort(context.Context) error { return l.call("abort", func() { l.end(aborted) }) }

// simLog is a task.Log and Ended.
type simLog struct {
	*life
	name string
}

// bounds are the end of what can be read, and the whole end.
func (l *simLog) bounds() (stable, end int64) {
	stable = -1
	for i, e := range l.logs[l.name] {
		if e.fromMS > l.now.UnixMilli() {
			break
		}
		if end++; e.status == pending && stable < 0 {
			stable = int64(i)
		}
	}
	if stable < 0 {
		stable = end
	}
	return stable, end
}

// Fetch implements task.Log.
func (l *simLog) Fetch(_ context.Context, offset int64, wait time.Duration) (task.Batch, error) {
	b := task.Batch{Next: offset}
	err := l.call("fetch", func() {
		b.StableEnd, _ = l.bounds()
		for limit := 1 + l.rng.IntN(12); b.Next < b.StableEnd && limit > 0; limit-- {
			if e := l.logs[l.name][b.Next]; e.status == committed {
				rec := e.rec
				rec.Headers = nil
				b.Records = append(b.Records, rec)
			}
			b.Next++
		}
		if l.name != fmt.Sprintf("%s/%d", l.input, l.number) || b.Next > offset {
			return
		}
		l.now = l.now.Add(wait)
		if l.idle--; l.idle <= 0 {
			l.cancel()
		}
	})
	return b, err
}

// Bounds implements task.Log.
func (l *simLog) Bounds(context.Context) (first, end int64, err error) {
	err = l.call("bounds", func() { end, _ = l.bounds() })
	return 0, end, err
}

// High implements task.Ended.
func (l *simLog) High(context.Context) (end int64, err error) {
	err = l.call("high", func() { _, end = l.bounds() })
	return end, err
}

type simClock struct{ *sim }

// Now implements task.Clock.
func (c simClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep implements task.Clock.
func (simClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// simStore is a node's task.Store and Eraseable.
type simStore simNode

func (s *simStore) Positions() (task.Positions, bool, error) { return s.at, s.found, nil }

func (s *simStore) Get(key []byte) ([]byte, error) { return []byte(s.states[string(key)]), nil }

func (s *simStore) Apply(changes []task.Change, p task.Positions) error {
	for _, c := range changes {
		if s.states[string(c.Key)] = string(c.Value); len(c.Value) == 0 {
			delete(s.states, string(c.Key))
		}
	}
	s.at, s.found = p, true
	return nil
}

func (s *simStore) Wipe() error {
	s.states, s.found = map[string]string{}, false
	return nil
}

func (s *simStore) Reserved(name string, visit func(key, value []byte) error) error {
	return s.list(visit, func(key string) bool { return strings.HasPrefix(key, name) })
}

func (s *simStore) After(after []byte, visit func(key, value []byte) error) error {
	return s.list(visit, func(key string) bool {
		return task.ValidKey([]byte(key)) && key > string(after)
	})
}

func (s *simStore) list(visit func(key, value []byte) error, wanted func(string) bool) error {
	for _, key := range slices.Sorted(maps.Keys(s.states)) {
		if !wanted(key) {
			continue
		}
		if err := visit([]byte(key), []byte(s.states[key])); err != nil {
			return err
		}
	}
	return nil
}

func (s *simStore) Purge() error { return nil }

// erase asks the owner of a partition to erase a user, as the command does: it fences the owner,
// and writes the request and the last mark once more.
func (n *simNode) erase(user string) {
	log := fmt.Sprintf("%s/%d", n.changelog, n.number)
	l := &life{simNode: n}
	l.end(aborted)
	var mark []byte
	for _, e := range n.logs[log] {
		if e.status == committed && string(e.rec.Key) == task.MarkKey {
			mark = e.rec.Value
		}
	}
	if mark == nil {
		return
	}
	n.epoch++
	request := task.AppendRequest(nil, task.Request{Key: []byte(user), Reset: true})
	l.write(log, task.Message{Key: new(Eraser).RequestKey([]byte(user)), Value: request})
	l.write(log, task.Message{Key: []byte(task.MarkKey), Value: mark})
	l.end(committed)
	n.events["a user is erased"]++
}

// left is what the changelogs of the windows hold in the end.
func (w *sim) left() map[string]string {
	last := map[string]string{}
	for name, log := range w.logs {
		if !strings.HasPrefix(name, "windows/") {
			continue
		}
		for _, e := range log {
			if e.status == committed {
				last[name+string(e.rec.Key)] = string(e.rec.Value)
			}
		}
	}
	maps.DeleteFunc(last, func(_, value string) bool { return value == "" })
	return last
}

func encodeText(dst []byte, r schemas.Counts) ([]byte, error) {
	return fmt.Appendf(dst, "%d %s|%d", r.WindowStart, r.Zone, r.Vehicles), nil
}

// simulate lets the tasks live and die over two days, and returns the first thing that is wrong.
func (w *sim) simulate(log []fix) error {
	s := w.settings
	end := s.Plan.Windows(s.First + 2)[1].StartMS + s.Admission.GraceMS + s.SkewMS + 1
	for w.now.UnixMilli() < end {
		w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(40 * time.Minute))))
		w.nodes[w.rng.IntN(len(w.nodes))].run(1 + w.rng.IntN(4))
		if w.rng.IntN(10) == 0 {
			user := name(w.rng.IntN(6))
			at, _ := engine.Murmur2.Partition([]byte(user), partitions)
			w.nodes[at].erase(user)
		}
	}
	w.faults = 0
	for range 2 {
		for _, n := range w.nodes {
			n.run(6)
		}
	}
	return w.check(log)
}

// check holds what was written against a count of the raw log alone.
func (w *sim) check(log []fix) error {
	got, shown := map[string]int{}, map[string]string{}
	for name, entries := range w.logs {
		for _, e := range entries {
			id, value := string(e.rec.Key), string(e.rec.Value)
			switch {
			case strings.HasPrefix(name, "counts/"):
				if e.status == committed {
					got[value]++
				}
				id, _, _ = strings.Cut(value, "|")
			case strings.HasPrefix(name, "partials/"):
				p, err := decodePartial(e.rec.Value)
				if err != nil {
					return err
				}
				id = fmt.Sprint(id, "/", p.partition)
			default:
				continue
			}
			if before, found := shown[id]; found && before != value {
				return fmt.Errorf("a reader of uncommitted data sees %s as %q and %q", id, before,
					value)
			}
			shown[id] = value
		}
	}
	want := fromFile(w.t, w.settings, w.key, log, encodeText)
	maps.DeleteFunc(got, func(value string, _ int) bool { // of windows after the oracle's last one
		_, known := want[value]
		var start int64
		_, _ = fmt.Sscan(value, &start)
		return !known && start > w.settings.Plan.Windows(w.settings.First + 2)[0].StartMS
	})
	for value, n := range want {
		if got[value] != n {
			return fmt.Errorf("%q was published %d times, want %d", value, got[value], n)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d counts were published, want %d", len(got), len(want))
	}
	for key, value := range w.left() {
		_, key, _ = strings.Cut(key, "/")
		switch kind := (task.Record{Key: []byte(key[1:]), Value: []byte(value)}); {
		case strings.HasPrefix(key[1:], task.RequestKey):
			return fmt.Errorf("a request was not carried out: %q", kind.Key)
		case strings.HasPrefix(key[1:], task.KeptKey), task.ValidKey(kind.Key):
			user, err := decodeUser(kind.Value)
			if err != nil || user[len(user)-1].date < w.settings.First+2 {
				return errors.Join(fmt.Errorf("%q is left with closed days: %v", kind.Key, user),
					err)
			}
		}
	}
	return nil
}

// TestSimulation: two days with crashes, answers that are lost, disks that are lost, late, slow and
// idle partitions, and users who are erased. Every window is published once, byte for byte what a
// count of the raw log gives, and none is shown before its time or twice with other bytes. After a
// day is closed nothing of its users is left.
func TestSimulation(t *testing.T) {
	events := map[string]int{}
	for seed := range uint64(12) {
		s := testSettings(t)
		log := fixesOf(s, seed)
		w := newSim(t, s, seed, log)
		if err := w.simulate(log); err != nil || t.Failed() {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for e, n := range w.events {
			events[e] += n
		}
	}
	for _, e := range strings.Split(
		"fence,committed,produce,commit,fetch,bounds,high,a disk is lost,a user is erased", ",",
	) {
		if events[e] == 0 {
			t.Errorf("%q has never happened", e)
		}
	}
}

// forgetful erases a user's day with the user.
type forgetful struct{ Eraser }

func (*forgetful) Erase(task.Request, int64, []byte, []byte) ([]byte, error) { return nil, nil }

// TestSimulationNoticesFaults: a user who is erased and counts again on the same day is found.
func TestSimulationNoticesFaults(t *testing.T) {
	for seed := range uint64(12) {
		s := testSettings(t)
		log := fixesOf(s, seed)
		w := newSim(t, s, seed, log)
		w.eraser = new(forgetful)
		if err := w.simulate(log); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("a user who counts again after an erasure is not found")
}
