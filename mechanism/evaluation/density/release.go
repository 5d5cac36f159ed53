package density

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

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

// release releases every path.
func (x *experiment) release(paths []path, epsilon float64) ([]vehicle, error) {
	var now []*history
	for v, p := range paths {
		at := slices.IndexFunc(now, func(h *history) bool { return h.model == p.model })
		if at >= 0 {
			now[at].vehicles = append(now[at].vehicles, v)
			continue
		}
		h := &history{model: p.model, vehicles: []int{v}}
		h.told.CopyFrom(&p.model.Initial)
		now = append(now, h)
	}
	workers := make([]*releaser, x.options.Workers)
	for i := range workers {
		workers[i] = x.newReleaser(paths, epsilon)
	}
	before := x.done
	for step := range int64(x.options.Steps) {
		next := make([][]*history, len(now))
		err := parallel.Pool{Workers: len(workers)}.Do(len(now),
			func(worker int) func(*parallel.Task) error {
				return func(t *parallel.Task) (err error) {
					next[t.Number], err = workers[worker].advance(now[t.Number], step)
					return err
				}
			})
		if err != nil {
			return nil, err
		}
		now = slices.Concat(next...)
		done := before + (step+1)*int64(len(paths))/int64(x.options.Steps)
		if err := x.report(done); err != nil {
			return nil, err
		}
	}
	return x.last(paths, now), nil
}

// last returns the vehicles at the last step.
func (x *experiment) last(paths []path, now []*history) []vehicle {
	vehicles, dense := make([]vehicle, len(paths)), make([]float64, x.zones.Count())
	last := x.options.Steps - 1
	for _, h := range now {
		if x.blind[h.model] == nil {
			x.blind[h.model] = new(mobility.Distribution)
			mobility.NewPredictor(h.model).Predict(x.blind[h.model], &h.model.Initial, 0, last)
		}
		posterior := new(aggregate.ByZone)
		x.zones.Gather(posterior, &h.told, dense)
		release := x.zones.Of(h.model.Grid.CellAt(h.release))
		for _, v := range h.vehicles {
			truth := x.zones.Of(paths[v].cells[last])
			vehicles[v] = vehicle{h.model, truth, release, posterior}
		}
	}
	return vehicles
}

// releaser takes histories on, for one goroutine.
type releaser struct {
	paths      []path
	options    mechanism.Options
	streams    noise.Streams
	seed       uint64
	sanitizers map[*mobility.Model]*mechanism.Sanitizer
	predictors map[*mobility.Model]*mobility.Predictor
}

func (x *experiment) newReleaser(paths []path, epsilon float64) *releaser {
	options := x.options.Release
	options.Epsilon = epsilon
	return &releaser{
		paths: paths, options: options, seed: x.options.Seed,
		streams:    noise.NewKeyed(noise.KeyFromSeed(x.options.Seed)),
		sanitizers: map[*mobility.Model]*mechanism.Sanitizer{},
		predictors: map[*mobility.Model]*mobility.Predictor{},
	}
}

// of returns the sanitizer of a model.
func (r *releaser) of(m *mobility.Model) (*mechanism.Sanitizer, error) {
	if s := r.sanitizers[m]; s != nil {
		return s, nil
	}
	s, err := mechanism.NewSanitizer(m, r.streams, r.options)
	r.sanitizers[m], r.predictors[m] = s, mobility.NewPredictor(m)
	return s, err
}

// advance takes a history through a step in which its vehicles report: itself where nothing is
// released, else one history for each release, in the order of their first vehicles.
func (r *releaser) advance(h *history, step int64) ([]*history, error) {
	s, err := r.of(h.model)
	if err != nil {
		return nil, err
	}
	if step > 0 {
		r.predictors[h.model].Predict(&h.told, &h.told, step-1, 1)
	}
	// One vehicle's step says whether there is a release, and leaves its law behind.
	var state mechanism.State
	state.CopyFrom(&h.state)
	out, err := s.Step(&state, mechanism.Input{
		User: "density", Step: step, Cell: r.paths[h.vehicles[0]].cells[step], Release: true,
	})
	if err != nil {
		return nil, err
	}
	if out.Kind != mechanism.Released {
		h.state.CopyFrom(&state)
		return []*history{h}, nil
	}
	next := r.draw(h, s.Emission(), step)
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
func (r *releaser) draw(h *history, e *mechanism.Emission, step int64) (next []*history) {
	known := map[grid.Point]*history{}
	for _, v := range h.vehicles {
		stream := noise.NewKeyed(noise.KeyFromSeed(r.seed)).
			Stream(fmt.Appendf(nil, "vehicle %d step %d", v, step))
		z, _ := e.Draw(stream, r.paths[v].cells[step])
		n := known[z]
		if n == nil {
			n = &history{model: h.model, release: z}
			known[z], next = n, append(next, n)
		}
		n.vehicles = append(n.vehicles, v)
	}
	return next
}
