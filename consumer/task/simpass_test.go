package task

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// brokerSkew is how far the clocks of the simulated brokers are from the tasks' at most.
const brokerSkew = 80 * time.Millisecond

// arrive makes up to n more records of the input visible. They are appended now, by the clock of
// one broker or another, and some of them in a transaction that stays open for a while.
func (w *world) arrive(n int64) {
	l := &w.input
	from := l.visible
	switch {
	case !w.parted:
	case w.quiet > 0:
		w.quiet, n = w.quiet-1, 0
	case w.rng.IntN(12) == 0:
		w.quiet = w.rng.IntN(60)
	}
	l.visible = min(from+n, int64(len(l.entries)))
	if !w.parted {
		return
	}
	for i := from; i < l.visible; i++ {
		l.entries[i].rec.Timestamp = w.now.UnixMilli() - brokerSkew.Milliseconds() +
			w.rng.Int64N(2*brokerSkew.Milliseconds()+1)
	}
	switch {
	case l.held:
		l.held = w.rng.IntN(20) > 0
	case from < l.visible && w.rng.IntN(6) == 0:
		l.held, l.heldAt = true, from
	}
}

// idles is how often the input brings nothing before its owner is told to stop.
func (w *world) idles() int {
	if w.parted {
		return 9
	}
	return 2
}

// simPart is the states of the partition: the first open window, and what came in each that is
// open. All windows are closed in their order, one message for each, also those without a record.
//
// A state of a key begins with the window in which it was made, and means nothing two windows
// later.
type simPart struct {
	next int // the first open window
	sums map[int]uint64
	said map[string]string // states, as they were last handed over

	due     bool // states of keys may have expired
	changes []Change

	// Of the oracle, nil in a task: a window may have been closed before the next record, under
	// other settings than that record's.
	states   map[string]string
	output   *[]Message
	closedBy map[int]int
}

// windowDeadline is the last append time at which a record counts in a window.
func windowDeadline(window int) int64 {
	const start, length, equal = 1_700_000_000_000, 100, 40
	if window < equal {
		return start + int64(window+1)*length
	}
	return start + equal*length<<(window-equal+1) // a clock may jump by days
}

// closeUpTo closes the windows that a record is beyond.
func (p *simPart) closeUpTo(rec Record, settings int, fx *Effects) {
	for p != nil && windowDeadline(p.next) < rec.Timestamp {
		p.close(settings, fx)
	}
}

// take adds a record to its window, after closeUpTo.
func (p *simPart) take(rec Record, sum uint64) {
	if p == nil {
		return
	}
	window := p.next
	for windowDeadline(window) < rec.Timestamp {
		window++
	}
	if window == 0 || windowDeadline(window-1) < rec.Timestamp { // else it is late
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %x", p.sums[window], sum)
		p.sums[window] = h.Sum64()
	}
	p.write()
}

// write writes the oracle's states.
func (p *simPart) write() {
	if p.states == nil {
		return
	}
	maps.DeleteFunc(p.states, func(key, _ string) bool {
		return strings.HasPrefix(key, PartitionKey)
	})
	for name, value := range p.encode() {
		p.states[PartitionKey+name] = value
	}
}

func (p *simPart) close(settings int, fx *Effects) {
	if p.closedBy != nil {
		settings = p.closedBy[p.next]
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %x", settings, p.next, p.sums[p.next])
	fx.Output = append(fx.Output, Message{
		Key:   fmt.Appendf(nil, "window %d", p.next),
		Value: fmt.Appendf(nil, "-1.w%d|%x", p.next, h.Sum64()), Timestamp: windowDeadline(p.next),
		To: ToPartition(int32(p.next % 3)),
	})
	delete(p.sums, p.next)
	p.next, p.due = p.next+1, true
}

// encode returns the states by name.
func (p *simPart) encode() map[string]string {
	states := map[string]string{}
	if p.next > 0 {
		states[""] = fmt.Sprint(p.next)
	}
	for window, sum := range p.sums {
		states[fmt.Sprintf("-%d", window)] = fmt.Sprint(sum)
	}
	return states
}

func (p *simPart) decode(states map[string]string) {
	p.next, p.sums, p.said, p.due = 0, map[int]uint64{}, states, true
	for name, value := range states {
		if name == "" {
			_, _ = fmt.Sscan(value, &p.next)
			continue
		}
		var window int
		var sum uint64
		_, _ = fmt.Sscan(name[1:]+" "+value, &window, &sum)
		p.sums[window] = sum
	}
}

// diff returns which states differ from those that were handed over last, in the memory of the last
// call, which it spoils first.
func (p *simPart) diff() []Change {
	for _, c := range p.changes {
		spoilt(c.Key)
		spoilt(c.Value)
	}
	p.changes = nil
	now := p.encode()
	for name := range p.said {
		if _, left := now[name]; !left {
			p.changes = append(p.changes, Change{Key: []byte(name)})
		}
	}
	for name, value := range now {
		if p.said[name] != value {
			p.changes = append(p.changes, Change{Key: []byte(name), Value: []byte(value)})
		}
	}
	p.said = now
	return p.changes
}

// expired reports whether a state means nothing any more.
func (p *simPart) expired(state []byte) bool {
	var made int
	_, err := fmt.Sscanf(string(state), "%d:", &made)
	return p != nil && err == nil && made < p.next-1
}

// own are the states of the partition among all, by name.
func own(states map[string]string) map[string]string {
	names := map[string]string{}
	for key, value := range states {
		if name, is := strings.CutPrefix(key, PartitionKey); is {
			names[name] = value
		}
	}
	return names
}

// newPart is the oracle's, nil if the world has none.
func (w *world) newPart(states map[string]string, output *[]Message) *simPart {
	if !w.parted {
		return nil
	}
	return &simPart{
		sums: map[int]uint64{}, states: states, output: output, closedBy: w.closedBy,
	}
}

// finish closes what an idle task has closed after the last record: nobody can tell how much that
// is but the task itself, but all of it must be there, in order. Nor when it has removed states
// that have expired, so neither side has any afterwards.
func (p *simPart) finish(w *world) {
	if p == nil {
		return
	}
	var last simPart
	last.decode(own(w.changelog.fold(int64(len(w.changelog.history)))))
	for p.next < last.next {
		var fx Effects
		p.close(0, &fx)
		*p.output = append(*p.output, fx.Output...)
		p.write()
	}
}

// withoutExpired returns states without those that mean nothing any more.
func (p *simPart) withoutExpired(states map[string]string) map[string]string {
	left := maps.Clone(states)
	maps.DeleteFunc(left, func(_, state string) bool { return p.expired([]byte(state)) })
	return left
}

// bookClosed writes down under which settings the windows of a transaction are closed, and that
// none is before its time.
func (w *world) bookClosed() {
	for _, e := range w.output.entries {
		var window int
		if e.status != pending {
			continue
		} else if _, err := fmt.Sscanf(string(e.rec.Value), "-1.w%d|", &window); err != nil {
			continue
		}
		w.closedBy[window] = w.open.settings
		if w.now.Add(brokerSkew).UnixMilli() <= windowDeadline(window) {
			w.violated("window %d is closed before its time", window)
		}
	}
}

// simPartitioned is the Partitioned of a simProcessor.
type simPartitioned struct{ *simProcessor }

func (p simPartitioned) Restored(states []Change) error {
	given := map[string]string{}
	for _, c := range states {
		given[string(c.Key)] = string(c.Value)
	}
	return p.n.call("Partitioned.Restored", func(bool) error {
		p.part = &simPart{}
		p.part.decode(given)
		return nil
	})
}

func (p simPartitioned) Changes() []Change {
	_ = p.n.call("Partitioned.Changes", func(bool) error { return nil })
	return p.part.diff()
}

func (p simPartitioned) Deadline() (int64, bool) {
	_ = p.n.call("Partitioned.Deadline", func(bool) error { return nil })
	return windowDeadline(p.part.next), true
}

func (p simPartitioned) Passed(ms int64, fx *Effects) error {
	if err := p.n.call("Partitioned.Passed", func(bool) error { return nil }); err != nil {
		return err
	}
	p.n.w.events["closed by an idle task"]++
	p.n.w.passing = true
	for windowDeadline(p.part.next) <= ms {
		p.part.close(p.settings, fx)
	}
	return nil
}

func (p simPartitioned) Expires() func([]byte) bool {
	_ = p.n.call("Partitioned.Expires", func(bool) error { return nil })
	p.n.w.passing = false
	if !p.part.due {
		return nil
	}
	p.part.due = false
	before := &simPart{next: p.part.next} // windows may be closed while the task sweeps
	return func(state []byte) bool {
		expired := before.expired(state)
		if expired {
			p.n.w.events["a state is swept"]++
		}
		return expired
	}
}

// endedLog is a mutant's input with the true end.
type endedLog struct {
	Log
	Ended
}

// passMutants are mistakes about the state of the partition and about times that were passed.
var passMutants = []mutant{
	{
		"the partition's state is applied before the commit",
		func(n *node, d *Dependencies, _ *Options) { d.Transactions = &earlyState{n} },
	},
	{
		"the partition's state is not given back after a restoration",
		func(_ *node, d *Dependencies, _ *Options) { d.Partitioned = blank{d.Partitioned} },
	},
	{
		"a state of the partition is not written",
		func(_ *node, d *Dependencies, _ *Options) {
			d.Partitioned = unchanged{d.Partitioned}
		},
	},
	{
		"a state of the partition is not removed",
		func(_ *node, d *Dependencies, _ *Options) { d.Partitioned = hoarding{d.Partitioned} },
	},
	{
		"a state that means something is swept",
		func(_ *node, d *Dependencies, _ *Options) { d.Partitioned = rashly{d.Partitioned} },
	},
	{
		"states are swept beside a transaction that has changed them",
		func(n *node, d *Dependencies, _ *Options) { d.Store = early{n.store, n} },
	},
	{
		"a time is passed by an end that was asked for before it",
		func(_ *node, d *Dependencies, _ *Options) { d.Input = &oldEnd{Log: d.Input, end: none} },
	},
	{
		"a time is passed at the stable end, before open transactions",
		func(_ *node, d *Dependencies, _ *Options) { d.Input = stableEnd{d.Input} },
	},
	{
		"the skew of clocks is ignored",
		func(n *node, d *Dependencies, _ *Options) {
			d.Input, d.Partitioned = skewed{d.Input, n}, unskewed{d.Partitioned, n}
		},
	},
	{
		"the target partition is ignored",
		func(n *node, d *Dependencies, _ *Options) { d.Transactions = untargeted{n} },
	},
	{
		"what an idle task shows is not announced by an open mark",
		func(n *node, d *Dependencies, _ *Options) {
			d.Partitioned = unannounced{d.Partitioned, n}
		},
	},
}

type earlyState struct{ *node }

func (m *earlyState) Produce(ctx context.Context, out Outputs) (int64, error) {
	end, err := m.node.Produce(ctx, out)
	_, at, found := m.store.contents()
	for _, x := range out.Changelog {
		if err == nil && found && string(x.Key) == PartitionKey {
			err = m.store.Apply([]Change{{Key: x.Key, Value: x.Value}}, at)
		}
	}
	return end, err
}

type blank struct{ Partitioned }

func (m blank) Restored([]Change) error { return m.Partitioned.Restored(nil) }

type unchanged struct{ Partitioned }

func (m unchanged) Changes() []Change {
	m.Partitioned.Changes()
	return nil
}

type hoarding struct{ Partitioned }

func (m hoarding) Changes() []Change {
	return slices.DeleteFunc(slices.Clone(m.Partitioned.Changes()), func(c Change) bool {
		return len(c.Value) == 0
	})
}

type rashly struct{ Partitioned }

func (m rashly) Expires() func([]byte) bool {
	if m.Partitioned.Expires() == nil {
		return nil
	}
	return func([]byte) bool { return true }
}

// early lists the states of keys as they were before the last transaction.
type early struct {
	*simStore
	n *node
}

func (m early) After(key []byte, visit func(key, value []byte) error) error {
	now := m.applied
	defer func() { m.applied = now }()
	if len(now) > 0 && !now[len(now)-1].wipe {
		m.applied = now[:len(now)-1]
	}
	return m.simStore.After(key, visit)
}

// oldEnd answers with the end that was asked for before.
type oldEnd struct {
	Log
	end int64
}

func (m *oldEnd) High(ctx context.Context) (int64, error) {
	end, err := m.Log.(Ended).High(ctx)
	if m.end == none {
		m.end = end
	}
	end, m.end = m.end, end
	return end, err
}

type stableEnd struct{ Log }

func (m stableEnd) High(ctx context.Context) (int64, error) {
	_, end, err := m.Bounds(ctx)
	return end, err
}

// unskewed and skewed ignore the skew where times are passed.
type unskewed struct {
	Partitioned
	n *node
}

func (m unskewed) Deadline() (int64, bool) {
	m.n.task.pass.skewMS = 0
	return m.Partitioned.Deadline()
}

type skewed struct {
	Log
	n *node
}

func (m skewed) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	m.n.task.pass.skewMS = brokerSkew.Milliseconds()
	return m.Log.Fetch(ctx, offset, wait)
}

type closing struct {
	Partitioned
	n *node
}

func (m closing) Restored(states []Change) error {
	m.n.task.unsettled = false
	return m.Partitioned.Restored(states)
}

// TestIdleMarkIsNeeded: a worker dies with a time on show that it has passed, and the next one is
// told to stop at each of its next calls, for one with other settings. Nobody sees two results;
// with a mark that closes before the time is passed, somebody would.
func TestIdleMarkIsNeeded(t *testing.T) {
	world := func(m mutant, plan ...point) *world {
		w := newWorld(5, false)
		w.smooth, w.parted, w.mutant, w.plan = false, true, m, append([]point{}, plan...)
		return w
	}
	var at []int
	calm := world(mutant{})
	calm.points = func(n *node, name string, _ fault) {
		if name == "Transactions.Produce" && n.w.passing {
			at = append(at, n.w.calls)
		}
	}
	if err := calm.run(); err != nil || len(at) == 0 {
		t.Fatal(at, err)
	}
	m := mutant{make: func(n *node, d *Dependencies, _ *Options) {
		d.Partitioned = closing{d.Partitioned, n}
	}}
	found := 0
	for _, at := range at {
		for later := 1; later < 40; later++ {
			plan := []point{{nth: at, fault: crashAfter}, {nth: at + later, fault: restart}}
			if err := world(mutant{}, plan...).run(); err != nil {
				t.Fatalf("%v: %v", plan, err)
			}
			if world(m, plan...).run() != nil {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("a mark that closes too early is not found")
	}
	t.Logf("a mark that closes too early is found in %d of %d worlds", found, 39*len(at))
}

type untargeted struct{ *node }

func (m untargeted) Produce(ctx context.Context, out Outputs) (int64, error) {
	for i := range out.Output {
		out.Output[i].To = 0
	}
	return m.node.Produce(ctx, out)
}

// unannounced takes the mark for opened while the task is idle.
type unannounced struct {
	Partitioned
	n *node
}

func (m unannounced) Deadline() (int64, bool) {
	if t := m.n.task; t.records == 0 {
		t.opened = true
	}
	return m.Partitioned.Deadline()
}
