package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
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
			var own *mobility.Personal
			if own, err = d.Personal(Personal, m, t); err == nil {
				predictor := mobility.NewPredictor(m)
				predictor.Use(own)
				f.start = own.Initial
				f.move = moving(predictor, o.LearnedGaps(m))
				backward := mobility.NewBackward(m)
				backward.Use(own)
				f.back = backing(backward, o.LearnedGaps(m))
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
	all := long("adversaries", "data", "adversary", "sees", "from timestamp", "to timestamp",
		"users", "metric")
	for _, d := range p.Data {
		got := p.Read(beliefs, watchedAt(d))
		for w := range windows {
			addLearned(all, d, got.Between(w, w+1), firstOf(d, w)+1, firstOf(d, w+1))
		}
		whole := long("", all.Columns[:len(all.Columns)-1]...)
		addLearned(whole, d, got.All(), 1, d.Timestamps)
		p.Figure("adversaries-"+d.Name, overWindows(p, d, all.Where("data", d.Name)))
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
					t.Add(d.Name, string(adversary), sees, from, to, len(s), m.name, m.of(s))
				}
			}
		}
	}
}

// firstOf returns the first timestamp of a window, from 0.
func firstOf(d *Data, window int) int { return (window*d.Timestamps + windows - 1) / windows }

// overWindows draws three panels for each metric, by what adversaries see.
func overWindows(p *Page, d *Data, t *report.Table) *report.Figure {
	f := &report.Figure{
		Title: d.Title + ": what adversaries know over time", Columns: 3, PanelWidth: 4,
		PanelHeight: 2.5,
		Note: fmt.Sprintf("Users: %d. PIM, ε = %g, δ = %g; means over windows of time. Bands: "+
			"95 %% confidence over users. The best guess is the mean of the belief.",
			len(beliefs.Chosen(p.Study, d)), Fixed.Epsilon, Fixed.Delta),
	}
	for _, m := range learnedScores(0, seesReleases) {
		for _, sees := range sights {
			panel := &report.Lines{
				Title: "who sees " + sees, X: timeAxis(d, d.Timestamps),
				Y: report.Axis{Label: m.axis, Log: m.log, Zero: true},
				Series: t.Where("metric", m.name).Where("sees", sees).
					Lines("adversary", timestamps, nil),
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	return f
}
