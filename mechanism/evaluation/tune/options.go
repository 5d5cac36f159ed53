// Package tune searches for how to release: on traces it measures which errors plans of a day's
// releases lead to, on users that the model was not trained on, at each of some Σε a day.
//
//	options.go  what is tried, and what for
//	setting.go  a plan of a day's releases
//	fixes.go    the traces
//	split.go    who a choice is made on and who it is checked on; their days, and samples of them
//	measure.go  settings measured on a sample, on all cores
//	summary.go  what a measurement comes to: errors, their interval, and what they gain
//	search.go   scout, measure the best, look for a target, promise, check
//	report.go   the frontier, the verdict and the report
//
// Everything that it returns are figures over all users. They come from the truth and are for
// the owner of the traces.
package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Axis is the Σε a day that plans are looked for at, whatever the target is.
var Axis = []float64{5, 10, 20, 40, 80}

// Options say what is tried, and what for.
type Options struct {
	Box       grid.Box
	Mechanism string        // law.Codebook or law.Lattice
	CellsM    []float64     // sides of cells, metres; empty: two that suit the map and the target
	Step      time.Duration // of the model; 0: by how often fixes come
	// TargetKM is a median error in kilometres: the search looks for the least Σε a day, between
	// the first and the last of Axis, that reaches it. TargetEpsilonDay is a Σε a day: the search
	// looks for the least error that it buys. Without either nothing is chosen.
	TargetKM, TargetEpsilonDay float64
	// Quick measures on few time steps: a first look.
	Quick   bool
	Name    string // of the traces, for the report's title
	Tool    string // that trains the model, for its provenance
	Seed    uint64
	Workers int // goroutines, default one; no figure depends on it
	// Progress, if set, is told how much of a phase is done, one call at a time. Its error ends the
	// search.
	Progress func(phase string, done, total int64) error
}

// scoutBins and bins bound the samples of the first look at all candidates and of what is measured
// after it, in bins of a step with a fix. Both are whole days, and at least a few.
func (o *Options) scoutBins() int64 {
	if o.Quick {
		return 200
	}
	return 1000
}

func (o *Options) bins() int64 {
	if o.Quick {
		return 600
	}
	return 8000
}

// Validate reports what cannot be used. What was left open is not wrong.
func (o *Options) Validate() error {
	plan := Setting{DayEpsilon: o.TargetEpsilonDay, Step: max(o.Step, time.Minute)}
	switch {
	case o.Mechanism != law.Codebook && o.Mechanism != law.Lattice:
		return fmt.Errorf("mechanism %q: tune takes %s or %s, whose guarantee is proved",
			o.Mechanism, law.Codebook, law.Lattice)
	case o.TargetKM > 0 && o.TargetEpsilonDay > 0:
		return errors.New("a target is an error or an ε a day, not both")
	case !(o.TargetKM >= 0 && o.TargetEpsilonDay >= 0):
		return errors.New("a target must be positive")
	case o.TargetEpsilonDay > mechanism.MaxBudget:
		return fmt.Errorf("the target of %g ε a day is above %g, the largest budget",
			o.TargetEpsilonDay, float64(mechanism.MaxBudget))
	case o.TargetEpsilonDay > 0 && len(plan.plans([]time.Duration{day})) == 0:
		return fmt.Errorf("no release has an ε so small that a day of them costs %g",
			o.TargetEpsilonDay)
	case o.Step < 0:
		return fmt.Errorf("a step of %v is none", o.Step)
	case o.Step > 0:
		if err := o.training(false).Validate(o.Step); err != nil {
			return err
		}
	}
	for _, cell := range o.CellsM {
		if _, err := grid.New(o.Box, cell); err != nil {
			return err
		}
	}
	return nil
}

// fill gives the options what was left open. The step depends on how often fixes come, and is a
// minute at least: a plan of a day's releases needs no finer one.
func (o *Options) fill(f *Fixes) {
	if len(o.CellsM) == 0 {
		o.CellsM = usualCells(o.Box, o.TargetKM)
	}
	if o.Step == 0 {
		gap := max(time.Minute, f.medianGap())
		i := slices.IndexFunc(usualSteps, func(usual time.Duration) bool { return usual >= gap })
		if i < 0 {
			i = len(usualSteps) - 1
		}
		o.Step = usualSteps[i]
	}
}

// usualSteps are times in which people think, multiples of the shortest.
var usualSteps = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// usualCells returns a twentieth and a fortieth of the map's longer side, or smaller cells if a
// target needs them: within a cell nobody is found.
func usualCells(box grid.Box, targetKM float64) []float64 {
	const (
		plenty = 40_000 // cells: more take long
		// Places in a cell of this share of the target are a quarter of the target away from its
		// centre.
		ofTarget = .7
	)
	probe, err := grid.New(box, 100)
	if err != nil {
		return []float64{1000} // the search says what is wrong with the box
	}
	corner := probe.ToMap(box.North, box.East)
	fine := 1000 * max(corner.X, corner.Y) / 40
	if targetKM > 0 {
		fine = min(fine, max(1000*ofTarget*targetKM, 1000*math.Sqrt(corner.X*corner.Y/plenty)))
	}
	// to two significant digits, and to a metre
	round := func(m float64) float64 { return max(1, math.Round(decimals(m, math.Round))) }
	return []float64{round(fine), round(2 * fine)}
}

// training says how models are trained: moves that take longer than a step give transitions along
// the way. A calendar has four parts of the day: night, morning, day and evening.
func (o *Options) training(calendar bool) train.Options {
	t := train.Options{
		Interpolate: true, MaxGap: max(5*time.Minute, 2*o.Step), Source: "traces", Tool: o.Tool,
	}
	if calendar {
		t.Calendar = mobility.Calendar{UTCOffset: o.local(), Hours: []int{6, 10, 16, 20}}
	}
	return t
}

// local is the map's time minus UTC by the sun, in whole hours.
func (o *Options) local() time.Duration {
	const degrees = 15 // the earth turns by so many in an hour
	return time.Duration(math.Round((o.Box.West+o.Box.East)/2/degrees)) * time.Hour
}

// medianGap returns the median time between two successive fixes of a user at most an hour apart,
// as far as they were kept; 0 if there are none.
func (f *Fixes) medianGap() time.Duration {
	var gaps []int64
	for user := range f.users {
		fixes := f.thinned(user)
		for i := 1; i < len(fixes); i++ {
			if gap := fixes[i].timeMS - fixes[i-1].timeMS; gap > 0 &&
				gap <= time.Hour.Milliseconds() {
				gaps = append(gaps, gap)
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return time.Duration(gaps[len(gaps)/2]) * time.Millisecond
}
