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

// Expectation is what releases under a model and options are worth, and what they cost, if people
// move as the model says, start at a place of its initial distribution, and report in each step
// of release.hours, or around the clock without them. It uses nobody's data.
type Expectation struct {
	Options mechanism.Options // with their defaults filled in
	Seed    uint64
	Tracks  int
	Steps   int // from the first to the last of a track, with those outside release.hours
	Reports int // of each track
	Step    time.Duration
	// Part of the budget's window is simulated, with that part of its budget; 1: all of it.
	Part  float64
	Score trial.Score // distances to the simulated truth, at each step that has a record
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

// Simulate releases simulated tracks over the whole window of the budget. A vehicle reports in each
// step of its shift, which is release.hours, and around the clock without them. Every command that
// announces an error asks Simulate, with the same options, so that all announce the same. It takes
// a few seconds by default, and depends only on its arguments. It returns the context's error if
// the context ends.
func Simulate(ctx context.Context, model *mobility.Model, release mechanism.Options,
	e Options,
) (*Expectation, error) {
	s, err := newSimulation(model, release, e)
	if err != nil {
		return nil, err
	}
	for number := 0; number < s.tracks; number++ {
		s.x.Tracks++
		s.exhausted, s.everExhausted = false, false
		track := trial.Track{User: fmt.Sprintf("simulated-%d", number+1), Reports: s.reports}
		err := s.runner.Run(track, func(r *trial.Result) error {
			s.book(r)
			return errors.Join(ctx.Err(), s.progress(s.all, int64(s.tracks)*int64(len(s.steps))))
		})
		if err != nil {
			return nil, err
		}
		if number == 0 && s.byWork {
			s.tracks = int(min(max(mostWork/s.work, leastTracks), float64(MostTracks)))
		}
	}
	s.price()
	return &s.x, nil
}

// simulation is one run of Simulate.
type simulation struct {
	model  *mobility.Model
	runner trial.Runner
	rng    *rand.Rand
	plan
	all  int64   // reports of all tracks
	work float64 // of them, in predicted transitions
	// lastingSpent is what all tracks spent in steps in which the budget held a release, which were
	// lastingAll.
	lastingSpent float64
	lastingAll   int64
	// exhausted says that the budget of the track at hand holds no release any more, and
	// everExhausted that it was so before.
	exhausted, everExhausted bool
	x                        Expectation
}

func newSimulation(model *mobility.Model, release mechanism.Options,
	e Options,
) (*simulation, error) {
	asked, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(e.Seed)),
		release)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(model, asked.Options(), e)
	if err != nil {
		return nil, err
	}
	released := asked
	if p.part < 1 {
		if released, err = mechanism.NewSanitizer(model,
			noise.NewKeyed(noise.KeyFromSeed(e.Seed)), p.release); err != nil {
			return nil, err
		}
	}
	// All tracks report in the same steps, so the blind estimates are the same for all.
	alone, err := trial.Alone(released, p.steps)
	if err != nil {
		return nil, err
	}
	return &simulation{
		model: model,
		runner: trial.Runner{
			Sanitizer: released, Release: true, Beside: true, Near: !e.ErrorsAlone,
			Alone: alone,
		},
		// an arbitrary second word, which names the stream
		rng:  rand.New(rand.NewPCG(e.Seed, 0x657870656374)),
		plan: p,
		x: Expectation{
			Options: asked.Options(), Seed: e.Seed, Steps: p.span, Reports: len(p.steps),
			Step: model.Step, Part: p.part, Kinds: map[mechanism.Kind]int64{},
		},
	}, nil
}

// reports yields the reports of the next track, each from anywhere within its cell.
func (s *simulation) reports(yield func(trial.Report) bool) {
	walker := trial.NewWalker(s.model, s.rng)
	for i, step := range s.steps {
		if !yield(trial.Report{Step: step, Cell: walker.Cell, Place: walker.Place()}) {
			return
		}
		if i+1 < len(s.steps) {
			s.move(&walker, step, s.steps[i+1]-step)
		}
	}
}

// move moves a walker over a gap as the filter takes gaps: by the model's law of gaps where that
// counts, to anywhere where the gap is too long, and else a step at a time.
func (s *simulation) move(w *trial.Walker, step, gap int64) {
	o := &s.x.Options
	switch {
	case uint64(gap) > o.LongestGap(s.model):
		w.Cell = s.model.SampleInitial(s.rng)
		return
	case gap > 1 && o.LearnedGaps(s.model):
		moves, restarts := s.model.Gaps.Sample(s.rng, uint64(gap))
		if restarts {
			w.Cell = s.model.SampleInitial(s.rng)
			return
		}
		gap = moves
	}
	for end := step + gap; step < end; step++ {
		w.Move(step)
	}
}

// book counts the result of a report.
func (s *simulation) book(r *trial.Result) {
	s.all++
	s.work += reportWork
	if prior := r.Outcome.Prior; prior != nil {
		s.work += float64(prior.Len()) * rowLength(s.model)
	}
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
	if r.Outcome.Kind == mechanism.Released && s.runner.Near {
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
		open, _ := s.hours.Most(d)
		steps, reported := float64(d)/float64(s.model.Step), float64(open)/float64(s.model.Step)
		cost := perStep * reported
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
