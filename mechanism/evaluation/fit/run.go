package fit

import (
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
	"github.com/geodither/geodither/mechanism/trial"
)

// part is what one pass over one track adds up to.
type part struct {
	steps, lost int64 // lost: of probability 0
	logs        float64

	popular float64 // one step

	releases, drifts         int64 // the rest: the filter
	entropy                  float64
	sets                     []int32
	release, estimate, blind trial.Distances // only for the δ of the settings
}

// addLog counts one place and the probability that it was given.
func (p *part) addLog(probability float64) {
	p.steps++
	if probability == 0 {
		p.lost++
	}
	p.logs += math.Log(max(probability, mobility.MinProbability))
}

// measure fills in the parts: every pass over every track is a task, and its result has a place of its own.
func (f *measurement) measure() error {
	f.parts = make([]part, f.passes()*len(f.held))
	blind, err := f.blindPlaces()
	if err != nil {
		return err
	}
	perPass := int64(0)
	for _, t := range f.held {
		perPass += int64(len(t.Cells))
	}
	pool := parallel.Pool{Workers: f.options.Workers, Size: func(i int) int64 { return int64(len(f.held[i%len(f.held)].Cells)) }}
	if f.options.Progress != nil {
		pool.Progress = func(done int64) error { return f.options.Progress(done, perPass*int64(f.passes())) }
	}
	return pool.Do(len(f.parts), func(int) func(*parallel.Task) error {
		w := &worker{measurement: f, blind: blind, delta: -1}
		return func(t *parallel.Task) error { return w.task(t.Number) }
	})
}

// blindPlaces returns the estimates of a filter without any release, by steps since its start, where they are the same for all tracks, else nil.
func (f *measurement) blindPlaces() ([]grid.Point, error) {
	if len(f.model.Matrices) > 1 || f.options.Personal != nil {
		return nil, nil
	}
	longest := int64(0)
	for _, t := range f.held {
		longest = max(longest, t.Steps[len(t.Steps)-1]-t.Steps[0])
	}
	s, err := f.sanitizer(f.options.Release.Delta, noise.NewKeyed(noise.KeyFromSeed(f.options.Seed)))
	if err != nil {
		return nil, err
	}
	var state mechanism.State
	places := make([]grid.Point, longest+1)
	for i := range places {
		out, err := s.Step(&state, mechanism.Input{Step: int64(i)})
		if err != nil {
			return nil, err
		}
		places[i] = out.Estimate
	}
	return places, nil
}

// sanitizer returns one for a δ.
func (f *measurement) sanitizer(delta float64, streams noise.Streams) (*mechanism.Sanitizer, error) {
	release := f.options.Release
	release.Delta = delta
	return mechanism.NewSanitizer(f.model, streams, release)
}

// worker is the scratch of one goroutine. Tasks come by ascending passes, so that it needs one sanitizer at a time.
type worker struct {
	*measurement
	blind []grid.Point

	predictor     *mobility.Predictor
	popularity    []float64
	here, there   mobility.Distribution
	pass          int
	released      *mechanism.Sanitizer
	paired        *pairedNoise // nil: noise is keyed
	delta         float64
	state, unseen mechanism.State
}

func (w *worker) task(i int) error {
	pass, t := i/len(w.held), w.held[i%len(w.held)]
	if pass == 0 {
		return w.oneStep(&w.parts[i], t)
	}
	if w.released == nil || w.pass != pass {
		if err := w.begin(pass); err != nil {
			return err
		}
	}
	return w.filter(&w.parts[i], t)
}

// begin makes a sanitizer for a pass, with the noise of its run.
func (w *worker) begin(pass int) (err error) {
	w.predictor, w.popularity = nil, nil
	w.pass, w.delta = pass, w.options.Deltas[(pass-1)/w.options.Runs]
	seed := w.options.Seed + uint64((pass-1)%w.options.Runs)
	var streams noise.Streams = noise.NewKeyed(noise.KeyFromSeed(seed))
	if w.options.Paired {
		w.paired = newPairedNoise(seed)
		streams = w.paired
	}
	w.released, err = w.sanitizer(w.delta, streams)
	return err
}

// oneStep asks the model at each true cell for the next one.
func (w *worker) oneStep(p *part, t mobility.Track) error {
	if w.predictor == nil {
		w.predictor = mobility.NewPredictor(w.model)
		w.popularity = w.dense(&w.model.Initial)
	}
	user, err := w.personal(t.User)
	if err != nil {
		return err
	}
	w.predictor.Use(user)
	popularity := w.popularity
	if user != nil {
		user.Initial(&w.there)
		popularity = w.dense(&w.there)
	}
	for i := 1; i < len(t.Cells); i++ {
		if t.Steps[i] != t.Steps[i-1]+1 {
			continue
		}
		w.here.Cells, w.here.P = append(w.here.Cells[:0], t.Cells[i-1]), append(w.here.P[:0], 1)
		w.predictor.Predict(&w.there, &w.here, t.Steps[i-1], 1)
		p.addLog(w.there.At(t.Cells[i]))
		p.popular += math.Log(max(popularity[t.Cells[i]], mobility.MinProbability))
	}
	return nil
}

// dense returns a distribution as one number for each cell of the grid.
func (w *worker) dense(d *mobility.Distribution) []float64 {
	p := make([]float64, w.model.Grid.Cells())
	for i, c := range d.Cells {
		p[c] = d.P[i]
	}
	return p
}

// personal returns how a user moves; nil: as the popular model says.
func (w *worker) personal(user string) (*mobility.Personal, error) {
	if w.options.Personal == nil {
		return nil, nil
	}
	return w.options.Personal(user)
}

// filter releases a track.
func (w *worker) filter(p *part, t mobility.Track) error {
	g := w.model.Grid
	user, err := w.personal(t.User)
	if err != nil {
		return err
	}
	w.state, w.unseen = restarted(w.state), restarted(w.unseen)
	for i, cell := range t.Cells {
		in := mechanism.Input{User: t.User, Step: t.Steps[i], Cell: cell, Release: true, Personal: user}
		if w.paired != nil {
			w.paired.at(t.User, t.Steps[i])
		}
		out, err := w.released.Step(&w.state, in)
		if err != nil {
			return err
		}
		p.addLog(out.Prior.At(cell))
		p.entropy += entropyBits(out.Prior.P)
		if out.Kind == mechanism.Released {
			p.releases++
			p.sets = append(p.sets, int32(out.SetSize))
			if out.Drift {
				p.drifts++
			}
		}
		if w.delta != w.options.Release.Delta {
			continue
		}
		truth := g.Centre(cell)
		if out.Kind == mechanism.Released {
			p.release.Add(out.Release.Distance(truth))
		}
		p.estimate.Add(out.Estimate.Distance(truth))
		unseen, err := w.without(in, t.Steps[0])
		if err != nil {
			return err
		}
		p.blind.Add(unseen.Distance(truth))
	}
	return nil
}

// without returns the estimate without any release, at a step of a track that began at another.
func (w *worker) without(in mechanism.Input, first int64) (grid.Point, error) {
	if w.blind != nil {
		return w.blind[in.Step-first], nil
	}
	in.Release = false
	// The prior of the release is not needed any more: one sanitizer serves both.
	out, err := w.released.Step(&w.unseen, in)
	return out.Estimate, err
}

// restarted returns the state of a new user in the memory of another.
func restarted(s mechanism.State) mechanism.State {
	s.Posterior.Reset()
	return mechanism.State{Posterior: s.Posterior}
}

// entropyBits returns the entropy of a normalized distribution.
func entropyBits(p []float64) float64 {
	sum := 0.0
	for _, q := range p {
		if q > 0 {
			sum -= float64(q * math.Log2(q))
		}
	}
	return sum
}
