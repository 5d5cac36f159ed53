package law

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// Bounds of ε.
const (
	// MinEpsilon is the least ε: below it the noise exceeds the hull a million times and a release
	// says nothing.
	MinEpsilon = 1e-6
	// MaxEpsilon is the largest ε: e^700 is no promise any more, and beyond e^708 the likelihood
	// of a cell of the location set could fall below the smallest normal float64 and count as 0.
	MaxEpsilon = 700.0
	// MaxDecimals is how many decimals ε may have for Lattice and Codebook, which compute with
	// them all: larger powers of ten do not leave the whole numbers of Lattice's draws room enough.
	MaxDecimals = 9
)

// ValidateEpsilon is the one place that knows which ε are allowed.
func ValidateEpsilon(epsilon float64) error {
	switch {
	case epsilon >= MinEpsilon && epsilon <= MaxEpsilon:
		return nil
	case epsilon == 0:
		return errors.New("epsilon is not set or 0: for one release 1 is strong, 10 is weak")
	case epsilon < 0:
		return fmt.Errorf("epsilon %g must be above 0: for one release 1 is strong, 10 is weak",
			epsilon)
	case epsilon > MaxEpsilon:
		return fmt.Errorf("epsilon %g is above %g, where a release protects nothing", epsilon,
			MaxEpsilon)
	}
	return fmt.Errorf("epsilon %g is not between %g and %g", epsilon, MinEpsilon, MaxEpsilon)
}

// CheckEpsilon is ValidateEpsilon for one mechanism: Lattice and Codebook ask for a number of at
// most MaxDecimals decimals too.
func (o Options) CheckEpsilon(epsilon float64) error {
	if err := ValidateEpsilon(epsilon); err != nil || !o.Exact() {
		return err
	}
	_, _, err := exactEpsilon(epsilon)
	return err
}

// Exact says whether the mechanism draws on whole numbers, so that its guarantee holds for the very
// numbers that are published: Lattice and Codebook do.
func (o Options) Exact() bool {
	name := o.WithDefaults().Name
	return name == Lattice || name == Codebook
}

// CheckGrid reports whether the mechanism can release on a grid. Lattice and Codebook have bounds
// there: the scales of a proposal have to fit into words, and so have the squares of code points.
func (o Options) CheckGrid(epsilon float64, g *grid.Grid) error {
	switch o = o.WithDefaults(); o.Name {
	case Codebook:
		return checkSides(g)
	case Lattice:
		return o.checkLatticeGrid(epsilon, g)
	}
	return nil
}

// MaxSide is the longest side of a map in cells for Codebook: the squares of code points then fit a
// word.
const MaxSide = 1 << 18

func checkSides(g *grid.Grid) error {
	if max(g.Width(), g.Height()) <= MaxSide {
		return nil
	}
	return fmt.Errorf("%d × %d cells are too many for codebook, at most %d a side", g.Width(),
		g.Height(), MaxSide)
}

func (o Options) checkLatticeGrid(epsilon float64, g *grid.Grid) error {
	p, q, err := exactEpsilon(epsilon)
	if err != nil {
		return err
	}
	// A scale is at most den·M over at least 1, or 1 over at least num·w.
	p, q = reduced(p, q*uint64(o.Subdivision))
	side := uint64(max(g.Width(), g.Height()))
	if noise.Product(q, 4*uint64(g.Cells())).Hi == 0 && noise.Product(p, side).Hi == 0 {
		return nil
	}
	return fmt.Errorf("epsilon %v in %d steps a cell on %d × %d cells exceeds lattice's whole "+
		"numbers: shorten epsilon", epsilon, o.Subdivision, g.Width(), g.Height())
}

// exactEpsilon returns the fraction that ε stands for: its shortest decimal text, the one a user
// writes, as p/q in lowest terms. p < 2⁴⁰ and q < 2³⁰ for MaxEpsilon and MaxDecimals.
func exactEpsilon(epsilon float64) (p, q uint64, err error) {
	if err := ValidateEpsilon(epsilon); err != nil {
		return 0, 0, err
	}
	p, q, decimals := shortest(epsilon)
	if decimals > MaxDecimals {
		return 0, 0, fmt.Errorf("epsilon %v has %d decimals, at most %d: write it as %s", epsilon,
			decimals, MaxDecimals, strconv.FormatFloat(epsilon, 'f', MaxDecimals, 64))
	}
	p, q = reduced(p, q)
	return p, q, nil
}

// shortest returns the fraction p/q that the shortest decimal of x stands for, not in lowest terms,
// and its number of decimals. Where that exceeds MaxDecimals, p and q are not to be used.
func shortest(x float64) (p, q uint64, decimals int) {
	var buf [32]byte
	whole, part, _ := bytes.Cut(strconv.AppendFloat(buf[:0], x, 'f', -1, 64), []byte("."))
	q = 1
	for _, digit := range whole {
		p = 10*p + uint64(digit-'0')
	}
	for _, digit := range part {
		p, q = 10*p+uint64(digit-'0'), 10*q
	}
	return p, q, len(part)
}

// reduced returns a and b without their common factor. Not both may be 0.
func reduced(a, b uint64) (uint64, uint64) {
	g := gcd(a, b)
	return a / g, b / g
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
