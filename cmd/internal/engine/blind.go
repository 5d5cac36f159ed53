package engine

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Blind is the best estimate of someone who sees no release at all: the same filter,
// predicting from the model alone. It costs no privacy, so a release that does
// not beat it is worth nothing. It keeps a state per user in memory.
type Blind struct {
	models    *models
	states    map[string]*Unseen
	estimator mechanism.Estimator
}

// NewBlind makes the baseline of one run over a set of traces: the filter of the given options, of
// which those that belong to releases do not matter, and the model in its versions.
func NewBlind(
	model *mobility.Model, later []*Version, options mechanism.Options,
) (*Blind, error) {
	models, err := newModels(model, later,
		func(m *mobility.Model) (*mechanism.Sanitizer, error) {
			return mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(0)),
				blindOptions(options))
		})
	if err != nil {
		return nil, err
	}
	return &Blind{models: models, states: map[string]*Unseen{}}, nil
}

// blindOptions are those that belong to the filter. Nothing is ever released under
// them, so that ε, δ and the key do not matter. Under the lattice the posterior is not rounded to
// short masses.
func blindOptions(o mechanism.Options) mechanism.Options {
	return mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 1, Prune: o.Prune, MaxGap: o.MaxGap,
	}
}

// Unseen is what the baseline keeps of a user. The zero Unseen is a new user.
type Unseen struct {
	mechanism.State
	best *mechanism.Best // of the posterior; nil: not computed since that changed
}

// Estimate is where the user would be thought to be at the time of a fix, in
// kilometres of that version's map. The fix's coordinates are not looked at.
func (b *Blind) Estimate(fix schemas.Raw) (mechanism.Best, error) {
	user := b.states[fix.UserID]
	if user == nil {
		user = new(Unseen)
		b.states[fix.UserID] = user
	}
	return b.Continue(fix, user)
}

// Continue is Estimate for a user whom the caller keeps. The best places take up to a hundred times
// as long as the rest and follow from the posterior, so they are computed once a step.
func (b *Blind) Continue(fix schemas.Raw, user *Unseen) (mechanism.Best, error) {
	state := &user.State
	use, err := b.models.choose(fix.Timestamp, state)
	if err != nil {
		return mechanism.Best{}, err
	}
	if use.sanitizer.Migrate(state) != mechanism.Unchanged {
		user.best = nil
	}
	out, err := use.sanitizer.Step(state, mechanism.Input{User: fix.UserID, Step: use.step})
	if err != nil {
		return mechanism.Best{}, err
	}
	if out.Changed || user.best == nil {
		best := b.estimator.Best(use.sanitizer.Model().Grid, &state.Posterior)
		user.best = &best
	}
	return *user.best, nil
}
