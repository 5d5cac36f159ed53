package audit

import (
	"math"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/law"
)

// TestEpsilonLowerBound adds up the binomial law: under the bound's q as many hits or more have the
// probability alpha.
func TestEpsilonLowerBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hits, misses int64 }{
		{1, 0}, {5, 0}, {1, 1}, {7, 3}, {60, 20}, {2000, 700}, {498_000, 182_000}, {40_000, 14_800},
	} {
		for _, alpha := range []float64{.05, 1e-3, 1e-6} {
			bound := epsilonLowerBound(c.hits, c.misses, alpha)
			q := 1 / (1 + math.Exp(-bound))
			if tail := binomialTail(c.hits+c.misses, c.hits, q); bound > 0 &&
				math.Abs(tail/alpha-1) > 1e-5 || bound == 0 && tail > alpha && q > .5 {
				t.Errorf("%d hits and %d misses at %g: bound %v, tail %v",
					c.hits, c.misses, alpha, bound, tail)
			}
		}
	}
	if b := epsilonLowerBound(0, 5, .05); b != 0 {
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

// TestExponents: another hull, another T, another vote and another likelihood are not the stated
// law.
func TestExponents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		settings   func(tb testing.TB) Settings
		spoil      func(l *stated)
	}{
		{"lattice", "", townSettings, func(*stated) {}},
		{"codebook", "", coded, func(*stated) {}},
		{"half of the set", "hull", townSettings, func(l *stated) {
			l.k = hullOf(l.cells[:len(l.cells)/2], l.grid.Width())
		}},
		{"half of the set", "differ by more", townSettings, func(l *stated) {
			l.k = hullOf(l.cells[:len(l.cells)/2], l.grid.Width())
		}},
		{"another ε", "likelihood", townSettings, func(l *stated) { l.options.Epsilon *= 1.001 }},
		{"another T", "weight", coded, func(l *stated) { l.options.Epsilon += 1e-9 }},
		{"another likelihood", "likelihood", coded, func(l *stated) { l.code.other *= 1.001 }},
		{"another vote", "votes", coded, func(l *stated) { l.code.points[0].X += law.CodeSteps }},
	} {
		p, err := newPlan(Engine, c.settings(t), Sizes{Users: 1}, 3)
		if err != nil {
			t.Fatal(err)
		}
		all, err := forcedSituations(p)
		if err != nil {
			t.Fatal(err)
		}
		checks := newProbeChecks()
		c.spoil(all[0].law)
		exponents(all[0].law, &checks.exponents, p.rng("exponents", 0))
		found := strings.Join(checks.exponents.Details, "; ")
		if (found != "") != (c.want != "") || !strings.Contains(found, c.want) ||
			checks.exponents.Trials == 0 {
			t.Errorf("%s: %q, want %q", c.name, found, c.want)
		}
	}
}
