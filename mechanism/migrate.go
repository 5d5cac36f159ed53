package mechanism

import "math"

// Migration says what became of a state of another model.
type Migration uint8

// Outcomes of Migrate.
const (
	// Unchanged: the state belongs to the sanitizer's model already, or to no model yet.
	Unchanged Migration = iota
	// PosteriorKept: the other model has the same grid, so what was known of the place stays.
	PosteriorKept
	// StartedAnew: the other model has another grid; the posterior is the new model's initial
	// distribution.
	StartedAnew
)

// String returns the migration in lower case.
func (m Migration) String() string {
	switch m {
	case PosteriorKept:
		return "posterior_kept"
	case StartedAnew:
		return "started_anew"
	default:
		return "unchanged"
	}
}

// Migrate makes a state of another model one of the sanitizer's model.
//
// If both models have the same grid, what is known of the place stays, and so does the release of
// the last step. Else the posterior starts at the new model's initial distribution.
//
// The last step becomes the new model's step that holds its end, so that late reports stay late
// where the new steps are no longer than the old ones. Under longer steps an older report can fall
// into that same step and counts as one of it.
//
// The number of releases and the ledger are kept in any case, for they are the user's and not the
// model's. The ledger's times are the ends of the old steps in milliseconds, so no release leaves a
// window of new steps early. The last release can be repeated only if grid and step length are the
// same; otherwise the step it was made in counts as predicted. ReleaseInterval still counts from
// that release.
func (s *Sanitizer) Migrate(state *State) Migration {
	if !state.Started || state.Model == s.modelID && state.Grid == s.gridID &&
		state.StepMS == s.stepMS {
		return Unchanged
	}
	result := PosteriorKept
	state.Step = convertStep(state.Step, state.StepMS, s.stepMS)
	if state.Grid != s.gridID {
		result = StartedAnew
		s.startAnew(state)
		state.Estimate, state.RadiusKM = s.estimator.Estimate(s.model.Grid, &state.Posterior)
	}
	if result == StartedAnew || state.StepMS != s.stepMS {
		state.HasRelease = false
	}
	state.Model, state.Grid, state.StepMS = s.modelID, s.gridID, s.stepMS
	return result
}

// startAnew makes the model's initial distribution, rounded, a state's posterior.
func (s *Sanitizer) startAnew(state *State) {
	if state.Short = s.short(); state.Short {
		s.prior.CopyFrom(&s.model.Initial)
		s.keep(&state.Posterior, s.prior, nil, state.Step)
		return
	}
	state.Posterior.CopyFrom(&s.model.Initial)
	state.Posterior.Round()
}

// convertStep returns the step of length to that holds the last millisecond of a step of length
// from.
func convertStep(step, from, to int64) int64 {
	if from == to {
		return step
	}
	if from < 1 || step >= math.MaxInt64/from || step < math.MinInt64/from {
		return step // no time of ours: leave it to the rule for gaps
	}
	last := (step+1)*from - 1
	if last < 0 && last%to != 0 {
		return last/to - 1
	}
	return last / to
}
