package sanitize

import (
	"context"
	"errors"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// Run is one pass over traces.
type Run struct {
	engine   *engine.Engine
	blind    *engine.Blind
	settings Settings
	states   map[string]*mechanism.State
	out      *records.Output
	metrics  trial.Score

	partial bool   // the key lacks days
	before  []byte // a user's state before the last step, if it does

	fixes   int64
	clamped int64 // fixes outside the map that counted as in its nearest cell
	swapped int64 // fixes outside it that are on it with latitude and longitude swapped
	refused map[schemas.Reason]int64
	kinds   map[mechanism.Kind]int64
	metric  expect.MetricView
	took    time.Duration
}

// Settings are how a run releases: as a service with the same settings does.
type Settings struct {
	engine.Settings
	Later []*engine.Version // of the model, after the first one
}

// New prepares a run whose records go to out.
func New(s Settings, out *records.Output) (*Run, error) {
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
	return &Run{
		engine: releases, blind: blind, settings: s, out: out, partial: s.Key.FirstDay() > 0,
		states: map[string]*mechanism.State{}, kinds: map[mechanism.Kind]int64{},
		refused: map[schemas.Reason]int64{},
	}, nil
}

// All sanitizes all fixes of the reader, to its end or to the first error.
func (r *Run) All(ctx context.Context, reader *traces.Reader, progress *cli.Progress) error {
	for fix, err := range reader.Fixes() {
		if err != nil {
			return err
		}
		if err := r.one(fix); err != nil {
			return err
		}
		if r.fixes%1024 == 0 {
			progress.Show(r.fixes)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Run) one(fix schemas.Raw) error {
	r.fixes++
	if err := engine.Plausible(fix); err != nil {
		return r.refuse(err)
	}
	state := r.states[fix.UserID]
	if state == nil {
		state = new(mechanism.State)
		r.states[fix.UserID] = state
	}
	r.remember(state)
	began := time.Now()
	record, outcome, err := r.engine.Sanitize(fix, state)
	r.took += time.Since(began)
	place := r.engine.Placement()
	if place.Swapped {
		r.swapped++
	}
	if errors.Is(err, noise.ErrDestroyed) {
		err = errors.Join(state.DecodeBinary(r.before),
			&schemas.Rejection{Reason: schemas.ReasonKeyDestroyed})
	}
	if err != nil {
		return r.refuse(err)
	}
	if place.Outside {
		r.clamped++
	}
	r.kinds[outcome.Kind]++
	if outcome.Kind == mechanism.Late {
		return nil
	}
	if err := r.measure(fix, outcome); err != nil || !outcome.Kind.Published() {
		return err
	}
	return r.out.Write(record)
}

// remember keeps a state as it is before a step, for a fix whose day the key does not have: it
// leaves no trace, as in the service, not even that of a version of the model.
func (r *Run) remember(state *mechanism.State) {
	if r.before = r.before[:0]; r.partial && state.Started {
		r.before = state.AppendBinary(r.before)
	}
}

// refuse counts a fix that the service would refuse; any other error stays one.
func (r *Run) refuse(cause error) error {
	rejection, ok := errors.AsType[*schemas.Rejection](cause)
	if !ok {
		return cause
	}
	r.refused[rejection.Reason]++
	return nil
}

// measure adds what one fix came to. The distance of a release is counted where
// there is one, of an estimate where there is a record.
func (r *Run) measure(fix schemas.Raw, outcome mechanism.Outcome) error {
	if outcome.Kind == mechanism.Released {
		r.metrics.AddRelease(outcome.SetSize, outcome.Drift)
		r.metric.Add(fix.UserID, fix.Timestamp, outcome.Epsilon, outcome.Metric)
	}
	blind, err := r.blind.Estimate(fix)
	if err != nil || !outcome.Kind.Published() {
		return err
	}
	truth := outcome.Grid.ToMap(fix.Latitude, fix.Longitude)
	if outcome.Kind != mechanism.Predicted {
		r.metrics.Release.Add(outcome.Release.Distance(truth))
	}
	r.metrics.Estimate.Add(outcome.Estimate.Distance(truth))
	r.metrics.Blind.Add(blind.Distance(truth))
	return nil
}
