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
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Options say what is tried, and what for. Box, Mechanisms, CellsM, Steps and Epsilons have no
// default.
type Options struct {
	Box        grid.Box
	Mechanisms []string        // of law.Names, in the order in which they are told
	CellsM     []float64       // sides of cells, metres
	Steps      []time.Duration // multiples of the shortest, which is the fixes' bin
	// Intervals between releases, at most LongestInterval. A step tries those that are multiples of
	// it, and itself.
	Intervals []time.Duration
	Epsilons  []float64 // of a release
	// Deltas are for every mechanism with a location set; empty: usualDeltas.
	Deltas []float64
	// Release is everything about releases that a Setting does not say, Train how models are
	// trained.
	Release mechanism.Options
	Train   train.Options
	// TargetKM is a median error in kilometres: the search looks for the least ε a day that
	// reaches it. TargetEpsilonDay is an ε a day: the search looks for the least error that it
	// buys. Without either nothing is chosen.
	TargetKM, TargetEpsilonDay float64
	// MostFactor200M leaves out settings whose median release tells two likely places 200 m apart
	// by a larger factor; 0: none.
	MostFactor200M float64
	// ScoutBins and Bins bound the samples of the first look at all candidates and of what is
	// measured after it, in bins of the shortest step with a fix; default 1,500 and 8,000.
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
	wrong(len(o.Mechanisms)*len(o.CellsM)*len(o.Steps)*len(o.Epsilons) == 0,
		"there must be a mechanism, a cell, a step and an ε at least to try")
	wrong(o.TargetKM > 0 && o.TargetEpsilonDay > 0, "a target is an error or an ε a day, not both")
	wrong(o.TargetKM < 0 || o.TargetEpsilonDay < 0 || math.IsNaN(o.TargetKM+o.TargetEpsilonDay),
		"a target must be positive")
	wrong(o.MostFactor200M != 0 && !(o.MostFactor200M > 1),
		"a factor between places is above 1, which is none at all")
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
	for _, interval := range o.Intervals {
		if longest := o.LongestInterval(); interval <= 0 || interval > longest {
			wrong(true, "a release every %v cannot be measured: a filter forgets somebody after "+
				"%v without a fix, and begins anew", interval, longest)
		}
	}
	for _, s := range o.candidates() {
		if err := s.options(o.Release).Validate(); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// LongestInterval is the time without a fix after which a filter of the longest step starts again.
func (o Options) LongestInterval() time.Duration {
	return time.Duration(mechanism.DefaultMaxGap) * slices.Max(o.Steps)
}

// candidates are all settings that are tried.
func (o Options) candidates() (all []Setting) {
	for _, cell := range o.CellsM {
		for _, step := range o.Steps {
			for _, interval := range o.intervals(step) {
				all = append(all, o.releases(
					Setting{CellM: cell, Step: step, Interval: interval})...)
			}
		}
	}
	slices.SortFunc(all, cheaper)
	return slices.Compact(all)
}

// releases returns the setting with every mechanism, ε and δ that is tried.
func (o Options) releases(s Setting) (all []Setting) {
	for _, s.Mechanism = range o.Mechanisms {
		for _, s.Epsilon = range append(slices.Clone(o.Epsilons), o.within(s)...) {
			for _, s.Delta = range o.deltas(s) {
				all = append(all, s)
			}
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

// intervals are the times between two releases that suit a step: the step, and multiples of it.
func (o Options) intervals(step time.Duration) []time.Duration {
	suit := []time.Duration{step}
	for _, interval := range o.Intervals {
		if interval > step && interval%step == 0 {
			suit = append(suit, interval)
		}
	}
	return suit
}

// within returns the ε of a release that just keeps the targeted ε a day, if it is one that can
// be used.
func (o Options) within(place Setting) []float64 {
	if !(o.TargetEpsilonDay > 0) {
		return nil
	}
	epsilon := decimals(o.TargetEpsilonDay/float64(place.ReleasesDay()), math.Floor)
	if law.ValidateEpsilon(epsilon) != nil ||
		place.with(epsilon).EpsilonDay() > o.TargetEpsilonDay {
		return nil
	}
	return []float64{epsilon}
}
