package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// simulationFlags describe a fleet that moves by a model.
type simulationFlags struct {
	vehicles int
	model    string
	steps    int
	seed     uint64
}

func (s *simulationFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&s.vehicles, "simulate", 0, "simulate this many `VEHICLES` that move by --model")
	flags.StringVar(&s.model, "model", "", "model `FILE` for --simulate")
	flags.IntVar(&s.steps, "steps", 0, "simulate this many steps of the model, ending now; 0: live, until Ctrl-C")
	flags.Uint64Var(&s.seed, "seed", 1, "seed of the simulation")
}

// fleet is a simulated fleet: every vehicle starts at a cell of the model's
// initial distribution, moves by its matrix, and reports once a step, at its own
// moment within the step, from anywhere within its cell.
type fleet struct {
	model *mobility.Model
	cells []grid.Cell
	rng   *rand.Rand
	bits  rand.Source
}

func newFleet(model *mobility.Model, vehicles int, seed uint64) *fleet {
	bits := rand.NewPCG(seed, 0x67656f646974686) // any second word: it names the stream
	f := &fleet{model: model, cells: make([]grid.Cell, vehicles), bits: bits, rng: rand.New(bits)}
	for i := range f.cells {
		f.cells[i] = model.SampleInitial(bits)
	}
	return f
}

// step yields every vehicle's fix of the step that begins at startMS, in order
// of time, and moves the fleet on.
func (f *fleet) step(startMS int64, yield func(schemas.Raw) bool) bool {
	stepMS := f.model.Step.Milliseconds()
	side := f.model.Grid.CellKM()
	for i, c := range f.cells {
		centre := f.model.Grid.Centre(c)
		lat, lon := f.model.Grid.ToDegrees(grid.Point{
			X: centre.X + float64(side*(f.rng.Float64()-.5)),
			Y: centre.Y + float64(side*(f.rng.Float64()-.5)),
		})
		if !yield(schemas.Raw{
			UserID:    fmt.Sprintf("sim-%06d", i),
			Timestamp: startMS + stepMS*int64(i)/int64(len(f.cells)),
			Latitude:  lat, Longitude: lon,
		}) {
			return false
		}
		f.cells[i] = f.model.SampleNext(f.bits, c, startMS/stepMS)
	}
	return true
}

// fixes yields a number of steps that end about now, or live ones, each at its
// time, if steps is 0.
func (f *fleet) fixes(ctx context.Context, steps int, now time.Time) iter.Seq2[schemas.Raw, error] {
	stepMS := f.model.Step.Milliseconds()
	start := now.UnixMilli() / stepMS * stepMS
	live := steps == 0
	if !live {
		start -= int64(steps) * stepMS
	}
	return func(yield func(schemas.Raw, error) bool) {
		for s := int64(0); live || s < int64(steps); s++ {
			going := f.step(start+s*stepMS, func(fix schemas.Raw) bool {
				if live && sleep(ctx, time.Until(time.UnixMilli(fix.Timestamp))) != nil {
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
