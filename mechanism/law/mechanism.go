package law

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// Mechanism releases one place of a location set with ε-differential privacy on the set: for all
// places x1, x2 of the set and every z, density(z|x1) ≤ e^ε density(z|x2). Prepare fixes the
// set's hull and ε, which are public. Sample is the only method that is given a secret. A
// Mechanism is scratch for one goroutine.
//
// All mechanisms treat a set of a single place in the same way: the release is that place, whatever
// x is.
type Mechanism interface {
	// Name is one of PIM, KNorm, Laplace, LaplaceTight, Lattice.
	Name() string
	// Prepare fixes the hull and ε for the calls that follow. It keeps the hull, which must not
	// change meanwhile.
	Prepare(h *SensitivityHull, epsilon float64)
	// Sample draws a release for the cell x of the set's grid, in kilometres. It panics if x is not
	// a cell, or if the hull is one of points without a grid.
	Sample(src noise.Source, x grid.Cell) grid.Point
	// Exponents writes ln(density(z|x) / density(x|x)) for each place x into dst, which must be as
	// long: 0 at most, and -Inf where the density is 0. Inference needs nothing else, since
	// density(x|x) is the same for every x. Only public numbers are rounded here: a release, and
	// the places of a public set.
	Exponents(dst []float64, z grid.Point, places []convex.Vec)
	// LogPeak returns ln density(x|x). The unit of a density is 1/km² under a polygon, and for
	// Laplace noise of a line too; 1/km along the line for K-norm noise on a line; and for a single
	// place it is the probability itself. On a lattice it is the probability over the area, or the
	// length, of a step. Inference does not need it.
	LogPeak() float64
	// SquaredError returns E‖z - x‖², km².
	SquaredError() float64
}

// New returns a mechanism. It refuses Codebook, which NewQuantizer makes.
func New(o Options) (Mechanism, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if o.Name == Codebook {
		return nil, fmt.Errorf("the %s mechanism has no location set: choose %s", Codebook,
			strings.Join(HullNames(), ", "))
	}
	switch o.Name {
	case PIM:
		return &planarIsotropic{sampled: o.Isotropy == IsotropySampled}, nil
	case KNorm:
		return &direct{}, nil
	case Laplace:
		return &laplace{}, nil
	case LaplaceTight:
		return &laplace{tight: true}, nil
	}
	return &lattice{parts: uint64(o.Subdivision)}, nil
}
