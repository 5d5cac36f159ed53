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

// Options say what is tried, and what for. Box, Mechanisms, CellsM and Steps have no default.
type Options struct {
	Box        grid.Box
	Mechanisms []string        // of law.Names
	CellsM     []float64       // sides of cells, metres
	Steps      []time.Duration // multiples of the shortest, which is the fixes' bin
	// Deltas are for every mechanism with a location set; empty: usualDeltas.
	Deltas []float64
	// Release is everything about releases that a Setting does not say, Train how models are
	// trained. The search sets the calendar: it tries models with parts of the day and without.
	Release mechanism.Options
	Train   train.Options
	// TargetKM is a median error in kilometres: the search looks for the least Σε a day that
	// reaches it. TargetEpsilonDay is a Σε a day: the search looks for the least error that it
	// buys. Without either nothing is chosen.
	TargetKM, TargetEpsilonDay float64
	// ScoutBins and Bins bound the samples of the first look at all candidates and of what is
	// measured after it, in bins of the shortest step with a fix; default 1,500 and 8,000. Both are
	// whole days, and at least a few.
	ScoutBins, Bins int64
	Seed            uint64
	Workers         int // goroutines, default one; no figure depends on it
	// Progress, if set, is told how much of a phase is done, one call at a time. Its error ends the
	// search.
	Progress func(phase string, done, total int64) error
}

func (o Options) withDefaults() Options {
	if o.ScoutBins == 0 {
		o.ScoutBins = 1500
	}
	if o.Bins == 0 {
		o.Bins = 8000
	}
	return o
}

// Validate reports what cannot be used.
func (o Options) Validate() error {
	var errs []error
	wrong := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(len(o.Mechanisms)*len(o.CellsM)*len(o.Steps) == 0,
		"there must be a mechanism, a cell and a step at least to try")
	wrong(o.TargetKM > 0 && o.TargetEpsilonDay > 0, "a target is an error or an ε a day, not both")
	wrong(o.TargetKM < 0 || o.TargetEpsilonDay < 0 || math.IsNaN(o.TargetKM+o.TargetEpsilonDay),
		"a target must be positive")
	wrong(o.TargetEpsilonDay > mechanism.MaxBudget, "the target of %g ε a day is above %g, the "+
		"largest budget", o.TargetEpsilonDay, float64(mechanism.MaxBudget))
	wrong(o.ScoutBins < 0 || o.Bins < 0, "samples cannot be negative")
	for _, cell := range o.CellsM {
		_, err := grid.New(o.Box, cell)
		errs = append(errs, err)
	}
	for _, step := range o.Steps {
		shortest := slices.Min(o.Steps)
		if shortest <= 0 {
			return errors.Join(append(errs, fmt.Errorf("a step of %v is none", shortest))...)
		}
		wrong(step%shortest != 0, "steps must be multiples of the shortest: %v is none of %v",
			step, shortest)
		errs = append(errs, o.Train.Validate(step))
	}
	if errs = append(errs, o.validateReleases()); o.TargetEpsilonDay > 0 {
		wrong(len(o.candidates(o.TargetEpsilonDay, []time.Duration{day})) == 0,
			"no release has an ε so small that a day of them costs %g", o.TargetEpsilonDay)
	}
	return errors.Join(errs...)
}

// validateReleases returns the first error of a plan.
func (o Options) validateReleases() error {
	for _, s := range o.candidates(Axis[0], []time.Duration{day}) {
		if err := s.options(o.Release).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// candidates are all settings that are tried at a Σε a day, for days that last so long.
func (o Options) candidates(dayEpsilon float64, lengths []time.Duration) (all []Setting) {
	for _, cell := range o.CellsM {
		for _, step := range o.Steps {
			s := Setting{CellM: cell, Step: step, DayEpsilon: dayEpsilon}
			for _, plan := range s.plans(lengths) {
				for _, plan.Calendar = range []bool{false, true} {
					all = append(all, o.releases(plan)...)
				}
			}
		}
	}
	slices.SortFunc(all, cheaper)
	return slices.Compact(all)
}

// releases returns a plan with every mechanism and δ that is tried.
func (o Options) releases(s Setting) (all []Setting) {
	for _, s.Mechanism = range o.Mechanisms {
		for _, s.Delta = range o.deltas(s) {
			all = append(all, s)
		}
	}
	return all
}

// deltas returns the δ that are tried for a setting. A codebook has no location set.
func (o Options) deltas(s Setting) []float64 {
	switch {
	case s.Mechanism == law.Codebook:
		return []float64{0}
	case len(o.Deltas) > 0:
		return o.Deltas
	}
	return usualDeltas(s.Epsilon)
}

// usualDeltas returns the δ that tells near places apart least, and the one whose error was about
// the least of six on the traces of RESULTS.md: the smaller ε is, the larger the noise, and the
// more a smaller set is worth.
func usualDeltas(epsilon float64) []float64 {
	const small, forSmallEpsilon, forLargeEpsilon = .01, .6, .3
	if epsilon <= 2 {
		return []float64{small, forSmallEpsilon}
	}
	return []float64{small, forLargeEpsilon}
}

// local is the map's time minus UTC by the sun, in whole hours.
func (o Options) local() time.Duration {
	const degrees = 15 // the earth turns by so many in an hour
	return time.Duration(math.Round((o.Box.West+o.Box.East)/2/degrees)) * time.Hour
}

// calendar has four parts of the day: night, morning, day and evening.
func (o Options) calendar() mobility.Calendar {
	return mobility.Calendar{UTCOffset: o.local(), Hours: []int{6, 10, 16, 20}}
}
