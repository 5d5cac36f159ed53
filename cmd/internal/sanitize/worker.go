package sanitize

import (
	"context"
	"errors"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// job is one fix and what came of it.
type job struct {
	Fix     schemas.Raw // exported: fmt redacts it so
	user    *user       // nil: err is set from the start
	err     error       // a *schemas.Rejection where the service would refuse the fix
	record  schemas.Sanitized
	metric  law.Metric
	errors  errorsKM
	setSize int // |ΔX| of a release
	took    time.Duration
	place   engine.Placement
	kind    mechanism.Kind
	drift   bool // secret, as are the errors
}

// errorsKM are distances to the truth in kilometres: of the release, of the estimate, and of the
// best estimates without any release.
type errorsKM struct{ release, estimate, blindMean, blindMedian float64 }

// worker does jobs on one core.
type worker struct {
	engine  *engine.Engine
	blind   *engine.Blind // nil: not asked for
	partial bool          // the key lacks days
	before  []byte        // a user's state before the last step, if it does
}

func newWorker(s Settings) (*worker, error) {
	releases, err := engine.New(s.Settings)
	if err != nil {
		return nil, err
	}
	if err := releases.Follow(s.Personals, s.Later); err != nil {
		return nil, err
	}
	releases.MeasureNear()
	if name := releases.Options().Mechanism; s.Personals != nil ||
		!(law.Options{Name: name}).Exact() {
		releases.Note(schemas.Unproved)
	}
	w := &worker{engine: releases, partial: s.Key.FirstDay() > 0}
	if s.Brief {
		return w, nil
	}
	if w.blind, err = engine.NewBlind(s.Model, s.Release); err != nil {
		return nil, err
	}
	w.blind.Follow(s.Personals, s.Later)
	return w, nil
}

// do does a job, unless an earlier one of the user has ended the run.
func (w *worker) do(ctx context.Context, j *job) {
	u := j.user
	if u == nil || u.failed {
		return
	}
	var out mechanism.Outcome
	var blind mechanism.Best
	if j.err = ctx.Err(); j.err == nil {
		out, blind, j.err = w.one(u, j)
	}
	if j.err != nil {
		_, refused := errors.AsType[*schemas.Rejection](j.err)
		u.failed = !refused
		return
	}
	j.kind, j.drift = out.Kind, out.Drift
	j.setSize, j.metric = out.SetSize, out.Metric
	if out.Kind.Published() {
		truth := out.Grid.ToMap(j.Fix.Latitude, j.Fix.Longitude)
		j.errors.release = out.Release.Distance(truth)
		j.errors.estimate = out.Estimate.Distance(truth)
		j.errors.blindMean, j.errors.blindMedian = blind.Distances(truth)
	}
}

// one takes a user's state on by a fix. It returns the outcome and the best estimates without any
// release.
func (w *worker) one(u *user, j *job) (out mechanism.Outcome, blind mechanism.Best, err error) {
	w.remember(&u.state)
	began := time.Now()
	j.record, out, err = w.engine.Sanitize(j.Fix, &u.state)
	j.took = time.Since(began)
	j.place = w.engine.Placement()
	if errors.Is(err, noise.ErrDestroyed) {
		err = errors.Join(u.state.DecodeBinary(w.before),
			&schemas.Rejection{Reason: schemas.ReasonKeyDestroyed})
	}
	if err != nil || w.blind == nil || out.Kind == mechanism.Late {
		return out, blind, err
	}
	blind, err = w.blind.Continue(j.Fix, &u.blind)
	return out, blind, err
}

// remember keeps a state as it is before a step, for a fix whose day the key does not have: it
// leaves no trace, as in the service, not even that of a version of the model.
func (w *worker) remember(state *mechanism.State) {
	if w.before = w.before[:0]; w.partial && state.Started {
		w.before = state.AppendBinary(w.before)
	}
}
