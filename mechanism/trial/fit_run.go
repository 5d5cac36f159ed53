package trial

import (
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// measurement is one measurement in progress.
type measurement struct {
	model   *mobility.Model
	options FitOptions
	held    []mobility.Track // by user
	parts   []part           // for each pass and track; see pass
}

// A pass is the one-step likelihoods, number 0, or the filter at a δ, numbers 1 to len(Deltas).
func (f *measurement) passes() int { return 1 + len(f.options.Deltas) }

// pass returns the results of a pass, by track.
func (f *measurement) pass(number int) []part {
	return f.parts[number*len(f.held) : (number+1)*len(f.held)]
}

// part is the sum of one pass over one track.
type part struct {
	steps, lost int64 // lost: of probability 0
	logs        float64

	popular float64 // one step
	score   Score   // the filter, with distances only for the δ of the settings
}

// addLog counts one place and the probability that it was given.
func (p *part) addLog(probability float64) {
	p.steps++
	if probability == 0 {
		p.lost++
	}
	p.logs += math.Log(max(probability, mobility.MinProbability))
}

// measure fills in the parts: every pass over every track is a task, and its result has a place of
// its own.
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
	pool := parallel.Pool{
		Workers: f.options.Workers,
		Size:    func(i int) int64 { return int64(len(f.held[i%len(f.held)].Cells)) },
	}
	if f.options.Progress != nil {
		pool.Progress = func(done int64) error {
			return f.options.Progress(done, perPass*int64(f.passes()))
		}
	}
	return pool.Do(len(f.parts), func(int) func(*parallel.Task) error {
		w := &worker{measurement: f, blind: blind}
		return func(t *parallel.Task) error { return w.task(t.Number) }
	})
}

// blindPlaces returns the estimates of a filter without any release, by steps since its start. It
// returns nil where they are not the same for all tracks.
func (f *measurement) blindPlaces() ([]mechanism.Best, error) {
	if len(f.model.Matrices) > 1 {
		return nil, nil
	}
	longest := int64(0)
	for _, t := range f.held {
		longest = max(longest, t.Steps[len(t.Steps)-1]-t.Steps[0])
	}
	s, err := f.sanitizer(f.options.Release.Delta)
	if err != nil {
		return nil, err
	}
	steps := make([]int64, longest+1)
	for i := range steps {
		steps[i] = int64(i)
	}
	return Alone(s, steps)
}

// sanitizer returns one for a δ.
func (f *measurement) sanitizer(delta float64) (*mechanism.Sanitizer, error) {
	release := f.options.Release
	release.Delta = delta
	streams := noise.NewKeyed(noise.KeyFromSeed(f.options.Seed))
	return mechanism.NewSanitizer(f.model, streams, release)
}

// worker is the scratch of one goroutine. Tasks come by ascending passes, so that it needs one
// sanitizer at a time.
type worker struct {
	*measurement
	blind []mechanism.Best

	predictor   *mobility.Predictor
	popularity  []float64
	here, there mobility.Distribution
	pass        int
	runner      Runner
}

func (w *worker) task(i int) error {
	pass, t := i/len(w.held), w.held[i%len(w.held)]
	if pass == 0 {
		w.oneStep(&w.parts[i], t)
		return nil
	}
	if w.runner.Sanitizer == nil || w.pass != pass {
		if err := w.begin(pass); err != nil {
			return err
		}
	}
	return w.filter(&w.parts[i], t)
}

// begin makes a sanitizer for a pass.
func (w *worker) begin(pass int) (err error) {
	w.predictor, w.popularity = nil, nil
	w.pass = pass
	delta := w.options.Deltas[pass-1]
	w.runner.Release, w.runner.Alone = true, w.blind
	w.runner.Beside = delta == w.options.Release.Delta
	w.runner.Sanitizer, err = w.sanitizer(delta)
	return err
}

// oneStep asks the model at each true cell for the next one.
func (w *worker) oneStep(p *part, t mobility.Track) {
	if w.predictor == nil {
		w.predictor = mobility.NewPredictor(w.model)
		w.popularity = popularity(w.model)
	}
	for i := 1; i < len(t.Cells); i++ {
		if t.Steps[i] != t.Steps[i-1]+1 {
			continue
		}
		w.here.Cells, w.here.P = append(w.here.Cells[:0], t.Cells[i-1]), append(w.here.P[:0], 1)
		w.predictor.Predict(&w.there, &w.here, t.Steps[i-1], 1)
		p.addLog(w.there.At(t.Cells[i]))
		p.popular += math.Log(max(w.popularity[t.Cells[i]], mobility.MinProbability))
	}
}

// filter releases a track.
func (w *worker) filter(p *part, t mobility.Track) error {
	reports := Centres(w.model.Grid, t.Steps, t.Cells)
	return w.runner.Run(Track{User: t.User, Reports: reports}, func(r *Result) error {
		p.addLog(r.Outcome.Prior.At(r.Cell))
		switch {
		case w.runner.Beside:
			p.score.Add(r)
		case r.Outcome.Kind == mechanism.Released:
			p.score.AddRelease(r.Outcome.SetSize, r.Outcome.Drift)
		}
		return nil
	})
}
