// Package density measures the error of the estimates of mechanism/aggregate, of where a fleet is,
// by the number of vehicles and ε, on simulated fleets and on traces.
package density

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
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
	// Fleets are the kinds of fleets; none means traces if there are any, else both simulated
	// kinds. The result of one kind at one ε does not depend on the others.
	Fleets []string
	// Release are the options of releases without ε.
	Release mechanism.Options
	// Epsilons are the values of ε; none means 1.
	Epsilons []float64
	// Vehicles are the sizes of fleets; none means 10, 100, 1,000 and 10,000. The largest fleet is
	// divided into the smaller ones.
	Vehicles []int
	// Steps is the number of steps in which a vehicle reports before its place is estimated; 0
	// means 10. It releases in each, unless Release.ReleaseInterval is longer.
	Steps int
	// Draws is the number of simulated fleets of each size; 0 divides the vehicles of the largest
	// size into the smaller ones, up to twenty.
	Draws int
	// Block is the number of cells along a zone's side; 0 means 2.
	Block int
	// GatheredKM is the radius around the place where half of a gathered fleet starts; 0 means 1.5.
	GatheredKM float64
	// Top is the number of fullest zones that estimates have to find; 0 means 10.
	Top int
	// Traces are the cells of real vehicles by step, each of at least Steps. They make fleets
	// of the given sizes, and one fleet of all.
	Traces [][]grid.Cell
	// Models has, for each of the Traces, the model under which it is released; nil means Model for
	// all. They differ if Model was trained on some of the traces. All have the map of Model.
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

// Score says how near one estimator came to where the vehicles were: means over Fleets fleets of
// one kind and size.
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
	// Error is the mean over zones of |estimate - truth|, in vehicles.
	Error float64 `json:"error"`
	// Coverage is that of 90 % intervals over the zones of all fleets that can be judged
	// (aggregate.Coverage). Judged is the number of these zones: 0 where there are no intervals, or
	// no zone has three vehicles. Then there is no coverage either.
	Coverage float64 `json:"coverage"`
	Judged   float64 `json:"judged"`
}

// mostFleets is the largest number of fleets of one size that are scored.
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
		return o.Vehicles, max(o.Draws, 1) * slices.Max(o.Vehicles)
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
	fleets, names := min(len(vehicles)/size, max(x.options.Draws, mostFleets)), Estimators()
	scores := make([]Score, len(names))
	distances := make([][]float64, len(names))
	var held, judged [2]float64 // zones whose interval holds the truth, and all that count
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
			window.AddVehicle(fmt.Sprintf("%07d", i), v.posterior, x.blind[v.model], dense)
		}
		estimate := aggregate.EstimateOptions{Seed: x.options.Seed, Workers: x.options.Workers}
		d := window.Estimate(estimate)
		for i, estimate := range [][]float64{d.Naive, d.Blind, d.Posterior, d.Fitted} {
			distances[i] = append(distances[i], aggregate.Variation(estimate, truth))
			scores[i].Rank += trial.RankCorrelation(estimate, truth) / float64(fleets)
			scores[i].TopFound += TopFound(estimate, truth, x.options.Top) / float64(fleets)
			scores[i].Error += away(estimate, truth) / float64(fleets)
		}
		for i, of := range [][3][]float64{
			{d.Posterior, d.PosteriorLow, d.PosteriorHigh}, {d.Fitted, d.Low, d.High},
		} {
			in, all := aggregate.Coverage(of[0], of[1], of[2], truth)
			held[i], judged[i] = held[i]+in, judged[i]+all
		}
	}
	for i := range held {
		if judged[i] > 0 {
			scores[2+i].Coverage, scores[2+i].Judged = held[i]/judged[i], judged[i]
		}
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
// Of equal zones the one with the lower number counts. Zones without a vehicle do not count.
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

// away returns the mean over zones of |estimate - truth|.
func away(estimate, truth []float64) (mean float64) {
	for z, n := range truth {
		mean += math.Abs(estimate[z]-n) / float64(len(truth))
	}
	return mean
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// path is the cells of a vehicle by step, and the model under which it releases.
type path struct {
	cells []grid.Cell
	model *mobility.Model
}

// vehicle is one vehicle at the last step: the truth, its last release's zone, and its posterior,
// which is not rounded.
type vehicle struct {
	model          *mobility.Model
	truth, release int32
	posterior      *aggregate.ByZone
}

// paths returns the paths of the n vehicles of a kind of fleet.
func (x *experiment) paths(kind string, n int) ([]path, error) {
	paths, m := make([]path, n), x.options.Model
	if kind == Traces {
		for i, cells := range x.options.Traces {
			if len(cells) < x.options.Steps {
				return nil, fmt.Errorf("density: trace %d has %d of %d steps", i, len(cells),
					x.options.Steps)
			}
			paths[i] = path{cells, m}
			if x.options.Models != nil {
				paths[i].model = x.options.Models[i]
			}
		}
		return paths, nil
	}
	random := rand.New(rand.NewPCG(x.options.Seed, 0x7061746873))
	around := x.gathering(random)
	for v := range paths {
		walker := trial.NewWalker(m, random)
		if kind == Gathered && v%2 == 0 {
			walker.Cell = around[random.IntN(len(around))]
		}
		cells := make([]grid.Cell, x.options.Steps)
		for step := range cells {
			if step > 0 {
				walker.Move(int64(step - 1))
			}
			cells[step] = walker.Cell
		}
		paths[v] = path{cells, m}
	}
	return paths, nil
}

// gathering returns the cells around a place where the model puts few vehicles: a cell of the lower
// half by initial probability, and of the inner half of the map.
func (x *experiment) gathering(random *rand.Rand) []grid.Cell {
	g := x.options.Model.Grid
	weights := make([]float64, g.Cells())
	for i, c := range x.options.Model.Initial.Cells {
		weights[c] = x.options.Model.Initial.P[i]
	}
	middle := slices.Sorted(slices.Values(weights))[len(weights)/2]
	var inner []grid.Cell
	for c := range grid.Cell(g.Cells()) {
		column, row := g.Column(c), g.Row(c)
		inside := 4*column >= g.Width() && 4*column < 3*g.Width() &&
			4*row >= g.Height() && 4*row < 3*g.Height()
		if inside && weights[c] <= middle {
			inner = append(inner, c)
		}
	}
	place := g.Centre(grid.Cell(g.Cells() / 2))
	if len(inner) > 0 {
		place = g.Centre(inner[random.IntN(len(inner))])
	}
	var around []grid.Cell
	for c := range grid.Cell(g.Cells()) {
		if g.Centre(c).Distance(place) <= x.options.GatheredKM || g.CellAt(place) == c {
			around = append(around, c)
		}
	}
	return around
}

// report reports how many vehicles have released.
func (x *experiment) report(done int64) error {
	x.done = done
	if x.options.Progress == nil {
		return nil
	}
	return x.options.Progress(x.done, x.total)
}

// Stretches cuts tracks into stretches of so many successive steps. Each stretch serves as a
// vehicle.
func Stretches(tracks iter.Seq[mobility.Track], steps int) (stretches [][]grid.Cell) {
	for t := range tracks {
		from := 0
		for i := range t.Cells {
			if i > from && t.Steps[i] != t.Steps[i-1]+1 {
				from = i
			}
			if i-from+1 == steps {
				stretches = append(stretches, t.Cells[from:i+1])
				from = i + 1
			}
		}
	}
	return stretches
}
