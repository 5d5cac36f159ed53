package follow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// drive returns the records of vehicles that move by the model from where start puts them (nil: as
// the model has it), in order of steps, and the cells where they were, by vehicle and step.
func drive(
	tb testing.TB, model *mobility.Model, o mechanism.Options, seed uint64, vehicles int,
	steps int64, start func(v int) grid.Cell,
) ([]Record, [][]grid.Cell) {
	tb.Helper()
	return driveSome(tb, model, o, seed, vehicles, steps, start,
		func(int, int64) bool { return true })
}

// driveSome is drive for vehicles that do not report in every step.
func driveSome(
	tb testing.TB, model *mobility.Model, o mechanism.Options, seed uint64, vehicles int,
	steps int64, start func(v int) grid.Cell, reports func(v int, step int64) bool,
) ([]Record, [][]grid.Cell) {
	tb.Helper()
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(seed)), o)
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.NewPCG(seed, 7)
	states, paths := make([]mechanism.State, vehicles), make([][]grid.Cell, vehicles)
	var all []Record
	for step := range steps {
		for v := range vehicles {
			switch {
			case step > 0:
				paths[v] = append(paths[v], model.SampleNext(random, paths[v][step-1], step-1))
			case start != nil:
				paths[v] = append(paths[v], start(v))
			default:
				paths[v] = append(paths[v], model.SampleInitial(random))
			}
			if !reports(v, step) {
				continue
			}
			name := fmt.Sprintf("v%d", v)
			out, err := s.Step(&states[v],
				mechanism.Input{User: name, Step: step, Cell: paths[v][step], Release: true})
			if err != nil {
				tb.Fatal(err)
			}
			if out.Kind.Published() {
				all = append(all, recordOf(model, name, step, &out))
			}
		}
	}
	return all, paths
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func newService(tb testing.TB, model *mobility.Model, o mechanism.Options) *mechanism.Sanitizer {
	tb.Helper()
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// recordOf is the record of an outcome.
func recordOf(model *mobility.Model, user string, step int64, out *mechanism.Outcome) Record {
	return Record{
		User: user, Model: model.ID(), Step: step, Kind: out.Kind, Release: out.Release,
		Estimate: out.Estimate, Number: int64(out.Number),
	}
}

func newFollower(tb testing.TB, models Models, o mechanism.Options) *Follower {
	tb.Helper()
	f, err := NewFollower(models, o)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
