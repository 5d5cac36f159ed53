package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// adversaries is what those learn who know more or less than M.
var adversaries = Experiment{
	Name: "adversaries", Title: "Adversaries",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range s.Data {
			pieces = append(pieces, beliefs.Pieces(s, watchedAt(d))...)
		}
		return pieces
	},
	Show: showAdversaries,
}

// adversaryUsers is how many traces are given to adversaries at the most: five filters of each,
// twice.
const adversaryUsers = 40

// beliefs gives one run of PIM to all adversaries. The quantities of each are those of [learned]:
// with the releases so far, without any, and with all of them.
var beliefs = &Walks{
	Name: "adversaries", Work: 12,
	Traces: func(s *Study, d *Data) []Trace {
		return spread(s.Traces(d), adversaryUsers)
	},
	Inputs: func(*Study, Point) string { return "all releases too" },
	Window: func(d *Data, timestamp int) int {
		return min(windows-1, timestamp*windows/d.Timestamps)
	},
	Probe: func(_ *Study, w *Walk) (Probe, error) {
		with, err := filters(w)
		if err != nil {
			return nil, err
		}
		without, err := filters(w)
		if err != nil {
			return nil, err
		}
		truth, err := mechanism.NewEmission(w.Data.Grid, w.Options)
		if err != nil {
			return nil, err
		}
		return watch(w, truth, with, without), nil
	},
}

// watchedAt is the point at which adversaries watch.
func watchedAt(d *Data) Point {
	return Point{Case: Case{d, Popular}, Variant: PIM, Setting: Fixed}
}

// watch shows each release to the filters in with, and only the time of each to those in without.
// When the last one is there, with look back.
func watch(w *Walk, truth *mechanism.Emission, with, without []*filter) Probe {
	g := w.Data.Grid
	var values [][]float64 // by timestamp
	w.Last = func(sums func(timestamp int) *Sums) {
		for _, f := range with {
			for i, b := range f.lookBack() {
				values[i] = append(values[i], learned(g, &b.Distribution, w.Trace.Cells[i])...)
			}
		}
		for i := range values {
			sums(i).Add(1, values[i]...)
		}
	}
	return func(_ *Sums, r *trial.Result) error {
		// The sanitizer's prior is known before the release, and with it the law.
		truth.Prepare(r.Outcome.Prior)
		var now []float64
		for a := range with {
			with[a].observe(r.Step, &r.Outcome.Release, truth)
			without[a].observe(r.Step, nil, nil)
			now = append(now, learned(g, &with[a].posterior, r.Cell)...)
			now = append(now, learned(g, &without[a].posterior, r.Cell)...)
		}
		values = append(values, now)
		return nil
	}
}

// standard is the filter of the sanitizer.
func standard(m *mobility.Model, o mechanism.Options) *filter {
	predictor := mobility.NewPredictor(m)
	return &filter{
		maxGap: int64(o.LongestGap(m)),
		start:  func(dst *mobility.Distribution) { dst.CopyFrom(&m.Initial) },
		move:   moving(predictor, o.LearnedGaps(m)),
		back:   backing(mobility.NewBackward(m), o.LearnedGaps(m)),
	}
}

// moving returns the sanitizer's prediction, by the law of gaps if that counts.
func moving(p *mobility.Predictor, byLaw bool) func(
	dst, from *mobility.Distribution, at int64, steps int,
) {
	return func(dst, from *mobility.Distribution, at int64, steps int) {
		if byLaw && p.PredictGap(dst, from, at, uint64(steps), mechanism.DefaultPrune) {
			return
		}
		p.PredictPruned(dst, from, at, steps, mechanism.DefaultPrune)
	}
}

// backing returns the transpose of moving.
func backing(b *mobility.Backward, byLaw bool) func(
	dst []float64, from *mobility.Distribution, at int64, steps int, later *mobility.Distribution,
) []float64 {
	return func(
		dst []float64, from *mobility.Distribution, at int64, steps int,
		later *mobility.Distribution,
	) []float64 {
		if byLaw {
			told, ok := b.BackGap(dst, from, at, uint64(steps), mechanism.DefaultPrune, later)
			if ok {
				return told
			}
		}
		return b.Back(dst, from, at, steps, mechanism.DefaultPrune, later)
	}
}

// filters are the adversaries of a walk, in the order of Adversaries.
func filters(w *Walk) (list []*filter, err error) {
	d, m, t, o := w.Data, w.Model, w.Trace, w.Options
	for _, a := range Adversaries() {
		f := standard(m, o)
		switch a {
		case Standard: // as it is
		case WeakUniform:
			everywhere := mobility.Uniform(d.Grid)
			f.start = func(dst *mobility.Distribution) { dst.CopyFrom(&everywhere) }
			f.move = func(dst, _ *mobility.Distribution, _ int64, _ int) {
				dst.CopyFrom(&everywhere)
			}
			f.own, err = mechanism.NewEmission(d.Grid, o)
			f.fixed, f.back = true, nil
		case WeakWalk:
			f = standard(m.RandomWalk(), o)
			f.own, err = mechanism.NewEmission(d.Grid, o)
		case StrongStart:
			initial := f.start
			f.start = func(dst *mobility.Distribution) {
				if f.started { // after too long a gap it knows no more than others
					initial(dst)
					return
				}
				dst.Reset()
				dst.Cells, dst.P = append(dst.Cells, t.Cells[0]), append(dst.P, 1)
			}
		case StrongPersonal:
			var own *mobility.Model
			if own, err = d.Own(t.User); err == nil {
				f = standard(own, o)
			}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// What adversaries see: the releases up to the timestamp, none, or all of the trace.
const seesReleases, seesNothing, seesAll = "releases so far", "nothing", "all releases"

// sights are all of them, in the order in which they are shown.
var sights = []string{seesReleases, seesAll, seesNothing}

// learnedScores are what the beliefs of an adversary are judged by, from what it sees.
func learnedScores(adversary int, sees string) []score {
	all := len(Adversaries())
	first := learnedQuantities * 2 * adversary
	switch sees {
	case seesNothing:
		first += learnedQuantities
	case seesAll: // after those of all adversaries
		first = learnedQuantities * (2*all + adversary)
	}
	return []score{
		{name: "true", axis: "probability of the true cell", quantity: first, log: true},
		{name: "entropy", axis: "entropy, bits", quantity: first + 1},
		{
			name: "distance", axis: "best guess to truth (rms), km", quantity: first + 2,
			root: true,
		},
	}
}

func showAdversaries(p *Page) {
	all := numbers("adversaries", "data", "adversary", "sees", "from timestamp", "to timestamp",
		"users", "metric")
	for _, d := range p.Data {
		got := p.Read(beliefs, watchedAt(d))
		for w := range windows {
			addLearned(all, d, got.Between(w, w+1), firstOf(d, w)+1, firstOf(d, w+1))
		}
		whole := numbers("", all.Columns[:len(all.Columns)-1]...)
		addLearned(whole, d, got.All(), 1, d.Timestamps)
		p.Add(overWindows(p, d, all.Where("data", d.Name)))
		p.Table("adversaries-"+d.Name,
			d.Title+": over whole traces, with 95 % confidence over users.",
			whole.Pivot(
				[]string{"adversary", "sees"}, "metric", axes(learnedScores(0, seesReleases)),
			))
	}
	p.Add(all)
}

// addLearned adds what each adversary has learned in a window of time. Users whose trace ends
// before have no part in it.
func addLearned(t *report.Table, d *Data, s Sample, from, to int) {
	for a, adversary := range Adversaries() {
		for _, sees := range sights {
			for _, m := range learnedScores(a, sees) {
				if len(s) > 0 {
					t.Add(d.Name, string(adversary), sees, from, to, len(s), m.name, m.bandOf(s))
				}
			}
		}
	}
}

// firstOf returns the first timestamp of a window, from 0.
func firstOf(d *Data, window int) int { return (window*d.Timestamps + windows - 1) / windows }

// overWindows draws a panel for each metric and what adversaries see.
func overWindows(p *Page, d *Data, t *report.Table) *report.Chart {
	chart := &report.Chart{
		Name: "adversaries-" + d.Name, Title: d.Title + ": what adversaries know over time",
		Note: fmt.Sprintf("Users: %d. PIM, ε = %g, δ = %g; means over windows of time. Bars: "+
			"95 %% confidence over users. The best guess is the mean of the belief.",
			len(beliefs.Chosen(p.Study, d)), Fixed.Epsilon, Fixed.Delta),
	}
	for _, m := range learnedScores(0, seesReleases) {
		for _, sees := range sights {
			rows := t.Where("metric", m.name).Where("sees", sees)
			chart.Panels = append(chart.Panels, report.Panel{
				Title: "who sees " + sees, X: timeAxis(d), Y: m.y(),
				Series: rows.Lines("adversary", timestamps, nil),
			})
		}
	}
	return chart
}

// Adversary is somebody who sees all releases of a user and the times of reports, and knows how
// releases are made: at each timestamp those so far, or at the end all of them. Its text is its
// name in charts.
type Adversary string

// The adversaries. The paper's knows M.
const (
	// Standard knows M: its filter is the sanitizer's own.
	Standard Adversary = "standard: knows M"
	// WeakUniform knows no M and takes every cell to be as likely as any other at every timestamp.
	WeakUniform Adversary = "weak: uniform"
	// WeakWalk takes people to walk at random, to a neighbouring cell or none.
	WeakWalk Adversary = "weak: random walk"
	// StrongStart knows M, and the cell at the first timestamp.
	StrongStart Adversary = "strong: knows the start"
	// StrongPersonal knows M, by which releases are made, and how this user moves: the personal M
	// of all traces, the measured one among them.
	StrongPersonal Adversary = "strong: personal M"
)

// Adversaries are all of them, from the weakest.
func Adversaries() []Adversary {
	return []Adversary{WeakUniform, WeakWalk, Standard, StrongStart, StrongPersonal}
}

// filter is what an adversary believes. start and move are its idea of how people move; with true
// laws it uses that by which releases are made, else the one that follows from its own prior, since
// an adversary who does not know M does not know ΔX.
type filter struct {
	start func(dst *mobility.Distribution)
	move  func(dst, from *mobility.Distribution, at int64, steps int)
	// back is the transpose of move, of a function of the later place, for the cells of from; nil:
	// what comes later says nothing.
	back func(dst []float64, from *mobility.Distribution, at int64, steps int,
		later *mobility.Distribution) []float64
	own       *mechanism.Emission // nil: the true one
	fixed     bool                // the own law is that of every timestamp
	maxGap    int64
	prior     mobility.Distribution
	posterior mobility.Distribution
	step      int64
	started   bool
	goesOn    bool     // the prior came from the timestamp before
	kept      []belief // of all timestamps
}

// belief is what a filter keeps of a timestamp: what it believes, and the likelihood of the release
// for these cells.
type belief struct {
	mobility.Distribution
	likelihood []float64
	step       int64
	goesOn     bool
}

// foresee fills the prior of a step.
func (f *filter) foresee(step int64) {
	f.goesOn = f.started && step-f.step <= f.maxGap
	if f.goesOn {
		f.move(&f.prior, &f.posterior, f.step, int(step-f.step))
	} else {
		f.start(&f.prior)
		f.prior.Prune(mechanism.DefaultPrune)
	}
	f.started, f.step = true, step
}

// observe advances the filter to a timestamp; z nil: nothing was released.
func (f *filter) observe(step int64, z *grid.Point, truth *mechanism.Emission) {
	f.foresee(step)
	f.posterior.CopyFrom(&f.prior)
	var l *mechanism.Emission
	if z != nil {
		l = truth
		if f.own != nil {
			if l = f.own; !f.fixed || len(l.Set()) == 0 {
				l.Prepare(&f.prior)
			}
		}
		// What the adversary holds to be impossible tells it nothing.
		if _, ok := mobility.Update(&f.posterior, &f.prior, l.Likelihoods(*z, f.prior.Cells)); !ok {
			f.posterior.CopyFrom(&f.prior)
			l = nil
		}
	}
	f.posterior.Prune(mechanism.DefaultPrune)
	f.posterior.Round()
	if l != nil {
		f.keep(l.Likelihoods(*z, f.posterior.Cells))
	}
}

// keep keeps what look back needs of a timestamp with a release.
func (f *filter) keep(likelihood []float64) {
	b := belief{likelihood: slices.Clone(likelihood), step: f.step, goesOn: f.goesOn}
	b.CopyFrom(&f.posterior)
	f.kept = append(f.kept, b)
}

// lookBack turns what was kept of each timestamp into what the adversary believes of it with all
// releases: forward-backward by its own idea of how people move. Each timestamp must have been
// kept.
func (f *filter) lookBack() []belief {
	var told []float64 // what later releases say of the cells of a timestamp, up to a factor
	var later mobility.Distribution
	for i := len(f.kept) - 1; i >= 0; i-- {
		b := &f.kept[i]
		if next := i + 1; next < len(f.kept) && f.kept[next].goesOn && f.back != nil {
			told = f.back(told, &b.Distribution, b.step, int(f.kept[next].step-b.step), &later)
		} else {
			told = append(told[:0], slices.Repeat([]float64{1}, b.Len())...)
		}
		later.Cells, later.P = append(later.Cells[:0], b.Cells...), later.P[:0]
		largest := 0.0
		for j, v := range told {
			later.P = append(later.P, float64(v*b.likelihood[j]))
			largest = max(largest, later.P[j])
		}
		if largest > 0 {
			for j := range later.P {
				later.P[j] /= largest
			}
		}
		var with mobility.Distribution
		if _, ok := mobility.Update(&with, &b.Distribution, told); ok {
			b.Distribution = with
		}
	}
	return f.kept
}

// learnedQuantities is how many quantities [learned] has.
const learnedQuantities = 3

// learned is what a belief says of the truth: the probability of the true cell, the entropy in
// bits, and the squared distance of the best guess, km². The best guess is the mean, the place of
// least expected squared error.
func learned(g *grid.Grid, belief *mobility.Distribution, truth grid.Cell) []float64 {
	distance := belief.Mean(g).Distance(g.Centre(truth))
	return []float64{belief.At(truth), entropy(belief), squared(distance)}
}

// entropy in bits. Beliefs are stored in float32 and need not sum to exactly 1.
func entropy(d *mobility.Distribution) (bits float64) {
	total := d.Total()
	for _, p := range d.P {
		if q := p / total; q > 0 {
			bits -= float64(q * math.Log2(q))
		}
	}
	return max(0, bits)
}
