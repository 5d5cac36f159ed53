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
	"github.com/geodither/geodither/mechanism/hours"
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

	// EpsilonHour is a user's Σε in an hour at the simulated rate, and no more than the budget's
	// limits allow. EpsilonDay bounds that of any 24 hours: engine.MostEpsilonDay.
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
			s.tracks = int(min(max(mostWork/s.work, leastTracks), mostTracks))
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

// price fills in what a user spends in an hour, at the rate while the budget lasts and at most what
// its limits hold, and in a day at most. The rate of a short track counts its first release fully.
func (s *simulation) price() {
	open, _ := s.hours.Most(time.Hour)
	cost := s.lastingSpent / float64(max(s.lastingAll, 1)) * float64(open) / float64(s.model.Step)
	s.x.EpsilonHour = min(cost, engine.MostEpsilon(s.x.Options, s.x.Step, time.Hour))
	s.x.EpsilonDay = engine.MostEpsilonDay(s.x.Options, s.x.Step)
}

// Seed is what every command simulates with: all of them announce the same figures.
const Seed = 1

// Options configure a simulation. The zero value simulates the whole window of the budget.
type Options struct {
	Tracks int // default: as many as take a few seconds, from leastTracks to mostTracks
	Steps  int // from the first to the last of a track; default: see newPlan
	Seed   uint64
	// ErrorsAlone leaves Expectation.Metric empty, which saves two fifths of the time.
	ErrorsAlone bool
	// Progress, if set, receives the number of reports that are done and that of all tracks, which
	// changes after the first one. Its error ends the simulation.
	Progress func(done, total int64) error
}

// Bounds of the defaults. They count work instead of time, so that every command has the same
// tracks on every machine. A transition of the model takes about a nanosecond, so mostWork is some
// 3 s on one core, and what the model alone says takes up to half as much again.
const (
	leastTracks = 2
	mostTracks  = 60
	mostDays    = 31
	reportWork  = 5_000 // of a report beside its transitions
	mostWork    = 3e9
	// wideCells are as many as short masses leave in a prior, about.
	wideCells = 12_000
)

// monday is when the simulated week of release.hours begins, at the earliest: 2024-01-01.
const monday = 1_704_067_200_000

// plan says what is simulated.
type plan struct {
	// release has part of the budget where part of its window is simulated.
	release  mechanism.Options
	part     float64
	hours    *hours.Hours
	steps    []int64 // with a report, ascending
	span     int     // from the first step to after the last one
	tracks   int
	byWork   bool // tracks follow from the work of the first one
	progress func(done, total int64) error
}

// newPlan plans a simulation of the budget's window, or of a day if that is longer or there is no
// window, and of a week at least where releases have hours. It is no longer than mostDays, nor than
// leastTracks take with mostWork, in whole days: what comes later is like the days before. Of a
// window that is cut so, the budget has the same part.
func newPlan(m *mobility.Model, release mechanism.Options, e Options) (p plan, err error) {
	p = plan{release: release, part: 1, span: e.Steps, tracks: e.Tracks, progress: e.Progress}
	if p.progress == nil {
		p.progress = func(int64, int64) error { return nil }
	}
	if p.byWork = p.tracks == 0; p.byWork {
		p.tracks = mostTracks
	}
	if p.hours, err = hours.New(release.Hours); err != nil {
		return plan{}, err
	}
	if p.span == 0 {
		whole := windowSteps(release, m.Step)
		p.span = min(whole, int(mostDays*day/m.Step)) // a window may have years
		reports := float64(len(p.reported(m.Step))) * float64(whole) / float64(p.span)
		work := leastTracks * reports * (reportWork +
			float64(min(m.Grid.Cells(), wideCells))*rowLength(m))
		p.span = whole
		p.shorten(m.Step, mostWork/work)
	}
	if p.steps = p.reported(m.Step); len(p.steps) == 0 {
		return plan{}, errors.New("release.hours: no step of the model starts within them: make " +
			"them longer")
	}
	return p, nil
}

// windowSteps is how many steps show all that a budget and hours do.
func windowSteps(release mechanism.Options, step time.Duration) int {
	shown := day
	if len(release.Hours) > 0 {
		shown *= 7
	}
	return max(int((shown+step-1)/step), release.Budget.WindowSteps)
}

const day = 24 * time.Hour

// shorten leaves a part of the span if that is below 1, at least a day.
func (p *plan) shorten(step time.Duration, part float64) {
	days := (time.Duration(p.span) * step).Hours() / day.Hours()
	most := math.Floor(max(1, min(days*part, mostDays)))
	if days <= most {
		return
	}
	p.span = int((time.Duration(most)*day + step - 1) / step)
	b := &p.release.Budget
	if b.WindowSteps <= p.span {
		return
	}
	p.part = float64(p.span) / float64(b.WindowSteps)
	b.WindowSteps = p.span
	b.Epsilon = p.release.Epsilon * max(1, math.Round(b.Epsilon*p.part/p.release.Epsilon))
}

// reported returns the steps with a report: those of the span that start within the hours. The
// span begins with the first of them.
func (p *plan) reported(step time.Duration) (steps []int64) {
	from, ms := int64(0), step.Milliseconds()
	if p.hours != nil {
		from = monday
		if week := p.hours.Between(monday, monday+7*day.Milliseconds()); len(week) > 0 {
			from = week[0].From
		}
	}
	first := (from + ms - 1) / ms
	for at := first; at < first+int64(p.span); at++ {
		if p.hours.Open(at * ms) {
			steps = append(steps, at)
		}
	}
	return steps
}

// rowLength is the mean number of products that a row takes: its entries, and the kernel's weights
// of a column and of a row.
func rowLength(m *mobility.Model) float64 {
	return float64(len(m.Matrices[0].Columns))/float64(m.Grid.Cells()) +
		float64(2*(m.Kernel.Radius()+1))
}
