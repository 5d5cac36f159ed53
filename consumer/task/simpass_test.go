package task

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
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

// simPart is a state of the partition: what came in each window that is open. All windows are
// closed in their order, one message for each, also those without a record.
type simPart struct {
	next int // the first open window
	sums map[int]uint64

	// Of the oracle, nil in a task: a window may have been closed before the next record, under
	// other settings than that record's.
	states   map[string]string
	output   *[]Message
	closedBy map[int]int
	buf      []byte
	dirty    bool
}

// windowDeadline is the last append time at which a record counts in a window.
func windowDeadline(window int) int64 {
	const start, length, equal = 1_700_000_000_000, 100, 40
	if window < equal {
		return start + int64(window+1)*length
	}
	return start + equal*length<<(window-equal+1) // a clock may jump by days
}

// take closes the windows that a record is beyond, and adds it to its own.
func (p *simPart) take(rec Record, sum uint64, settings int, fx *Effects) {
	if p == nil {
		return
	}
	for windowDeadline(p.next) < rec.Timestamp {
		p.close(settings, fx)
	}
	window := p.next
	for windowDeadline(window) < rec.Timestamp {
		window++
	}
	if window == 0 || windowDeadline(window-1) < rec.Timestamp { // else it is late
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %x", p.sums[window], sum)
		p.sums[window], p.dirty = h.Sum64(), true
	}
	if p.states != nil {
		p.states[PartitionKey] = string(p.encode())
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
	p.next, p.dirty = p.next+1, true
}

func (p *simPart) encode() []byte {
	p.buf = fmt.Append(spoilt(p.buf), p.next)
	for _, window := range slices.Sorted(maps.Keys(p.sums)) {
		p.buf = fmt.Appendf(p.buf, " %d %d", window, p.sums[window])
	}
	return p.buf
}

func (p *simPart) decode(state string) {
	p.next, p.sums, p.dirty = 0, map[int]uint64{}, false
	in := strings.NewReader(state)
	_, _ = fmt.Fscan(in, &p.next) // an empty state is that of the start
	var window int
	var sum uint64
	for n, _ := fmt.Fscan(in, &window, &sum); n == 2; n, _ = fmt.Fscan(in, &window, &sum) {
		p.sums[window] = sum
	}
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
// is but the task itself, but all of it must be there, in order.
func (p *simPart) finish(w *world) {
	if p == nil {
		return
	}
	var last simPart
	last.decode(w.changelog.fold(int64(len(w.changelog.history)))[PartitionKey])
	for p.next < last.next {
		var fx Effects
		p.close(0, &fx)
		*p.output = append(*p.output, fx.Output...)
		p.states[PartitionKey] = string(p.encode())
	}
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

func (p simPartitioned) Restored(state []byte) error {
	given := string(state)
	return p.n.call("Partitioned.Restored", func(bool) error {
		p.part = &simPart{}
		p.part.decode(given)
		return nil
	})
}

func (p simPartitioned) State() (state []byte, changed bool) {
	_ = p.n.call("Partitioned.State", func(bool) error { return nil })
	changed, p.part.dirty = p.part.dirty, false
	return p.part.encode(), changed
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
	for windowDeadline(p.part.next) <= ms {
		p.part.close(p.settings, fx)
	}
	return nil
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
		"a time is passed by an end that was asked for before it",
		func(_ *node, d *Dependencies, _ *Options) { d.Input = &oldEnd{Log: d.Input, end: none} },
	},
	{
		"a time is passed at the stable end, before open transactions",
		func(_ *node, d *Dependencies, _ *Options) { d.Input = stableEnd{d.Input} },
	},
	{
		"the skew of clocks is ignored",
		func(_ *node, _ *Dependencies, o *Options) { o.Skew = 1 }, // 0 is the default
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

func (m blank) Restored([]byte) error { return m.Partitioned.Restored(nil) }

type unchanged struct{ Partitioned }

func (m unchanged) State() ([]byte, bool) {
	state, _ := m.Partitioned.State()
	return state, false
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
