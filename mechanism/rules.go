package mechanism

import (
	"math"

	"github.com/geodither/geodither/mechanism/ledger"
)

// The rules of Sanitizer.Step. Each rule is a function of steps, of the state, which holds nothing
// but past releases, and of the prior, which follows from the state. No rule is given the true
// cell.

// again decides what needs no prediction: reports of steps that are past, and of the last one.
func (s *Sanitizer) again(state *State, in Input) (out Outcome, done bool) {
	if !state.Started || in.Step > state.Step {
		return Outcome{}, false
	}
	switch {
	case in.Step < state.Step:
		return s.outcome(state, Late), true
	case state.HasRelease && state.ReleaseStep == in.Step:
		return s.outcome(state, Repeated), true
	case !in.Release:
		return s.outcome(state, Predicted), true
	}
	return Outcome{}, false
}

// decide returns Released if a release may be drawn, and else what to do instead. s.prior is the
// step's.
func (s *Sanitizer) decide(state *State, in Input) (kind Kind, exhausted bool) {
	switch {
	case !in.Release || !s.open(in.Step):
		return Predicted, false
	case s.tooSoon(state, in.Step):
		if s.options.Between == BetweenSkip {
			return Skipped, false
		}
		return Predicted, false
	case s.spent(state, in.Step):
		switch {
		case s.options.Budget.Spent == SpentSuppress:
			return Suppressed, true
		case s.options.Budget.Spent == SpentRepeat && state.HasRelease:
			return Repeated, true
		}
		return Predicted, true
	}
	return Released, false
}

// open says whether a step starts within the hours. A step whose start is no time in milliseconds
// counts as the nearest one that is.
func (s *Sanitizer) open(step int64) bool {
	most := math.MaxInt64 / s.stepMS
	return s.hours.Open(min(max(step, -most), most) * s.stepMS)
}

// tooSoon says whether the last release is less than the interval ago. With an interval of 1 no
// later step is too soon. The same one repeats, unless the user was erased since, or came to a
// model with shorter steps: then there is nothing to repeat, and what the ledger keeps says that
// the time of the step has had its release.
func (s *Sanitizer) tooSoon(state *State, step int64) bool {
	last, ok := state.Ledger.Last()
	interval := int64(s.options.ReleaseInterval)
	return ok && (interval > 1 && last > ledger.WindowStart(step, interval, s.stepMS) ||
		last >= ledger.StepEnd(step, s.stepMS))
}

// spent says whether one more release would exceed a budget.
//
// Guarantee: in any stretch of fix times as long as the window, both ends included, the ε of all
// releases add up to at most the budget that was in force when the last of them was drawn. For that
// last release passed here, and Budget.Since leaves out only releases whose fixes lie more than the
// window before its own. The ledger never shows less than the others cost, also of what was
// released under other settings or another model. Costs are whole billionths not below ε, and
// limits are not above the budget, so the sums are exact. The same goes for the lifetime.
func (s *Sanitizer) spent(state *State, step int64) bool {
	b := &s.options.Budget
	if b.Lifetime > 0 && state.Ledger.Spent().Plus(s.cost) > s.lifetime {
		return true
	}
	return b.WindowSteps > 0 && state.Ledger.SpentSince(s.expired(step)).Plus(s.cost) > s.window
}

// expired returns the moment up to which no budget in force looks at releases.
func (s *Sanitizer) expired(step int64) int64 { return s.options.Budget.Since(step, s.stepMS) }
