package aggregate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
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
	// Traces, if there are any, are cells by step of real vehicles, each of at least Steps: they are used instead of simulated fleets, in fleets of
	// the given sizes and of all.
	Traces [][]grid.Cell
	Seed   uint64
	// Workers is the number of goroutines, one at least. No result depends on it.
	Workers int
	// Progress, if set, is told now and then how many vehicles are done, one call at a time. Its error ends the work.
	Progress func(done, total int64) error
}

func (o ExperimentOptions) withDefaults() ExperimentOptions {
	if len(o.Epsilons) == 0 {
		o.Epsilons = []float64{1}
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
	// Variation is the total variation distance, VariationLow and VariationHigh its 10 % and 90 % quantiles over the fleets.
	Variation     float64 `json:"variation"`
	VariationLow  float64 `json:"variation_low"`
	VariationHigh float64 `json:"variation_high"`
	Rank          float64 `json:"rank"`      // Spearman's correlation over zones
	TopFound      float64 `json:"top_found"` // share of the fullest zones
	// Coverage is the share of zones with an expectation of at least a twentieth of a vehicle whose interval of 90 % holds the true number; 0 where there are no intervals.
	Coverage float64 `json:"coverage"`
}

// mostFleets bounds how many fleets of one size are scored.
const mostFleets = 20

// Experiment runs it. Its scores are in order of fleet, ε, size and estimator.
func Experiment(o ExperimentOptions) ([]Score, error) {
	o = o.withDefaults()
	if o.Model == nil {
		return nil, errors.New("aggregate: an experiment needs a model")
	}
	zones, err := NewZones(o.Model.Grid, o.Block)
	if err != nil {
		return nil, err
	}
	kinds, largest := []string{FleetExpected, FleetGathered}, slices.Max(o.Vehicles)
	if len(o.Traces) > 0 {
		kinds, largest = []string{FleetTraces}, len(o.Traces)
		sizes := slices.DeleteFunc(slices.Clone(o.Vehicles), func(n int) bool { return n >= largest })
		o.Vehicles = append(sizes, largest)
	}
	x := &experiment{options: o, zones: zones, total: int64(len(kinds) * len(o.Epsilons) * largest)}
	var scores []Score
	for _, kind := range kinds {
		paths, err := x.paths(kind, largest)
		if err != nil {
			return nil, err
		}
		for _, epsilon := range o.Epsilons {
			vehicles, err := x.release(paths, epsilon)
			if err != nil {
				return nil, err
			}
			for _, size := range o.Vehicles {
				scores = append(scores, x.score(kind, epsilon, size, vehicles)...)
			}
		}
	}
	return scores, nil
}

type experiment struct {
	options ExperimentOptions
	zones   *Zones
	blind   *mobility.Distribution

	mu          sync.Mutex
	done, total int64
}

// vehicle is one vehicle at the last step: the truth, its last release's zone, and its posterior.
type vehicle struct {
	truth, release int32
	posterior      share
}

// paths returns the cells of vehicles by step.
func (x *experiment) paths(kind string, n int) ([][]grid.Cell, error) {
	if kind == FleetTraces {
		for i, path := range x.options.Traces {
			if len(path) < x.options.Steps {
				return nil, fmt.Errorf("aggregate: trace %d has %d of %d steps", i, len(path), x.options.Steps)
			}
		}
		return x.options.Traces, nil
	}
	m := x.options.Model
	random := rand.New(rand.NewPCG(x.options.Seed, 0x7061746873))
	around := x.gathering(random)
	paths := make([][]grid.Cell, n)
	for v := range paths {
		c := m.SampleInitial(random)
		if kind == FleetGathered && v%2 == 0 {
			c = around[random.IntN(len(around))]
		}
		path := make([]grid.Cell, x.options.Steps)
		for step := range path {
			if step > 0 {
				c = m.SampleNext(random, c, int64(step-1))
			}
			path[step] = c
		}
		paths[v] = path
	}
	return paths, nil
}

// gathering returns the cells around a place where the model puts few vehicles: a cell of the lower half by initial probability, and of the inner half of the map.
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
		if 4*column >= g.Width() && 4*column < 3*g.Width() && 4*row >= g.Height() && 4*row < 3*g.Height() && weights[c] <= middle {
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

// batch is how many vehicles a worker takes at once.
const batch = 32

// release releases every path.
func (x *experiment) release(paths [][]grid.Cell, epsilon float64) ([]vehicle, error) {
	vehicles := make([]vehicle, len(paths))
	work := make(chan int, len(paths)/batch+1)
	for from := 0; from < len(paths); from += batch {
		work <- from
	}
	close(work)
	errs := make([]error, x.options.Workers)
	var group sync.WaitGroup
	for worker := range x.options.Workers {
		group.Go(func() {
			options := x.options.Release
			options.Epsilon = epsilon
			s, err := mechanism.NewSanitizer(x.options.Model, noise.NewKeyed(noise.KeyFromSeed(x.options.Seed)), options)
			dense := make([]float64, x.zones.Count())
			for from := range work {
				for v := from; v < min(from+batch, len(paths)) && err == nil; v++ {
					err = x.one(s, v, paths[v], &vehicles[v], dense)
				}
				if err == nil {
					err = x.report(min(batch, len(paths)-from))
				}
				if err != nil {
					errs[worker] = err
					return
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if x.blind == nil {
		x.blind = new(mobility.Distribution)
		mobility.NewPredictor(x.options.Model).Predict(x.blind, &x.options.Model.Initial, 0, x.options.Steps-1)
	}
	return vehicles, nil
}

func (x *experiment) report(n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done += int64(n)
	if x.options.Progress == nil {
		return nil
	}
	return x.options.Progress(x.done, x.total)
}

// one releases one path. The service's own state is used: an observer has it too (mechanism.Sanitizer.Observe).
func (x *experiment) one(s *mechanism.Sanitizer, v int, path []grid.Cell, to *vehicle, dense []float64) error {
	var state mechanism.State
	name := fmt.Sprintf("vehicle %d", v)
	for step := range x.options.Steps {
		out, err := s.Step(&state, mechanism.Input{User: name, Step: int64(step), Cell: path[step], Release: true})
		if err != nil {
			return err
		}
		to.release = x.zones.Of(x.options.Model.Grid.CellAt(out.Release))
	}
	to.truth = x.zones.Of(path[x.options.Steps-1])
	x.zones.gather(&to.posterior, &state.Posterior, dense)
	return nil
}

// score estimates fleets of one size.
func (x *experiment) score(kind string, epsilon float64, size int, vehicles []vehicle) []Score {
	fleets := min(len(vehicles)/size, mostFleets)
	names := []string{"naive", "blind", "posterior", "fitted"}
	scores := make([]Score, len(names))
	distances := make([][]float64, len(names))
	dense := make([]float64, x.zones.Count())
	for f := range fleets {
		window, truth := newWindow(x.zones.Count()), make([]float64, x.zones.Count())
		for i := range vehicles[f*size : (f+1)*size] {
			v := &vehicles[f*size+i]
			truth[v.truth]++
			window.naive[v.release]++
			window.add(x.zones, &v.posterior, x.blind, dense)
		}
		d := window.Estimate(EstimateOptions{Seed: x.options.Seed, Workers: x.options.Workers})
		for i, estimate := range [][]float64{d.Naive, d.Blind, d.Posterior, d.Fitted} {
			distances[i] = append(distances[i], Variation(estimate, truth))
			scores[i].Rank += evaluation.RankCorrelation(estimate, truth) / float64(fleets)
			scores[i].TopFound += TopFound(estimate, truth, x.options.Top) / float64(fleets)
		}
		scores[2].Coverage += covered(d.Posterior, d.PosteriorLow, d.PosteriorHigh, truth) / float64(fleets)
		scores[3].Coverage += covered(d.Fitted, d.Low, d.High, truth) / float64(fleets)
	}
	for i := range scores {
		s := &scores[i]
		s.Fleet, s.Epsilon, s.Vehicles, s.Fleets, s.Estimator = kind, epsilon, size, fleets, names[i]
		slices.Sort(distances[i])
		s.Variation = sumOf(distances[i]) / float64(fleets)
		s.VariationLow, s.VariationHigh = distances[i][fleets/10], distances[i][int(math.Ceil(.9*float64(fleets)))-1]
	}
	return scores
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

// Stretches cuts tracks into stretches of so many successive steps, each to be taken for a vehicle of its own.
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
