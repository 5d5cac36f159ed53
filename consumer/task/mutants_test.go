package task

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// mutant plants one fault into the loop, by wrapping what it drives or by
// touching the task itself. The zero mutant plants none.
type mutant struct {
	name string
	make func(n *node, d *Dependencies, o *Options)
}

func (m mutant) plant(n *node, d *Dependencies, o *Options) {
	if m.make != nil {
		m.make(n, d, o)
	}
}

// TestMutants shows that the simulation would notice: each of these mistakes
// breaks an invariant within a few hundred seeds.
func TestMutants(t *testing.T) {
	catch(t, false, slices.Concat(mutants, flightMutants, settingsMutants, versionMutants,
		lostMutants))
}

// TestPassMutants plants mistakes about the state of the partition, and about times passed.
func TestPassMutants(t *testing.T) { catch(t, true, passMutants) }

// catch runs mutants in worlds with a state of the partition, or without.
func catch(t *testing.T, parted bool, mutants []mutant) {
	t.Helper()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			const seeds = 10000
			for seed := range uint64(seeds) {
				w := newWorld(seed, true)
				w.mutant, w.parted = m, parted
				if err := w.run(); err != nil {
					t.Logf("caught at seed %d: %.120s", seed, err)
					return
				}
			}
			t.Errorf("not caught in %d seeds", seeds)
		})
	}
}

// TestCrossCheck shows the second line of defence: a committed offset read
// before fencing harms nothing as long as the changelog's mark is believed.
func TestCrossCheck(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(seed, true)
		w.mutant = mutant{make: func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = &earlyOffset{node: n}
		}}
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

var mutants = []mutant{
	{"the store is applied before the commit", func(n *node, d *Dependencies, _ *Options) {
		d.Transactions = &earlyApply{node: n}
	}},
	{
		"the committed offset is read before fencing, and no cross-check",
		func(n *node, d *Dependencies, _ *Options) {
			early := &earlyOffset{node: n}
			d.Transactions, d.Changelog = early, blindMarks{d.Changelog, early}
		},
	},
	{
		"the changelog's end is taken before fencing, and no cross-check",
		func(n *node, d *Dependencies, _ *Options) {
			early := &earlyEnd{node: n}
			d.Transactions, d.Changelog = early, earlyBounds{blindMarks{d.Changelog, early}, early}
		},
	},
	{
		"the clock is looked at between batches only",
		func(n *node, d *Dependencies, _ *Options) {
			process := d.Processor
			d.Processor = processFunc(func(rec Record, state []byte, fx *Effects) error {
				n.task.o.MaxInterval = n.interval
				if rec.Offset < n.lent[len(n.lent)-1].Offset {
					n.task.o.MaxInterval = time.Hour
				}
				return process.Process(rec, state, fx)
			})
		},
	},
	{"the overlay is kept after an abort", func(n *node, _ *Dependencies, o *Options) {
		o.Observer = &keepOverlay{watch: watch{n: n}}
	}},
	{
		"the overlay is not looked at by later records of a transaction",
		func(n *node, d *Dependencies, _ *Options) {
			d.Processor = processFunc(func(rec Record, _ []byte, fx *Effects) error {
				states, _, _ := n.store.contents()
				return (&simProcessor{
					settings: n.settings,
					made:     inForce(n.versions, rec.Timestamp),
				}).Process(rec,
					[]byte(states[string(rec.Key)]), fx)
			})
		},
	},
	{
		"an unknown outcome of commit is taken for success",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = hopeful{node: n}
		},
	},
	{
		"an unknown outcome of commit is taken for failure",
		func(n *node, d *Dependencies, _ *Options) {
			own := &ownOffset{node: n}
			d.Transactions, d.Changelog = own, blindMarks{d.Changelog, own}
		},
	},
	{"offsets are committed outside the transaction", func(n *node, d *Dependencies, _ *Options) {
		early := &outside{node: n}
		d.Transactions, d.Changelog = early, blindMarks{d.Changelog, early}
	}},
	{"the changelog is replayed read_uncommitted", func(n *node, d *Dependencies, _ *Options) {
		d.Changelog = uncommitted{d.Changelog, n}
	}},
	{"the input is read read_uncommitted", func(n *node, d *Dependencies, _ *Options) {
		d.Input = rawInput{d.Input, n}
	}},
	{"positions survive a crash without their values", func(_ *node, d *Dependencies, _ *Options) {
		d.Store = tornStore{d.Store.(*simStore)}
	}},
	{
		"a store of any age is caught up without looking for lost tombstones",
		func(_ *node, _ *Dependencies, o *Options) {
			o.MaxStoreAge = 1 << 62
		},
	},
	{
		"the processor makes something else of a record when it is processed again",
		func(n *node, d *Dependencies, _ *Options) {
			d.Processor = processFunc(func(rec Record, state []byte, fx *Effects) error {
				try := fmt.Sprintf("try %d", rec.Offset)
				n.w.events[try]++
				rec.Timestamp += int64(n.w.events[try])
				return (&simProcessor{
					settings: n.settings,
					made:     inForce(n.versions, rec.Timestamp),
				}).Process(rec, state, fx)
			})
		},
	},
}

type processFunc func(rec Record, state []byte, fx *Effects) error

func (f processFunc) Process(rec Record, state []byte, fx *Effects) error {
	return f(rec, state, fx)
}

type earlyApply struct{ *node }

func (m *earlyApply) Produce(ctx context.Context, out Outputs) (int64, error) {
	end, err := m.node.Produce(ctx, out)
	if err == nil {
		t := m.task
		err = t.apply(Positions{
			Input: t.flight.next, Changelog: int64(len(m.w.changelog.entries)),
			AppliedMS: m.w.now.UnixMilli(),
		})
	}
	return end, err
}

// marker says what the changelog's mark should say for the cross-check to hold.
type marker interface{ mark() int64 }

// blindMarks takes the cross-check out of action.
type blindMarks struct {
	Log
	marker marker
}

func (m blindMarks) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	b, err := m.Log.Fetch(ctx, offset, wait)
	for i := range b.Records {
		if string(b.Records[i].Key) == MarkKey && m.marker.mark() != none {
			mark, err := DecodeMark(b.Records[i].Value)
			if err != nil {
				panic(err)
			}
			mark.Input = m.marker.mark()
			mark.Origin, mark.Since = min(mark.Origin, mark.Input), min(mark.Since, mark.Input)
			b.Records[i].Value = AppendMark(nil, mark)
		}
	}
	return b, err
}

type earlyOffset struct {
	*node
	offset int64
}

func (m *earlyOffset) mark() int64 { return m.offset }

func (m *earlyOffset) Fence(ctx context.Context) error {
	m.offset = m.w.committed
	return m.node.Fence(ctx)
}

func (m *earlyOffset) Committed(ctx context.Context) (int64, bool, error) {
	_, _, err := m.node.Committed(ctx)
	return m.offset, m.offset != none, err
}

type earlyEnd struct {
	*node
	first, end int64
}

func (m *earlyEnd) mark() int64 { return m.w.committed }

func (m *earlyEnd) Fence(ctx context.Context) error {
	m.first, m.end = m.w.changelog.first, m.w.changelog.stable()
	return m.node.Fence(ctx)
}

type earlyBounds struct {
	Log
	early *earlyEnd
}

func (m earlyBounds) Bounds(ctx context.Context) (int64, int64, error) {
	_, _, err := m.Log.Bounds(ctx)
	return m.early.first, m.early.end, err
}

// keepOverlay saves the states of the overlay from a recovery.
type keepOverlay struct {
	watch
	saved *overlay
}

func (m *keepOverlay) Dropped(int, error) {
	t := m.n.task
	m.saved, t.overlay = t.overlay, newOverlay()
}

func (m *keepOverlay) Moved(from, to State) {
	if m.saved != nil && from == Restoring && to == Running {
		m.saved.out, m.saved.dead = nil, nil
		m.n.task.overlay, m.saved = m.saved, nil
	}
}

type hopeful struct{ *node }

func (m hopeful) Commit(ctx context.Context, next int64) (int64, error) {
	end, err := m.node.Commit(ctx, next)
	if RemedyOf(err) == Unmarked {
		return end, nil
	}
	return end, err
}

// ownOffset believes its own bookkeeping more than the broker's.
type ownOffset struct {
	*node
	offset int64
	known  bool
}

func (m *ownOffset) mark() int64 {
	if m.known {
		return m.offset
	}
	return none
}

func (m *ownOffset) Committed(ctx context.Context) (int64, bool, error) {
	offset, found, err := m.node.Committed(ctx)
	if m.known {
		return m.offset, true, err
	}
	return offset, found, err
}

func (m *ownOffset) Commit(ctx context.Context, next int64) (int64, error) {
	end, err := m.node.Commit(ctx, next)
	if err == nil {
		m.offset, m.known = next, true
	}
	return end, err
}

type outside struct{ *node }

func (m *outside) mark() int64 { return m.w.committed }

func (m *outside) Produce(ctx context.Context, out Outputs) (int64, error) {
	end, err := m.node.Produce(ctx, out)
	if err == nil {
		m.w.committed = m.task.flight.next
	}
	return end, err
}

// uncommitted shows what readers with that isolation level see.
type uncommitted struct {
	Log
	n *node
}

func (m uncommitted) Bounds(ctx context.Context) (first, end int64, err error) {
	first, _, err = m.Log.Bounds(ctx)
	return first, m.n.w.changelog.high(), err
}

func (m uncommitted) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	l := &m.n.w.changelog
	b := Batch{Next: l.high(), StableEnd: l.high()}
	for i := offset; i < b.Next; i++ {
		if e := l.entries[i]; e.status < control && string(e.rec.Key) != MarkKey ||
			e.status == plain {
			b.Records = append(b.Records, Record{Offset: i, Key: e.rec.Key, Value: e.rec.Value})
		}
	}
	return b, nil
}

type rawInput struct {
	Log
	n *node
}

func (m rawInput) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	b, err := m.Log.Fetch(ctx, offset, wait)
	b.Records = nil
	for i := offset; i < b.Next; i++ {
		if e := m.n.w.input.entries[i]; e.status != control {
			c := clone(e.rec)
			b.Records = append(b.Records,
				Record{Offset: i, Timestamp: c.Timestamp, Key: c.Key, Value: c.Value})
		}
	}
	return b, err
}

// tornStore writes positions and values apart, so that a crash comes between.
type tornStore struct{ *simStore }

func (m tornStore) Apply(changes []Change, p Positions) error {
	m.applied = append(m.applied, simApply{at: p})
	return m.simStore.Apply(changes, p)
}
