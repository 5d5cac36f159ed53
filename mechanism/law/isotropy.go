package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/noise"
)

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
