package mechanism

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/geodither/geodither/mechanism/locationset"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Names of mechanisms.
const (
	// PIM is the planar isotropic mechanism, the paper's Algorithm 2: K-norm noise drawn in isotropic position.
	PIM = "pim"
	// KNorm draws the same law as PIM directly, without the transform.
	KNorm = "knorm"
	// Laplace is the paper's baseline, Algorithm 3: Laplace noise on each axis with the sum of the set's two extents as sensitivity.
	Laplace = "laplace"
	// LaplaceTight is Laplace with the greatest ℓ1 distance of two cells of the set as sensitivity, which is never larger.
	LaplaceTight = "laplace-tight"
	// Lattice is the law of PIM and KNorm on the points of a lattice, drawn exactly on whole numbers: the one mechanism whose guarantee
	// holds for the very numbers that are published, not only for the real numbers they stand for. The default.
	Lattice = "lattice"
)

var mechanismNames = []string{PIM, KNorm, Laplace, LaplaceTight, Lattice}

// Ways of inference.
const (
	// InferenceSurrogate infers with the law by which releases are made: a cell outside the set emits like its surrogate. The default.
	// It keeps |ln posterior/prior| ≤ ε for every cell and every prior, also on a line and on a single cell, where the posterior
	// equals the prior. That is what an observer of the release can infer; of the posterior that is kept it holds before pruning
	// and up to float32 rounding, since a pruned cell has probability 0.
	InferenceSurrogate = "surrogate"
	// InferencePaper infers with the paper's formula, in which every cell emits from its own centre, also outside the set. That is not how
	// releases are made: it breaks the bound e^ε outside the set and can lock onto a wrong cell. Where the location set lies on a
	// line, cells off the line have density 0 under K-norm noise and leave the posterior; where it is one cell, that cell's posterior
	// becomes 1. It is here to repeat the paper's experiments.
	InferencePaper = "paper"
)

// Ways to find the isotropic transform T of PIM. The law of a release does not depend on T (‖Tz‖_TK = ‖z‖_K), so the choice changes
// time and bits, not privacy or error.
const (
	// IsotropyClosedForm computes T from the exact second moment of the polygon. The default.
	IsotropyClosedForm = "closed-form"
	// IsotropySampled estimates T as Algorithm 2 does, from uniform points of K until two estimates differ by less than 10⁻³. It takes
	// up to some 100 milliseconds a release: for experiments, not for a service.
	IsotropySampled = "sampled"
)

// Bounds of the parameters, and their defaults.
const (
	// MinEpsilon is the least ε: below it the noise exceeds the hull a million times and a release says nothing.
	MinEpsilon = 1e-6
	// MaxEpsilon is the largest ε: e^700 is no promise any more, and beyond e^708 the likelihood of a cell of the location set could
	// fall below the smallest normal float64 and count as 0.
	MaxEpsilon = 700.0
	// DefaultPrune is the share of the total mass below which a cell is dropped.
	DefaultPrune = 1e-7
	// MaxPrune is the largest share. What one pruning drops is at most mobility.PruneCells times as much, 1 % here; ten times this raised drift
	// on real traces from .01 to .018, and would allow to drop 10 % at each step.
	MaxPrune = 1e-5
	// DefaultMaxGap is the number of steps after which a silent user starts again at the model's initial distribution.
	DefaultMaxGap = 60
	// MaxMaxGap bounds the work of one record: a gap of k steps costs k predictions.
	MaxMaxGap = 100_000
	// DefaultSubdivision is the number of lattice steps to a cell's side: a step of 1.3 m in a cell of 340 m, as fine as a fix is. The law's
	// squared error then differs from that of K-norm noise by less than 1 % up to ε = 88, and by 10⁻⁴ up to 8, also where the set is
	// but two cells; it would take 1/12·(ε/n)² with n steps.
	DefaultSubdivision = 256
	// MaxSubdivision is the largest number: far below a millimetre for most cells.
	MaxSubdivision = 1 << 16
	// DefaultMinCells is the least number of cells of a location set. A set of one cell is released as that cell's centre, which looks like an exact
	// fix and tells nothing: its ε is charged for a posterior that is the prior. Three is where the estimate is best or near it on models that are
	// that sure of a place (DESIGN.md has the figures), and what a single cell needs for noise in both directions: two of its neighbours,
	// one on each axis.
	DefaultMinCells = 3
	// MaxMinCells bounds the work of padding a set by its number of cells.
	MaxMinCells = 1_000_000
	// MaxDecimals is how many decimals ε may have for Lattice, which computes with them all: powers of ten beyond it do not leave the
	// whole numbers of its draws room enough.
	MaxDecimals = 9
)

// Options configure a Sanitizer. Epsilon and Delta have no default: they are the user's decision. Everything else has one, so
// Options{Epsilon: e, Delta: d} is complete.
type Options struct {
	// Mechanism is Lattice, PIM, KNorm, Laplace or LaplaceTight; empty means Lattice.
	Mechanism string
	// Inference is InferenceSurrogate or InferencePaper; empty means InferenceSurrogate.
	Inference string
	// Isotropy is IsotropyClosedForm or IsotropySampled, for PIM only; empty means IsotropyClosedForm.
	Isotropy string
	// Subdivision is how many steps of the lattice make a cell's side, for Lattice only; 0 means DefaultSubdivision. A finer lattice costs no
	// ε and no time: the probabilities of two places have the same ratios on any, and the draws take as many random words. It
	// rounds less: releases are whole steps away from the true cell's centre.
	Subdivision int
	// Epsilon bounds the logarithm of likelihood ratios of one release, between MinEpsilon and MaxEpsilon. For Lattice it has at most
	// MaxDecimals decimals: the number that is meant is the one it is written as, the shortest text that gives this float64.
	Epsilon float64
	// Delta is the prior mass that may stay outside the location set, in [0, 1). It trades the size of the noise against
	// drift and does not weaken the bound ε. 0 means every cell of positive probability.
	Delta float64
	// Prune is the share of the total mass below which a cell leaves a distribution; 0 means DefaultPrune, negative none.
	// The prior is pruned after each prediction and the posterior after inference, and each time at most mobility.PruneCells times
	// Prune of the mass is dropped: 10⁻⁴ by default. A pruned cell can come back only by the model's transitions. Pruning looks
	// at nothing but releases and costs no ε: it makes the sanitizer's own belief, and with it later location sets, a little
	// coarser.
	Prune float64
	// MaxGap is the number of steps after which prediction gives up and the model's initial distribution is taken; 0 means
	// DefaultMaxGap.
	MaxGap int

	// MinCells is the least number of cells of a location set, see locationset.Set.ChoosePadded; 0 means DefaultMinCells, negative none.
	MinCells int
	// MinRadiusKM is the radius of a disc around the prior's most probable cell that every location set holds, kilometres; 0 or negative
	// is none. With one, K holds the disc of twice that radius as far as the map reaches, whatever shape the prior has.
	MinRadiusKM float64
	// Estimate is EstimateMean, EstimateMedian or EstimateMode; empty means EstimateMean.
	Estimate string

	// ReleaseInterval is the least number of steps from one release of a user to the next; 0 means 1.
	ReleaseInterval int
	// AdaptiveRadiusKM draws a release only where the prior's own credible radius exceeds it, kilometres; 0 means always.
	AdaptiveRadiusKM float64
	// Between is what ReleaseInterval and AdaptiveRadiusKM give instead of a release: BetweenPredict or BetweenSkip; empty means
	// BetweenPredict.
	Between string
	// SameStep is what a further report of a step gives: SameStepRepeat, SameStepDrop or SameStepRelease; empty means SameStepRepeat.
	SameStep string
	// Budget limits what the releases of one user cost.
	Budget Budget
}

// withDefaults returns o with empty fields filled.
func (o Options) withDefaults() Options {
	if o.Mechanism == "" {
		o.Mechanism = Lattice
	}
	if o.Inference == "" {
		o.Inference = InferenceSurrogate
	}
	if o.Isotropy == "" {
		o.Isotropy = IsotropyClosedForm
	}
	if o.Subdivision == 0 {
		o.Subdivision = DefaultSubdivision
	}
	if o.Prune == 0 {
		o.Prune = DefaultPrune
	}
	if o.MaxGap == 0 {
		o.MaxGap = DefaultMaxGap
	}
	return o.policyDefaults()
}

// Validate reports every setting that cannot be used, with what to set instead. Empty fields are valid: they mean the defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	return errors.Join(
		oneOf("mechanism", o.Mechanism, mechanismNames...),
		oneOf("inference", o.Inference, InferenceSurrogate, InferencePaper),
		oneOf("isotropy", o.Isotropy, IsotropyClosedForm, IsotropySampled),
		validateSubdivision(o.Subdivision),
		o.validateEpsilon(),
		ValidateDelta(o.Delta),
		validatePrune(o.Prune),
		validateGap(o.MaxGap),
		validatePadding(o),
		o.validatePolicy(),
	)
}

// validateEpsilon also asks for a rational where the mechanism needs one.
func (o Options) validateEpsilon() error {
	if err := ValidateEpsilon(o.Epsilon); err != nil || o.Mechanism != Lattice {
		return err
	}
	_, _, err := exactEpsilon(o.Epsilon)
	return err
}

// exactEpsilon returns the fraction that ε stands for: its shortest decimal text, the one a user writes, as p/q in lowest terms. p < 2⁴⁰ and
// q < 2³⁰ for MaxEpsilon and MaxDecimals.
func exactEpsilon(epsilon float64) (p, q uint64, err error) {
	if err := ValidateEpsilon(epsilon); err != nil {
		return 0, 0, err
	}
	var buf [32]byte
	whole, decimals, _ := bytes.Cut(strconv.AppendFloat(buf[:0], epsilon, 'f', -1, 64), []byte("."))
	if len(decimals) > MaxDecimals {
		return 0, 0, fmt.Errorf("epsilon %v has %d decimals, and the lattice mechanism computes with all of them, at most %d: write it shorter, such as %s",
			epsilon, len(decimals), MaxDecimals, strconv.FormatFloat(epsilon, 'f', MaxDecimals, 64))
	}
	q = 1
	for _, digit := range whole {
		p = 10*p + uint64(digit-'0')
	}
	for _, digit := range decimals {
		p, q = 10*p+uint64(digit-'0'), 10*q
	}
	p, q = reduced(p, q)
	return p, q, nil
}

// ValidateEpsilon is the one place that knows which ε are allowed.
func ValidateEpsilon(epsilon float64) error {
	switch {
	case epsilon >= MinEpsilon && epsilon <= MaxEpsilon:
		return nil
	case epsilon == 0:
		return errors.New("epsilon is not set and has no default: choose it from the error you can accept (1 is strong, 10 is weak)")
	case epsilon > MaxEpsilon:
		return fmt.Errorf("epsilon %g is above %g, where a release protects nothing and likelihoods underflow: choose a smaller one", epsilon, MaxEpsilon)
	}
	return fmt.Errorf("epsilon %g is not between %g and %g: below that the noise drowns any map", epsilon, MinEpsilon, MaxEpsilon)
}

// ValidateDelta is the one place that knows which δ are allowed.
func ValidateDelta(delta float64) error {
	if delta >= 0 && delta < 1 {
		return nil
	}
	return fmt.Errorf("delta %g is not in [0, 1): it is the share of prior mass that may stay outside the location set, and the set needs a cell", delta)
}

func validateSubdivision(steps int) error {
	if steps >= 1 && steps <= MaxSubdivision {
		return nil
	}
	return fmt.Errorf("a subdivision of %d steps a cell is not between 1 and %d: leave it out for %d", steps, MaxSubdivision, DefaultSubdivision)
}

func validatePrune(prune float64) error {
	if prune <= MaxPrune { // negative: no pruning
		return nil
	}
	return fmt.Errorf("prune %g is above %g, which visibly raises drift: leave it out for %g", prune, MaxPrune, DefaultPrune)
}

func validateGap(steps int) error {
	if steps >= 1 && steps <= MaxMaxGap {
		return nil
	}
	return fmt.Errorf("max gap of %d steps is not between 1 and %d: a gap costs one prediction a step", steps, MaxMaxGap)
}

func oneOf(setting, value string, names ...string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return fmt.Errorf("%s %q is unknown: choose one of %s", setting, value, strings.Join(names, ", "))
}

// padding returns the options' padding with negative numbers as none.
func (o Options) padding() locationset.Padding {
	return locationset.Padding{MinCells: max(o.MinCells, 0), RadiusKM: max(o.MinRadiusKM, 0)}
}

func validatePadding(o Options) error {
	var errs []error
	if o.MinCells > MaxMinCells {
		errs = append(errs, fmt.Errorf("min cells %d are above %d: pad by min radius instead, or use larger cells", o.MinCells, MaxMinCells))
	}
	if math.IsNaN(o.MinRadiusKM) || math.IsInf(o.MinRadiusKM, 0) {
		errs = append(errs, errors.New("min radius is no finite number of kilometres: leave it out for none"))
	}
	return errors.Join(errs...)
}
