// Package density measures how near the estimates of mechanism/aggregate come to where a fleet is,
// by the number of vehicles and ε, on simulated fleets and on traces.
package density

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// The kinds of fleets.
const (
	// Expected starts where the model has vehicles start, and moves by the model: a fleet that the
	// model predicts.
	Expected = "expected"
	// Gathered moves by the model too, but half of it starts around one place, as at the end of an
	// event. No reader of the model can know that place beforehand.
	Gathered = "gathered"
	// Traces are the caller's vehicles.
	Traces = "traces"
)

// Options describe an experiment.
type Options struct {
	Model *mobility.Model
	// Fleets are the kinds to try; none means traces if there are any, else both simulated ones.
	// The result of one kind at one ε does not depend on the others.
	Fleets []string
	// Release are the options of releases but for ε.
	Release mechanism.Options
	// Epsilons are those to try; none means 1.
	Epsilons []float64
	// Vehicles are the sizes of fleets; none means 10, 100, 1,000 and 10,000. The largest fleet is
	// divided into the smaller ones.
	Vehicles []int
	// Steps is how many steps a vehicle reports, with a release in each, before its place is
	// estimated; 0 means 10.
	Steps int
	// Block is the number of cells along a zone's side; 0 means 2.
	Block int
	// GatheredKM is the radius around the place where half of a gathered fleet starts; 0 means 1.5.
	GatheredKM float64
	// Top is how many of the fullest zones are looked for; 0 means 10.
	Top int
	// Traces are the cells of real vehicles by step, each of at least Steps. They make fleets of
	// the given sizes, and one of all.
	Traces [][]grid.Cell
	// Models has, for each of the Traces, the model under which it is released; nil means Model for
	// all. They differ where Model was trained on some of the traces. All have the map of Model.
	Models []*mobility.Model
	Seed   uint64
	// Workers is the number of goroutines, at least one. No result depends on it.
	Workers int
	// Progress, if set, is called now and then with the number of vehicles that have released, one
	// call at a time. Its error ends the work.
	Progress func(done, total int64) error
}

func (o Options) withDefaults() Options {
	if len(o.Epsilons) == 0 {
		o.Epsilons = []float64{1}
	}
	switch {
	case len(o.Fleets) > 0:
	case len(o.Traces) > 0:
		o.Fleets = []string{Traces}
	default:
		o.Fleets = []string{Expected, Gathered}
	}
	if len(o.Vehicles) == 0 {
		o.Vehicles = []int{10, 100, 1000, 10_000}
	}
	if o.Steps == 0 {
		o.Steps = 10
	}
	if o.Block == 0 {
		o.Block = 2
	}
	if o.GatheredKM == 0 {
		o.GatheredKM = 1.5
	}
	if o.Top == 0 {
		o.Top = 10
	}
	o.Workers = max(o.Workers, 1)
	return o
}

// Score is how near one estimator came to where the vehicles were: means over Fleets fleets of one
// kind and size.
type Score struct {
	Fleet     string  `json:"fleet"`
	Epsilon   float64 `json:"epsilon"`
	Vehicles  int     `json:"vehicles"`
	Fleets    int     `json:"fleets"`
	Estimator string  `json:"estimator"` // naive, blind, posterior or fitted
	// Variation is the total variation distance. VariationLow and VariationHigh are its 10 % and 90
	// % quantiles over the fleets, which mean nothing for a single one. Variations has that of each
	// fleet, in the same order for all estimators.
	Variation     float64   `json:"variation"`
	VariationLow  float64   `json:"variation_low"`
	VariationHigh float64   `json:"variation_high"`
	Variations    []float64 `json:"variations"`
	Rank          float64   `json:"rank"`      // Spearman's correlation over zones
	TopFound      float64   `json:"top_found"` // share of the fullest zones
	// Coverage is that of 90 % intervals (aggregate.Coverage); 0 where there are no intervals.
	Coverage float64 `json:"coverage"`
}

// mostFleets bounds how many fleets of one size are scored.
const mostFleets = 20

// Estimators are the estimators that Run scores, in its order: the histogram of the releases, the
// model alone, the mean of posteriors, and the fit.
func Estimators() []string { return []string{"naive", "blind", "posterior", "fitted"} }

// check reports what is missing.
func (o *Options) check() error {
	if o.Model == nil {
		return errors.New("density: an experiment needs a model")
	}
	for _, kind := range o.Fleets {
		switch kind {
		case Expected, Gathered:
		case Traces:
			if len(o.Traces) == 0 || o.Models != nil && len(o.Models) != len(o.Traces) {
				return fmt.Errorf("density: %d traces and %d models of them",
					len(o.Traces), len(o.Models))
			}
		default:
			return fmt.Errorf("density: no fleet is %q", kind)
		}
	}
	return nil
}

// sizes are those of the fleets of a kind, and how many vehicles it takes.
func (o *Options) sizes(kind string) (sizes []int, largest int) {
	if kind != Traces {
		return o.Vehicles, slices.Max(o.Vehicles)
	}
	largest = len(o.Traces)
	smaller := slices.DeleteFunc(slices.Clone(o.Vehicles), func(n int) bool { return n >= largest })
	return append(smaller, largest), largest
}

// Run runs an experiment. Its scores are in order of fleet, ε, size and estimator.
func Run(o Options) ([]Score, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	zones, err := aggregate.NewZones(o.Model.Grid, o.Block)
	if err != nil {
		return nil, err
	}
	x := &experiment{options: o, zones: zones, blind: map[*mobility.Model]*mobility.Distribution{}}
	for _, kind := range o.Fleets {
		_, largest := o.sizes(kind)
		x.total += int64(len(o.Epsilons) * largest)
	}
	var scores []Score
	for _, kind := range o.Fleets {
		sizes, largest := o.sizes(kind)
		paths, err := x.paths(kind, largest)
		if err != nil {
			return nil, err
		}
		for _, epsilon := range o.Epsilons {
			vehicles, err := x.release(paths, epsilon)
			if err != nil {
				return nil, err
			}
			for _, size := range sizes {
				of, err := x.score(kind, epsilon, size, vehicles)
				if err != nil {
					return nil, err
				}
				scores = append(scores, of...)
			}
		}
	}
	return scores, nil
}

type experiment struct {
	options Options
	zones   *aggregate.Zones
	blind   map[*mobility.Model]*mobility.Distribution // at the last step, by model

	done, total int64 // vehicles that have released
}

// score estimates fleets of one size.
func (x *experiment) score(
	kind string, epsilon float64, size int, vehicles []vehicle,
) ([]Score, error) {
	fleets, names := min(len(vehicles)/size, mostFleets), Estimators()
	scores := make([]Score, len(names))
	distances := make([][]float64, len(names))
	dense := make([]float64, x.zones.Count())
	for f := range fleets {
		if err := x.report(x.done); err != nil { // a large fleet takes seconds
			return nil, err
		}
		window, truth := aggregate.NewWindow(x.zones), make([]float64, x.zones.Count())
		for i := range vehicles[f*size : (f+1)*size] {
			v := &vehicles[f*size+i]
			truth[v.truth]++
			window.AddRelease(v.release)
			window.AddVehicle(&v.posterior, x.blind[v.model], dense)
		}
		estimate := aggregate.EstimateOptions{Seed: x.options.Seed, Workers: x.options.Workers}
		d := window.Estimate(estimate)
		for i, estimate := range [][]float64{d.Naive, d.Blind, d.Posterior, d.Fitted} {
			distances[i] = append(distances[i], aggregate.Variation(estimate, truth))
			scores[i].Rank += trial.RankCorrelation(estimate, truth) / float64(fleets)
			scores[i].TopFound += TopFound(estimate, truth, x.options.Top) / float64(fleets)
		}
		posterior := aggregate.Coverage(d.Posterior, d.PosteriorLow, d.PosteriorHigh, truth)
		scores[2].Coverage += posterior / float64(fleets)
		scores[3].Coverage += aggregate.Coverage(d.Fitted, d.Low, d.High, truth) / float64(fleets)
	}
	for i := range scores {
		s := &scores[i]
		s.Fleet, s.Epsilon, s.Vehicles, s.Fleets = kind, epsilon, size, fleets
		s.Estimator = names[i]
		s.Variations = slices.Clone(distances[i])
		slices.Sort(distances[i])
		s.Variation = mean(distances[i])
		s.VariationLow = distances[i][fleets/10]
		s.VariationHigh = distances[i][int(math.Ceil(.9*float64(fleets)))-1]
	}
	return scores, nil
}

// TopFound returns the share of the k zones with most vehicles that are among the estimate's own k.
// Of equal zones the one with the lower number counts. Zones without a vehicle are not looked for.
func TopFound(estimate, truth []float64, k int) float64 {
	wanted := top(truth, k)
	wanted = slices.DeleteFunc(wanted, func(z int) bool { return truth[z] == 0 })
	if len(wanted) == 0 {
		return 0
	}
	found, among := 0, top(estimate, len(wanted))
	for _, z := range wanted {
		if slices.Contains(among, z) {
			found++
		}
	}
	return float64(found) / float64(len(wanted))
}

func top(values []float64, k int) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	return order[:min(k, len(order))]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
