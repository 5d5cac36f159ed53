package sanitize

import (
	"context"
	"errors"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// job is one fix and what came of it.
type job struct {
	Fix     schemas.Raw // exported: fmt redacts it so
	err     error       // a *schemas.Rejection where the service would refuse the fix
	place   engine.Placement
	outcome mechanism.Outcome
	record  schemas.Sanitized
	blind   grid.Point
	took    time.Duration
	state   size // of the user's state after a step that changed it
}

// size is how much is kept of a user.
type size struct{ bytes, cells int }

// worker does jobs on one core.
type worker struct {
	engine  *engine.Engine
	blind   *engine.Blind
	partial bool   // the key lacks days
	before  []byte // a user's state before the last step, if it does
	after   []byte // and after it
}

func newWorker(s Settings) (*worker, error) {
	releases, err := engine.New(s.Settings)
	if err != nil {
		return nil, err
	}
	if err := releases.Follow(s.Later); err != nil {
		return nil, err
	}
	releases.MeasureNear()
	blind, err := engine.NewBlind(s.Model, s.Release)
	if err != nil {
		return nil, err
	}
	blind.Follow(s.Personals, s.Later)
	return &worker{engine: releases, blind: blind, partial: s.Key.FirstDay() > 0}, nil
}

// do does the jobs of one user, up to the first error that is no refusal.
func (w *worker) do(ctx context.Context, u *user, batch []job) {
	for _, i := range u.jobs {
		j := &batch[i]
		if j.err = ctx.Err(); j.err == nil {
			j.err = w.one(u, j)
		}
		if _, ok := errors.AsType[*schemas.Rejection](j.err); j.err != nil && !ok {
			return
		}
	}
}

func (w *worker) one(u *user, j *job) error {
	w.remember(&u.state)
	began := time.Now()
	var err error
	j.record, j.outcome, err = w.engine.Sanitize(j.Fix, &u.state)
	j.took = time.Since(began)
	j.place = w.engine.Placement()
	if errors.Is(err, noise.ErrDestroyed) {
		err = errors.Join(u.state.DecodeBinary(w.before),
			&schemas.Rejection{Reason: schemas.ReasonKeyDestroyed})
	}
	if err != nil || j.outcome.Kind == mechanism.Late {
		return err
	}
	if j.outcome.Changed {
		w.after = u.state.AppendBinary(w.after[:0])
		j.state = size{len(w.after), u.state.Posterior.Len()}
	}
	j.blind, err = w.blind.Continue(j.Fix, &u.blind)
	return err
}

// remember keeps a state as it is before a step, for a fix whose day the key does not have: it
// leaves no trace, as in the service, not even that of a version of the model.
func (w *worker) remember(state *mechanism.State) {
	if w.before = w.before[:0]; w.partial && state.Started {
		w.before = state.AppendBinary(w.before)
	}
}
