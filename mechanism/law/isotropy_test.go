package law

import (
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// standardErrors returns how many standard errors a T from l points is away from the exact one, at
// most: T = Σ^(-1/2) changes by at most half of its greatest eigenvalue times the relative error
// of the second moment, whose standard error is √(E‖w‖⁴-2)/√l < 2/√l, w uniform in TK
// (1.83/√l for an ellipse, 1.90/√l for a square). The trace of T is above its greatest
// eigenvalue. By the normal approximation six of them are exceeded once in 5·10⁸ times.
func standardErrors(sampled, exact convex.Matrix, l int) float64 {
	return frobenius(sampled, exact) * math.Sqrt(float64(l)) / (exact.XX + exact.YY)
}

// TestSampledIsotropy compares Algorithm 2's estimate with the closed form. With fresh seeds it
// would fail once in 10⁸ runs.
func TestSampledIsotropy(t *testing.T) {
	t.Parallel()
	h, larger := crookedHull(t, 1), crookedHull(t, 1.06)
	exact, ok := Isotropy(h)
	if !ok {
		t.Fatal("a polygon has an isotropic position")
	}
	noticed := 0
	for seed := range uint64(5) {
		sample := func(h *SensitivityHull) (convex.Matrix, int) {
			src := noise.NewKeyed(noise.KeyFromSeed(seed)).Stream([]byte("T"))
			sampled, samples, ok := SampledIsotropy(src, h)
			if !ok || samples < 2*firstSamples || samples > mostSamples ||
				samples&(samples-1) != 0 {
				t.Errorf("seed %d: %d samples, %t", seed, samples, ok)
			}
			return sampled, samples
		}
		sampled, l := sample(h)
		if e := standardErrors(sampled, exact, l); e > 6 {
			t.Errorf("seed %d: T is %.1f standard errors off after %d samples", seed, e, l)
		}
		if wrong, l := sample(larger); standardErrors(wrong, exact, l) > 6 {
			noticed++
		}
		if e := standardErrors(pointsOfTheBoundary(seed, h, l), exact, l); e <= 6 {
			t.Errorf("seed %d: the test does not notice points of the boundary instead of K: "+
				"%.1f standard errors", seed, e)
		}
	}
	if noticed < 4 { // two early estimates can agree by chance, and few points tell little
		t.Errorf("the test notices the T of a hull 6 %% larger in %d of 5 runs", noticed)
	}
	if standardErrors(h.Body().Moment().Matrix, exact, firstSamples) <= 6 {
		t.Error("the test would take the moment for T")
	}
}

// pointsOfTheBoundary is a planted fault: T from points that lack the root of a uniform number.
func pointsOfTheBoundary(seed uint64, h *SensitivityHull, l int) convex.Matrix {
	src := noise.NewKeyed(noise.KeyFromSeed(seed)).Stream([]byte("boundary"))
	var m convex.Moment
	for range l {
		y := h.Body().Sectors().Boundary(noise.Uniform(src), noise.Uniform(src))
		m.XX += y.X * y.X / float64(l)
		m.XY += y.X * y.Y / float64(l)
		m.YY += y.Y * y.Y / float64(l)
	}
	m.Determinant = m.Det()
	t, _ := m.InverseRoot()
	return t
}

// TestSampledIsotropyEnds takes a hull of a few metres, whose T is large: sampling ends at its
// bound.
func TestSampledIsotropyEnds(t *testing.T) {
	t.Parallel()
	var h SensitivityHull
	h.OfPoints([]grid.Point{{}, {X: .001}, {Y: .001}})
	sampled, samples, ok := SampledIsotropy(noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil), &h)
	exact, _ := Isotropy(&h)
	if !ok || samples != mostSamples {
		t.Errorf("%d samples, want the bound %d", samples, mostSamples)
	}
	if e := standardErrors(sampled, exact, samples); e > 6 {
		t.Errorf("T is %.1f standard errors off", e)
	}
}

func TestNoIsotropyOfALine(t *testing.T) {
	t.Parallel()
	var h SensitivityHull
	h.OfPoints([]grid.Point{{}, {X: 1}})
	if _, ok := Isotropy(&h); ok {
		t.Error("a line has an isotropic position")
	}
	if _, _, ok := SampledIsotropy(&noSource{t}, &h); ok {
		t.Error("a line has a sampled isotropic position")
	}
}
