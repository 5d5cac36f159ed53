package experiment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
)

// Options say how much is measured. The zero value of each field means its default.
type Options struct {
	// Seed makes a study repeatable: the same seed, data, options and program give the same report, but for Clock's times.
	Seed uint64
	// Quick measures a few users, parameters and runs: for a first look, with wide bands.
	Quick bool
	// Also lists what is drawn beside the paper's two mechanisms: AlsoLattice, AlsoTight, AlsoEstimate, AlsoPaper, AlsoEarlier.
	Also []string
	// Runs of the trace over time, default 20 (quick: 6), and of each trace over parameters, default 1: users differ more than runs.
	TimeRuns, Runs int
	// MaxUsers bounds the traces over parameters, default 100 (quick: 6), as many as the paper has.
	MaxUsers int
	// Epsilons and Deltas are what is swept, while the other one stays at Epsilon or Delta.
	Epsilons, Deltas []float64
	// Epsilon and Delta are the fixed ones, default 1 and .01.
	Epsilon, Delta float64
	// Vehicles is the size of the largest fleet, default 1000 (quick: 100); FleetEpsilons is what each release of a vehicle costs, default 1, 2 and 4
	// (quick: 1 and 4).
	Vehicles      int
	FleetEpsilons []float64
	// Clock is a clock that never goes back, for the time that releases take; nil: it is not measured. Nothing else depends on it.
	Clock func() time.Duration
	// Tool is the program's name and version: what it has measured is not taken for what another one would.
	Tool string
}

// What can be drawn beside the paper's mechanisms.
const (
	AlsoLattice  = "lattice"         // the exact mechanism, geodither's default
	AlsoTight    = "laplace-tight"   // Laplace noise of the right sensitivity
	AlsoEstimate = "estimate"        // the posterior's mean, in panels of its own
	AlsoPaper    = "paper-inference" // the paper's inference
	AlsoEarlier  = "earlier"         // personal models of traces from before the measured one
)

// alsos are all of them.
var alsos = []string{AlsoLattice, AlsoTight, AlsoEstimate, AlsoPaper, AlsoEarlier}

// Alsos returns what Options.Also can name.
func Alsos() []string { return slices.Clone(alsos) }

func (o Options) withDefaults() Options {
	number := func(v *int, full, quick int) {
		if *v == 0 && o.Quick {
			*v = quick
		} else if *v == 0 {
			*v = full
		}
	}
	number(&o.TimeRuns, 20, 6)
	number(&o.Runs, 1, 1)
	number(&o.MaxUsers, 100, 6)
	number(&o.Vehicles, 1000, 100)
	if o.Epsilon == 0 {
		o.Epsilon = 1
	}
	if o.Delta == 0 {
		o.Delta = .01
	}
	if o.Epsilons == nil {
		o.Epsilons = []float64{.1, .2, .5, 1, 1.5, 2}
		if o.Quick {
			o.Epsilons = []float64{.1, .5, 2}
		}
	}
	if o.Deltas == nil {
		o.Deltas = []float64{.001, .003, .01, .03, .1}
		if o.Quick {
			o.Deltas = []float64{.001, .01, .1}
		}
	}
	if o.FleetEpsilons == nil {
		o.FleetEpsilons = []float64{1, 2, 4}
		if o.Quick {
			o.FleetEpsilons = []float64{1, 4}
		}
	}
	return o
}

// Validate reports what cannot be used.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	for _, also := range o.Also {
		if !slices.Contains(alsos, also) {
			errs = append(errs, fmt.Errorf("%q is nothing that can be drawn beside the paper's mechanisms: choose of %v", also, alsos))
		}
	}
	for _, epsilon := range append(slices.Concat(o.Epsilons, o.FleetEpsilons), o.Epsilon) {
		errs = append(errs, law.ValidateEpsilon(epsilon))
	}
	for _, delta := range append(slices.Clone(o.Deltas), o.Delta) {
		errs = append(errs, mechanism.ValidateDelta(delta))
	}
	if o.TimeRuns < 1 || o.Runs < 1 || o.MaxUsers < 1 {
		errs = append(errs, errors.New("runs and users must be at least 1"))
	}
	switch {
	case o.Vehicles < leastFleet:
		errs = append(errs, fmt.Errorf("a fleet of %d vehicles says more of people than of a fleet: take %d at least", o.Vehicles, leastFleet))
	case o.Vehicles > mostVehicles:
		errs = append(errs, fmt.Errorf("a fleet of %d vehicles is more than memory holds: take %d at most", o.Vehicles, mostVehicles))
	}
	return errors.Join(errs...)
}

// Study is some data sets and options.
type Study struct {
	Data    []*Data
	Options Options
}

// NewStudy fills the options' defaults in.
func NewStudy(data []*Data, o Options) (*Study, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errors.New("a study needs a data set")
	}
	for _, d := range data {
		if d.Places == nil {
			d.Places = Synthetic(d.Grid)
		}
	}
	return &Study{Data: data, Options: o.withDefaults()}, nil
}

// also says whether something is drawn beside the paper's mechanisms.
func (s *Study) also(what string) bool { return slices.Contains(s.Options.Also, what) }

// Experiment is one question. Plan returns the pieces of work whose results Report needs; experiments that share a piece, by its name, share its result.
type Experiment struct {
	Name, Title string
	Plan        func(*Study) ([]Piece, error)
	Report      func(*Study, *Results) (report.Section, error)
}

// All returns the experiments in the order of the report.
func All() []Experiment {
	return []Experiment{overTime(), parameters(), knn(), adversaries(), fleet(), claimsTable()}
}

// Choose returns the experiments of some names, in the order of All; "all" stands for all of them.
func Choose(names []string) ([]Experiment, error) {
	var known []string
	all := All()
	for _, e := range all {
		known = append(known, e.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("experiment %q is unknown: choose of %v, or all", name, known)
		}
	}
	return slices.DeleteFunc(all, func(e Experiment) bool {
		return !slices.Contains(names, "all") && !slices.Contains(names, e.Name)
	}), nil
}
