package task

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"
	"time"
)

// world is a broker, two machines with a store each, and a clock, all on one
// goroutine. Whatever happens is a function of the seed.
type world struct {
	rng    *rand.Rand
	now    time.Time
	faults int  // that may still happen
	smooth bool // none ever happens
	calls  int

	input, output, dead, changelog simLog
	committed                      int64 // the group's offset, none if there is none
	generation                     int
	epoch                          int
	open                           bool  // a transaction is
	deciding                       bool  // its commit is decided, but not carried out
	offset                         int64 // what it commits
	stale                          int64 // what Committed still answers, for staleReads calls
	staleReads                     int

	stores    [2]*simStore
	done      bool  // the input is used up and a task has stopped cleanly
	violation error // the first broken invariant
	mutant    mutant
	events    map[string]int // how often what happened
}

type crashed struct{}

var errAnswer = errors.New("no answer from the broker")

const tombstonesMS = 24 * 3600 * 1000

func newWorld(seed uint64, faults bool) *world {
	// The input comes from a stream of its own, so that a run without faults
	// has the same one.
	data := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 2)), now: time.UnixMilli(1_700_000_000_000),
		committed: none, stores: [2]*simStore{{}, {}}, events: map[string]int{},
	}
	w.output.visible, w.dead.visible, w.changelog.visible = -1, -1, -1
	keys := []string{"a", "b", "c", "dd", "eee", "", "\x00input"}
	for range 15 + data.IntN(40) {
		key := keys[data.IntN(len(keys)-2*data.IntN(2))]
		value := make([]byte, 1+data.IntN(6))
		for i := range value {
			value[i] = byte(data.Uint32())
		}
		m := Message{Key: []byte(key), Value: value, Timestamp: int64(data.IntN(1000))}
		w.input.append([]status{plain, plain, plain, plain, plain, plain, aborted, control}[data.IntN(8)], m)
	}
	if faults {
		w.faults = w.rng.IntN(14)
	}
	w.smooth = w.faults == 0
	return w
}

func (w *world) violated(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf(format, args...)
	}
}

// complete carries out the commit that is decided, or aborts what is open.
func (w *world) complete() {
	to := aborted
	if w.deciding {
		to = plain
		if w.rng.IntN(4) == 0 && w.faults > 0 {
			w.stale, w.staleReads = w.committed, 1+w.rng.IntN(2)
		}
		w.committed = w.offset
	}
	for _, l := range []*simLog{&w.output, &w.dead, &w.changelog} {
		l.resolve(to)
	}
	w.open, w.deciding, w.offset = false, false, none
}

// background is what goes on whatever the task does.
func (w *world) background() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(40)) * time.Millisecond)
	w.input.visible = min(w.input.visible+int64(w.rng.IntN(5)), int64(len(w.input.entries)))
	if w.deciding && w.rng.IntN(6) == 0 {
		w.complete()
	}
	if w.rng.IntN(8) == 0 {
		w.changelog.compact(w.now.UnixMilli(), tombstonesMS)
		if w.rng.IntN(2) == 0 {
			w.changelog.trim()
		}
	}
	for _, s := range w.stores {
		if w.rng.IntN(10) == 0 {
			s.synced = len(s.applied)
		}
	}
}

// node is one life of one task.
type node struct {
	w          *world
	store      *simStore
	where      int
	generation int
	epoch      int
	nested     bool
	left       int // calls until it stops, for a nested node; 0 means no end
	cancel     context.CancelFunc
	task       *Task
	idle       int
	lent       []Record // memory of the last batch, spoilt at the next Fetch
}

// fault is what goes wrong at a call.
type fault uint8

const (
	fine fault = iota
	crashBefore
	crashAfter
	failBefore
	failAfter
	retryBefore
	takeover
	stop
	jump
	expire
	faultKinds
)

// fault draws what happens at this call.
func (n *node) fault(name string) fault {
	w := n.w
	odds := 9
	if name == "abort" { // rare, as it follows another fault
		odds = 2
	}
	if w.faults == 0 || w.rng.IntN(odds) != 0 {
		return fine
	}
	w.faults--
	f := fault(1 + w.rng.IntN(int(faultKinds)-1))
	if f == takeover && n.nested {
		f = crashBefore
	}
	return f
}

// call makes one call to a dependency, with what may go wrong around it.
// effect is told whether its answer will be lost.
func (n *node) call(name string, effect func(lost bool) error) error {
	w := n.w
	w.calls++
	w.background()
	if n.left > 0 {
		if n.left--; n.left == 0 {
			if w.rng.IntN(2) == 0 {
				panic(crashed{})
			}
			n.cancel()
		}
	}
	f := n.fault(name)
	w.events[fmt.Sprintf("%s/%d", name, f)]++
	switch f {
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
	case takeover:
		_, _ = w.live(1-n.where, true)
	case stop:
		n.cancel()
	case jump:
		w.now = w.now.Add(time.Duration(1+w.rng.IntN(40)) * time.Hour)
	case fine, faultKinds:
	case expire:
		if w.open && !w.deciding {
			w.complete()
		}
	}
	return effect(false)
}

// live runs a task on one machine until it ends, and answers with its error.
func (w *world) live(where int, nested bool) (crash bool, err error) {
	w.generation++
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := &node{w: w, where: where, store: w.stores[where], generation: w.generation, nested: nested, cancel: cancel}
	if nested {
		n.left = 1 + w.rng.IntN(30)
	}
	n.store.get = func() error { return n.storeCall("get", func() {}) }
	n.store.apply = n.apply
	d := Dependencies{
		Input: simReader{n, &w.input}, Changelog: simReader{n, &w.changelog}, Transactions: n, Store: n.store, Processor: &simProcessor{},
	}
	o := Options{
		Name: "sim", MaxRecords: 1 + w.rng.IntN(8), MaxBytes: 1 + w.rng.IntN(1000), MaxInterval: time.Duration(1+w.rng.IntN(100)) * time.Millisecond,
		IdleInterval: time.Duration(1+w.rng.IntN(200)) * time.Millisecond, Retries: 3, Doubts: 8, Clock: simClock{w}, Observer: &watch{n: n},
	}
	w.mutant.plant(n, &d, &o)
	n.task, err = New(d, o)
	if err != nil {
		panic(err)
	}
	defer func() {
		n.store.spoil()
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				panic(r)
			}
			n.store.crash(w.rng)
			crash = true
		}
	}()
	return false, n.task.Run(ctx)
}

// run lets tasks live and die until the input is used up.
func (w *world) run() error {
	const lives = 60
	for range lives {
		crash, err := w.live(w.rng.IntN(2), false)
		switch {
		case w.violation != nil:
			return w.violation
		case crash, err == nil, RemedyOf(err) == Leave:
		case RemedyOf(err) == Fatal && errors.Is(err, ErrStore):
		default:
			return fmt.Errorf("Run ended with remedy %v: %w", RemedyOf(err), err)
		}
		if w.done && !crash && err == nil {
			return w.check()
		}
	}
	return fmt.Errorf("not done after %d lives", lives)
}

// check is what must hold at the end.
func (w *world) check() error {
	output, dead := oracle(&w.input)
	if got := render(w.output.committed()); got != render(output) {
		return fmt.Errorf("committed output differs from a run without faults\ngot  %s\nwant %s", got, render(output))
	}
	if got := render(w.dead.committed()); got != render(dead) {
		return fmt.Errorf("committed dead letters differ from a run without faults\ngot  %s\nwant %s", got, render(dead))
	}
	if end := int64(len(w.input.entries)); w.smooth && w.committed != end {
		return fmt.Errorf("the group was left at %d, the input was read up to %d", w.committed, end)
	}
	for _, l := range []*simLog{&w.output, &w.dead} {
		seen := map[string]string{}
		for _, e := range l.entries {
			if e.status == control {
				continue
			}
			id, _, _ := strings.Cut(string(e.rec.Value), "|")
			if old, ok := seen[id]; ok && old != string(e.rec.Value) {
				return fmt.Errorf("a read_uncommitted reader sees two outputs of input and number %s: %q and %q", id, old, e.rec.Value)
			}
			seen[id] = string(e.rec.Value)
		}
	}
	return nil
}

func render(ms []Message) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%q=%q@%d ", m.Key, m.Value, m.Timestamp)
	}
	return b.String()
}

// oracle is the loop as one would write it if nothing ever failed.
func oracle(input *simLog) (output, dead []Message) {
	states := map[string]string{}
	p := &simProcessor{}
	for i, e := range input.entries {
		if e.status != plain {
			continue
		}
		var fx Effects
		state := ""
		if ValidKey(e.rec.Key) {
			state = states[string(e.rec.Key)]
		}
		rec := Record{Offset: int64(i), Timestamp: e.rec.Timestamp, Key: e.rec.Key, Value: e.rec.Value}
		if err := p.Process(rec, []byte(state), &fx); err != nil {
			panic(err)
		}
		for _, m := range fx.Output {
			output = append(output, clone(m))
		}
		for _, m := range fx.DeadLetters {
			dead = append(dead, clone(m))
		}
		if fx.Forget {
			delete(states, string(e.rec.Key))
		} else if len(fx.State) > 0 {
			states[string(e.rec.Key)] = string(fx.State)
		}
	}
	return output, dead
}

// Fence follows the contract: a stale member fences nobody.
func (n *node) Fence(context.Context) error {
	return n.call("fence", func(bool) error {
		w := n.w
		if n.generation != w.generation {
			return WithRemedy(errors.New("not a member of the current generation"), Leave)
		}
		w.epoch++
		n.epoch = w.epoch
		w.complete()
		return nil
	})
}

func (n *node) Committed(context.Context) (offset int64, found bool, err error) {
	err = n.call("committed", func(bool) error {
		offset = n.w.committed
		if n.w.staleReads > 0 {
			n.w.staleReads--
			offset = n.w.stale
		}
		found = offset != none
		return nil
	})
	return offset, found, err
}

// mine answers what a broker says to an old producer epoch.
func (n *node) mine() error {
	if n.epoch != n.w.epoch {
		return WithRemedy(errors.New("producer fenced"), Leave)
	}
	return nil
}

func (n *node) Produce(_ context.Context, out Outputs) error {
	return n.call("produce", func(lost bool) error {
		if err := n.mine(); err != nil {
			return err
		}
		w := n.w
		w.open = true
		changelog := out.Changelog
		if lost { // perhaps only a part of it has arrived
			changelog = changelog[:w.rng.IntN(len(changelog)+1)]
		}
		w.output.append(pending, out.Output...)
		w.dead.append(pending, out.DeadLetters...)
		w.changelog.append(pending, changelog...)
		return nil
	})
}

func (n *node) Commit(_ context.Context, next int64) (end int64, err error) {
	err = n.call("commit", func(lost bool) error {
		w := n.w
		if err := n.mine(); err != nil {
			return err
		}
		if n.generation != w.generation {
			return WithRemedy(errors.New("offset refused: not a member of the current generation"), Leave)
		}
		if !w.open || w.deciding {
			return WithRemedy(errors.New("the transaction has been aborted by the broker"), Rebuild)
		}
		w.deciding, w.offset = true, next
		end = int64(len(w.changelog.entries))
		if !lost || w.rng.IntN(2) == 0 {
			w.complete()
		}
		return nil
	})
	return end, err
}

func (n *node) Abort(context.Context) error {
	return n.call("abort", func(bool) error {
		if err := n.mine(); err != nil {
			return err
		}
		if n.w.deciding {
			return WithRemedy(errors.New("abort after commit"), Leave)
		}
		n.w.complete()
		return nil
	})
}

// storeCall never answers Retry or Rebuild: a store that fails is Fatal.
func (n *node) storeCall(name string, effect func()) error {
	return WithRemedy(n.call(name, func(bool) error {
		effect()
		return nil
	}), Unmarked)
}

// apply makes an apply or a wipe and checks that the store does not lead.
func (n *node) apply(effect func()) error {
	return n.storeCall("apply", func() {
		effect()
		w := n.w
		states, at, found := n.store.contents()
		if !found {
			return
		}
		if at.Input > w.committed {
			w.violated("the store is at input %d, the group at %d: it leads", at.Input, w.committed)
		}
		if stable := w.changelog.stable(); at.Changelog > stable {
			w.violated("the store is at changelog %d, its stable end is %d: it leads", at.Changelog, stable)
			return
		}
		if n.task.state == Committing {
			n.compare(states, at.Changelog)
			return
		}
		for key, value := range states {
			if !w.changelog.ever(key, value, w.changelog.stable()) {
				w.violated("the store has a state of %q that was never committed", key)
			}
		}
	})
}

// compare holds the store against the changelog's first n offsets.
func (n *node) compare(states map[string]string, end int64) {
	if want := n.w.changelog.fold(end); !maps.Equal(states, want) {
		n.w.violated("the store differs from the changelog up to %d: %q, want %q", end, states, want)
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
	if o.n.epoch == o.n.w.epoch {
		o.n.compare(states, r.To)
	}
	if r.Wiped != "" {
		o.n.w.events["wiped: "+r.Wiped]++
	}
}

// simReader is a Log over a simLog.
type simReader struct {
	n *node
	l *simLog
}

func (r simReader) Fetch(ctx context.Context, offset int64) (b Batch, err error) {
	n, w := r.n, r.n.w
	for _, rec := range n.lent { // memory of the last batch: nobody may need it now
		for i := range rec.Key {
			rec.Key[i] ^= 0xff
		}
		for i := range rec.Value {
			rec.Value[i] ^= 0xff
		}
	}
	n.lent = nil
	err = n.call("fetch", func(bool) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err = r.l.read(offset, 1+w.rng.IntN(12))
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	n.lent = b.Records
	if r.l == &w.input {
		n.idle++
		if len(b.Records) > 0 || b.Next < int64(len(w.input.entries)) {
			n.idle = 0
		}
		if n.idle == 2 && !n.nested {
			w.done = true
			n.cancel()
		}
	}
	return b, nil
}

func (r simReader) Bounds(context.Context) (first, end int64, err error) {
	err = r.n.call("bounds", func(bool) error {
		first, end = r.l.first, r.l.stable()
		return nil
	})
	return first, end, err
}

type simClock struct{ w *world }

func (c simClock) Now() time.Time { return c.w.now }

func (c simClock) Sleep(ctx context.Context, d time.Duration) error {
	c.w.now = c.w.now.Add(d)
	return ctx.Err()
}

// simProcessor makes outputs that depend on every bit of their arguments, and
// of no other. It uses its buffers again and spoils them first.
type simProcessor struct {
	state []byte
	bufs  [2][]byte
}

func (p *simProcessor) Process(rec Record, state []byte, fx *Effects) error {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %d %d", rec.Key, state, rec.Value, rec.Offset, rec.Timestamp)
	sum := h.Sum64()
	message := func(i int) Message {
		p.bufs[i] = fmt.Appendf(spoilt(p.bufs[i]), "%d.%d|%x", rec.Offset, i, sum)
		return Message{Key: rec.Key, Value: p.bufs[i], Timestamp: rec.Timestamp}
	}
	kind := rec.Value[0] % 16
	if !ValidKey(rec.Key) || kind == 0 {
		fx.DeadLetters = append(fx.DeadLetters, message(0))
		return nil
	}
	if kind == 1 {
		return nil
	}
	fx.Output = append(fx.Output, message(0))
	if kind <= 3 {
		fx.Output = append(fx.Output, message(1))
	}
	if kind <= 5 {
		fx.Forget = true
		return nil
	}
	p.state = append(spoilt(p.state), strings.Repeat(fmt.Sprintf("%x", sum), 1+int(sum%3))...)
	fx.State = p.state
	return nil
}

func spoilt(b []byte) []byte {
	for i := range b {
		b[i] = '?'
	}
	return b[:0]
}
