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

// Seed is what every command simulates with: all of them announce the same figures.
const Seed = 1

// Options configure a simulation. The zero value simulates the whole window of the budget.
type Options struct {
	Tracks int // default: as many as take a few seconds, from leastTracks to mostTracks
	Steps  int // of each track; default: see windowSteps
	Seed   uint64
	// Progress, if set, receives the number of steps that are done in all tracks. Its error ends
	// the simulation.
	Progress func(done, total int64) error
}

// Bounds of the defaults. A step costs about cellWork for each cell of the map and 1 for each
// transition of the model, about 3 ns; mostWork is some 5 s on one core. They count work instead of
// time, so that every command has the same tracks on every machine. Fewer tracks than leastTracks
// would say little.
const (
	leastTracks = 4
	mostTracks  = 60
	mostDays    = 31
	cellWork    = 20
	mostWork    = 1_500_000_000
)

func (e Options) withDefaults(m *mobility.Model, release mechanism.Options) Options {
	if e.Steps == 0 {
		e.Steps = windowSteps(release, m.Step)
	}
	if e.Tracks == 0 {
		work := cellWork*m.Grid.Cells() + len(m.Matrices[0].Columns)
		e.Tracks = min(max(mostWork/(work*e.Steps), leastTracks), mostTracks)
	}
	if e.Progress == nil {
		e.Progress = func(int64, int64) error { return nil }
	}
	return e
}

// windowSteps is how many steps show all that a budget does: its window, or a day if that is
// longer or there is no window, a week where releases have hours, and no more than mostDays.
func windowSteps(release mechanism.Options, step time.Duration) int {
	const day = 24 * time.Hour
	shown := day
	if len(release.Hours) > 0 {
		shown *= 7
	}
	steps := max(int((shown+step-1)/step), release.Budget.WindowSteps)
	return min(steps, max(1, int(mostDays*day/step)))
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
	// Lasting is the part of Score while the budget holds one more release, and Spent the rest.
	Lasting, Spent trial.Score
	// LastingSteps of all tracks lie before their budget is spent for the first time.
	LastingSteps int64
	Metric       MetricView // of all releases
	Kinds        map[mechanism.Kind]int64

	// EpsilonHour and EpsilonDay are a user's Σε in these times: at the simulated rate, and no
	// more than the budget's limits allow.
	EpsilonHour, EpsilonDay float64
}

// Simulate releases simulated tracks over the whole window of the budget, reporting in each step of
// all 24 hours. Every command that announces an error asks it, with the same options, so that all
// announce the same. It takes a few seconds by default, and depends only on its arguments. It
// returns the context's error if the context ends.
func Simulate(ctx context.Context, model *mobility.Model, release mechanism.Options,
	e Options,
) (*Expectation, error) {
	s, err := newSimulation(model, release, e)
	if err != nil {
		return nil, err
	}
	for number := range s.tracks {
		s.x.Tracks++
		s.exhausted, s.everExhausted = false, false
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
	all           int64 // steps of all tracks
	// lastingSpent is what all tracks spent in steps in which the budget held a release, which were
	// lastingAll.
	lastingSpent float64
	lastingAll   int64
	// exhausted says that the budget of the track at hand holds no release any more, and
	// everExhausted that it was so before.
	exhausted, everExhausted bool
	progress                 func(done, total int64) error
	x                        Expectation
}

func newSimulation(model *mobility.Model, release mechanism.Options,
	e Options,
) (*simulation, error) {
	released, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(e.Seed)),
		release)
	if err != nil {
		return nil, err
	}
	e = e.withDefaults(model, released.Options())
	// All tracks begin in the same step, so that whoever sees no release says the same of all.
	alone, err := trial.Alone(released, int64(e.Steps))
	if err != nil {
		return nil, err
	}
	return &simulation{
		model: model,
		runner: trial.Runner{
			Sanitizer: released, Release: true, Beside: true, Near: true, Alone: alone,
		},
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
	s.x.Kinds[r.Outcome.Kind]++
	s.x.Score.Add(r)
	switch {
	case r.Outcome.Exhausted:
		s.exhausted, s.everExhausted = true, true
	case r.Outcome.Kind == mechanism.Released:
		s.exhausted = false
	}
	if !s.everExhausted {
		s.x.LastingSteps++
	}
	if s.exhausted {
		s.x.Spent.Add(r)
	} else {
		s.lastingAll++
		s.lastingSpent += r.Outcome.Epsilon
		s.x.Lasting.Add(r)
	}
	if r.Outcome.Kind == mechanism.Released {
		track := strconv.Itoa(s.x.Tracks)
		s.x.Metric.Add(track, r.Step*s.model.Step.Milliseconds(), r.Outcome.Epsilon,
			r.Outcome.Metric)
	}
}

// price fills in what a user spends in an hour and in a day: at the rate while the budget lasts,
// and at most what its limits hold.
func (s *simulation) price() {
	perStep := s.lastingSpent / float64(max(s.lastingAll, 1))
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
