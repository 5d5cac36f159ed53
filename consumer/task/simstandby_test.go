package task

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// standbys are those of a world: on each machine without a task one may follow the changelog into
// the machine's store. They draw from a stream of their own, so that a seed's tasks do what they do
// without standbys for as long as no store differs.
type standbys struct {
	w      *world
	rng    *rand.Rand
	on     [3]*standby
	copied [3]bool // a standby has written to the store since a task has
	plant  func(s *standby, log *Log, store *Store, o *Options)
	beside bool // a planted fault: a standby goes on when a task begins on its store
}

// standby is one life of one standby.
type standby struct {
	all    *standbys
	w      *world
	store  *simStore
	logID  int // of the changelog that its store belongs to
	ctx    context.Context
	cancel context.CancelFunc
	resume func() bool
	kill   func()
	yield  func(struct{}) bool
	paused int
	lent   []Record
	err    error
}

func withStandbys(w *world, seed uint64) *standbys {
	w.standbys = &standbys{w: w, rng: rand.New(rand.NewPCG(seed, 3))}
	return w.standbys
}

// tend lets standbys begin, make steps and die.
func (a *standbys) tend() {
	if a == nil {
		return
	}
	for where, s := range a.on {
		switch {
		case s == nil && a.w.nodes[where] == nil && a.rng.IntN(4) == 0:
			a.begin(where)
		case s == nil:
		case s.logID != a.w.logID &&
			(a.w.backup == nil || a.w.acceptLost || a.rng.IntN(20) == 0):
			// The service has seen that its changelog was deleted, and has stopped.
			a.die(where)
		case s.paused > 0:
			s.paused--
		case a.rng.IntN(100) == 0:
			s.paused = a.rng.IntN(200)
			if a.rng.IntN(4) == 0 { // the machine sleeps
				a.w.now = a.w.now.Add(time.Duration(1+a.rng.IntN(40)) * time.Hour)
			}
		case a.rng.IntN(60) == 0:
			a.die(where)
		default:
			a.step(where)
		}
	}
}

// begin starts a standby on a machine, on the changelog's own store.
func (a *standbys) begin(where int) {
	w, store := a.w, a.w.stores[where]
	if store.of != w.logID {
		if w.backup != nil {
			return // the service does not start
		}
		store.applied, store.synced, store.of = nil, 0, w.logID
	}
	s := &standby{all: a, w: w, store: store, logID: w.logID}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var log Log = followReader{s}
	var to Store = followStore{s}
	o := Options{
		Name: "standby", Retries: 2, Clock: simClock{w}, CleanerTrims: true,
	}
	if a.plant != nil {
		a.plant(s, &log, &to, &o)
	}
	step, end := iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(crashed); !ok {
					panic(r)
				}
				store.crash(a.rng)
			}
		}()
		f := newFollower(log, to, o, func(f Following) {
			switch {
			case f.Doubt != nil:
				w.events["standby doubts: "+f.Doubt.Error()]++
			case f.At == f.End:
				w.events["standby is at the end"]++
			}
		})
		f.t.beside = s.beside
		s.err = f.run(s.ctx)
	})
	s.kill = end
	s.resume = func() bool {
		_, alive := step()
		return alive
	}
	a.on[where] = s
}

func (a *standbys) step(where int) {
	s := a.on[where]
	if s.resume() {
		return
	}
	a.on[where] = nil
	if s.err != nil {
		a.w.violated("a standby ended: %w", s.err)
	}
}

// die ends a standby's process, and perhaps its machine.
func (a *standbys) die(where int) {
	a.on[where].kill()
	a.on[where] = nil
}

// end ends all of them.
func (a *standbys) end() {
	if a == nil {
		return
	}
	for where, s := range a.on {
		if s != nil {
			a.die(where)
		}
	}
}

// retire stops the standby of a machine, before a task begins there.
func (a *standbys) retire(where int) {
	if a == nil || a.on[where] == nil || a.beside {
		return
	}
	s := a.on[where]
	s.cancel()
	for s.resume() {
	}
	a.on[where] = nil
	if s.err != nil {
		a.w.violated("a standby that was told to stop ended: %w", s.err)
	}
}

// restored counts what tasks have found of standbys' work.
func (a *standbys) restored(n *node, r Restore) {
	if a == nil {
		return
	}
	if a.copied[n.where] && r.Wiped == "" {
		a.w.events[fmt.Sprintf("a task begins on a copy, and lacks %t", r.Records > 0)]++
	}
	a.copied[n.where] = false
}

// beside makes the calls at once: a standby's reads come one after the other.
func (s *standby) beside(work func()) errand {
	work()
	return new(scriptErrand)
}

// call makes one call, with what may go wrong.
func (s *standby) call(effect func() error) error {
	if !s.yield(struct{}{}) {
		panic(crashed{})
	}
	switch s.all.rng.IntN(80) {
	case 0:
		return errAnswer
	case 1:
		return WithRemedy(errAnswer, Retry)
	}
	return effect()
}

// followReader is the changelog, as a standby reads it.
type followReader struct{ s *standby }

func (r followReader) Fetch(ctx context.Context, offset int64, _ time.Duration) (
	b Batch, err error,
) {
	s := r.s
	for _, rec := range s.lent {
		spoilt(rec.Key)
		spoilt(rec.Value)
	}
	s.lent = nil
	err = s.call(func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err = s.w.changelog.read(offset, 1+s.all.rng.IntN(12))
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	s.lent = b.Records
	return b, nil
}

func (r followReader) Bounds(context.Context) (first, end int64, err error) {
	err = r.s.call(func() error {
		first, end = r.s.w.changelog.first, r.s.w.changelog.stable()
		return nil
	})
	return first, end, err
}

// followStore is the machine's store, as a standby uses it. Its calls do not fail: an error would
// end the service.
type followStore struct{ s *standby }

func (f followStore) touch() {
	if !f.s.yield(struct{}{}) {
		panic(crashed{})
	}
}

func (f followStore) Positions() (Positions, bool, error) {
	f.touch()
	_, at, found := f.s.store.contents()
	return at, found, nil
}

func (f followStore) Get(key []byte) ([]byte, error) {
	if !bytes.Equal(key, markKey) {
		panic("a standby needs no state")
	}
	f.touch()
	return f.s.store.get(key), nil
}

func (f followStore) Apply(changes []Change, at Positions) error {
	f.touch()
	a := simApply{at: at}
	for _, c := range changes {
		a.changes = append(a.changes, clone(Message{Key: c.Key, Value: c.Value}))
	}
	f.s.store.applied = append(f.s.store.applied, a)
	if len(changes) == 0 && f.s.store.of != f.s.w.logID {
		return nil // past aborted records of the log that was made again
	}
	f.s.follows()
	return nil
}

func (f followStore) Wipe() error {
	f.touch()
	f.s.store.applied = append(f.s.store.applied, simApply{wipe: true})
	f.s.store.of = f.s.w.logID // what comes is a copy of the log that is there now
	f.s.w.events["standby wipes"]++
	return nil
}

// follows checks that the copy does not lead, and that at a mark it is what was committed then. The
// copy of a changelog that is lost stays what it was, and may be where the last answer ended.
func (s *standby) follows() {
	w, l := s.w, &s.w.changelog
	states, at, _ := s.store.contents()
	if s.store.of != w.logID {
		l = w.backup
	}
	if l == nil || l == w.backup && at.Input == none {
		return
	}
	for where, store := range w.stores {
		s.all.copied[where] = s.all.copied[where] || store == s.store
	}
	switch stable := l.stable(); {
	case at.Input > w.committed:
		w.violated("a standby is at input %d, the group at %d: it leads", at.Input, w.committed)
	case at.Changelog > stable:
		w.violated("a standby is at changelog %d, its stable end is %d: it leads", at.Changelog,
			stable)
	case at.Input != none && !maps.Equal(states, l.fold(at.Changelog)):
		w.violated("a standby differs from the changelog up to %d: %q, want %q", at.Changelog,
			states, l.fold(at.Changelog))
	}
}

// TestStandbys: with standbys on all machines that have no task, every history is still one that
// could have happened without a fault, and tasks find copies that lack nothing.
func TestStandbys(t *testing.T) {
	const enough = 2000
	count := uint64(enough)
	if testing.Short() {
		count = 300
	}
	events := map[string]int{}
	for seed := range count {
		w := newWorld(seed, true)
		withStandbys(w, seed)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for e, n := range w.events {
			events[e] += n
		}
	}
	if count < enough {
		return
	}
	for _, why := range []string{
		"standby is at the end", "standby wipes", "lacks false", "lacks true",
		"doubts: the changelog is empty", "doubts: the store is older",
		"doubts: read the changelog", "lost: rebuilt from a store",
	} {
		if !has(events, why) {
			t.Errorf("%q has never happened", why)
		}
	}
	t.Logf("%d tasks began on a copy that lacked nothing, %d on one that lacked something",
		events["a task begins on a copy, and lacks false"],
		events["a task begins on a copy, and lacks true"])
}

// TestStandbyMutants shows that the simulation would notice these mistakes.
func TestStandbyMutants(t *testing.T) {
	for _, m := range standbyMutants {
		t.Run(m.name, func(t *testing.T) {
			const seeds = 5000
			for seed := range uint64(seeds) {
				w := newWorld(seed, true)
				m.set(withStandbys(w, seed))
				if err := w.run(); err != nil {
					t.Logf("caught at seed %d: %.120s", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d seeds", seeds)
		})
	}
}

var standbyMutants = []struct {
	name string
	set  func(a *standbys)
}{
	{"a standby reads beyond the last stable offset", func(a *standbys) {
		a.plant = func(s *standby, log *Log, _ *Store, _ *Options) {
			*log = unstable{*log, uncommitted{*log, &node{w: s.w}}}
		}
	}},
	{"a standby goes on when the task has begun", func(a *standbys) { a.beside = true }},
	{"a task trusts a standby's copy, without a restoration", func(a *standbys) {
		a.w.mutant.make = func(n *node, d *Dependencies, _ *Options) {
			d.Transactions, d.Changelog = trusting{n}, trusted{d.Changelog, n}
		}
	}},
	{"a standby of any age goes on", func(a *standbys) {
		a.plant = func(_ *standby, _ *Log, _ *Store, o *Options) { o.MaxStoreAge = 1 << 62 }
	}},
	{"a standby applies a transaction in parts", func(a *standbys) {
		a.plant = func(s *standby, log *Log, _ *Store, _ *Options) { *log = hurried{*log, s.w} }
	}},
}

// unstable asks as one who reads what is committed, and gets all there is.
type unstable struct {
	Log
	all Log
}

func (m unstable) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	if b, err := m.Log.Fetch(ctx, offset, wait); err != nil {
		return b, err
	}
	return m.all.Fetch(ctx, offset, wait)
}

// trusting and trusted go by what the store says of itself.
type trusting struct{ *node }

func (m trusting) Committed(ctx context.Context) (int64, bool, error) {
	offset, found, err := m.node.Committed(ctx)
	if _, at, known := m.store.contents(); known && found && at.Input != none {
		offset = at.Input
	}
	return offset, found, err
}

type trusted struct {
	Log
	n *node
}

func (m trusted) Bounds(ctx context.Context) (int64, int64, error) {
	first, end, err := m.Log.Bounds(ctx)
	if _, at, known := m.n.store.contents(); known && at.Input != none {
		end = min(end, at.Changelog)
	}
	return first, end, err
}

// hurried ends whatever it has read with the last committed mark.
type hurried struct {
	Log
	w *world
}

func (m hurried) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	b, err := m.Log.Fetch(ctx, offset, wait)
	if n := len(b.Records); n > 0 && string(b.Records[n-1].Key) != MarkKey {
		b.Records = append(b.Records, Record{
			Offset: b.Next - 1, Key: []byte(MarkKey), Value: AppendMark(nil, m.w.mark),
		})
	}
	return b, err
}
