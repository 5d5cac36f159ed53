package aggregate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// Fleets of an experiment.
const (
	// FleetExpected moves by the model from where the model has vehicles begin: what the model alone foretells.
	FleetExpected = "expected"
	// FleetGathered moves by the model too, but half of it begins around one place, as at the end of an event: what no reader of the model
	// knows beforehand.
	FleetGathered = "gathered"
	// FleetTraces is the caller's.
	FleetTraces = "traces"
)

// ExperimentOptions describe an experiment: how near the estimates of a fleet's density come to the truth, by the number of vehicles and ε.
type ExperimentOptions struct {
	Model *mobility.Model
	// Fleets are the kinds to try; none means traces if there are any, else both simulated ones. What one kind gives at one ε depends on no other.
	Fleets []string
	// Release are the options of releases but for ε.
	Release mechanism.Options
	// Epsilons are those to try; none means 1.
	Epsilons []float64
	// Vehicles are the sizes of fleets; none means 10, 100, 1,000 and 10,000. The largest fleet is divided into the smaller ones.
	Vehicles []int
	// Steps is how many steps a vehicle has reported, a release in each, when it is looked for; 0 means 10.
	Steps int
	// Block is the number of cells along a zone's side; 0 means 2.
	Block int
	// GatheredKM is the radius around the place at which half of a gathered fleet begins; 0 means 1.5.
	GatheredKM float64
	// Top is how many of the fullest zones are looked for; 0 means 10.
	Top int
	// Traces are cells by step of real vehicles, each of at least Steps, in fleets of the given sizes and of all.
	Traces [][]grid.Cell
	// Models are, for each of the Traces, the model under which it is released, which may differ where Model has seen some of them; nil: Model for
	// all. They have the map of Model.
	Models []*mobility.Model
	Seed   uint64
	// Workers is the number of goroutines, one at least. No result depends on it.
	Workers int
	// Progress, if set, is told now and then how many vehicles have released, one call at a time. Its error ends the work.
	Progress func(done, total int64) error
}

func (o ExperimentOptions) withDefaults() ExperimentOptions {
	if len(o.Epsilons) == 0 {
		o.Epsilons = []float64{1}
	}
	switch {
	case len(o.Fleets) > 0:
	case len(o.Traces) > 0:
		o.Fleets = []string{FleetTraces}
	default:
		o.Fleets = []string{FleetExpected, FleetGathered}
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

// Score is how near one estimator came to where the vehicles of a kind of fleet were: means over Fleets fleets of that size.
type Score struct {
	Fleet     string  `json:"fleet"`
	Epsilon   float64 `json:"epsilon"`
	Vehicles  int     `json:"vehicles"`
	Fleets    int     `json:"fleets"`
	Estimator string  `json:"estimator"` // naive, blind, posterior or fitted
	// Variation is the total variation distance, VariationLow and VariationHigh its 10 % and 90 % quantiles over the fleets, which say nothing of a
	// single one. Variations is that of each fleet, the same fleet at the same place for all estimators.
	Variation     float64   `json:"variation"`
	VariationLow  float64   `json:"variation_low"`
	VariationHigh float64   `json:"variation_high"`
	Variations    []float64 `json:"variations"`
	Rank          float64   `json:"rank"`      // Spearman's correlation over zones
	TopFound      float64   `json:"top_found"` // share of the fullest zones
	// Coverage is the share of zones with an expectation of at least a twentieth of a vehicle whose interval of 90 % holds the true number; 0 where there are no intervals.
	Coverage float64 `json:"coverage"`
}

// mostFleets bounds how many fleets of one size are scored.
const mostFleets = 20

// Estimators are what Experiment scores, in its order: the histogram of the releases, the model alone, the mean of posteriors, and the fit.
func Estimators() []string { return []string{"naive", "blind", "posterior", "fitted"} }

// check reports what is missing.
func (o *ExperimentOptions) check() error {
	if o.Model == nil {
		return errors.New("aggregate: an experiment needs a model")
	}
	for _, kind := range o.Fleets {
		switch kind {
		case FleetExpected, FleetGathered:
		case FleetTraces:
			if len(o.Traces) == 0 || o.Models != nil && len(o.Models) != len(o.Traces) {
				return fmt.Errorf("aggregate: %d traces and %d models of them", len(o.Traces), len(o.Models))
			}
		default:
			return fmt.Errorf("aggregate: no fleet is %q", kind)
		}
	}
	return nil
}

// sizes are those of the fleets of a kind, and how many vehicles it takes.
func (o *ExperimentOptions) sizes(kind string) (sizes []int, largest int) {
	if kind != FleetTraces {
		return o.Vehicles, slices.Max(o.Vehicles)
	}
	largest = len(o.Traces)
	return append(slices.DeleteFunc(slices.Clone(o.Vehicles), func(n int) bool { return n >= largest }), largest), largest
}

// Experiment runs it. Its scores are in order of fleet, ε, size and estimator.
func Experiment(o ExperimentOptions) ([]Score, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	zones, err := NewZones(o.Model.Grid, o.Block)
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
	options ExperimentOptions
	zones   *Zones
	blind   map[*mobility.Model]*mobility.Distribution // at the last step, of each model that releases

	mu          sync.Mutex
	done, total int64
}

// score estimates fleets of one size.
func (x *experiment) score(kind string, epsilon float64, size int, vehicles []vehicle) ([]Score, error) {
	fleets, names := min(len(vehicles)/size, mostFleets), Estimators()
	scores := make([]Score, len(names))
	distances := make([][]float64, len(names))
	dense := make([]float64, x.zones.Count())
	for f := range fleets {
		if err := x.report(0); err != nil { // a large fleet takes seconds
			return nil, err
		}
		window, truth := newWindow(x.zones.Count()), make([]float64, x.zones.Count())
		for i := range vehicles[f*size : (f+1)*size] {
			v := &vehicles[f*size+i]
			truth[v.truth]++
			window.naive[v.release]++
			window.add(x.zones, &v.posterior, x.blind[v.model], dense)
		}
		d := window.Estimate(EstimateOptions{Seed: x.options.Seed, Workers: x.options.Workers})
		for i, estimate := range [][]float64{d.Naive, d.Blind, d.Posterior, d.Fitted} {
			distances[i] = append(distances[i], Variation(estimate, truth))
			scores[i].Rank += trial.RankCorrelation(estimate, truth) / float64(fleets)
			scores[i].TopFound += TopFound(estimate, truth, x.options.Top) / float64(fleets)
		}
		scores[2].Coverage += covered(d.Posterior, d.PosteriorLow, d.PosteriorHigh, truth) / float64(fleets)
		scores[3].Coverage += covered(d.Fitted, d.Low, d.High, truth) / float64(fleets)
	}
	for i := range scores {
		s := &scores[i]
		s.Fleet, s.Epsilon, s.Vehicles, s.Fleets, s.Estimator = kind, epsilon, size, fleets, names[i]
		s.Variations = slices.Clone(distances[i])
		slices.Sort(distances[i])
		s.Variation = sumOf(distances[i]) / float64(fleets)
		s.VariationLow, s.VariationHigh = distances[i][fleets/10], distances[i][int(math.Ceil(.9*float64(fleets)))-1]
	}
	return scores, nil
}

// covered returns the share of zones with something to expect whose interval holds the truth.
func covered(estimate, low, high, truth []float64) float64 {
	zones, inside := 0.0, 0.0
	for z, n := range truth {
		if estimate[z] < .05 {
			continue
		}
		zones++
		if n >= low[z] && n <= high[z] {
			inside++
		}
	}
	if zones == 0 {
		return 0
	}
	return inside / zones
}
