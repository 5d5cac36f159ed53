package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// normLaw is K-norm noise (Hardt and Talwar 2010, doi 10.1145/1806689.1806786), with the density
//
//	ε²/(2 area(K)) · e^{-ε‖z-x‖_K}  under a polygon K,
//	ε/length(K) · e^{-ε‖z-x‖_K}     along a segment,
//
// and a point mass on a point.
//
// Guarantee: for x1, x2 in the set x1 - x2 ∈ K, so ‖z-x1‖_K ≤ ‖z-x2‖_K + 1 by the
// triangle inequality, and the density ratio is at most e^ε.
type normLaw struct {
	hull    *SensitivityHull
	epsilon float64
	logPeak float64
}

// Prepare implements Mechanism.
func (m *normLaw) Prepare(h *SensitivityHull, epsilon float64) {
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

// SquaredError implements Mechanism: E r² times the trace of K's second moment. In a polygon z - x
// is r·u with u uniform in K and r ~ Gamma(3, 1/ε), so E r² = 12/ε². On a segment r ~ Gamma(2,
// 1/ε), so E r² = 6/ε².
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

// Sample implements Mechanism.
func (m *planarIsotropic) Sample(src noise.Source, x grid.Cell) grid.Point {
	return m.sampleAt(src, m.hull.centre(x))
}

// sampleAt releases a place as Algorithm 2 has it: T takes K into isotropic position, z' is uniform
// in TK, r ~ Gamma(3, 1/ε), and the release is x + r T⁻¹ z'. A segment has no isotropic
// position. With its half-length vector u the release is x + r t u, with t uniform in [-1, 1] and r
// ~ Gamma(2, 1/ε): K-norm noise of dimension 1, which is Laplace noise along the line.
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

// direct draws the law of planarIsotropic without the transform. ‖z-x‖_K ~ Gamma(2, 1/ε) is
// independent of the direction, whose point of K's boundary has the cone measure. The law is the
// same because ‖Tz‖_TK = ‖z‖_K: the output of Algorithm 2 does not depend on T at all.
type direct struct{ normLaw }

// Name implements Mechanism.
func (*direct) Name() string { return KNorm }

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

// along returns x + s·v, each product rounded first.
func along(x grid.Point, v convex.Vec, s float64) grid.Point {
	return grid.Point{X: x.X + float64(s*v.X), Y: x.Y + float64(s*v.Y)}
}

// Isotropy returns T = E[u uᵀ]^(-1/2) for u uniform in K, in 1/km and in closed form. TK is in
// isotropic position: its second moment is 1. ok is false where K is a line or a point, which have
// no such position.
func Isotropy(h *SensitivityHull) (t convex.Matrix, ok bool) {
	return h.body.Moment().InverseRoot()
}

// Parameters of the sampled transform.
const (
	// stability is the paper's: sampling ends when T changes by less than this in the Frobenius
	// norm.
	stability = 1e-3
	// firstSamples is the number of points of the first estimate; each further one has twice as
	// many.
	firstSamples = 512
	// mostSamples ends the sampling of hulls below about a kilometre. T grows as they shrink, and
	// cannot come within an absolute 10⁻³ in reasonable time. At this number T is right to about
	// 1/√mostSamples = .1 % of itself.
	mostSamples = 1 << 20
)

// SampledIsotropy estimates T as the paper's Algorithm 2 does (lines 3 to 6):
//
//	T = (1/l Σ y yᵀ)^(-1/2)  over uniform points y_1 … y_l of K.
//
// It doubles the number of points, and keeps the earlier ones, until ‖T' - T‖_F < 10⁻³. The
// points depend on K alone, so T says nothing about the user's place. samples is how many points
// were drawn; ok is false where K is a line or a point.
//
// Cost: 10³ to 10⁶ points of about 10⁻⁷ s each, since T = O(1/diameter) converges like
// 1/√l. That is 10 ms under hulls of tens of kilometres, and 100 ms and more under hulls of a
// few, where the closed form takes nanoseconds.
func SampledIsotropy(src noise.Source, h *SensitivityHull) (t convex.Matrix, samples int, ok bool) {
	if h.body.Dim() < 2 {
		return convex.Matrix{}, 0, false
	}
	var sum convex.Matrix
	known := false
	for target := firstSamples; ; target *= 2 {
		for ; samples < target; samples++ {
			y := uniform(src, h.body.Sectors())
			sum.XX += float64(y.X * y.X)
			sum.XY += float64(y.X * y.Y)
			sum.YY += float64(y.Y * y.Y)
		}
		n := float64(samples)
		m := convex.Moment{Matrix: convex.Matrix{XX: sum.XX / n, XY: sum.XY / n, YY: sum.YY / n}}
		m.Determinant = m.Det()
		next, ok := m.InverseRoot()
		if known && ok && frobenius(next, t) < stability || samples >= mostSamples {
			return next, samples, ok
		}
		t, known = next, ok
	}
}

func frobenius(a, b convex.Matrix) float64 {
	xx, xy, yy := a.XX-b.XX, a.XY-b.XY, a.YY-b.YY
	return math.Sqrt(float64(xx*xx) + 2*float64(xy*xy) + float64(yy*yy))
}

// uniform draws a uniform point of the polygon of the sectors: a point of the boundary by the cone
// measure, times the root of a uniform number. Three words.
func uniform(src noise.Source, s *convex.Sectors) convex.Vec {
	p := s.Boundary(noise.Uniform(src), noise.Uniform(src))
	r := math.Sqrt(noise.Uniform(src))
	return convex.Vec{X: r * p.X, Y: r * p.Y}
}
