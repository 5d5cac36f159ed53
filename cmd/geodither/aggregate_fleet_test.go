package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/experiment"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestAggregateOfOneHistory: 200 vehicles that start together by the sample's model, move by it and
// have released once share few histories of releases, and with each history the rounding of the
// posterior that is kept. No rounding may become vehicles: the fit errs no more than the better of
// the mean of posteriors and the model, and finds no zone of many vehicles where there are none.
// Nor does a fit in which the model weighs a tenth of the fleet. The weight that is chosen hides
// what is wrong with likelihoods.
//
// Read out of the rounded posteriors, they put up to a hundred vehicles where the model expects .4
// and none or one is.
func TestAggregateOfOneHistory(t *testing.T) {
	t.Parallel()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		t.Fatal(err)
	}
	const vehicles, steps, window, seeds = 200, 20, 10, 2
	for seed := range uint64(seeds) {
		o := mechanism.Options{
			Mechanism: law.Codebook, Epsilon: 4, Delta: .01, ReleaseInterval: 20,
		}
		var densities []aggregate.Density
		var lights [][]float64
		var zones *aggregate.Zones
		var c *aggregate.Collector
		c, err = aggregate.NewCollector(aggregate.Models{model}, o,
			aggregate.CollectOptions{WindowSteps: window, ZoneKM: 1},
			func(w *aggregate.Window) error {
				zones = c.Zones()
				densities = append(densities, w.Estimate(aggregate.EstimateOptions{Seed: 1}))
				f := w.Fleet()
				light, _ := f.Expected(f.Fit(.1*vehicles, nil, nil).Prior)
				lights = append(lights, light)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		paths := releaseWalks(t, model, o, seed, vehicles, steps, c.Add)
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
		for i, d := range densities {
			truth := make([]float64, zones.Count())
			for _, cells := range paths {
				truth[zones.Of(cells[(i+1)*window-1])]++
			}
			away := func(estimate []float64) (sum float64) {
				for z, n := range truth {
					sum += math.Abs(estimate[z] - n)
				}
				return sum / float64(len(truth))
			}
			fit, posterior, blind := away(d.Fitted), away(d.Posterior), away(d.Blind)
			if fit > 1.1*min(posterior, blind) {
				t.Errorf("fleet %d, window %d: errors of %.2f, of posteriors %.2f, the model %.2f",
					seed, i, fit, posterior, blind)
			}
			for z, n := range truth {
				most := n + 4*math.Sqrt(max(n, d.Blind[z])) + 4
				if max(d.Fitted[z], lights[i][z]) > most {
					t.Errorf("fleet %d, window %d, zone %d: %.1f (%g to %g), with a light model "+
						"%.1f vehicles of %g, by the model %.1f", seed, i, z, d.Fitted[z],
						d.Low[z], d.High[z], lights[i][z], n, d.Blind[z])
				}
			}
		}
	}
}

// releaseWalks lets vehicles walk by a model and report in every step, and hands on their records,
// step by step. It returns the cells of each.
func releaseWalks(
	t *testing.T, model *mobility.Model, o mechanism.Options, seed uint64, vehicles, steps int,
	each func(aggregate.Record) error,
) (paths [][]grid.Cell) {
	t.Helper()
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(seed)), o)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var walkers []trial.Walker
	for range vehicles {
		walkers = append(walkers, trial.NewWalker(model, random))
	}
	states := make([]mechanism.State, vehicles)
	paths = slices.Repeat([][]grid.Cell{nil}, vehicles)
	for step := range int64(steps) {
		for v := range walkers {
			w := &walkers[v]
			if step > 0 {
				w.Move(step - 1)
			}
			paths[v] = append(paths[v], w.Cell)
			user := fmt.Sprintf("vehicle %03d", v)
			out, err := s.Step(&states[v], mechanism.Input{
				User: user, Step: step, Cell: w.Cell, Release: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := each(aggregate.Record{
				User: user, Model: model.ID(), Step: step, Kind: out.Kind, Release: out.Release,
				Estimate: out.Estimate, Number: int64(out.Number),
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return paths
}

// fleetDesign is a fraction of all combinations of what the estimate of a fleet depends on: the
// mechanism, ε, the steps from release to release and in all, and the number of vehicles. Vehicles
// are fresh after one release and old after several hours.
var fleetDesign = []struct {
	mechanism       string
	epsilon         float64
	interval, steps int
	vehicles        int
	quick           bool
}{
	{law.Codebook, 1, 20, 20, 20, true},
	{law.Codebook, 1, 20, 60, 200, true},
	{law.Codebook, 1, 20, 60, 1000, false},
	{law.Codebook, 1, 20, 60, 10_000, false},
	{law.Codebook, 1, 120, 480, 1000, false},
	{law.Codebook, 2, 20, 20, 200, true},
	{law.Codebook, 2, 20, 60, 1000, false},
	{law.Codebook, 2, 120, 480, 200, false},
	{law.Codebook, 2, 360, 1080, 1000, false},
	{law.Codebook, 4, 20, 20, 10_000, false},
	{law.Codebook, 4, 20, 20, 1000, true},
	{law.Codebook, 4, 20, 60, 20, false},
	{law.Codebook, 4, 20, 60, 200, false},
	{law.Codebook, 4, 20, 60, 1000, false},
	{law.Codebook, 4, 20, 100, 200, false},
	{law.Codebook, 4, 120, 240, 200, false},
	{law.Codebook, 4, 360, 720, 1000, false},
	{law.Lattice, 4, 20, 20, 200, false},
	{law.Lattice, 4, 20, 60, 20, false},
}

// TestFleetDesign: over a design of simulated fleets that move by the model, twenty of each kind,
// the fit errs at most 5 % more than the better of the mean of posteriors and the model, and
// intervals of 90 % hold the truth in enough of the zones that have three vehicles. They hold it in
// too many where releases tell most: they also reach out to a fit that distrusts the model. Fleets
// of 20 vehicles have few such zones, so their coverage is not judged.
//
// GEODITHER_FLEET_DESIGN=1 measures the whole design, in some minutes: RESULTS.md has its table.
// GEODITHER_FLEET_MODEL names another model. The design's steps are half minutes under both.
func TestFleetDesign(t *testing.T) {
	whole := os.Getenv("GEODITHER_FLEET_DESIGN") != ""
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(fixes)
	block := 4
	if path := os.Getenv("GEODITHER_FLEET_MODEL"); path != "" {
		model, err = mobility.ReadModelFile(path)
		block = 2
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range fleetDesign {
		if !c.quick && !whole {
			continue
		}
		steps := func(n int) int { return int(time.Duration(n) * fleet.SampleStep / model.Step) }
		scores, err := (&experiment.Fleets{
			Kind: experiment.Expected, Model: model,
			Release: mechanism.Options{
				Mechanism: c.mechanism, Delta: .01, ReleaseInterval: steps(c.interval),
				Epsilon: c.epsilon,
			},
			Vehicles: []int{c.vehicles}, Steps: steps(c.steps), Draws: 20, Block: block, Seed: 1,
		}).Measure()
		if err != nil {
			t.Fatal(err)
		}
		naive, blind, posterior, fit := scores[0], scores[1], scores[2], scores[3]
		minutes := func(n int) float64 { return (time.Duration(n) * fleet.SampleStep).Minutes() }
		t.Logf("| %s | %g | %g min, %g min | %d | %.2f / %.2f / %.2f / %.2f | %.3f / %.3f | %.3f |",
			c.mechanism, c.epsilon, minutes(c.interval), minutes(c.steps), c.vehicles, fit.Error,
			posterior.Error, blind.Error, naive.Error, fit.Variation, blind.Variation,
			fit.Coverage)
		if best := min(posterior.Error, blind.Error); fit.Error > 1.05*best {
			t.Errorf("%+v: an error of %.3f, the better of the others has %.3f",
				c, fit.Error, best)
		}
		if c.vehicles > 20 && (fit.Coverage < .85 || fit.Coverage > .99) {
			t.Errorf("%+v: %.3f of the zones are covered", c, fit.Coverage)
		}
	}
}
