// Package trial takes people whose places are known through a filter. It says how near its releases
// and estimates come to the truth, and whether a mobility model is good enough: whether it predicts
// users that it was not trained on, and what in it is suspicious.
//
// [MeasureFit] runs the filter along tracks of other users, as a service would. It compares how
// often the filter is surprised with how often it may be: drift with δ. [Judge] and [FitVerdict]
// say what that means. [CheckModel] finds what is suspicious about a model.
//
//	trial.go          Runner: a track through a sanitizer, and beside it one without releases
//	score.go          Score: distances, location sets and drift
//	walker.go         Walker: somebody who moves as a model says
//	past.go           Past: what a reader who smooths the records sees of the past
//	fit.go            MeasureFit: options, tracks, parts, and how these become figures with
//	                  intervals over users
//	fit_verdict.go    figures in words, and who may read them
//	model_check.go    one model by itself
package trial

import (
	"iter"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
)

// Report is one report of a track.
type Report struct {
	Step int64
	Cell grid.Cell
	// Place is where the person is on the map, in kilometres: what distances are measured to. The
	// filter is given the cell alone.
	Place grid.Point
}

// Track is one person's reports, ascending by step.
type Track struct {
	User    string
	Reports iter.Seq[Report]
}

// Centres yields the reports of somebody who is in the centre of each cell.
func Centres(g *grid.Grid, steps []int64, cells []grid.Cell) iter.Seq[Report] {
	return func(yield func(Report) bool) {
		for i, cell := range cells {
			if !yield(Report{steps[i], cell, g.Centre(cell)}) {
				return
			}
		}
	}
}

// Result is what a report has led to. It is valid during the call that it is given to.
type Result struct {
	Report
	// Number is the report's in its track, from 0.
	Number int
	// Outcome is the sanitizer's, with its prior.
	Outcome mechanism.Outcome
	// State is the filter's after the report.
	State *mechanism.State
	// Blind is the best that the blind filter says, if [Runner.Beside] is set.
	Blind mechanism.Best

	beside bool
}

// Runner takes tracks through a sanitizer, one after another, each from the state of a new user. It
// belongs to one goroutine.
type Runner struct {
	Sanitizer *mechanism.Sanitizer
	// Release asks for a release at each report. Without it the filter only predicts: that is the
	// blind baseline, what somebody would say who sees no release at all.
	Release bool
	// Beside runs the blind filter beside the one that releases. It leaves no trace in the latter.
	// Without Release there is one filter, which is blind itself.
	Beside bool
	// Near asks for the metric view's share between neighbouring cells with each release.
	Near bool
	// Alone, if set, is what the blind filter says, by steps since a track's first report: see
	// [Alone]. It saves running the filter again where it says the same of all tracks.
	Alone []mechanism.Best

	state, blind mechanism.State
	estimator    mechanism.Estimator
}

// Run takes a track through the sanitizer and has visit called with each result. The first error,
// of the sanitizer or of visit, ends it.
//
// Cost: one step of the sanitizer for each report, and with Beside a prediction.
func (r *Runner) Run(t Track, visit func(*Result) error) error {
	r.state, r.blind = restarted(r.state), restarted(r.blind)
	result := Result{State: &r.state, beside: r.Beside}
	first := int64(0)
	for report := range t.Reports {
		if result.Number == 0 {
			first = report.Step
		}
		result.Report = report
		in := mechanism.Input{
			User: t.User, Step: report.Step, Cell: report.Cell, Release: r.Release,
			Prior: true, Near: r.Near,
		}
		var err error
		// The blind filter comes first: the outcome's prior is the sanitizer's memory of its last
		// step.
		if result.Blind, err = r.unseen(in, first); err != nil {
			return err
		}
		if result.Outcome, err = r.Sanitizer.Step(&r.state, in); err != nil {
			return err
		}
		if r.Beside && !r.Release {
			result.Blind = r.best(&r.state)
		}
		if err := visit(&result); err != nil {
			return err
		}
		result.Number++
	}
	return nil
}

// unseen returns what the blind filter beside says at a report of a track that began with a step.
func (r *Runner) unseen(in mechanism.Input, first int64) (mechanism.Best, error) {
	switch {
	case !r.Beside || !r.Release:
		return mechanism.Best{}, nil
	case r.Alone != nil:
		return r.Alone[in.Step-first], nil
	}
	in.Release = false
	if _, err := r.Sanitizer.Step(&r.blind, in); err != nil {
		return mechanism.Best{}, err
	}
	return r.best(&r.blind), nil
}

// best returns the best that a filter's state says.
func (r *Runner) best(state *mechanism.State) mechanism.Best {
	return r.estimator.Best(r.Sanitizer.Model().Grid, &state.Posterior)
}

// Alone returns what a blind filter says at reports in these steps, which ascend, by steps since
// the first one. It is the same for tracks that begin in other steps only where the model is: where
// it has one matrix.
func Alone(s *mechanism.Sanitizer, steps []int64) ([]mechanism.Best, error) {
	said := make([]mechanism.Best, steps[len(steps)-1]-steps[0]+1)
	silent := func(yield func(Report) bool) {
		for _, step := range steps {
			if !yield(Report{Step: step}) {
				return
			}
		}
	}
	err := (&Runner{Sanitizer: s, Beside: true}).Run(Track{Reports: silent}, func(r *Result) error {
		said[r.Step-steps[0]] = r.Blind
		return nil
	})
	return said, err
}

// restarted returns the state of a new user in the memory of another.
func restarted(s mechanism.State) mechanism.State {
	s.Posterior.Reset()
	return mechanism.State{Posterior: s.Posterior}
}
