package audit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestEpsilonLowerBound adds up the binomial law: under the bound's q as many hits or more have the
// probability alpha.
func TestEpsilonLowerBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hits, misses int64 }{
		{1, 0}, {5, 0}, {1, 1}, {7, 3}, {60, 20}, {2000, 700}, {498_000, 182_000}, {40_000, 14_800},
	} {
		for _, alpha := range []float64{.05, 1e-3, 1e-6} {
			bound := EpsilonLowerBound(c.hits, c.misses, alpha)
			q := 1 / (1 + math.Exp(-bound))
			if tail := binomialTail(c.hits+c.misses, c.hits, q); bound > 0 &&
				math.Abs(tail/alpha-1) > 1e-5 || bound == 0 && tail > alpha && q > .5 {
				t.Errorf("%d hits and %d misses at %g: bound %v, tail %v",
					c.hits, c.misses, alpha, bound, tail)
			}
		}
	}
	if b := EpsilonLowerBound(0, 5, .05); b != 0 {
		t.Errorf("no hit gives %v", b)
	}
}

// binomialTail is P(X ≥ k) of n trials.
func binomialTail(n, k int64, q float64) float64 {
	log := func(x int64) float64 { l, _ := math.Lgamma(float64(x) + 1); return l }
	sum := 0.0
	for i := k; i <= n && i < k+200_000; i++ {
		sum += math.Exp(
			log(n) - log(i) - log(n-i) + float64(i)*math.Log(q) + float64(n-i)*math.Log1p(-q))
	}
	return sum
}

// TestImpossible: what is called impossible is; every sum that is made is possible.
func TestImpossible(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 1))
	found := 0
	for range 200_000 {
		// Without the conversions arm64 fuses a product with a sum below, so that the sum starts at
		// another place.
		x, other := float64((float64(r.IntN(60))+.5)*.34), float64((float64(r.IntN(60))+.5)*.34)
		z := x + float64(r.NormFloat64()*math.Ldexp(1, r.IntN(14)-7))
		if impossible(z, x) {
			t.Fatalf("%x = %x + noise is called impossible", z, x)
		}
		if impossible(z, other) {
			found++
			// No float64 near the difference leads there.
			for n, i := z-other, 0; i < 40; i++ {
				if other+n == z {
					t.Fatalf("%x = %x + %x is called impossible", z, other, n)
				}
				n = math.Nextafter(n, math.Inf(2*(i&1)-1))
			}
		}
	}
	if found < 5000 {
		t.Errorf("certainty in %d cases only", found)
	}
}
