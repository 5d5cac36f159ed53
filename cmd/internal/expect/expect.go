package expect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// Options configure a simulation. The zero value simulates 100 tracks.
type Options struct {
	Tracks int // default 100
	// Steps of each track; default 120, or ten release intervals if that is more, up to 1,200.
	Steps int
	Seed  uint64
	// Progress, if set, receives the number of steps that are done in all tracks. Its error ends
	// the simulation.
	Progress func(done, total int64) error
}

func (e Options) withDefaults(release mechanism.Options) Options {
	if e.Tracks == 0 {
		e.Tracks = 100
	}
	if e.Steps == 0 {
		e.Steps = min(max(120, 10*release.ReleaseInterval), 1200)
	}
	if e.Progress == nil {
		e.Progress = func(int64, int64) error { return nil }
	}
	return e
}

// Expectation is what releases under a model and options are worth, and what they cost, if people
// move as the model says, start at a place of its initial distribution, and report in each step.
// It uses nobody's data.
type Expectation struct {
	Options       mechanism.Options // with their defaults filled in
	Seed          uint64
	Tracks, Steps int // of each track
	Step          time.Duration
	Score         trial.Score // distances to the simulated truth, at each step that has a record
	Metric        MetricView  // of all releases
	Kinds         map[mechanism.Kind]int64

	// EpsilonHour and EpsilonDay are a user's Σε in these times: at the simulated rate, and no
	// more than the budget's limits allow.
	EpsilonHour, EpsilonDay float64
}

// Simulate releases simulated tracks. It takes a few dozen microseconds a step and track on maps of
// a thousand cells, more on larger ones, and depends only on its arguments. It returns the
// context's error if the context ends.
func Simulate(ctx context.Context, model *mobility.Model, release mechanism.Options,
	e Options,
) (*Expectation, error) {
	s, err := newSimulation(model, release, e)
	if err != nil {
		return nil, err
	}
	for number := range s.tracks {
		s.x.Tracks++
		track := trial.Track{User: fmt.Sprintf("simulated-%d", number+1), Reports: s.reports}
		err := s.runner.Run(track, func(r *trial.Result) error {
			s.book(r)
			return errors.Join(ctx.Err(), s.progress(s.all, int64(s.tracks)*int64(s.steps)))
		})
		if err != nil {
			return nil, err
		}
	}
	s.price()
	return &s.x, nil
}

// simulation is one run of Simulate.
type simulation struct {
	model         *mobility.Model
	runner        trial.Runner
	rng           *rand.Rand
	tracks, steps int
	spent         float64
	all           int64 // steps of all tracks
	progress      func(done, total int64) error
	x             Expectation
}

func newSimulation(model *mobility.Model, release mechanism.Options,
	e Options,
) (*simulation, error) {
	released, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(e.Seed)),
		release)
	if err != nil {
		return nil, err
	}
	e = e.withDefaults(released.Options())
	return &simulation{
		model:  model,
		runner: trial.Runner{Sanitizer: released, Release: true, Beside: true, Near: true},
		// an arbitrary second word, which names the stream
		rng:    rand.New(rand.NewPCG(e.Seed, 0x657870656374)),
		tracks: e.Tracks, steps: e.Steps, progress: e.Progress,
		x: Expectation{
			Options: released.Options(), Seed: e.Seed, Steps: e.Steps, Step: model.Step,
			Kinds: map[mechanism.Kind]int64{},
		},
	}, nil
}

// reports yields the reports of the next track, each from anywhere within its cell.
func (s *simulation) reports(yield func(trial.Report) bool) {
	walker := trial.NewWalker(s.model, s.rng)
	for step := range int64(s.steps) {
		if !yield(trial.Report{Step: step, Cell: walker.Cell, Place: walker.Place()}) {
			return
		}
		walker.Move(step)
	}
}

// book counts the result of a report.
func (s *simulation) book(r *trial.Result) {
	s.all++
	s.spent += r.Outcome.Epsilon
	s.x.Kinds[r.Outcome.Kind]++
	s.x.Score.Add(r)
	if r.Outcome.Kind == mechanism.Released {
		track := strconv.Itoa(s.x.Tracks)
		s.x.Metric.Add(track, r.Step*s.model.Step.Milliseconds(), r.Outcome.Epsilon,
			r.Outcome.Metric)
	}
}

// price fills in what a user spends in an hour and in a day.
func (s *simulation) price() {
	perStep := s.spent / float64(s.all)
	budget := s.x.Options.Budget
	in := func(d time.Duration) float64 {
		steps := float64(d) / float64(s.model.Step)
		cost := perStep * steps
		if budget.WindowSteps > 0 {
			cost = min(cost, budget.Epsilon*math.Ceil(steps/float64(budget.WindowSteps)))
		}
		if budget.Lifetime > 0 {
			cost = min(cost, budget.Lifetime)
		}
		return cost
	}
	s.x.EpsilonHour = in(time.Hour)
	// The rate of a short track counts its first release fully; a day cannot cost more than this.
	s.x.EpsilonDay = min(in(24*time.Hour), engine.MostEpsilonDay(s.x.Options, s.x.Step))
}
