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
}

// NewEngine refuses options that Sanitizer refuses, and a model whose step is
// not a whole number of milliseconds.
func NewEngine(model *mobility.Model, key noise.Key, options mechanism.Options) (*Engine, error) {
	if model.Step < time.Millisecond || model.Step%time.Millisecond != 0 {
		return nil, fmt.Errorf("model %s has a step of %v; train one with a whole number of milliseconds", model.ID(), model.Step)
	}
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(key), options)
	if err != nil {
		return nil, err
	}
	return &Engine{
		model: model, modelID: model.ID(),
		options: sanitizer.Options(), sanitizer: sanitizer,
	}, nil
}

// Sanitize takes the step of one valid fix on its user's state, in place, and
// returns the record to publish. A late fix (Outcome.Kind is Late) changes
// nothing and has no record. The state may be new, or of another model: on the
// same grid its posterior is kept, else it starts anew.
func (e *Engine) Sanitize(fix schemas.Raw, state *mechanism.State) (schemas.Sanitized, mechanism.Outcome, error) {
	e.sanitizer.Migrate(state)
	step := e.model.StepAt(fix.Timestamp)
	outcome, err := e.sanitizer.Step(state, mechanism.Input{
		User:    fix.UserID,
		Step:    step,
		Cell:    e.model.Grid.Locate(fix.Latitude, fix.Longitude),
		Release: true,
	})
	if err != nil || outcome.Kind == mechanism.Late {
		return schemas.Sanitized{}, outcome, err
	}
	record := schemas.Sanitized{
		UserID:    fix.UserID,
		Timestamp: fix.Timestamp,
		RadiusM:   outcome.RadiusKM * 1000,
		Epsilon:   outcome.Epsilon,
		Delta:     e.options.Delta,
		Mechanism: e.options.Mechanism,
		ModelID:   e.modelID,
		Step:      step,
		Release:   int64(outcome.Number),
	}
	record.Latitude, record.Longitude = e.degrees(outcome.Release)
	record.EstimateLatitude, record.EstimateLongitude = e.degrees(outcome.Estimate)
	return record, outcome, nil
}

// degrees converts a point of the map. A release at strong privacy can land far
// outside the map: the conversion keeps it on the Earth, so that beyond a pole
// or the antimeridian the drawn point cannot be had back from the degrees.
func (e *Engine) degrees(p grid.Point) (lat, lon float64) { return e.model.Grid.ToDegrees(p) }
