package mechanism

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Ways of inference.
const (
	// InferenceSurrogate infers with the law by which releases are made: a cell outside the set
	// emits like its surrogate. The default. It keeps |ln posterior/prior| ≤ ε for every cell
	// and every prior, also on a line and on a single cell, where the posterior equals the prior.
	// That bounds what an observer of the release can infer. For the posterior that is kept it
	// holds before pruning and up to float32 rounding, since a pruned cell has probability 0.
	InferenceSurrogate = "surrogate"
	// InferencePaper infers with the paper's formula, in which every cell emits from its own
	// centre, also outside the set. That is not how releases are made: it breaks the bound e^ε
	// outside the set and can lock onto a wrong cell. Where the location set lies on a line, cells
	// off the line have density 0 under K-norm noise and leave the posterior; where it is one cell,
	// that cell's posterior becomes 1. It is here to repeat the paper's experiments.
	InferencePaper = "paper"
)

// Bounds of the parameters, and their defaults.
const (
	// DefaultPrune is the share of the total mass below which a cell is dropped. Under Codebook it
	// is CodebookPrune: a posterior keeps such a cell once in 128 times on average over releases
	// (LeastMass). On Geolife errors are the same as with DefaultPrune, at four fifths of the
	// cells; five times as much costs 4 % at ε = 1.
	DefaultPrune  = 1e-7
	CodebookPrune = LeastMass / 128
	// MaxPrune is the largest share. One pruning drops at most mobility.PruneCells times as much, 1
	// % here. Ten times this value raised drift on real traces from .01 to .018, and would allow to
	// drop 10 % at each step.
	MaxPrune = 1e-5
	// DefaultMaxGap is the number of steps after which a silent user starts again at the model's
	// initial distribution.
	DefaultMaxGap = 60
	// MaxMaxGap bounds the work of one record: a gap of k steps costs k predictions.
	MaxMaxGap = 100_000
	// DefaultMinCells is the least number of cells of a location set. A set of one cell is released
	// as that cell's centre, which looks like an exact fix and says nothing: its ε is charged for
	// a posterior that is the prior. Three is where the estimate is best, or near it, on models
	// that are so sure of a place (DESIGN.md says why). It is also what a single cell needs
	// for noise in both directions: two neighbours, one on each axis.
	DefaultMinCells = 3
	// MaxMinCells bounds the work of padding a set by its number of cells.
	MaxMinCells = 1_000_000
)

// Options configure a Sanitizer. Epsilon has no default: it is the user's decision. Everything else
// has one, so Options{Epsilon: e} is complete. The mechanism is then Codebook, as it is without a
// mechanism in the commands. For the others Delta is the user's decision too.
type Options struct {
	// Mechanism is law.Codebook, Lattice, PIM, KNorm, Laplace or LaplaceTight; empty means
	// Codebook.
	// Under Codebook the location set has no influence on a release: Delta decides only what
	// Outcome.SetSize counts, no cell drifts, and there is nothing to pad.
	Mechanism string
	// Inference is InferenceSurrogate or InferencePaper; empty means InferenceSurrogate, the only
	// one under Codebook: every cell votes for itself there, and the paper has no such mechanism.
	Inference string
	// Isotropy is law.IsotropyClosedForm or law.IsotropySampled, for PIM only; empty means
	// IsotropyClosedForm.
	Isotropy string
	// Subdivision is how many steps of the lattice make a cell's side, for Lattice only; 0 means
	// law.DefaultSubdivision. See law.Options.
	Subdivision int
	// Epsilon bounds the logarithm of likelihood ratios of one release. It lies between
	// law.MinEpsilon and law.MaxEpsilon. For Lattice and Codebook it has at most law.MaxDecimals
	// decimals: it stands for the number it is written as, the shortest text that gives this
	// float64.
	Epsilon float64
	// Delta is the prior mass that may stay outside the location set, in [0, 1). It trades the size
	// of the noise against drift and does not weaken the bound ε. 0 means every cell of positive
	// probability.
	Delta float64
	// Prune is the share of the total mass below which a cell leaves a distribution; 0 means
	// DefaultPrune or CodebookPrune, negative none. The prior is pruned after each prediction and
	// the posterior after inference. Each time at most mobility.PruneCells times Prune of the mass
	// is dropped: 10⁻⁴ by default, and .002 under Codebook. A pruned cell can come back only by
	// the model's transitions. Pruning looks at nothing but releases and costs no ε: it makes the
	// sanitizer's own belief, and with it later location sets, a little coarser. Under Codebook
	// only the prior is pruned; what is kept of a posterior is rounded instead, see LeastMass;
	// negative, it is rounded to float32 alone, and states are large.
	Prune float64
	// MaxGap is the number of steps after which prediction gives up and the model's initial
	// distribution is taken; 0 means DefaultMaxGap. Where the model's law of gaps counts, that law
	// says what becomes of a gap, and MaxGap nothing: see LearnedGaps.
	MaxGap int

	// MinCells is the least number of cells of a location set, see law.LocationSet.ChoosePadded; 0
	// means DefaultMinCells, negative none. Codebook takes no other number than these.
	MinCells int
	// Estimate is EstimateMean, EstimateMedian or EstimateMode; empty means EstimateMean.
	Estimate string

	// Hours are the times in which releases may be drawn; empty: always. The start of a step
	// decides. A step outside of them is Predicted, whatever Between says. They look at time alone:
	// every observer knows when a user can have no release, and they cost nothing.
	Hours []hours.Span
	// ReleaseInterval is the least number of steps from one release of a user to the next; 0 means
	// 1.
	ReleaseInterval int
	// Between is what ReleaseInterval gives instead of a release: BetweenPredict or BetweenSkip;
	// empty means BetweenPredict.
	Between string
	// Budget limits what the releases of one user cost.
	Budget Budget
}

// law returns the options that choose a mechanism.
func (o Options) law() law.Options {
	return law.Options{Name: o.Mechanism, Isotropy: o.Isotropy, Subdivision: o.Subdivision}
}

// NewMechanism returns the mechanism of Mechanism, Isotropy and Subdivision; the other options do
// not matter here. It fails for Codebook, which is no law.Mechanism.
func (o Options) NewMechanism() (law.Mechanism, error) { return law.New(o.law()) }

// withDefaults returns o with empty fields filled.
func (o Options) withDefaults() Options {
	chosen := o.law().WithDefaults()
	o.Mechanism, o.Isotropy, o.Subdivision = chosen.Name, chosen.Isotropy, chosen.Subdivision
	if o.Inference == "" {
		o.Inference = InferenceSurrogate
	}
	if o.Prune == 0 {
		o.Prune = DefaultPrune
		if o.Mechanism == law.Codebook {
			o.Prune = CodebookPrune
		}
	}
	if o.MaxGap == 0 {
		o.MaxGap = DefaultMaxGap
	}
	return o.policyDefaults()
}

// Validate reports every setting that cannot be used, with what to set instead. Empty fields are
// valid: they mean the defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	return errors.Join(o.law().Validate(),
		oneOf("inference", o.Inference, InferenceSurrogate, InferencePaper),
		o.law().CheckEpsilon(o.Epsilon), ValidateDelta(o.Delta), validatePrune(o.Prune),
		validateGap(o.MaxGap), validateMinCells(o.MinCells), validateCodebook(o),
		o.validatePolicy())
}

// ValidateDelta is the one place that knows which δ are allowed.
func ValidateDelta(delta float64) error {
	if delta >= 0 && delta < 1 {
		return nil
	}
	return fmt.Errorf("delta %g, the mass outside the location set, is not in [0, 1)", delta)
}

func validatePrune(prune float64) error {
	if prune <= MaxPrune { // negative: no pruning
		return nil
	}
	return fmt.Errorf("prune %g is above %g", prune, MaxPrune)
}

func validateGap(steps int) error {
	if steps >= 1 && steps <= MaxMaxGap {
		return nil
	}
	return fmt.Errorf("max gap of %d steps is not in 1 to %d", steps, MaxMaxGap)
}

// LearnedGaps says whether the prior after a gap is that of the model's law of gaps. It is so where
// the model has one and every report leaves a record.
//
// Under options that hide reports the prior is that of the chain, one prediction for each step. An
// observer sees gaps between records there, which are longer than those between reports, and does
// not know which reports were hidden. The chain gives one prior for all ways to divide a gap. No
// other law can: if the prior after g + h steps is that of h after that of g, it is a power of one
// matrix.
func (o Options) LearnedGaps(m *mobility.Model) bool {
	return len(m.Gaps) > 0 && !o.withDefaults().Hides()
}

// LongestGap returns how many steps a silent user's filter goes on for. After more of them it
// starts at the model's initial distribution.
func (o Options) LongestGap(m *mobility.Model) uint64 {
	if o.LearnedGaps(m) {
		return m.Gaps.Longest()
	}
	return uint64(o.withDefaults().MaxGap)
}

func oneOf(setting, value string, names ...string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return fmt.Errorf("%s %q: choose one of %s", setting, value, strings.Join(names, ", "))
}

func validateMinCells(cells int) error {
	if cells <= MaxMinCells {
		return nil
	}
	return fmt.Errorf("min cells %d are above %d", cells, MaxMinCells)
}

// validateCodebook refuses what a codebook would ignore: a user who sets it counts on it.
func validateCodebook(o Options) error {
	if o.Mechanism != law.Codebook {
		return nil
	}
	var errs []error
	if o.MinCells > 0 && o.MinCells != DefaultMinCells {
		errs = append(errs, fmt.Errorf("min cells are for mechanism %[2]s, not %[1]s",
			law.Codebook, law.Lattice))
	}
	if o.Inference == InferencePaper {
		errs = append(errs, fmt.Errorf("inference %q is not for mechanism %s", InferencePaper,
			law.Codebook))
	}
	return errors.Join(errs...)
}
