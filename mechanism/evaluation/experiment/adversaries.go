package experiment

import (
	_ "embed"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

//go:embed adversaries.md
var adversariesText string

// beliefs are what the adversaries learn of one user, [adversary][window of time], from the
// releases and without any.
type beliefs struct {
	With, Without [][]Learned
}

// adversaryUsers is how many traces are given to adversaries at the most: five filters of each,
// twice.
const adversaryUsers = 40

// adversaries is the experiment on one data set: what those learn who know more or less than M.
type adversaries struct {
	*study.Study
	prose study.Prose
	data  *study.Data
}

// eachAdversaries returns the experiment on each data set.
func eachAdversaries(s *study.Study) (list []*adversaries) {
	prose := study.NewProse(adversariesText)
	for _, d := range s.Data {
		list = append(list, &adversaries{s, prose, d})
	}
	return list
}

func adversariesExperiment() study.Experiment {
	return study.Experiment{
		Name: "adversaries", Title: "Adversaries",
		Plan: func(s *study.Study) (pieces []study.Piece, err error) {
			for _, x := range eachAdversaries(s) {
				pieces = append(pieces, x.pieces()...)
			}
			return pieces, nil
		},
		Report: reportAdversaries,
	}
}

// watched are the traces that adversaries see.
func (x *adversaries) watched() []study.Trace {
	traces := x.Traces(x.data)
	n := min(len(traces), adversaryUsers)
	if x.Options.Quick {
		n = min(n, 6)
	}
	chosen := make([]study.Trace, 0, n)
	for i := range n {
		chosen = append(chosen, traces[i*len(traces)/n])
	}
	return chosen
}

func (x *adversaries) name(user int) string {
	return fmt.Sprintf("adversaries/%s/trace %d", x.data.Name, user)
}

// pieces are one for each trace.
func (x *adversaries) pieces() (pieces []study.Piece) {
	o, traces := x.Options, x.watched()
	inputs := fmt.Sprintf("%s traces %d seed %d ε %g δ %g",
		x.data.ID, len(traces), o.Seed, o.Epsilon, o.Delta)
	for i := range traces {
		t := &traces[i]
		pieces = append(pieces, study.Piece{
			Name: x.name(i), Inputs: inputs, Work: 8 * int64(len(t.Steps)),
			Run: func(tick study.Tick) (any, error) { return watch(x.data, t, o, tick) },
		})
	}
	return pieces
}

// watch gives one run of PIM to all adversaries.
func watch(d *study.Data, t *study.Trace, o study.Options, tick study.Tick) (*beliefs, error) {
	model, err := d.WithoutFold(t.Fold)
	if err != nil {
		return nil, err
	}
	options := d.Release(study.PIM, o.Epsilon, o.Delta)
	with, err := filters(d, model, t, options)
	if err != nil {
		return nil, err
	}
	without, err := filters(d, model, t, options)
	if err != nil {
		return nil, err
	}
	truth, err := mechanism.NewEmission(d.Grid, options)
	if err != nil {
		return nil, err
	}
	s, err := mechanism.NewSanitizer(model, study.Keyed(o.Seed, 0), options)
	if err != nil {
		return nil, err
	}
	got := &beliefs{With: make([][]Learned, len(with)), Without: make([][]Learned, len(with))}
	for a := range with {
		got.With[a], got.Without[a] = make([]Learned, windows), make([]Learned, windows)
	}
	// The sanitizer's prior of a timestamp is known before the release, and with it the law.
	next := standard(model, options)
	err = study.Releasing(s, t.Track(d.Grid, nil), func(r *trial.Result) error {
		next.foresee(r.Step)
		truth.Prepare(&next.prior)
		if len(truth.Set()) != r.Outcome.SetSize {
			return fmt.Errorf(
				"experiment: an observer who knows M finds another location set than the sanitizer")
		}
		window := min(windows-1, r.Number*windows/d.Timestamps)
		for a := range with {
			with[a].observe(r.Step, &r.Outcome.Release, truth)
			got.With[a][window].add(d.Grid, &with[a].posterior, r.Cell)
			without[a].observe(r.Step, nil, nil)
			got.Without[a][window].add(d.Grid, &without[a].posterior, r.Cell)
		}
		next.posterior.CopyFrom(&r.State.Posterior)
		return tick(8)
	})
	return got, err
}

// standard is the filter of the sanitizer.
func standard(m *mobility.Model, o mechanism.Options) *filter {
	predictor := mobility.NewPredictor(m)
	return &filter{
		maxGap: int64(o.LongestGap(m)),
		start:  func(dst *mobility.Distribution) { dst.CopyFrom(&m.Initial) },
		move:   moving(predictor, o.LearnedGaps(m)),
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

// filters are the adversaries, in the order of Adversaries.
func filters(
	d *study.Data, m *mobility.Model, t *study.Trace, o mechanism.Options,
) (list []*filter, err error) {
	for _, a := range Adversaries() {
		f := standard(m, o)
		switch a {
		case Standard: // as it is
		case WeakUniform:
			everywhere := mobility.Uniform(d.Grid)
			f.start = func(dst *mobility.Distribution) { dst.CopyFrom(&everywhere) }
			f.move = func(
				dst, _ *mobility.Distribution, _ int64, _ int,
			) {
				dst.CopyFrom(&everywhere)
			}
			f.own, err = mechanism.NewEmission(d.Grid, o)
			f.fixed = true
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
			if own, err = d.Personal(study.Personal, m, t); err == nil {
				predictor := mobility.NewPredictor(m)
				predictor.Use(own)
				f.start = own.Initial
				f.move = moving(predictor, o.LearnedGaps(m))
			}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// learnedIn returns the watched users' sums of an adversary in a window of time: from the releases,
// or without them. Users whose trace ends before have none.
func learnedIn(users []beliefs, adversary, from, to int, with bool) (list []Learned) {
	for _, u := range users {
		of := u.Without
		if with {
			of = u.With
		}
		var sum Learned
		for _, l := range of[adversary][from:to] {
			sum.N += l.N
			sum.True += l.True
			sum.Bits += l.Bits
			sum.Distance += l.Distance
		}
		if sum.N > 0 {
			list = append(list, sum)
		}
	}
	return list
}

// beliefs reads what was measured of each trace.
func (x *adversaries) beliefs(r *study.Results) (list []beliefs, err error) {
	for i := range x.watched() {
		var b beliefs
		if err := r.Get(x.name(i), &b); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}
