package task

import "context"

// flightMutants are mistakes about the transaction that is on its way while the next one is
// processed.
var flightMutants = []mutant{
	{
		"the next transaction is written before the commit in flight is definite",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = &overtaking{node: n, pending: none}
		},
	},
	{
		"results of the transaction in hand are written into the one in flight",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = leaking{n}
		},
	},
	{
		"reads miss the states of the transaction in flight",
		func(n *node, d *Dependencies, _ *Options) {
			process := d.Processor
			d.Processor = processFunc(func(rec Record, state []byte, fx *Effects) error {
				t := n.task
				if _, found := t.overlay.get(rec.Key); !found && t.flight.beside != nil {
					states, _, _ := n.store.contents()
					state = []byte(states[string(rec.Key)])
				}
				return process.Process(rec, state, fx)
			})
		},
	},
	{
		"the transaction in hand outlives the one in flight",
		func(n *node, _ *Dependencies, o *Options) {
			o.Observer = &outliving{keepOverlay{watch: watch{n: n}}}
		},
	},
	{
		"a commit that fails beside the next transaction is taken for success",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = hopefulBeside{n}
		},
	},
}

// overtaking answers before it commits, and commits when the next transaction is written.
type overtaking struct {
	*node
	pending int64
}

func (m *overtaking) Produce(ctx context.Context, out Outputs) (int64, error) {
	end, err := m.node.Produce(ctx, out)
	if m.pending != none && err == nil {
		_, err = m.node.Commit(ctx, m.pending)
		m.pending = none
	}
	return end, err
}

func (m *overtaking) Commit(_ context.Context, next int64) (int64, error) {
	m.pending = next
	return m.produced, nil
}

// leaking shows what is in hand at each commit.
type leaking struct{ *node }

func (m leaking) Commit(ctx context.Context, next int64) (int64, error) {
	if t := m.task; t.flight.beside != nil {
		m.w.output.append(pending, t.overlay.out...)
	}
	return m.node.Commit(ctx, next)
}

// outliving keeps the states of the transaction in hand if the one in flight has failed.
type outliving struct{ keepOverlay }

func (m *outliving) Dropped(records int, cause error) {
	if t := m.n.task; t.records > 0 && t.flight.records > 0 {
		m.keepOverlay.Dropped(records, cause)
	}
}

// hopefulBeside takes every outcome of a commit beside the next transaction for success.
type hopefulBeside struct{ *node }

func (m hopefulBeside) Commit(ctx context.Context, next int64) (int64, error) {
	if m.task.flight.beside == nil {
		return m.node.Commit(ctx, next)
	}
	_, _ = m.node.Commit(ctx, next)
	return m.produced, nil
}
