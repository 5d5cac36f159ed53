package density

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
)

// path is the cells of a vehicle by step, and the model under which it releases.
type path struct {
	cells []grid.Cell
	model *mobility.Model
}

// vehicle is one vehicle at the last step: the truth, its last release's zone, and its posterior.
type vehicle struct {
	model          *mobility.Model
	truth, release int32
	posterior      aggregate.ByZone
}

// paths returns those of a kind's n vehicles.
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

// batch is how many vehicles a worker takes at once.
const batch = 32

// release releases every path.
func (x *experiment) release(paths []path, epsilon float64) ([]vehicle, error) {
	vehicles := make([]vehicle, len(paths))
	before := x.done
	pool := parallel.Pool{
		Workers:  x.options.Workers,
		Size:     func(i int) int64 { return int64(min(batch, len(paths)-i*batch)) },
		Progress: func(done int64) error { return x.report(before + done) },
	}
	err := pool.Do((len(paths)+batch-1)/batch, func(int) func(*parallel.Task) error {
		r := x.newReleaser(epsilon)
		return func(t *parallel.Task) error {
			for v := t.Number * batch; v < min((t.Number+1)*batch, len(paths)); v++ {
				if err := r.one(v, paths[v], &vehicles[v]); err != nil {
					return err
				}
			}
			return nil
		}
	})
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if x.blind[p.model] == nil {
			x.blind[p.model] = new(mobility.Distribution)
			mobility.NewPredictor(p.model).Predict(x.blind[p.model], &p.model.Initial, 0,
				x.options.Steps-1)
		}
	}
	return vehicles, nil
}

// report tells how many vehicles have released.
func (x *experiment) report(done int64) error {
	x.done = done
	if x.options.Progress == nil {
		return nil
	}
	return x.options.Progress(x.done, x.total)
}

// releaser is what one goroutine releases with.
type releaser struct {
	x          *experiment
	epsilon    float64
	sanitizers map[*mobility.Model]*mechanism.Sanitizer
	runner     trial.Runner
	steps      []int64   // those in which vehicles report
	dense      []float64 // scratch, a number a zone
}

func (x *experiment) newReleaser(epsilon float64) *releaser {
	r := &releaser{
		x: x, epsilon: epsilon, sanitizers: map[*mobility.Model]*mechanism.Sanitizer{},
		runner: trial.Runner{Release: true}, dense: make([]float64, x.zones.Count()),
	}
	for step := range int64(x.options.Steps) {
		r.steps = append(r.steps, step)
	}
	return r
}

// of returns the sanitizer of a model.
func (r *releaser) of(m *mobility.Model) (*mechanism.Sanitizer, error) {
	if s := r.sanitizers[m]; s != nil {
		return s, nil
	}
	options := r.x.options.Release
	options.Epsilon = r.epsilon
	streams := noise.NewKeyed(noise.KeyFromSeed(r.x.options.Seed))
	s, err := mechanism.NewSanitizer(m, streams, options)
	r.sanitizers[m] = s
	return s, err
}

// one releases one path. The service's own state is used: an observer has it too
// (mechanism.Sanitizer.Observe).
func (r *releaser) one(v int, p path, to *vehicle) error {
	s, err := r.of(p.model)
	if err != nil {
		return err
	}
	zones, last := r.x.zones, r.x.options.Steps-1
	r.runner.Sanitizer = s
	track := trial.Track{
		User:    fmt.Sprintf("vehicle %d", v),
		Reports: trial.Centres(p.model.Grid, r.steps, p.cells[:last+1]),
	}
	return r.runner.Run(track, func(now *trial.Result) error {
		if now.Number == last {
			to.model, to.truth = p.model, zones.Of(now.Cell)
			to.release = zones.Of(p.model.Grid.CellAt(now.Outcome.Release))
			zones.Gather(&to.posterior, &now.State.Posterior, r.dense)
		}
		return nil
	})
}

// Stretches cuts tracks into stretches of so many successive steps, each to be taken for a vehicle
// of its own.
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
