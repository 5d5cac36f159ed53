package task

import (
	"context"
	"time"
)

// settingsMutants are mistakes about marks, settings, the input's end and the group.
var settingsMutants = []mutant{
	{"data is written before the mark is open", func(n *node, _ *Dependencies, o *Options) {
		o.Observer = &onRunning{watch{n: n}, func(t *Task) { t.opened = true }}
	}},
	{
		"a stop closes the mark before what was left behind is committed",
		func(n *node, _ *Dependencies, o *Options) {
			o.Observer = &onRunning{watch{n: n}, func(t *Task) { t.seen = none }}
		},
	},
	{"a stop closes the mark after an abort", func(n *node, d *Dependencies, _ *Options) {
		d.Transactions = closer{n}
	}},
	{"an open mark of other settings is no obstacle", func(_ *node, _ *Dependencies, o *Options) {
		o.AcceptSettings = true
	}},
	{"marks do not name the settings", func(n *node, d *Dependencies, _ *Options) {
		d.Transactions = marking{n, func(m *Mark) { m.Settings = nil }}
	}},
	{"marks say that they are closed", func(n *node, d *Dependencies, _ *Options) {
		d.Transactions = marking{n, func(m *Mark) { m.Open = false }}
	}},
	{
		"other settings are in force from where the old ones were",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = marking{n, func(m *Mark) { m.Since = m.Origin }}
		},
	},
	{
		"settings are in force from the first record, not from the start",
		func(n *node, _ *Dependencies, o *Options) {
			o.Observer = &lateBegun{watch{n: n}}
		},
	},
	{
		"a mark does not say that lost records were skipped",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = marking{n, func(m *Mark) { m.Origin = min(m.Origin, n.w.mark.Origin) }}
		},
	},
	{"a mark forgets that lost records were skipped", func(n *node, d *Dependencies, _ *Options) {
		d.Transactions = marking{n, func(m *Mark) { m.Lost = false }}
	}},
	{
		"a task goes on where the input begins, without a word",
		func(_ *node, d *Dependencies, _ *Options) {
			d.Input = noRetention{d.Input}
		},
	},
	{"the end is not observed", func(_ *node, _ *Dependencies, o *Options) { o.End = 0 }},
	{"the end is off by one", func(_ *node, _ *Dependencies, o *Options) {
		o.End += min(o.End, 1)
	}},
	{
		"the offset is committed whatever the generation is",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = anyGeneration{n}
		},
	},
	{
		"a task that was replaced fences before its member is told",
		func(n *node, _ *Dependencies, _ *Options) { n.hasty = true },
	},
}

// onRunning touches a task after each restore.
type onRunning struct {
	watch
	touch func(t *Task)
}

func (m *onRunning) Moved(from, to State) {
	if from == Restoring && to == Running {
		m.touch(m.n.task)
	}
}

// lateBegun takes the offset of its first mark for the one at which it began.
type lateBegun struct{ watch }

func (m *lateBegun) Fetched(b Batch, done int64) {
	m.watch.Fetched(b, done)
	if t := m.n.task; !t.opened {
		t.from = t.next
	}
}

// closer takes an abort for the end of everything.
type closer struct{ *node }

func (m closer) Abort(ctx context.Context) error {
	t := m.task
	if err := m.node.Abort(ctx); err != nil || m.ctx.Err() == nil {
		return err
	}
	mark := t.mark
	mark.Open = false
	_, err := m.Produce(ctx, Outputs{Changelog: []Message{{
		Key:   markKey,
		Value: AppendMark(nil, mark),
	}}})
	if err == nil {
		_, err = m.Commit(ctx, mark.Input)
	}
	return err
}

// marking changes the marks that are written.
type marking struct {
	*node
	change func(m *Mark)
}

func (m marking) Produce(ctx context.Context, out Outputs) (int64, error) {
	last := &out.Changelog[len(out.Changelog)-1]
	mark, err := DecodeMark(last.Value)
	if err != nil {
		panic(err)
	}
	m.change(&mark)
	last.Value = AppendMark(nil, mark)
	return m.node.Produce(ctx, out)
}

// noRetention begins to read where the input begins now.
type noRetention struct{ Log }

func (m noRetention) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	first, _, err := m.Log.Bounds(ctx)
	if err != nil {
		return Batch{}, err
	}
	return m.Log.Fetch(ctx, max(offset, first), wait)
}

func (m noRetention) Bounds(ctx context.Context) (int64, int64, error) {
	_, end, err := m.Log.Bounds(ctx)
	return 0, end, err
}

type anyGeneration struct{ *node }

func (m anyGeneration) Commit(ctx context.Context, next int64) (int64, error) {
	m.blind = true
	defer func() { m.blind = false }()
	return m.node.Commit(ctx, next)
}
