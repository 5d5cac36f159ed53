package trial

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
)

// FitOptions say how a model is measured. Release needs an ε and a δ. The zero value of each other
// field means its default.
type FitOptions struct {
	// Release is how the filter releases: in every step, unless its rules say otherwise.
	Release mechanism.Options
	// Deltas are the points of the calibration curve besides Release.Delta; default .001, .003,
	// .01, .03, .1 and .3. Empty but not nil: none.
	Deltas []float64
	// MinSegment is the least number of steps of a track; shorter tracks are left out. The default
	// is the longest of which there are enough tracks, at most 60. A filter takes an hour or so to
	// locate a user, so short tracks show little else.
	MinSegment int
	// EveryFix counts the steps of a track one by one, for models of successive fixes whatever the
	// time between them.
	EveryFix bool
	// MaxSteps bounds the number of steps that are measured; 0 is no bound. Users with many steps
	// are cut to a common limit, on tracks that are chosen at random. If even MinSegment steps of
	// each user are too many, only some users are measured, chosen at random.
	MaxSteps int64
	// Seed makes it repeatable: the noise, the choice of tracks, the bootstrap.
	Seed uint64
	// Workers is the number of goroutines, default one. The figures do not depend on it.
	Workers int
	// Progress, if set, is told now and then how many steps are done, one call at a time. Its error
	// ends the measurement.
	Progress func(done, total int64) error
}

func (o FitOptions) withDefaults() FitOptions {
	if o.Deltas == nil {
		o.Deltas = []float64{.001, .003, .01, .03, .1, .3}
	}
	o.Deltas = append(slices.Clone(o.Deltas), o.Release.Delta)
	slices.Sort(o.Deltas)
	o.Deltas = slices.Compact(o.Deltas)
	o.Workers = max(o.Workers, 1)
	return o
}

// Validate reports what cannot be used.
func (o FitOptions) Validate() error {
	errs := []error{o.Release.Validate()}
	for _, delta := range o.Deltas {
		errs = append(errs, mechanism.ValidateDelta(delta))
	}
	if o.MaxSteps < 0 {
		errs = append(errs, fmt.Errorf("at most %d steps are none: leave the bound out to use all",
			o.MaxSteps))
	}
	return errors.Join(errs...)
}
