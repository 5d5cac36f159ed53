package experiment

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
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
	// OfTraces are the caller's vehicles.
	OfTraces = "traces"
)

// Fleets are fleets of one kind that release at one ε, and are looked for in their last step: the
// error of the estimates of mechanism/aggregate, by the number of vehicles.
type Fleets struct {
	Kind    string
	Model   *mobility.Model
	Release mechanism.Options
	// Vehicles are the sizes of fleets. The largest fleet is divided into the smaller ones.
	Vehicles []int
	// Steps is the number of steps in which a vehicle reports before its place is estimated. It
	// releases in each, unless Release.ReleaseInterval is longer.
	Steps int
	// Draws is the number of simulated fleets of each size; 0 divides the vehicles of the largest
	// size into the smaller ones, up to twenty.
	Draws int
	// Block is the number of cells along a zone's side.
	Block int
	// GatheredKM is the radius around the place where half of a gathered fleet starts.
	GatheredKM float64
	// Traces are the vehicles of a fleet of traces, on the map of Model. They make fleets of the
	// given sizes, and one fleet of all.
	Traces []Path
	Seed   uint64
	// Progress, if set, is called now and then with the number of vehicles that have released. Its
	// error ends the work.
	Progress func(done int64) error
}

// Path is the cells of a vehicle by step, at least Steps of them, and the model under which it
// releases.
type Path struct {
	Cells []grid.Cell
	Model *mobility.Model
}

// FleetScore says how near one estimator came to where the vehicles were: means over Fleets fleets
// of one kind and size.
type FleetScore struct {
	Fleet     string
	Epsilon   float64
	Vehicles  int
	Fleets    int
	Estimator string // naive, blind, posterior or fitted
	// Variation is the total variation distance. VariationLow and VariationHigh are its 10 % and 90
	// % quantiles over the fleets, which mean nothing for a single one. Variations has that of each
	// fleet, in the same order for all estimators.
	Variation, VariationLow, VariationHigh float64
	Variations                             []float64
	Rank                                   float64 // Spearman's correlation over zones
	TopFound                               float64 // share of the fullest zones
	// Error is the mean over zones of |estimate - truth|, in vehicles.
	Error float64
	// Coverage is that of 90 % intervals over the zones of all fleets that can be judged
	// (aggregate.Coverage). Judged is the number of these zones: 0 where there are no intervals, or
	// no zone has three vehicles. Then there is no coverage either.
	Coverage, Judged float64
}

const (
	// mostFleets is the largest number of fleets of one size that are scored.
	mostFleets = 20
	// fullest is how many of the fullest zones are looked for.
	fullest = 10
)

// estimators are those of a fleet, in order: the histogram of the releases, the model alone, the
// mean of posteriors, and the fit.
var estimators = []string{"naive", blind, "posterior", "fitted"}

// fleetRun is fleets being measured.
type fleetRun struct {
	*Fleets
	zones      *aggregate.Zones
	alone      map[*mobility.Model]*mobility.Distribution // at the last step, by model
	sanitizers map[*mobility.Model]*mechanism.Sanitizer
	predictors map[*mobility.Model]*mobility.Predictor
}

// Measure returns the scores in order of size and estimator.
func (o *Fleets) Measure() (scores []FleetScore, err error) {
	x := &fleetRun{
		Fleets: o, alone: map[*mobility.Model]*mobility.Distribution{},
		sanitizers: map[*mobility.Model]*mechanism.Sanitizer{},
		predictors: map[*mobility.Model]*mobility.Predictor{},
	}
	if x.zones, err = aggregate.NewZones(o.Model.Grid, o.Block); err != nil {
		return nil, err
	}
	sizes, largest := o.Vehicles, max(o.Draws, 1)*slices.Max(o.Vehicles)
	if o.Kind == OfTraces {
		largest = len(o.Traces)
		sizes = append(slices.DeleteFunc(slices.Clone(sizes),
			func(n int) bool { return n >= largest }), largest)
	}
	vehicles, err := x.release(x.paths(largest))
	if err != nil {
		return nil, err
	}
	for _, size := range sizes {
		of, err := x.score(size, vehicles)
		if err != nil {
			return nil, err
		}
		scores = append(scores, of...)
	}
	return scores, nil
}

// score estimates fleets of one size.
func (x *fleetRun) score(size int, vehicles []vehicle) ([]FleetScore, error) {
	fleets := min(len(vehicles)/size, max(x.Draws, mostFleets))
	scores := make([]FleetScore, len(estimators))
	var held, judged [2]float64 // zones whose interval holds the truth, and all that count
	for f := range fleets {
		if err := x.tell(int64(len(vehicles))); err != nil { // a large fleet takes seconds
			return nil, err
		}
		d, truth := x.estimate(vehicles[f*size : (f+1)*size])
		for i, estimate := range [][]float64{d.Naive, d.Blind, d.Posterior, d.Fitted} {
			scores[i].Variations = append(scores[i].Variations,
				aggregate.Variation(estimate, truth))
			scores[i].Rank += rankCorrelation(estimate, truth) / float64(fleets)
			scores[i].TopFound += topFound(estimate, truth, fullest) / float64(fleets)
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
		s.Fleet, s.Epsilon, s.Vehicles, s.Fleets = x.Kind, x.Release.Epsilon, size, fleets
		s.Estimator = estimators[i]
		sorted := slices.Sorted(slices.Values(s.Variations))
		for _, v := range sorted {
			s.Variation += v
		}
		s.Variation /= float64(fleets)
		s.VariationLow = sorted[fleets/10]
		s.VariationHigh = sorted[int(math.Ceil(.9*float64(fleets)))-1]
	}
	return scores, nil
}

// estimate returns the estimates of a fleet, and how many vehicles are in each zone.
func (x *fleetRun) estimate(fleet []vehicle) (d aggregate.Density, truth []float64) {
	window, truth := aggregate.NewWindow(x.zones), make([]float64, x.zones.Count())
	dense := make([]float64, x.zones.Count())
	for i := range fleet {
		v := &fleet[i]
		truth[v.truth]++
		window.AddRelease(v.release)
		window.AddVehicle(fmt.Sprintf("%07d", i), v.posterior, x.alone[v.model], dense)
	}
	return window.Estimate(aggregate.EstimateOptions{Seed: x.Seed, Workers: 1}), truth
}

// topFound returns the share of the k zones with most vehicles that are among the estimate's own k.
// Of equal zones the one with the lower number counts. Zones without a vehicle do not count.
func topFound(estimate, truth []float64, k int) float64 {
	wanted := slices.DeleteFunc(top(truth, k), func(z int) bool { return truth[z] == 0 })
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

// paths returns the paths of the n vehicles.
func (x *fleetRun) paths(n int) []Path {
	if x.Kind == OfTraces {
		return x.Traces
	}
	paths := make([]Path, n)
	random := rand.New(rand.NewPCG(x.Seed, 0x7061746873))
	around := x.gathering(random)
	for v := range paths {
		walker := trial.NewWalker(x.Model, random)
		if x.Kind == Gathered && v%2 == 0 {
			walker.Cell = around[random.IntN(len(around))]
		}
		cells := make([]grid.Cell, x.Steps)
		for step := range cells {
			if step > 0 {
				walker.Move(int64(step - 1))
			}
			cells[step] = walker.Cell
		}
		paths[v] = Path{cells, x.Model}
	}
	return paths
}

// gathering returns the cells around a place where the model puts few vehicles: a cell of the lower
// half by initial probability, and of the inner half of the map.
func (x *fleetRun) gathering(random *rand.Rand) (around []grid.Cell) {
	g := x.Model.Grid
	weights := make([]float64, g.Cells())
	for i, c := range x.Model.Initial.Cells {
		weights[c] = x.Model.Initial.P[i]
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
	for c := range grid.Cell(g.Cells()) {
		if g.Centre(c).Distance(place) <= x.GatheredKM || g.CellAt(place) == c {
			around = append(around, c)
		}
	}
	return around
}

// tell reports how many vehicles have released.
func (x *fleetRun) tell(done int64) error {
	if x.Progress == nil {
		return nil
	}
	return x.Progress(done)
}

// vehicle is one vehicle at the last step: the truth, its last release's zone, and its posterior,
// which is not rounded.
type vehicle struct {
	model          *mobility.Model
	truth, release int32
	posterior      *aggregate.ByZone
}

// history is what vehicles that started together and have released the same share: the service's
// state, and where their releases have them without any rounding by chance. What one of them
// releases next has the same law for all, so a large fleet of short histories costs little.
type history struct {
	model    *mobility.Model
	state    mechanism.State
	told     mobility.Distribution
	release  grid.Point
	vehicles []int
}

// release releases every path, and returns the vehicles at the last step.
func (x *fleetRun) release(paths []Path) ([]vehicle, error) {
	var now []*history
	for v, p := range paths {
		at := slices.IndexFunc(now, func(h *history) bool { return h.model == p.Model })
		if at >= 0 {
			now[at].vehicles = append(now[at].vehicles, v)
			continue
		}
		h := &history{model: p.Model, vehicles: []int{v}}
		h.told.CopyFrom(&p.Model.Initial)
		now = append(now, h)
	}
	for step := range int64(x.Steps) {
		var next []*history
		for _, h := range now {
			after, err := x.advance(h, paths, step)
			if err != nil {
				return nil, err
			}
			next = append(next, after...)
		}
		now = next
		if err := x.tell((step + 1) * int64(len(paths)) / int64(x.Steps)); err != nil {
			return nil, err
		}
	}
	vehicles, dense := make([]vehicle, len(paths)), make([]float64, x.zones.Count())
	last := x.Steps - 1
	for _, h := range now {
		if x.alone[h.model] == nil {
			x.alone[h.model] = new(mobility.Distribution)
			mobility.NewPredictor(h.model).Predict(x.alone[h.model], &h.model.Initial, 0, last)
		}
		posterior := new(aggregate.ByZone)
		x.zones.Gather(posterior, &h.told, dense)
		release := x.zones.Of(h.model.Grid.CellAt(h.release))
		for _, v := range h.vehicles {
			vehicles[v] = vehicle{h.model, x.zones.Of(paths[v].Cells[last]), release, posterior}
		}
	}
	return vehicles, nil
}

// of returns the sanitizer of a model.
func (x *fleetRun) of(m *mobility.Model) (s *mechanism.Sanitizer, err error) {
	if s = x.sanitizers[m]; s == nil {
		s, err = mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(x.Seed)), x.Release)
		x.sanitizers[m], x.predictors[m] = s, mobility.NewPredictor(m)
	}
	return s, err
}

// advance takes a history through a step in which its vehicles report: itself where nothing is
// released, else one history for each release, in the order of their first vehicles.
func (x *fleetRun) advance(h *history, paths []Path, step int64) ([]*history, error) {
	s, err := x.of(h.model)
	if err != nil {
		return nil, err
	}
	if step > 0 {
		x.predictors[h.model].Predict(&h.told, &h.told, step-1, 1)
	}
	// One vehicle's step says whether there is a release, and leaves its law behind.
	var state mechanism.State
	state.CopyFrom(&h.state)
	out, err := s.Step(&state, mechanism.Input{
		User: "density", Step: step, Cell: paths[h.vehicles[0]].Cells[step], Release: true,
	})
	if err != nil {
		return nil, err
	}
	if out.Kind != mechanism.Released {
		h.state.CopyFrom(&state)
		return []*history{h}, nil
	}
	next := x.draw(h, s.Emission(), paths, step)
	for _, n := range next {
		likelihoods := s.Emission().Likelihoods(n.release, h.told.Cells)
		mobility.Update(&n.told, &h.told, likelihoods)
	}
	for _, n := range next {
		n.state.CopyFrom(&h.state)
		err := s.Observe(&n.state, mechanism.Seen{
			Step: step, Kind: mechanism.Released, Release: n.release,
		})
		if err != nil {
			return nil, err
		}
	}
	return next, nil
}

// draw draws a release for each vehicle of a history, and puts those with the same one together.
func (x *fleetRun) draw(
	h *history, e *mechanism.Emission, paths []Path, step int64,
) (next []*history) {
	known := map[grid.Point]*history{}
	for _, v := range h.vehicles {
		stream := noise.NewKeyed(noise.KeyFromSeed(x.Seed)).
			Stream(fmt.Appendf(nil, "vehicle %d step %d", v, step))
		z, _ := e.Draw(stream, paths[v].Cells[step])
		n := known[z]
		if n == nil {
			n = &history{model: h.model, release: z}
			known[z], next = n, append(next, n)
		}
		n.vehicles = append(n.vehicles, v)
	}
	return next
}

// rankCorrelation returns Spearman's coefficient of two rows of one length: the correlation of
// their ranks, equal values sharing the mean of theirs; 0 if all values of a row are equal.
func rankCorrelation(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	middle := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-middle, y[i]-middle
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(float64(xx*yy))
}

// ranks returns the rank of each number, of equal ones their mean.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	result := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, z := range order[i:j] {
			result[z] = float64(i+j-1) / 2
		}
		i = j
	}
	return result
}
