package fleet

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// Fleet is a simulated fleet. Every vehicle starts in a cell of the model's initial distribution,
// moves by its matrix, and reports once a step: at its own moment within the step, and from
// anywhere within its cell.
type Fleet struct {
	model    *mobility.Model
	vehicles []trial.Walker
}

// New places the vehicles of a fleet. The same model, number and seed give the same fleet.
func New(model *mobility.Model, vehicles int, seed uint64) *Fleet {
	// an arbitrary second word, which names the stream
	rng := rand.New(rand.NewPCG(seed, 0x67656f646974686))
	f := &Fleet{model: model, vehicles: make([]trial.Walker, vehicles)}
	for i := range f.vehicles {
		f.vehicles[i] = trial.NewWalker(model, rng)
	}
	return f
}

// Step yields every vehicle's fix of the step that starts at startMS, in order of time, and moves
// the fleet. It returns false as soon as yield does.
func (f *Fleet) Step(startMS int64, yield func(schemas.Raw) bool) bool {
	stepMS := f.model.Step.Milliseconds()
	for i := range f.vehicles {
		vehicle := &f.vehicles[i]
		lat, lon := f.model.Grid.ToDegrees(vehicle.Place())
		if !yield(schemas.Raw{
			UserID:    fmt.Sprintf("sim-%06d", i),
			Timestamp: startMS + stepMS*int64(i)/int64(len(f.vehicles)),
			Latitude:  lat, Longitude: lon,
		}) {
			return false
		}
		vehicle.Move(startMS / stepMS)
	}
	return true
}

// Fixes yields the fixes of a number of steps that end about now. With 0 steps it yields live ones,
// each at its time, until the context ends.
func (f *Fleet) Fixes(ctx context.Context, steps int, now time.Time) iter.Seq2[schemas.Raw, error] {
	stepMS := f.model.Step.Milliseconds()
	start := now.UnixMilli() / stepMS * stepMS
	live := steps == 0
	if !live {
		start -= int64(steps) * stepMS
	}
	return func(yield func(schemas.Raw, error) bool) {
		for s := int64(0); live || s < int64(steps); s++ {
			going := f.Step(start+s*stepMS, func(fix schemas.Raw) bool {
				if live && cli.Sleep(ctx, time.Until(time.UnixMilli(fix.Timestamp))) != nil {
					return false
				}
				return ctx.Err() == nil && yield(fix, nil)
			})
			if !going {
				return
			}
		}
	}
}
