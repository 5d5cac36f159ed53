package mechanism

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Step handles one report of one user: Algorithm 1 as a function of the state, the report, the
// models, the options and the key alone. It updates the state in place, but not on an error and not
// where the outcome says that nothing changed.
//
// The rules look at steps and at what has been released, never at the place. The first rule that
// applies decides:
//
//	report                             option                 outcome     published   ε  posterior
//	before the user's last step                               Late        nothing     0  stays
//	in that step, which has a release                         Repeated    that one    0  stays
//	Input.Release is false                                    Predicted   estimate    0  prior
//	the step starts outside the hours                         Predicted   estimate    0  prior
//	too soon after the last release    Between predict        Predicted   estimate    0  prior
//	                                   Between skip           Skipped     nothing     0  prior
//	a budget does not hold one more    Budget.Spent suppress  Suppressed  nothing     0  prior
//	  release                          Budget.Spent repeat    Repeated    last one    0  prior
//	                                   Budget.Spent predict   Predicted   estimate    0  prior
//	the codebook has one code point                           Predicted   estimate    0  prior
//	else                                                      Released    z           ε  inferred
//
// Too soon is less than ReleaseInterval steps after the user's last release. The budgets are those
// of the window and of the lifetime.
//
// Under Codebook a prior of one cell, or one so narrow that its code points coincide, has one code
// point. It would be released whatever the place is, so it would tell nothing. The prior decides
// that, and no word is drawn for it. It counts as no release: the interval goes on, and the next
// release has the next number.
//
// "Prior" means that the posterior advances by prediction: to the same state whatever is published,
// except for a rounding under Codebook with options that hide reports (Options.Hides).
// It does so once for each step. In a step that has advanced already, a withheld report gives what
// the state says and changes nothing.
//
// A new user starts at the model's initial distribution. A later step predicts once for each step
// in between, or by the model's law of gaps (Options.LearnedGaps). A gap longer than
// Options.LongestGap starts at the initial distribution again.
//
// Cost: the transitions out of the posterior's support for each predicted step, and a release is
// linear in the prior's support. Where Release is false nothing but the prediction and the estimate
// is computed: a second state that is stepped that way is the blind baseline.
//
// A release of a day whose noise key was destroyed is a noise.DestroyedError. Every other outcome
// needs no key.
func (s *Sanitizer) Step(state *State, in Input) (Outcome, error) {
	if err := s.check(state, in); err != nil {
		return Outcome{}, err
	}
	if out, done := s.again(state, in); done {
		return out, nil
	}
	s.predict(state, in.Step)
	if s.prior.Len() == 0 {
		return Outcome{}, fmt.Errorf("%w: its posterior holds no mass", ErrState)
	}
	if kind, exhausted := s.decide(state, in); kind != Released {
		out := s.withhold(state, in, kind)
		out.Exhausted = exhausted
		return out, nil
	}
	return s.release(state, in)
}

// predict fills s.prior, pruned and normalized. In a step that was only predicted so far the stored
// posterior is the prior.
func (s *Sanitizer) predict(state *State, step int64) {
	// The difference of two int64 fits uint64 where the first is not smaller.
	gap := uint64(step) - uint64(state.Step)
	if state.Started && gap <= s.longest {
		s.bridge(state, gap)
		return
	}
	s.prior.CopyFrom(&s.model.Initial)
	s.prior.Prune(max(s.options.Prune, 0))
}

// bridge predicts so many steps from the state's: by the model's law of gaps where it counts, and
// else by the chain, one prediction a step.
//
// Where reports may leave no record, every step of the gap ends under Codebook as if one had been
// withheld there. So the prior does not depend on which of them were: Observe, which does not know
// that, has the very same one. A rounding more would move code points to other places.
func (s *Sanitizer) bridge(state *State, gap uint64) {
	prune, from, at := max(s.options.Prune, 0), &state.Posterior, state.Step
	if s.byLaw && s.predictor.PredictGap(s.prior, from, at, gap, prune) {
		return
	}
	if s.emission.codebook != nil && s.options.Hides() {
		for ; gap > 1; gap-- {
			s.predictor.PredictPruned(s.prior, from, at, 1, prune)
			at++
			s.keep(&s.withheld, s.prior, nil, at)
			from = &s.withheld
		}
	}
	s.predictor.PredictPruned(s.prior, from, at, int(gap), prune)
}

// withhold advances the state by prediction, once a step, and returns what is published instead of
// a release.
func (s *Sanitizer) withhold(state *State, in Input, kind Kind) Outcome {
	change := !state.Started || state.Step != in.Step
	if change {
		s.advance(state, in.Step, nil)
	}
	out := s.predicted(state, in, kind)
	out.Changed = change
	return out
}

// release draws and charges a release of the prior's step, unless it would tell nothing. Where the
// key has no noise for the step's day nothing has changed.
func (s *Sanitizer) release(state *State, in Input) (Outcome, error) {
	s.emission.Prepare(s.prior)
	if !s.emission.Tells() {
		return s.withhold(state, in, Predicted), nil
	}
	z, drift, err := s.draw(in, state.Releases+1)
	if err != nil {
		return Outcome{}, err
	}
	s.book(state, in.Step, z)

	out := s.predicted(state, in, Released)
	out.Changed = true
	out.Epsilon = s.options.Epsilon
	out.Metric = s.emission.Metric()
	if in.Near {
		out.Metric.NearShare = s.emission.NearShare()
	}
	out.SetSize = s.emission.SetSize()
	out.Drift = drift
	return out, nil
}

// draw draws the release of a number, after Emission.Prepare. This and Emission.Draw are the places
// that use the true cell: the transcript is given its surrogate, or under Codebook its vote.
func (s *Sanitizer) draw(in Input, number uint64) (z grid.Point, drift bool, err error) {
	e := s.emission
	var facts []byte
	if q := e.codebook; q != nil {
		facts = s.transcript.completeVote(in.User, in.Step, number, q, q.Vote(in.Cell))
	} else {
		facts = s.transcript.complete(in.User, in.Step, number, e.Set(), e.Surrogate(in.Cell))
	}
	source, err := s.streams.On(dayOf(in.Step, s.stepMS), facts)
	if err != nil {
		return grid.Point{}, false, err
	}
	z, drift = e.Draw(source, in.Cell)
	return z, drift, nil
}

// dayOf returns the day on which a step begins. It follows from the step alone: no clock decides
// which key a release has.
func dayOf(step, stepMS int64) noise.Day {
	if step > math.MaxInt64/stepMS {
		return noise.LastDay
	}
	return noise.DayAt(max(step, 0) * stepMS)
}

// book infers from a release, keeps it and charges it. An observer of the release can do it.
func (s *Sanitizer) book(state *State, step int64, z grid.Point) {
	s.advance(state, step, s.emission.Likelihoods(z, s.prior.Cells))
	state.HasRelease, state.ReleaseStep, state.Release = true, step, z
	state.Releases++
	s.charge(state)
}

// advance makes the prior, times a likelihood if there is one, the state's posterior of a step.
func (s *Sanitizer) advance(state *State, step int64, likelihood []float64) {
	s.keep(&state.Posterior, s.prior, likelihood, step)
	state.Short = s.short()
	state.Started, state.Step = true, step
	state.Model, state.Grid, state.StepMS = s.modelID, s.gridID, s.stepMS
	state.Estimate, state.RadiusKM = s.estimator.Estimate(s.model.Grid, &state.Posterior)
}

// short says whether masses are rounded to short ones.
func (s *Sanitizer) short() bool { return s.emission.codebook != nil && s.options.Prune >= 0 }

// keep makes a distribution times a likelihood what is kept of it. dst is not from. See store and
// storeShort.
func (s *Sanitizer) keep(dst, from *mobility.Distribution, likelihood []float64, step int64) {
	if s.short() {
		storeShort(dst, from, likelihood, step)
		return
	}
	store(dst, from, likelihood, s.options.Prune)
}

// charge enters a release of the state's step into its ledger.
func (s *Sanitizer) charge(state *State) {
	epsilon := s.options.Epsilon
	state.Ledger.Charge(ledger.StepEnd(state.Step, s.stepMS), s.cost, s.expired(state.Step))
	state.EpsilonSpent = state.Ledger.Spent().Epsilon()
	state.Rho += float64(epsilon*epsilon) / 2
}

// predicted is the outcome of a step that has predicted a prior.
func (s *Sanitizer) predicted(state *State, in Input, kind Kind) Outcome {
	out := s.outcome(state, kind)
	if in.Prior {
		out.Prior = s.prior
	}
	return out
}

// outcome returns what the state alone says, at no cost.
func (s *Sanitizer) outcome(state *State, kind Kind) Outcome {
	out := Outcome{Kind: kind, Number: state.Releases}
	if !kind.Published() {
		return out
	}
	out.Release, out.Estimate, out.RadiusKM = state.Estimate, state.Estimate, state.RadiusKM
	out.Grid = s.model.Grid
	if kind != Predicted {
		out.Release = state.Release
	}
	return out
}
