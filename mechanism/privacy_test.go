package mechanism

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// rounding is how far float64 may carry a ratio of densities above e^ε.
const rounding = 1e-9

// scene is a random map with a prior, its location set and everything of a release.
type scene struct {
	grid    *grid.Grid
	prior   *mobility.Distribution
	set     law.LocationSet
	hull    law.SensitivityHull
	search  law.Surrogates
	epsilon float64
}

func randomScene(tb testing.TB, r *rand.Rand) *scene {
	tb.Helper()
	g, err := grid.Plain(1+r.IntN(9), 1+r.IntN(9), .1+r.Float64())
	if err != nil {
		tb.Fatal(err)
	}
	s := &scene{
		grid: g, prior: testcase.Prior(r, g.Cells()),
		epsilon: []float64{.1, 1, 5}[r.IntN(3)],
	}
	s.set.Choose(s.prior, []float64{.01, .1, .5}[r.IntN(3)])
	s.hull.OfCells(g, s.set.Cells)
	s.search.Reset(g, s.set.Cells)
	return s
}

// releases returns places a release may come to: drawn ones, centres of cells, and for each vertex
// v of K the place x+v, where the ratio of densities for x and x+v's neighbour is greatest.
func (s *scene) releases(src noise.Source, m law.Mechanism) []grid.Point {
	x := s.grid.Centre(s.set.Cells[0])
	z := []grid.Point{x, s.grid.Centre(s.set.Cells[len(s.set.Cells)-1])}
	for range 5 {
		z = append(z, m.Sample(src, s.set.Cells[0]))
	}
	if s.hull.Body().Dim() == 2 || m.Name() == law.Laplace || m.Name() == law.LaplaceTight {
		for _, v := range s.hull.Body().Vertices() {
			z = append(z, grid.Point{X: x.X + 3*v.X, Y: x.Y + 3*v.Y})
		}
	}
	return z
}

// worstRatio returns the greatest difference of log densities over all pairs of places and over the
// given releases, in units of ε.
func worstRatio(m law.Mechanism, epsilon float64, z []grid.Point, places []convex.Vec) float64 {
	worst := 0.0
	e := make([]float64, len(places))
	for _, at := range z {
		m.Exponents(e, at, places)
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, x := range e {
			lo, hi = min(lo, x), max(hi, x)
		}
		if !math.IsInf(hi, -1) {
			worst = max(worst, (hi-lo)/epsilon)
		}
	}
	return worst
}

// TestEveryReleaseIsPrivate checks the definition itself: density ratios of every pair of cells,
// through their surrogates, are at most e^ε; on the location set alone this is the paper's
// ε-differential privacy.
func TestEveryReleaseIsPrivate(t *testing.T) {
	t.Parallel()
	for _, name := range law.HullNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(51, 1))
			src := noise.NewKeyed(noise.KeyFromSeed(51)).Stream([]byte(name))
			m := mustMechanism(t, name)
			greatest := 0.0
			for i := range 300 {
				s := randomScene(t, r)
				m.Prepare(&s.hull, s.epsilon)
				centre := centres(nil, s.grid, s.set.Cells)
				var emission []convex.Vec
				for _, member := range s.search.All(nil, testcase.AllCells(s.grid)) {
					emission = append(emission, centre[member])
				}
				ratio := worstRatio(m, s.epsilon, s.releases(src, m), emission)
				if ratio > 1+rounding {
					t.Fatalf("scene %d: some pair of cells has a log ratio of %g ε", i, ratio)
				}
				greatest = max(greatest, ratio)
			}
			if greatest < .999 {
				t.Errorf("the test never comes near the bound: %g ε", greatest)
			}
		})
	}
}

// TestPrivacyTestNoticesFaults plants noise that is too small: the ratio must exceed ε.
func TestPrivacyTestNoticesFaults(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(52, 1))
	src := noise.NewKeyed(noise.KeyFromSeed(52)).Stream(nil)
	noticed := map[string]bool{}
	for range 100 {
		s := randomScene(t, r)
		if s.hull.Body().Dim() < 2 {
			continue
		}
		centre := centres(nil, s.grid, s.set.Cells)
		for _, fault := range []struct {
			name, mechanism string
			plant           func(law.Mechanism)
		}{
			{"half K", law.KNorm, func(m law.Mechanism) { m.Prepare(halved(&s.hull), s.epsilon) }},
			{"2ε", law.KNorm, func(m law.Mechanism) { m.Prepare(&s.hull, 2*s.epsilon) }},
			{
				"half of Δ1+Δ2", law.Laplace,
				func(m law.Mechanism) { m.Prepare(&s.hull, 2.1*s.epsilon) },
			},
		} {
			m := mustMechanism(t, fault.mechanism)
			m.Prepare(&s.hull, s.epsilon)
			z := s.releases(src, m)
			fault.plant(m)
			if worstRatio(m, s.epsilon, z, centre) > 1+rounding {
				noticed[fault.name] = true
			}
		}
		// The true cell outside the set, released from its own place: what the surrogate is for.
		m := mustMechanism(t, law.KNorm)
		m.Prepare(&s.hull, s.epsilon)
		if worstRatio(m, s.epsilon, s.releases(src, m),
			centres(nil, s.grid, testcase.AllCells(s.grid))) > 1+rounding {
			noticed["no surrogate"] = true
		}
	}
	for _, name := range []string{"half K", "2ε", "half of Δ1+Δ2", "no surrogate"} {
		if !noticed[name] {
			t.Errorf("the privacy test does not notice: %s", name)
		}
	}
}

func halved(h *law.SensitivityHull) *law.SensitivityHull {
	half := new(law.SensitivityHull)
	var places []grid.Point
	for _, v := range h.Body().Vertices() {
		places = append(places, grid.Point{X: v.X / 4, Y: v.Y / 4})
	}
	half.OfPoints(places)
	return half
}

// posteriorRatio returns the greatest |ln posterior/prior| over the cells, in units of ε.
func posteriorRatio(prior *mobility.Distribution, likelihood []float64, epsilon float64) float64 {
	var posterior mobility.Distribution
	if _, ok := mobility.Update(&posterior, prior, likelihood); !ok {
		return 0
	}
	dense := map[grid.Cell]float64{}
	for i, c := range posterior.Cells {
		dense[c] = posterior.P[i]
	}
	worst := 0.0
	for i, c := range prior.Cells {
		worst = max(worst, math.Abs(math.Log(dense[c]/prior.P[i]))/epsilon)
	}
	return worst
}

// storeRatio is posteriorRatio of what a step keeps: by store, rounded to float32, with a threshold
// of pruning.
func storeRatio(
	prior *mobility.Distribution, likelihood []float64, epsilon, prune float64,
) float64 {
	var posterior mobility.Distribution
	store(&posterior, prior, slices.Clone(likelihood), prune)
	worst, j := 0.0, 0
	for i, c := range prior.Cells {
		p := 0.0
		if j < posterior.Len() && posterior.Cells[j] == c {
			p = posterior.P[j]
			j++
		}
		worst = max(worst, math.Abs(math.Log(p/prior.P[i]))/epsilon)
	}
	return worst
}

// TestPosteriorStaysWithinEpsilonOfPrior checks what an observer can learn, for priors of any
// shape, also ones that the location set was not made from: by the definition, and by store, which
// makes the posteriors that are kept, before it prunes.
func TestPosteriorStaysWithinEpsilonOfPrior(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(53, 1))
	src := noise.NewKeyed(noise.KeyFromSeed(53)).Stream(nil)
	paper, pruned := 0.0, 0.0
	for i := range 400 {
		s := randomScene(t, r)
		for _, name := range law.HullNames() {
			m := mustMechanism(t, name)
			m.Prepare(&s.hull, s.epsilon)
			for _, z := range s.releases(src, m) {
				for _, prior := range []*mobility.Distribution{
					s.prior,
					testcase.Prior(r, s.grid.Cells()),
				} {
					var f Inference
					nearest := s.search.All(nil, prior.Cells)
					likelihood := f.Surrogate(m, z, centres(nil, s.grid, s.set.Cells), nearest)
					if ratio := posteriorRatio(prior, likelihood, s.epsilon); ratio > 1+rounding {
						t.Fatalf("scene %d, %s: |ln posterior/prior| = %g ε", i, name, ratio)
					}
					// Rounding to float32 changes a probability by up to 2⁻²⁴ of it.
					ratio := storeRatio(prior, likelihood, s.epsilon, -1)
					if ratio > 1+1e-7/s.epsilon {
						t.Fatalf("scene %d, %s: |ln posterior/prior| of what is kept = %g ε", i,
							name, ratio)
					}
					pruned = max(pruned, storeRatio(prior, likelihood, s.epsilon, MaxPrune))
					paper = max(paper, posteriorRatio(prior,
						f.Paper(m, z, centres(nil, s.grid, prior.Cells)), s.epsilon))
				}
			}
		}
	}
	if paper <= 1+rounding {
		t.Errorf("the test does not notice the paper's inference, which breaks the bound: %g ε",
			paper)
	}
	if !math.IsInf(pruned, 1) {
		t.Errorf("the test does not notice a pruned cell, whose posterior is 0: %g ε", pruned)
	}
}

func TestPaperInferenceOnALine(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(3, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	prior := mobility.Distribution{
		Cells: testcase.AllCells(g),
		P:     []float64{.01, .01, .01, .3, .3, .34, .01, .01, .01},
	}
	var set law.LocationSet
	set.Choose(&prior, .1)
	var h law.SensitivityHull
	h.OfCells(g, set.Cells)
	m := mustMechanism(t, law.PIM)
	m.Prepare(&h, 1)
	z := m.Sample(noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil), 4)
	var f Inference
	for i, l := range f.Paper(m, z, centres(nil, g, prior.Cells)) {
		if onLine := g.Row(grid.Cell(i)) == 1; onLine != (l > 0) {
			t.Errorf("cell %d: likelihood %g", i, l)
		}
	}
}
