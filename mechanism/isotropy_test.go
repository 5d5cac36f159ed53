package mechanism

import (
	"fmt"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestSampledIsotropy compares Algorithm 2's estimate with the closed form: two successive estimates differ by less than 10⁻³, the
// last has twice the points, so its own error is about that size; 5·10⁻³ is never reached with these seeds, and the wrong
// exponent or the moment itself is off by more than .1.
func TestSampledIsotropy(t *testing.T) {
	t.Parallel()
	h := crookedHull(t, .34)
	exact, ok := Isotropy(h)
	if !ok {
		t.Fatal("a polygon has an isotropic position")
	}
	for seed := range uint64(5) {
		sampled, samples, ok := SampledIsotropy(noise.NewKeyed(noise.KeyFromSeed(seed)).Stream([]byte("T")), h)
		if !ok || samples < 2*firstSamples || samples > mostSamples || samples&(samples-1) != 0 {
			t.Errorf("seed %d: %d samples, %t", seed, samples, ok)
		}
		if d := frobenius(sampled, exact); d > 5*stability {
			t.Errorf("seed %d: T is off by %g after %d samples", seed, d, samples)
		}
	}
	if d := frobenius(h.Body().Moment().Matrix, exact); d < .1 {
		t.Errorf("the test would take the moment for T: they differ by %g", d)
	}
}

// TestSampledIsotropyEnds takes a hull of a few metres, whose T is large: sampling ends at its bound.
func TestSampledIsotropyEnds(t *testing.T) {
	t.Parallel()
	var h SensitivityHull
	h.OfPoints([]grid.Point{{}, {X: .001}, {Y: .001}})
	sampled, samples, ok := SampledIsotropy(noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil), &h)
	exact, _ := Isotropy(&h)
	if !ok || samples != mostSamples {
		t.Errorf("%d samples, want the bound %d", samples, mostSamples)
	}
	if d := frobenius(sampled, exact); d > .005*exact.XX {
		t.Errorf("T is off by %g of %g", d, exact.XX)
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

func ExampleIsotropy() {
	var h SensitivityHull
	h.OfPoints([]grid.Point{{X: 0, Y: 0}, {X: 4, Y: 0}, {X: 4, Y: 1}, {X: 0, Y: 1}}) // four places in a rectangle
	transform, _ := Isotropy(&h)
	m := h.Body().Moment()
	fmt.Printf("K has area %g and second moment diag(%.3f, %.3f); T = diag(%.3f, %.3f)\n",
		h.Body().Measure(), m.XX, m.YY, transform.XX, transform.YY)
	// Output:
	// K has area 16 and second moment diag(5.333, 0.333); T = diag(0.433, 1.732)
}
