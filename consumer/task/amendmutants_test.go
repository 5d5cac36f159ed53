package task

import "context"

// amendMutants are mistakes about what settings are amended by.
var amendMutants = []mutant{
	{
		"adoption while something that was seen is not committed",
		func(n *node, d *Dependencies, o *Options) {
			m := &rash{watch: watch{n: n}, Amender: d.Amender}
			o.Observer, d.Amender = m, m
		},
	},
	{"a processor uses what is put up, adopted or not", func(n *node, d *Dependencies, _ *Options) {
		process := d.Processor
		d.Processor = processFunc(func(rec Record, state []byte, fx *Effects) error {
			n.list = nil
			for _, name := range n.names() {
				n.list = append(n.list, Amendment{Name: name})
			}
			return process.Process(rec, state, fx)
		})
	}},
	{
		"results are made with an amendment before it is committed",
		func(n *node, d *Dependencies, _ *Options) {
			d.Amender = hasty{d.Amender, n, nil}
		},
	},
	{
		"adoption in the transaction of the first results made with it",
		func(n *node, d *Dependencies, _ *Options) {
			n.w.trusting = true // the mark's look gives it away; so do its results
			h := &hasty{d.Amender, n, map[string]int64{}}
			d.Amender = h
			d.Transactions = marking{n, h.add}
		},
	},
	{"an amendment is lost in a restore", func(n *node, d *Dependencies, _ *Options) {
		n.w.trusting = true
		d.Amender = &forgetful{Amender: d.Amender}
	}},
	{"a restore does not tell what the mark amends", func(n *node, d *Dependencies, _ *Options) {
		n.w.trusting = true
		d.Amender = &deaf{Amender: d.Amender, n: n}
	}},
	{"an amendment counts for earlier offsets", func(n *node, d *Dependencies, _ *Options) {
		n.w.trusting = true
		d.Transactions = marking{n, func(m *Mark) {
			for i := range m.Amendments {
				m.Amendments[i].From = max(m.Origin, 0)
			}
		}}
	}},
	{"an amendment counts from the next offset on", func(n *node, _ *Dependencies, _ *Options) {
		n.shift = -1
	}},
	{"amendments outlive the settings that they amend", func(n *node, _ *Dependencies, o *Options) {
		o.Observer = &onRunning{watch{n: n}, func(t *Task) {
			if string(t.mark.Settings) != string(t.o.Settings) {
				t.mark.Settings, t.mark.Since = t.o.Settings, t.next
			}
		}}
	}},
	{
		"the processor hears of an adoption whose commit has failed",
		func(n *node, d *Dependencies, _ *Options) {
			d.Transactions = hearsay{n, d.Amender}
		},
	},
}

// rash lets everything pass for committed while it is asked what to adopt.
type rash struct {
	watch
	Amender
	seen  int64
	blind bool
}

// Fetched comes before it, and before any stop that closes a mark by what was seen.
func (m *rash) Fetched(b Batch, _ int64) {
	t := m.n.task
	if ended := t.o.End > 0 && b.Next >= t.o.End; t.records == 0 && t.state == Running &&
		m.n.ctx.Err() == nil && !ended {
		m.seen, t.seen, m.blind = t.seen, none, true
	}
}

func (m *rash) Propose() [][]byte {
	if m.blind {
		m.n.task.seen, m.blind = m.seen, false
	}
	return m.Amender.Propose()
}

// hasty tells the processor of what it proposes, and the task of nothing: with
// pending, somebody else puts it into the marks; without, nobody does.
type hasty struct {
	Amender
	n       *node
	pending map[string]int64
}

func (m hasty) Propose() [][]byte {
	for _, name := range m.Amender.Propose() {
		m.n.list = append(m.n.list, Amendment{From: m.n.task.next, Name: name})
		if m.pending != nil {
			m.pending[string(name)] = m.n.task.next
		}
	}
	return nil
}

// add puts what is pending into a mark.
func (m hasty) add(mark *Mark) {
	for i := range versions {
		if from, ok := m.pending[string(versionName(i))]; ok {
			mark.Amendments = append(mark.Amendments, Amendment{From: from, Name: versionName(i)})
		}
	}
}

// forgetful takes what was adopted for not adopted.
type forgetful struct{ Amender }

func (m *forgetful) Amended([]Amendment) error { return m.Amender.Amended(nil) }

// deaf hears of its own adoptions alone.
type deaf struct {
	Amender
	n *node
}

func (m *deaf) Amended(list []Amendment) error {
	if m.n.task.state == Restoring {
		_ = m.Amender.Amended(nil)
		m.n.task.mark.Amendments = nil
		return nil
	}
	return m.Amender.Amended(list)
}

// hearsay reports an adoption before it is known to be committed.
type hearsay struct {
	*node
	amender Amender
}

func (m hearsay) Commit(ctx context.Context, next int64) (int64, error) {
	end, err := m.node.Commit(ctx, next)
	if err != nil && RemedyOf(err) == Unmarked && len(m.task.proposed) > 0 {
		return end, nil
	}
	return end, err
}
