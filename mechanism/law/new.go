package law

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names of mechanisms.
const (
	// PIM is the planar isotropic mechanism, the paper's Algorithm 2: K-norm noise drawn in
	// isotropic position.
	PIM = "pim"
	// KNorm draws the same law as PIM directly, without the transform.
	KNorm = "knorm"
	// Laplace is the paper's baseline, Algorithm 3: Laplace noise on each axis with the sum of the
	// set's two extents as sensitivity.
	Laplace = "laplace"
	// LaplaceTight is Laplace with the greatest ℓ1 distance of two cells of the set as
	// sensitivity, which is never larger.
	LaplaceTight = "laplace-tight"
	// Lattice is the law of PIM and KNorm on the points of a lattice, drawn exactly on whole
	// numbers. Of all mechanisms only Lattice and Codebook have a guarantee that holds for the very
	// numbers that are published. The guarantees of the others hold for the real numbers that the
	// published ones stand for.
	Lattice = "lattice"
	// Codebook is randomized response over a vector quantizer of the prior, drawn exactly. It needs
	// the prior itself and no location set, so it is not a Mechanism: see Quantizer. The default.
	Codebook = "codebook"
)

// Names returns the names of all mechanisms.
func Names() []string { return append(HullNames(), Codebook) }

// HullNames returns the names of the mechanisms that New makes: those whose noise is shaped by the
// sensitivity hull of a location set.
func HullNames() []string { return []string{PIM, KNorm, Laplace, LaplaceTight, Lattice} }

// Ways to find the isotropic transform T of PIM. The law of a release does not depend on T
// (‖Tz‖_TK = ‖z‖_K), so the choice changes time and bits, not privacy or error.
const (
	// IsotropyClosedForm computes T from the exact second moment of the polygon. The default.
	IsotropyClosedForm = "closed-form"
	// IsotropySampled estimates T as Algorithm 2 does, from uniform points of K until two estimates
	// differ by less than 10⁻³. It takes up to some 100 milliseconds a release: for experiments,
	// not for a service.
	IsotropySampled = "sampled"
)

// Subdivisions of the lattice.
const (
	// DefaultSubdivision is the number of lattice steps to a cell's side: a step of 1.3 m in a cell
	// of 340 m, as fine as a fix is. The law's squared error then differs from that of K-norm noise
	// by less than 1 % up to ε = 88, and by 10⁻⁴ up to 8, also where the set is but two cells:
	// with n steps the difference is 1/12·(ε/n)².
	DefaultSubdivision = 256
	// MaxSubdivision is the largest number: far below a millimetre for most cells.
	MaxSubdivision = 1 << 16
)

// Options choose a mechanism. The zero value is the default one.
type Options struct {
	// Name is one of Names; empty means Codebook, which New refuses.
	Name string
	// Isotropy is IsotropyClosedForm or IsotropySampled, for PIM only; empty means
	// IsotropyClosedForm.
	Isotropy string
	// Subdivision is how many steps of the lattice make a cell's side, for Lattice only; 0 means
	// DefaultSubdivision. A finer lattice costs no ε and no time: the probabilities of two places
	// have the same ratios on any lattice, and the draws take as many random words. It rounds less:
	// releases are whole steps away from the true cell's centre.
	Subdivision int
}

// WithDefaults returns o with empty fields filled in.
func (o Options) WithDefaults() Options {
	if o.Name == "" {
		o.Name = Codebook
	}
	if o.Isotropy == "" {
		o.Isotropy = IsotropyClosedForm
	}
	if o.Subdivision == 0 {
		o.Subdivision = DefaultSubdivision
	}
	return o
}

// Validate reports every field that cannot be used, with what to set instead. Empty fields are
// valid: they mean the defaults.
func (o Options) Validate() error {
	o = o.WithDefaults()
	return errors.Join(validateName(o.Name),
		oneOf("isotropy", o.Isotropy, IsotropyClosedForm, IsotropySampled),
		validateSubdivision(o.Subdivision))
}

// validateName names the mechanisms with a proof first, and then those of the paper.
func validateName(name string) error {
	if slices.Contains(Names(), name) {
		return nil
	}
	paper := slices.DeleteFunc(HullNames(), func(name string) bool { return name == Lattice })
	return fmt.Errorf("mechanism %q is unknown: for people: %s, %s; for comparison: %s",
		name, Codebook, Lattice, strings.Join(paper, ", "))
}

func validateSubdivision(steps int) error {
	if steps >= 1 && steps <= MaxSubdivision {
		return nil
	}
	return fmt.Errorf("a subdivision of %d is not in 1 to %d: leave it out for %d", steps,
		MaxSubdivision, DefaultSubdivision)
}

func oneOf(setting, value string, names ...string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return fmt.Errorf("%s %q: choose one of %s", setting, value, strings.Join(names, ", "))
}
