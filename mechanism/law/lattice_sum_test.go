package law

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestLatticeSums compares the closed forms of Z and of the squared error with sums over a box, and
// with the continuous law's.
func TestLatticeSums(t *testing.T) {
	t.Parallel()
	for name, m := range latticeCases(t) {
		p, rest := latticeLaw(m)
		square := 0.0
		pitch := m.hull.scale / float64(m.parts)
		for v, probability := range p {
			square += probability * float64(convex.Dot(v, v)) * pitch * pitch
		}
		if math.Abs(rest) > 1e-9 || math.Abs(square/m.SquaredError()-1) > 1e-9 {
			t.Errorf("%s: Z is off by %g, the squared error is %g, want %g", name, rest,
				m.SquaredError(), square)
		}
	}
	r := rand.New(rand.NewPCG(74, 1))
	var float direct
	worst := 0.0
	for i := range 2000 {
		s := randomSet(t, r, i)
		if s.hull.body.Dim() == 0 || s.hull.body.Measure() > 20_000*s.hull.scale*s.hull.scale {
			continue
		}
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		float.Prepare(s.hull, s.Epsilon)
		x := s.Epsilon / float64(s.Parts)
		if x >= 1 {
			continue
		}
		off := (float.SquaredError() - m.SquaredError()) / float.SquaredError()
		if off < -1e-9 || off > x*x/12+1e-9 {
			t.Errorf("case %d: ε/n = %g: the squared error falls short by %g, more than (ε/n)²/12",
				i, x, off)
		}
		worst = max(worst, off/(x*x/12))
		if peak := m.LogPeak() - float.LogPeak(); peak > 1e-9 || peak < -x*x/6 {
			t.Errorf("case %d: ε/n = %g: the peak is off by %g", i, x, peak)
		}
	}
	if worst < .9 {
		t.Errorf("the bound is never neared: %g of it", worst)
	}
}

// TestLatticeAcceptance computes how many proposals are kept, Z over that of the proposals, for
// random sets of every kind, and counts draws for some.
func TestLatticeAcceptance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(75, 1))
	least, polygons := 1.0, 0
	for i := range 10_000 {
		s := randomSet(t, r, i)
		if s.hull.body.Dim() < 2 {
			continue
		}
		polygons++
		if i%3 == 0 && s.Epsilon < float64(s.Parts) { // noise of a few steps and of less than one
			s.Parts, s.Epsilon = 1, math.Round(1000*math.Exp(math.Log(MaxEpsilon)*r.Float64()))/1000
		}
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		area := s.hull.body.Measure() / s.hull.scale / s.hull.scale
		kept := 0.0
		if area < 20_000 || i%400 == 6 {
			kept = m.acceptance()
		} else { // the sum would take long, and is at least the integral: see PROOFS.md
			kept = m.leastAcceptance(area)
		}
		least = min(least, kept)
		if x := s.Epsilon / float64(s.Parts); x <= 1.19 && area < 20_000 &&
			m.leastAcceptance(area) < .2 {
			t.Fatalf("case %d: K %v, ε/n = %g: %g is proved only", i, s.hull.exact, x,
				m.leastAcceptance(area))
		}
		if kept < .2 || kept > 1+1e-9 {
			t.Fatalf("case %d: K %v, ε/n = %g: %g of all proposals are kept", i, s.hull.exact,
				s.Epsilon/float64(s.Parts), kept)
		}
		// Without the lattice: area/(2κ²w1w2) ≥ 1/4.
		smooth := area * float64(m.width[0]*m.width[1]) / (2 * float64(m.most) * float64(m.most))
		if smooth < .25-1e-12 {
			t.Fatalf("case %d: K %v: %g < 1/4", i, s.hull.exact, smooth)
		}
		if area < 20_000 && m.leastAcceptance(area) > kept+1e-9 {
			t.Fatalf("case %d: K %v: %g of all proposals are kept, less than proved", i,
				s.hull.exact, kept)
		}
		if area < 20_000 && i%100 == 0 {
			const n = 4000
			tries, src := 0, noise.NewKeyed(noise.KeyFromSeed(75)).Stream([]byte{byte(i / 100)})
			for range n {
				for ok := false; !ok; tries++ {
					_, ok = m.try(src, convex.Lattice{})
				}
			}
			// n successes of a geometric law: six standard errors of the number of tries.
			if want := n / kept; math.Abs(float64(tries)-want) > 6*math.Sqrt(n*(1-kept))/kept {
				t.Errorf("case %d: %d tries for %d draws, want about %.0f", i, tries, n, want)
			}
		}
	}
	if polygons < 5000 {
		t.Errorf("only %d polygons", polygons)
	}
	t.Logf("least acceptance of %d polygons: %.3f", polygons, least)
}

// acceptance is the share of proposals that are kept, for a polygon.
func (m *lattice) acceptance() float64 {
	m.sum()
	proposals := 1.0
	for _, s := range m.scale {
		proposals /= math.Tanh(float64(s[1]) / float64(s[0]) / 2) // Σ e^{-|k|/t} = coth(1/2t)
	}
	return m.mass / proposals
}

// leastAcceptance is what PROOFS.md proves of the share: Z is 2·area/(ε/n)² at least, and
// coth(1/2t) is at most 2t + 1/(6t).
func (m *lattice) leastAcceptance(area float64) float64 {
	rate := float64(m.num) / float64(m.den)
	kept := 2 * area / rate / rate
	for _, s := range m.scale {
		t := float64(s[0]) / float64(s[1])
		kept /= 2*t + 1/(6*t)
	}
	return kept
}
