// Package study is what the experiments share: data sets cut into traces, ways to release, pieces
// of work that are measured once, and how figures become numbers, intervals and words.
//
//	study.go    Study: data sets and options, and what every experiment sweeps
//	data.go     Data: traces, folds of users, models without them; personal.go has users' own
//	variant.go  the axes: ways to release, settings, data under a kind of model; their points
//	walk.go     Walks: what is measured by walking traces at a point
//	sums.go     what a walk adds up, and confidence intervals over users or runs
//	engine.go   pieces of work, each a function of its inputs alone; store.go keeps results
//	page.go     Experiment: what it measures and how it is shown; a section being written
//	places.go   points of interest
//	prose.go    paragraphs with gaps for figures
package study

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// Options say how much is measured. The zero value of each field means its default.
type Options struct {
	// Seed makes a study repeatable: the same seed, data, options and program give the same report,
	// except for Clock's times.
	Seed uint64
	// Quick measures a few users, parameters and runs: for a first look, with wide bands.
	Quick bool
	// Also lists what is drawn beside the paper's two mechanisms: AlsoCodebook, AlsoLattice,
	// AlsoTight, AlsoEstimate, AlsoPaper, AlsoEarlier.
	Also []string
	// Runs of the trace over time, default 20 (quick: 6), and of each trace over parameters,
	// default 1: users differ more than runs.
	TimeRuns, Runs int
	// MaxUsers bounds the traces over parameters, default 100 (quick: 6), as many as the paper has.
	MaxUsers int
	// Epsilons and Deltas are what is swept, while the other one stays at Epsilon or Delta.
	Epsilons, Deltas []float64
	// Epsilon and Delta are the fixed ones, default 1 and .01.
	Epsilon, Delta float64
	// Vehicles is the size of the largest fleet, default 1000 (quick: 100); FleetEpsilons is what
	// each release of a vehicle costs, default 1, 2 and 4 (quick: 1 and 4).
	Vehicles      int
	FleetEpsilons []float64
	// MechanismEpsilons and MechanismDeltas are what all mechanisms are compared at, each at its
	// best δ: default 1, 2, 4 and 6 (quick: 1 and 4), and .01, .1, .3, .5 and .7 (quick: .01, .3
	// and .7).
	MechanismEpsilons, MechanismDeltas []float64
	// Clock is a clock that never goes back, for the time that releases take; nil: it is not
	// measured. Nothing else depends on it.
	Clock func() time.Duration
	// Tool is the program's name and version: what it has measured is not taken for what another
	// one would.
	Tool string
}

// What can be drawn beside the paper's mechanisms.
const (
	AlsoCodebook = "codebook"        // randomized response over a quantizer of the prior
	AlsoLattice  = "lattice"         // the law of PIM, drawn exactly
	AlsoTight    = "laplace-tight"   // Laplace noise of the right sensitivity
	AlsoEstimate = "estimate"        // the posterior's mean, in panels of its own
	AlsoPaper    = "paper-inference" // the paper's inference
	AlsoEarlier  = "earlier"         // personal models of traces from before the measured one
)

// alsos are all of them.
var alsos = []string{AlsoCodebook, AlsoLattice, AlsoTight, AlsoEstimate, AlsoPaper, AlsoEarlier}

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
	list := func(v *[]float64, full, quick []float64) {
		if *v == nil && o.Quick {
			*v = quick
		} else if *v == nil {
			*v = full
		}
	}
	list(&o.Epsilons, []float64{.1, .2, .5, 1, 1.5, 2}, []float64{.1, .5, 2})
	list(&o.Deltas, []float64{.001, .003, .01, .03, .1}, []float64{.001, .01, .1})
	list(&o.FleetEpsilons, []float64{1, 2, 4}, []float64{1, 4})
	list(&o.MechanismEpsilons, []float64{1, 2, 4, 6}, []float64{1, 4})
	list(&o.MechanismDeltas, []float64{.01, .1, .3, .5, .7}, []float64{.01, .3, .7})
	return o
}

// The smallest fleet that is looked at, and the most vehicles that one may have, of some kilobytes
// each.
const (
	LeastFleet   = 10
	MostVehicles = 100_000
)

// Validate reports what cannot be used.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	for _, also := range o.Also {
		if !slices.Contains(alsos, also) {
			errs = append(errs, fmt.Errorf("%q is nothing that can be drawn beside the paper's "+
				"mechanisms: choose of %v", also, alsos))
		}
	}
	for _, epsilon := range append(
		slices.Concat(o.Epsilons, o.FleetEpsilons, o.MechanismEpsilons), o.Epsilon,
	) {
		errs = append(errs, law.ValidateEpsilon(epsilon))
	}
	for _, delta := range append(slices.Concat(o.Deltas, o.MechanismDeltas), o.Delta) {
		errs = append(errs, mechanism.ValidateDelta(delta))
	}
	if o.TimeRuns < 1 || o.Runs < 1 || o.MaxUsers < 1 {
		errs = append(errs, errors.New("runs and users must be at least 1"))
	}
	switch {
	case o.Vehicles < LeastFleet:
		errs = append(errs, fmt.Errorf("a fleet of %d vehicles says more of people than of a "+
			"fleet: take %d at least", o.Vehicles, LeastFleet))
	case o.Vehicles > MostVehicles:
		errs = append(errs, fmt.Errorf("a fleet of %d vehicles is more than memory holds: take "+
			"%d at most", o.Vehicles, MostVehicles))
	}
	return errors.Join(errs...)
}

// Study is some data sets and options.
type Study struct {
	Data    []*Data
	Options Options
}

// New fills the options' defaults in.
func New(data []*Data, o Options) (*Study, error) {
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

// Also says whether something is drawn beside the paper's mechanisms.
func (s *Study) Also(what string) bool { return slices.Contains(s.Options.Also, what) }

// Groups are what the figures compare: the paper's mechanisms, and by option others with them.
func (s *Study) Groups() []Group {
	groups := []Group{{"", "", []Variant{LM, PIM}}}
	beside := Group{"mechanisms", "the paper's mechanisms and others", []Variant{LM, PIM}}
	if s.Also(AlsoTight) {
		beside.Variants = append(beside.Variants, Tight)
	}
	if s.Also(AlsoLattice) {
		beside.Variants = append(beside.Variants, Lattice)
	}
	if s.Also(AlsoCodebook) {
		beside.Variants = append(beside.Variants, Codebook)
	}
	if len(beside.Variants) > 2 {
		groups = append(groups, beside)
	}
	if s.Also(AlsoPaper) {
		groups = append(groups, Group{"inference", "inference by the law of the releases, and by " +
			"the paper's formula", []Variant{
			LM, PIM, {law.Laplace, mechanism.InferencePaper}, {law.PIM, mechanism.InferencePaper},
		}})
	}
	return groups
}

// Variants are the paper's mechanisms and what is measured beside them.
func (s *Study) Variants() (list []Variant) {
	for _, g := range s.Groups() {
		for _, v := range g.Variants {
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// Cases are the paper's: every data set with the popular model, and with the personal one where
// traces are more than check-ins.
func (s *Study) Cases() (cases []Case) {
	for _, d := range s.Data {
		cases = append(cases, Case{Data: d, Kind: Popular})
		if !d.EveryFix {
			cases = append(cases, Case{Data: d, Kind: Personal})
		}
	}
	for _, d := range s.Data {
		if s.Also(AlsoEarlier) {
			cases = append(cases, Case{Data: d, Kind: PersonalEarlier})
		}
	}
	return cases
}

// Traces are those of a data set that are measured: up to MaxUsers of them, evenly spread.
func (s *Study) Traces(d *Data) []Trace { return Spread(d.Traces, s.Options.MaxUsers) }

// Spread returns at most so many traces, evenly spread over a list.
func Spread(list []Trace, most int) []Trace {
	n := min(len(list), most)
	chosen := make([]Trace, 0, n)
	for i := range n {
		chosen = append(chosen, list[i*len(list)/n])
	}
	return chosen
}

// Fixed is the setting at which nothing is swept.
func (s *Study) Fixed() Setting {
	return Setting{Epsilon: s.Options.Epsilon, Delta: s.Options.Delta}
}

// Ways are the points of a case: each variant at each of some settings, and blind at each of their
// δ.
func (s *Study) Ways(c Case, settings ...Setting) (points []Point) {
	var deltas []float64
	for _, at := range settings {
		for _, v := range s.Variants() {
			points = append(points, Point{Case: c, Variant: v, Setting: at})
		}
		deltas = append(deltas, at.Delta)
	}
	slices.Sort(deltas)
	for _, delta := range slices.Compact(deltas) {
		points = append(points, Point{Case: c, Setting: Setting{Delta: delta}, Blind: true})
	}
	return points
}

// Settings are those that are swept, each once: the ε at the fixed δ, and the δ at the fixed ε.
func (s *Study) Settings() []Setting {
	var list []Setting
	for _, epsilon := range s.Options.Epsilons {
		list = append(list, Setting{Epsilon: epsilon, Delta: s.Options.Delta})
	}
	for _, delta := range s.Options.Deltas {
		if at := (Setting{Epsilon: s.Options.Epsilon, Delta: delta}); !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// Deltas are all that occur, ascending.
func (s *Study) Deltas() []float64 {
	list := append(slices.Clone(s.Options.Deltas), s.Options.Delta)
	slices.Sort(list)
	return slices.Compact(list)
}
