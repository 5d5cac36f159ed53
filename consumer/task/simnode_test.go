package task

import (
	"context"
	"errors"
	"iter"
	"maps"
	"strconv"
	"time"
)

// node is one life of one task.
type node struct {
	w          *world
	store      *simStore
	where      int
	generation int
	epoch      int
	settings   int       // that it was started with
	versions   []Version // that it was started with
	ctx        context.Context
	cancel     context.CancelFunc
	resume     func() bool // runs it to its next call; false: it has ended
	kill       func()
	yield      func(struct{}) bool // of the coroutine that runs
	errand     *simErrand          // what runs beside the task, the last one
	interval   time.Duration       // MaxInterval
	late       int                 // records in a row that were processed after that
	paused     int                 // steps for which it stands still
	task       *Task
	idle       int
	lent       []Record // memory of the last batch, spoilt at the next Fetch
	crash      bool     // how it has ended
	err        error
	told       bool  // to stop
	blind      bool  // a planted fault: its generation is not checked
	replaced   bool  // its member is in the generation in which another has the partition
	hasty      bool  // a planted fault: it fences before its member knows who has the partition
	produced   int64 // where the changelog ended after its last Produce
	logID      int   // of the changelog that its store belongs to
	acceptLost bool  // it may go on without a changelog
}

// fault is what goes wrong at a call.
type fault uint8

const (
	fine        fault = iota
	crashBefore       // the process dies before the call is made
	crashAfter        // it dies when the call has had its effect, or a part of it
	loseDisk          // it dies, and its disk with it
	failBefore        // an error, without an effect
	failAfter         // an error, with the effect or a part of it
	retryBefore       // the answer is that it should be repeated
	takeover          // the partition is given to another task; this one is not told
	suspend           // so too, and this one stands still for a while (SIGSTOP)
	stop              // the task is told to stop
	restart           // it is told to stop, and its successor has other settings
	upgrade           // it dies, and its successor has other settings
	jump              // the clock jumps by hours
	expire            // the broker ends the open transaction
	retention         // the broker removes input records, processed or not
	putUp             // the task is told to stop, and its successor has a version more
	loseLog           // the changelog is deleted and made again
	faultKinds
)

var faultNames = [...]string{
	"fine", "crash before", "crash after", "crash, disk lost", "error before", "error after",
	"retry", "takeover", "suspended",
	"stop", "stop, other settings", "crash, other settings", "clock jumps", "transaction expires",
	"records removed", "stop, a version more", "the changelog is deleted",
}

func (f fault) String() string { return faultNames[f] }

// point is a fault at the nth call, or at the nth call of a name.
type point struct {
	name  string // "" for any
	nth   int    // from 1
	fault fault
}

// fault draws what happens at this call.
func (n *node) fault(name string) fault {
	w := n.w
	if w.plan != nil {
		for _, p := range w.plan {
			if p.name == "" && p.nth == w.calls || p.name == name && p.nth == w.counts[name] {
				return p.fault
			}
		}
		return fine
	}
	odds := 10
	if name == "Transactions.Abort" { // rare, as it follows another fault
		odds = 2
	}
	left := &w.faults
	if name == "Partitioned.Passed" || w.passing {
		left = &w.idleFaults
	}
	if *left == 0 || w.rng.IntN(odds) != 0 {
		return fine
	}
	*left--
	return fault(1 + w.rng.IntN(int(faultKinds)-1))
}

// call makes one call to a dependency, with what may go wrong around it.
// effect is told whether its answer will be lost.
func (n *node) call(name string, effect func(lost bool) error) error {
	if !n.yield(struct{}{}) {
		panic(crashed{})
	}
	w := n.w
	w.calls++
	w.counts[name]++
	w.background()
	f := n.fault(name)
	w.events[name+"/"+f.String()]++
	w.points(n, name, f)
	switch f {
	case loseDisk:
		n.store.applied, n.store.synced = nil, 0
		panic(crashed{})
	case upgrade, restart:
		if !w.unnamed {
			w.settings++
		}
		if f == upgrade {
			panic(crashed{})
		}
		n.cancel()
	case crashBefore:
		panic(crashed{})
	case crashAfter:
		_ = effect(true)
		panic(crashed{})
	case failBefore:
		return errAnswer
	case failAfter:
		_ = effect(true)
		return errAnswer
	case retryBefore:
		return WithRemedy(errAnswer, Retry)
	case takeover, suspend:
		if w.owner == n {
			w.assign()
		}
		if f == suspend {
			n.paused = 1 + w.rng.IntN(100)
		} else if w.rng.IntN(2) == 0 {
			n.paused = w.rng.IntN(10)
		}
		if !n.yield(struct{}{}) { // asleep before the call
			panic(crashed{})
		}
	case stop:
		n.cancel()
	case jump:
		w.now = w.now.Add(time.Duration(1+w.rng.IntN(40)) * time.Hour)
	case expire:
		if w.open != nil && !w.deciding {
			w.complete()
		}
	case retention:
		w.retain(int64(len(w.input.entries)))
	case putUp:
		w.putUp()
		n.cancel()
	case loseLog:
		if !w.parted { // when it closed windows cannot be told from the input
			w.loseChangelog()
		}
	case fine, faultKinds:
	}
	return effect(false)
}

// start makes a task on a machine. It runs when it is resumed.
func (w *world) start(where int) *node {
	n := &node{
		w: w, where: where, store: w.stores[where], generation: w.generation,
		settings: w.settings, versions: w.versions,
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.store.call = n.storeCall
	n.openStore()
	d := Dependencies{
		Input: simReader{n, &w.input, "Input"}, Changelog: simReader{n, &w.changelog, "Changelog"},
		Transactions: n, Store: n.store, Processor: &simProcessor{settings: n.settings, n: n},
	}
	o := Options{
		Name: "sim", MaxRecords: 1 + w.rng.IntN(8), MaxBytes: 1 + w.rng.IntN(1000),
		MaxInterval:  time.Duration(1+w.rng.IntN(100)) * time.Millisecond,
		IdleInterval: time.Duration(1+w.rng.IntN(200)) * time.Millisecond, Retries: 3, Doubts: 8,
		Clock: simClock{w}, Observer: &watch{n: n},
		Settings: []byte(strconv.Itoa(n.settings)), Source: []byte("input"), Versions: n.versions,
		AcceptSettings: w.accept, SkipLost: w.skip, End: w.end,
		AcceptLost: n.acceptLost, CleanerTrims: true, // simLog.trim
	}
	if w.unnamed {
		o.Settings = nil
	}
	if w.parted {
		d.Partitioned, o.Skew = simPartitioned{d.Processor.(*simProcessor)}, brokerSkew
	}
	n.interval = o.MaxInterval
	w.accept = false
	reader := d.Input
	w.mutant.plant(n, &d, &o)
	if _, able := d.Input.(Ended); !able {
		d.Input = endedLog{d.Input, reader.(Ended)}
	}
	var err error
	if n.task, err = New(d, o); err != nil {
		panic(err)
	}
	n.task.beside = n.beside
	var own func(struct{}) bool
	step, end := iter.Pull(func(yield func(struct{}) bool) {
		own, n.yield = yield, yield
		n.live()
	})
	n.kill = func() {
		n.yield = own
		end()
		n.errand.kill()
	}
	n.resume = func() bool {
		if n.errand.runs() && w.rng.IntN(2) == 0 {
			if n.errand.step(); n.errand.crash {
				n.kill()
			}
			return !n.errand.crash
		}
		n.yield = own
		_, alive := step()
		if !alive {
			if n.errand.runs() && !n.crash {
				w.violated("a task has ended while its transaction was on its way")
			}
			n.errand.kill()
		}
		return alive
	}
	w.nodes[where] = n
	return n
}

// simErrand is a second coroutine of a task. It gives way at each call as the first one does, so
// the seed decides how the two run past each other.
type simErrand struct {
	n     *node
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
	ended bool
	crash bool // the process has died in one of its calls
}

// beside implements Task.beside.
func (n *node) beside(work func()) errand {
	if n.errand.runs() {
		n.w.violated("two errands at a time")
	}
	e := &simErrand{n: n}
	e.next, e.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(crashed); !ok {
					panic(r)
				}
				e.crash = true
			}
		}()
		e.yield, n.yield = yield, yield
		work()
		e.ended = true
	})
	n.errand = e
	return e
}

func (e *simErrand) runs() bool { return e != nil && !e.ended && !e.crash }

// step runs it to its next call.
func (e *simErrand) step() {
	e.n.yield = e.yield
	e.next()
}

// kill ends it where it is.
func (e *simErrand) kill() {
	if e.runs() {
		e.n.yield = e.yield
		e.stop()
		e.crash = true
	}
}

func (e *simErrand) done() bool { return e.ended }

// wait gives way until it has ended.
func (e *simErrand) wait() {
	for !e.ended {
		if !e.n.yield(struct{}{}) {
			panic(crashed{})
		}
	}
}

// live runs the task until it ends.
func (n *node) live() {
	defer n.cancel()
	defer func() {
		n.store.spoil()
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				panic(r)
			}
			n.store.crash(n.w.rng)
			n.crash = true
		}
	}()
	n.err = n.task.Run(n.ctx)
	n.told = n.ctx.Err() != nil
}

// storeCall never answers Retry or Rebuild: a store that fails is Fatal.
func (n *node) storeCall(name string, effect func()) error {
	err := WithRemedy(n.call("Store."+name, func(bool) error {
		effect()
		n.follows(name)
		return nil
	}), Unmarked)
	return err
}

// follows checks that the store does not lead.
func (n *node) follows(name string) {
	w := n.w
	if name == "Apply" && n.task.state == Restoring && n.errand.runs() {
		w.events["a batch is applied while the next one is fetched"]++
	}
	if name == "Wipe" {
		n.store.of = w.logID // what comes is a copy of the log that is there now
	}
	if n != w.owner && n.store.of != w.logID {
		return // it slept through the changelog's loss, and its next process sets the store aside
	}
	states, at, found := n.store.contents()
	l := n.copied()
	if !found || l == nil {
		return
	}
	if at.Input > w.committed {
		w.violated("the store is at input %d, the group at %d: it leads", at.Input, w.committed)
	}
	stable := l.stable()
	if at.Changelog > stable {
		w.violated("the store is at changelog %d, its stable end is %d: it leads", at.Changelog,
			stable)
		return
	}
	if name == "Apply" && n.task.state == Committing {
		n.compare(states, at.Changelog)
		return
	}
	for key, value := range states {
		if !l.ever(key, value, stable) {
			w.violated("the store has a state of %q that was never committed", key)
		}
	}
}

// compare holds the store against the changelog's first n offsets.
func (n *node) compare(states map[string]string, end int64) {
	l := n.copied()
	if l == nil {
		return
	}
	if want := l.fold(end); !maps.Equal(states, want) {
		n.w.violated("the store differs from the changelog up to %d: %q, want %q", end, states,
			want)
	}
}

// beheld looks at the task before a record is processed: is the transaction in hand long due, and
// what happens beside the one on its way?
func (n *node) beheld(key []byte) {
	t := n.task
	if t.flight.beside == nil {
		if n.late++; t.records == 0 || n.w.now.Sub(t.began) < n.interval {
			n.late = 0
		}
		if n.late > looks {
			n.w.violated("a transaction goes on for %d records after its time", n.late)
		}
		return
	}
	n.w.events["a record is processed beside a commit"]++
	_, own := t.overlay.get(key)
	if _, found := t.flight.overlay.get(key); found && !own {
		n.w.events["a state is read from the transaction in flight"]++
	}
}

// watch is the observer of a node.
type watch struct {
	NopObserver
	n *node
}

// Restored checks that the store equals the changelog. Not for a zombie: the
// rightful owner has gone on and the cleaner after it, so what a zombie has read
// is no prefix. It cannot commit anything; and its store is put right by the
// next replay, which is checked here.
func (o *watch) Restored(r Restore) {
	states, _, _ := o.n.store.contents()
	switch {
	case r.Assumed && len(states) > 0:
		o.n.w.violated("a store that begins without states has %q", states)
	case !r.Assumed && o.n.epoch == o.n.w.epoch:
		o.n.compare(states, r.To)
	}
	if r.Wiped != "" {
		o.n.w.events["wiped: "+r.Wiped]++
	}
}

// Sealed counts the transactions that end because of the time, before the batch has ended.
func (o *watch) Sealed(records int) {
	t := o.n.task
	o.n.late = 0
	if l := o.n.lent; len(l) > 0 && records > 0 && t.next <= l[len(l)-1].Offset &&
		records < t.o.MaxRecords && t.flight.overlay.bytes < t.o.MaxBytes {
		o.n.w.events["a transaction's time is up inside a batch"]++
	}
}

// Dropped counts the transactions that are given up with the one before them.
func (o *watch) Dropped(int, error) {
	if t := o.n.task; t.flight.records > 0 && t.records > 0 {
		o.n.w.events["two transactions are given up"]++
	}
}

var errZombie = errors.New("not a member of the current generation")
