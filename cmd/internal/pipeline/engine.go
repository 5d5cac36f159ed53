// Package pipeline is the one place where bytes meet mathematics: it decodes a
// raw record, takes one step of the mechanism on the user's state, and encodes
// what is published. It also wires the parts into the running service.
package pipeline

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Engine turns fixes into sanitized records. It is a function of its arguments
// (the fix, the user's state, the model, the key, the options) with scratch
// memory, so one goroutine owns it.
type Engine struct {
	model     *mobility.Model
	modelID   string
	options   mechanism.Options
	sanitizer *mechanism.Sanitizer
	publisher *publisher
}

// NewEngine refuses options that Sanitizer or Publish refuses, and a model whose
// step is not a whole number of milliseconds.
func NewEngine(model *mobility.Model, key noise.Key, options mechanism.Options, publish Publish) (*Engine, error) {
	if model.Step < time.Millisecond || model.Step%time.Millisecond != 0 {
		return nil, fmt.Errorf("model %s has a step of %v; train one with a whole number of milliseconds", model.ID(), model.Step)
	}
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(key), options)
	if err != nil {
		return nil, err
	}
	publisher, err := newPublisher(publish, model, key)
	if err != nil {
		return nil, err
	}
	return &Engine{
		model: model, modelID: model.ID(),
		options: sanitizer.Options(), sanitizer: sanitizer, publisher: publisher,
	}, nil
}

// Options returns the options of releases with their defaults filled in.
func (e *Engine) Options() mechanism.Options { return e.options }

// Metric is the metric view of the release that the last Sanitize has made. ok is
// false if it has made none.
func (e *Engine) Metric() (m mechanism.Metric, ok bool) { return e.sanitizer.Metric() }

// Sanitize takes the step of one valid fix on its user's state, in place, and
// returns the record to publish. There is one if Outcome.Kind.Published says so.
// The state is to be stored if Outcome.Changed says so, whether or not there is a
// record: a step that publishes nothing still moves the posterior on. The state may be
// new, or of another model: on the same grid its posterior is kept, else it starts anew.
func (e *Engine) Sanitize(fix schemas.Raw, state *mechanism.State) (schemas.Sanitized, mechanism.Outcome, error) {
	e.sanitizer.Migrate(state)
	step := e.model.StepAt(fix.Timestamp)
	outcome, err := e.sanitizer.Step(state, mechanism.Input{
		User:    fix.UserID,
		Step:    step,
		Cell:    e.model.Grid.Locate(fix.Latitude, fix.Longitude),
		Release: true,
	})
	if err != nil || !outcome.Kind.Published() {
		return schemas.Sanitized{}, outcome, err
	}
	record := schemas.Sanitized{
		UserID:    e.publisher.user(fix.UserID),
		Timestamp: e.publisher.timestamp(fix.Timestamp),
		RadiusM:   outcome.RadiusKM * 1000,
		Epsilon:   outcome.Epsilon,
		Delta:     e.options.Delta,
		Mechanism: e.options.Mechanism,
		ModelID:   e.modelID,
		Step:      step,
		Release:   int64(outcome.Number),
		Kind:      kindOf(outcome.Kind),
	}
	record.Latitude, record.Longitude = e.degrees(outcome.Release)
	record.EstimateLatitude, record.EstimateLongitude = e.degrees(outcome.Estimate)
	record.Factor200M, record.Factor1KM, record.FactorSet = e.publisher.factors(e.sanitizer)
	return record, outcome, nil
}

// kindOf is the published name of a kind that is published.
func kindOf(k mechanism.Kind) string {
	switch k { //nolint:exhaustive // the others have no record
	case mechanism.Repeated:
		return schemas.KindRepeated
	case mechanism.Predicted:
		return schemas.KindPredicted
	}
	return schemas.KindReleased
}

// degrees converts a point of the map. A release at strong privacy can land far
// outside the map: the conversion keeps it on the Earth, so that beyond a pole
// or the antimeridian the drawn point cannot be had back from the degrees.
func (e *Engine) degrees(p grid.Point) (lat, lon float64) { return e.model.Grid.ToDegrees(p) }
