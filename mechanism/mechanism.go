package mechanism

import (
	"errors"
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// Mechanism releases one place of a location set with ε-differential privacy on the set: for all places x1, x2 of the set and every
// z, density(z|x1) ≤ e^ε density(z|x2). Prepare fixes the set's hull and ε, which are public; Sample is the only method that is
// given a secret. A Mechanism is scratch for one goroutine.
//
// What happens when the set degenerates is the same for all: on a single place the release is that place, whatever x is.
type Mechanism interface {
	// Name is one of PIM, KNorm, Laplace, LaplaceTight, Lattice.
	Name() string
	// Prepare fixes the hull and ε for the calls that follow. It keeps the hull, which must not change meanwhile.
	Prepare(h *SensitivityHull, epsilon float64)
	// Sample draws a release for the cell x of the set's grid, in kilometres. It panics if x is not a cell, or if the hull is one of
	// points without a grid.
	Sample(src noise.Source, x grid.Cell) grid.Point
	// Exponents writes ln(density(z|x) / density(x|x)) for each place x into dst, which must be as long: 0 at most, and -Inf
	// where the density is 0. It is all that inference needs, since density(x|x) is the same for every x. What is rounded here is public: a release, and the places of a public set.
	Exponents(dst []float64, z grid.Point, places []convex.Vec)
	// LogPeak returns ln density(x|x). Densities are per km² under a polygon, and for Laplace noise of a line too; per km along
	// the line for K-norm noise on a line; and the probability itself for a single place. On a lattice it is the probability
	// over the area, or length, of a step. Inference does not need it.
	LogPeak() float64
	// SquaredError returns E‖z - x‖², km².
	SquaredError() float64
}

// NewMechanism returns the mechanism of a name, with the isotropic transform in closed form or sampled (for PIM; empty means the closed
// form), and on a lattice of the default subdivision. Options.NewMechanism is the one that knows all options.
func NewMechanism(name, isotropy string) (Mechanism, error) {
	if name == "" {
		return nil, oneOf("mechanism", name, mechanismNames...)
	}
	return Options{Mechanism: name, Isotropy: isotropy}.NewMechanism()
}

// NewMechanism returns the mechanism of Mechanism, Isotropy and Subdivision; the other options do not matter here.
func (o Options) NewMechanism() (Mechanism, error) {
	o = o.withDefaults()
	if err := errors.Join(oneOf("isotropy", o.Isotropy, IsotropyClosedForm, IsotropySampled), validateSubdivision(o.Subdivision)); err != nil {
		return nil, err
	}
	switch o.Mechanism {
	case PIM:
		return &planarIsotropic{sampled: o.Isotropy == IsotropySampled}, nil
	case KNorm:
		return &direct{}, nil
	case Laplace:
		return &laplace{}, nil
	case LaplaceTight:
		return &laplace{tight: true}, nil
	case Lattice:
		return &lattice{parts: uint64(o.Subdivision)}, nil
	}
	return nil, oneOf("mechanism", o.Mechanism, mechanismNames...)
}

// normLaw is K-norm noise (Hardt and Talwar 2010, doi 10.1145/1806689.1806786): density ε²/(2 area(K)) e^{-ε‖z-x‖_K} under a polygon
// K, ε/length(K) e^{-ε‖z-x‖_K} along a segment, a point mass on a point.
//
// Guarantee: for x1, x2 in the set x1 - x2 ∈ K, so by the triangle inequality ‖z-x1‖_K ≤ ‖z-x2‖_K + 1 and the density ratio is at most e^ε.
type normLaw struct {
	hull    *SensitivityHull
	epsilon float64
	logPeak float64
}

func (m *normLaw) prepare(h *SensitivityHull, epsilon float64) {
	m.hull, m.epsilon = h, epsilon
	switch h.body.Dim() {
	case 2:
		m.logPeak = math.Log(epsilon * epsilon / 2 / h.body.Measure())
	case 1:
		m.logPeak = math.Log(epsilon / h.body.Measure())
	default:
		m.logPeak = 0
	}
}

// LogPeak implements Mechanism.
func (m *normLaw) LogPeak() float64 { return m.logPeak }

// Exponents implements Mechanism: -ε‖z-x‖_K.
func (m *normLaw) Exponents(dst []float64, z grid.Point, places []convex.Vec) {
	m.hull.body.Gauges(dst, convex.Vec(z), places)
	for i, gauge := range dst {
		dst[i] = -m.epsilon * gauge
	}
}

// SquaredError implements Mechanism: E r² times the trace of K's second moment. For z - x = r·u with u uniform in a polygon r is
// Gamma(3, 1/ε), E r² = 12/ε²; on a segment Gamma(2, 1/ε), 6/ε².
func (m *normLaw) SquaredError() float64 {
	trace := m.hull.body.Moment().Trace()
	switch m.hull.body.Dim() {
	case 2:
		return 12 * trace / (m.epsilon * m.epsilon)
	case 1:
		return 6 * trace / (m.epsilon * m.epsilon)
	}
	return 0
}

// planarIsotropic is the paper's Algorithm 2.
type planarIsotropic struct {
	normLaw
	sampled bool
	image   convex.Sectors // of TK
}

// Name implements Mechanism.
func (*planarIsotropic) Name() string { return PIM }

// Prepare implements Mechanism.
func (m *planarIsotropic) Prepare(h *SensitivityHull, epsilon float64) { m.prepare(h, epsilon) }

// Sample implements Mechanism.
func (m *planarIsotropic) Sample(src noise.Source, x grid.Cell) grid.Point {
	return m.sampleAt(src, m.hull.centre(x))
}

// sampleAt releases a place as Algorithm 2 has it: T takes K into isotropic position, z' is uniform in TK, r ~ Gamma(3, 1/ε), and the
// release is x + r T⁻¹ z'. On a segment with half-length vector u, which has no isotropic position, it is x + r t u with t uniform
// in [-1, 1] and r ~ Gamma(2, 1/ε): K-norm noise of dimension 1, Laplace along the line.
func (m *planarIsotropic) sampleAt(src noise.Source, x grid.Point) grid.Point {
	switch m.hull.body.Dim() {
	case 0:
		return x
	case 1:
		u := m.hull.body.Vertices()[1]
		t := 2*noise.Uniform(src) - 1
		return along(x, u, t*noise.Gamma(src, 2)/m.epsilon)
	}
	t := m.transform(src)
	m.image.ResetImage(m.hull.body.Sectors(), t)
	z := t.Inverse().Times(uniform(src, &m.image))
	return along(x, z, noise.Gamma(src, 3)/m.epsilon)
}

// transform returns T. K is a polygon here.
func (m *planarIsotropic) transform(src noise.Source) convex.Matrix {
	if m.sampled {
		if t, _, ok := SampledIsotropy(src, m.hull); ok {
			return t
		}
	}
	t, ok := Isotropy(m.hull)
	if !ok {
		// So thin that the determinant rounds to 0: any invertible T gives the same law.
		return convex.Matrix{XX: 1, YY: 1}
	}
	return t
}

// direct draws the law of planarIsotropic without the transform: ‖z-x‖_K ~ Gamma(2, 1/ε) independent of the direction, whose point of K's
// boundary has the cone measure. The law is the same since ‖Tz‖_TK = ‖z‖_K: Algorithm 2's output does not depend on T at all.
type direct struct{ normLaw }

// Name implements Mechanism.
func (*direct) Name() string { return KNorm }

// Prepare implements Mechanism.
func (m *direct) Prepare(h *SensitivityHull, epsilon float64) { m.prepare(h, epsilon) }

// Sample implements Mechanism.
func (m *direct) Sample(src noise.Source, x grid.Cell) grid.Point {
	return m.sampleAt(src, m.hull.centre(x))
}

// sampleAt takes four words.
func (m *direct) sampleAt(src noise.Source, x grid.Point) grid.Point {
	switch m.hull.body.Dim() {
	case 0:
		return x
	case 1:
		return along(x, m.hull.body.Vertices()[1], noise.Laplace(src)/m.epsilon)
	}
	p := m.hull.body.Sectors().Boundary(noise.Uniform(src), noise.Uniform(src))
	return along(x, p, noise.Gamma(src, 2)/m.epsilon)
}

// laplace is the baseline, the paper's Algorithm 3: Laplace noise of scale S/ε on each axis.
//
// Guarantee: ‖x1 - x2‖₁ ≤ S for all places of the set, for S = Δ1+Δ2 as in the paper as well as for the greatest ℓ1 distance, so the
// density ratio e^{ε(‖z-x2‖₁ - ‖z-x1‖₁)/S} is at most e^ε. On a line the noise still has both axes.
type laplace struct {
	hull    *SensitivityHull
	tight   bool
	single  bool
	rate    float64 // ε/S, 1/km
	logPeak float64
}

// Name implements Mechanism.
func (m *laplace) Name() string {
	if m.tight {
		return LaplaceTight
	}
	return Laplace
}

// Prepare implements Mechanism.
func (m *laplace) Prepare(h *SensitivityHull, epsilon float64) {
	m.hull, m.single = h, h.body.Dim() == 0
	m.rate, m.logPeak = 0, 0
	if m.single {
		return
	}
	sensitivity := h.sum
	if m.tight {
		sensitivity = h.ell1
	}
	m.rate = epsilon / sensitivity
	m.logPeak = math.Log(m.rate * m.rate / 4)
}

// Sample implements Mechanism.
func (m *laplace) Sample(src noise.Source, x grid.Cell) grid.Point {
	return m.sampleAt(src, m.hull.centre(x))
}

// sampleAt takes two words.
func (m *laplace) sampleAt(src noise.Source, x grid.Point) grid.Point {
	if m.single {
		return x
	}
	return grid.Point{X: x.X + noise.Laplace(src)/m.rate, Y: x.Y + noise.Laplace(src)/m.rate}
}

// LogPeak implements Mechanism.
func (m *laplace) LogPeak() float64 { return m.logPeak }

// Exponents implements Mechanism: -ε‖z-x‖₁/S.
func (m *laplace) Exponents(dst []float64, z grid.Point, places []convex.Vec) {
	if len(dst) != len(places) {
		panic("mechanism: Exponents needs as many results as places")
	}
	for i, x := range places {
		distance := math.Abs(z.X-x.X) + math.Abs(z.Y-x.Y)
		switch {
		case !m.single:
			dst[i] = -m.rate * distance
		case distance == 0:
			dst[i] = 0
		default:
			dst[i] = math.Inf(-1)
		}
	}
}

// SquaredError implements Mechanism: twice the variance 2(S/ε)² of each axis.
func (m *laplace) SquaredError() float64 {
	if m.single {
		return 0
	}
	return 4 / (m.rate * m.rate)
}

// along returns x + s·v, each product rounded first.
func along(x grid.Point, v convex.Vec, s float64) grid.Point {
	return grid.Point{X: x.X + float64(s*v.X), Y: x.Y + float64(s*v.Y)}
}
