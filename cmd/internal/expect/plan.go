package expect

import (
	"errors"
	"math"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Seed is what every command simulates with: all of them announce the same figures.
const Seed = 1

// Options configure a simulation. The zero value simulates the whole window of the budget.
type Options struct {
	Tracks int // default: as many as take a few seconds, from leastTracks to MostTracks
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
	mostDays    = 31
	reportWork  = 5_000 // of a report beside its transitions
	mostWork    = 3e9
	// wideCells are as many as short masses leave in a prior, about.
	wideCells = 12_000
)

// MostTracks is how many tracks are simulated by default, unless they take too much work. Only
// tests of commands set it: a few tracks tell a good plan from a bad one there.
var MostTracks = 60

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
		p.tracks = MostTracks
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
