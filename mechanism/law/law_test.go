package law

import (
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/noise"
)

func gamma2CDF(x float64) float64 { return 1 - math.Exp(-x)*(1+x) }

func laplaceCDF(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / 2
	}
	return 1 - math.Exp(-x)/2
}

func uniformCDF(x float64) float64 { return min(max(x, 0), 1) }

const lawEpsilon = 0.7

// sampler draws z - x for a hull.
type sampler func(src noise.Source, h *SensitivityHull) convex.Vec

func mechanismSampler(tb testing.TB, name, isotropy string) sampler {
	tb.Helper()
	m, err := New(Options{Name: name, Isotropy: isotropy})
	if err != nil {
		tb.Fatal(err)
	}
	return func(src noise.Source, h *SensitivityHull) convex.Vec {
		m.Prepare(h, lawEpsilon)
		return displacement(m, src)
	}
}

func mustNew(tb testing.TB, name string) Mechanism {
	tb.Helper()
	m, err := New(Options{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// displacement draws z - x, also for a hull of points without a grid where the mechanism has no
// need of cells.
func displacement(m Mechanism, src noise.Source) convex.Vec {
	if continuous, ok := m.(interface {
		sampleAt(src noise.Source, x grid.Point) grid.Point
	}); ok {
		return convex.Vec(continuous.sampleAt(src, grid.Point{}))
	}
	return convex.Vec(m.Sample(src, 0).Sub(m.(*lattice).hull.centre(0)))
}

// crookedHull is far from round and from upright, with sectors of very different sizes.
func crookedHull(tb testing.TB, cellKM float64) *SensitivityHull {
	tb.Helper()
	g, err := grid.Plain(32, 32, cellKM)
	if err != nil {
		tb.Fatal(err)
	}
	h := new(SensitivityHull)
	h.OfCells(g, []grid.Cell{3, 4, 40, 71, 204, 205, 340})
	if n := len(h.Body().Vertices()); n < 8 {
		tb.Fatalf("the hull has only %d vertices", n)
	}
	return h
}

// fit compares noise with the K-norm law of a polygon: the norm is Gamma(2, 1/ε), a direction
// falls into a sector with a probability proportional to its area, independently of the norm, and
// uniformly along its edge. Together that is the whole law. It returns each statistic over its
// limit: above 1 the hypothesis is rejected.
func fit(h *SensitivityHull, draw sampler, n int) map[string]float64 {
	src := noise.NewKeyed(noise.KeyFromSeed(41)).Stream([]byte("law"))
	body := h.Body()
	k := body.Vertices()
	const levels = 4
	quartile := [levels - 1]float64{0.9612788, 1.6783470, 2.6926345} // of Gamma(2)
	counts := make([]float64, levels*len(k))
	var norms, along []float64
	for range n {
		z := draw(src, h)
		norm := body.Gauge(z) * lawEpsilon
		norms = append(norms, norm)
		sector := sectorOf(k, z)
		level := 0
		for level < levels-1 && norm > quartile[level] {
			level++
		}
		counts[sector*levels+level]++
		v, w := k[sector], k[(sector+1)%len(k)]
		along = append(along, convex.Cross(v, z)/(convex.Cross(v, z)+convex.Cross(z, w)))
	}
	chi := 0.0
	for i, count := range counts {
		v, w := k[i/levels], k[(i/levels+1)%len(k)]
		expected := float64(n) / levels * convex.Cross(v, w) / 2 / body.Measure()
		chi += (count - expected) * (count - expected) / expected
	}
	return map[string]float64{
		"norm":   oracle.Kolmogorov(norms, gamma2CDF),
		"sector": chi / oracle.ChiSquareLimit(float64(len(counts)-1)),
		"edge":   oracle.Kolmogorov(along, uniformCDF),
	}
}

// sectorOf returns the number of the triangle (0, vertex i, vertex i+1) that holds the direction of
// z.
func sectorOf(k []convex.Vec, z convex.Vec) int {
	for i, v := range k {
		if convex.Cross(v, z) >= 0 && convex.Cross(z, k[(i+1)%len(k)]) > 0 {
			return i
		}
	}
	panic("a place without a direction")
}

func TestNormLaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		draw sampler
		cell float64
		n    int
	}{
		{"direct", mechanismSampler(t, KNorm, ""), .34, 30000},
		{"PIM, closed form", mechanismSampler(t, PIM, IsotropyClosedForm), .34, 30000},
		// Sampling T is fast on large cells, where 10⁻³ per kilometre is soon reached; the last
		// case is fast by sampling once.
		{"PIM, sampled", mechanismSampler(t, PIM, IsotropySampled), 10, 8000},
		{"PIM, one sampled transform", oneSampledTransform(t), .34, 30000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for what, ratio := range fit(crookedHull(t, c.cell), c.draw, c.n) {
				if ratio > 1 {
					t.Errorf("%s: the statistic is %.2f times its limit", what, ratio)
				}
			}
		})
	}
}

// oneSampledTransform is PIM with a T that was sampled once: cheap enough for many draws, and T is
// not the closed form.
func oneSampledTransform(t *testing.T) sampler {
	t.Helper()
	h := crookedHull(t, .34)
	transform, _, ok := SampledIsotropy(noise.NewKeyed(noise.KeyFromSeed(5)).Stream(nil), h)
	if exact, _ := Isotropy(h); !ok || transform == exact {
		t.Fatal("the sampled transform is the closed form")
	}
	return withTransform(transform, transform.Inverse(), 3)
}

// withTransform is Algorithm 2 with any transform, way back and shape.
func withTransform(there, back convex.Matrix, shape int) sampler {
	var image convex.Sectors
	return func(src noise.Source, h *SensitivityHull) convex.Vec {
		image.ResetImage(h.Body().Sectors(), there)
		z := back.Times(uniform(src, &image))
		r := noise.Gamma(src, shape) / lawEpsilon
		return convex.Vec{X: r * z.X, Y: r * z.Y}
	}
}

func TestNormLawNoticesFaults(t *testing.T) {
	t.Parallel()
	h := crookedHull(t, .34)
	transform, _ := Isotropy(h)
	skewed := transform
	skewed.XX *= 1.1
	var half SensitivityHull
	var places []grid.Point
	for _, v := range h.Body().Vertices() {
		// their differences are half of K
		places = append(places, grid.Point{X: v.X / 4, Y: v.Y / 4})
	}
	half.OfPoints(places)
	perimeter := func(src noise.Source, h *SensitivityHull) convex.Vec {
		p := uniformOnPerimeter(src, h.Body().Vertices())
		r := noise.Gamma(src, 2) / lawEpsilon
		return convex.Vec{X: r * p.X, Y: r * p.Y}
	}
	direct := mechanismSampler(t, KNorm, "")
	for _, c := range []struct {
		name, rejects string
		draw          sampler
	}{
		{"uniform on the perimeter", "sector", perimeter},
		{"Gamma(2) instead of Gamma(3)", "norm", withTransform(transform, transform.Inverse(), 2)},
		{"another way back than there", "sector", withTransform(transform, skewed.Inverse(), 3)},
		{"no way back", "sector", withTransform(transform, convex.Matrix{XX: 1, YY: 1}, 3)},
		{"half K", "norm", func(src noise.Source, _ *SensitivityHull) convex.Vec {
			return direct(src, &half)
		}},
		{
			"one half of the directions", "sector",
			func(src noise.Source, h *SensitivityHull) convex.Vec {
				if z := direct(src, h); z.X > 0 {
					return z
				} else {
					return z.Neg()
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if ratio := fit(h, c.draw, 30000)[c.rejects]; ratio <= 1 {
				t.Errorf("the %s test does not notice: %.2f of its limit", c.rejects, ratio)
			}
		})
	}
}

func uniformOnPerimeter(src noise.Source, k []convex.Vec) convex.Vec {
	length := func(i int) float64 {
		d := k[(i+1)%len(k)].Sub(k[i])
		return math.Sqrt(convex.Dot(d, d))
	}
	total := 0.0
	for i := range k {
		total += length(i)
	}
	at := total * noise.Uniform(src)
	i := 0
	for ; at > length(i) && i < len(k)-1; i++ {
		at -= length(i)
	}
	d := k[(i+1)%len(k)].Sub(k[i])
	return convex.Vec{X: k[i].X + d.X*at/length(i), Y: k[i].Y + d.Y*at/length(i)}
}

func TestLawOnALine(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(9, 9, .89)
	if err != nil {
		t.Fatal(err)
	}
	var h SensitivityHull
	h.OfCells(g, []grid.Cell{0, 19, 38, 57}) // a slope of 2
	u := h.Body().Vertices()[1]
	statistic := func(draw sampler) float64 {
		src := noise.NewKeyed(noise.KeyFromSeed(43)).Stream([]byte("line"))
		var sample []float64
		for range 20000 {
			z := draw(src, &h)
			if off := math.Abs(convex.Cross(u, z)); off > 1e-12*(1+convex.Dot(z, z)) {
				t.Fatalf("a release off the line by %g", off)
			}
			sample = append(sample, convex.Dot(u, z)/convex.Dot(u, u)*lawEpsilon)
		}
		return oracle.Kolmogorov(sample, laplaceCDF)
	}
	for _, name := range []string{PIM, KNorm} {
		if ratio := statistic(mechanismSampler(t, name, "")); ratio > 1 {
			t.Errorf("%s: the statistic is %.2f times its limit", name, ratio)
		}
	}
	wrong := func(src noise.Source, _ *SensitivityHull) convex.Vec {
		s := (2*noise.Uniform(src) - 1) * noise.Gamma(src, 3) / lawEpsilon
		return convex.Vec{X: s * u.X, Y: s * u.Y}
	}
	if ratio := statistic(wrong); ratio <= 1 {
		t.Errorf("the test does not notice Gamma(3) on a line: %.2f of its limit", ratio)
	}
}

func TestLaplaceLaw(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(11, 11, .34)
	if err != nil {
		t.Fatal(err)
	}
	h := new(SensitivityHull)
	// a diamond, on which the two sensitivities differ most
	h.OfCells(g, []grid.Cell{5, 55, 65, 115})
	statistic := func(draw sampler, sensitivity float64) float64 {
		src := noise.NewKeyed(noise.KeyFromSeed(44)).Stream([]byte("laplace"))
		var x, y, joint []float64
		for range 20000 {
			z := draw(src, h)
			x = append(x, z.X*lawEpsilon/sensitivity)
			y = append(y, z.Y*lawEpsilon/sensitivity)
			joint = append(joint, (math.Abs(z.X)+math.Abs(z.Y))*lawEpsilon/sensitivity)
		}
		// The ℓ1 norm is Gamma(2) only where the axes are independent.
		return max(oracle.Kolmogorov(x, laplaceCDF), oracle.Kolmogorov(y, laplaceCDF),
			oracle.Kolmogorov(joint, gamma2CDF))
	}
	if ratio := statistic(mechanismSampler(t, Laplace, ""), h.Extents()); ratio > 1 {
		t.Errorf("Laplace: %.2f times its limit", ratio)
	}
	if ratio := statistic(mechanismSampler(t, LaplaceTight, ""), h.Diameter1()); ratio > 1 {
		t.Errorf("tight Laplace: %.2f times its limit", ratio)
	}
	if h.Diameter1() >= h.Extents() {
		t.Fatal("the hull does not tell the two sensitivities apart")
	}
	if ratio := statistic(mechanismSampler(t, LaplaceTight, ""), h.Extents()); ratio <= 1 {
		t.Errorf("the test does not notice the wrong sensitivity: %.2f of its limit", ratio)
	}
	twice := func(src noise.Source, h *SensitivityHull) convex.Vec {
		v := noise.Laplace(src) * h.Extents() / lawEpsilon
		return convex.Vec{X: v, Y: v}
	}
	if ratio := statistic(twice, h.Extents()); ratio <= 1 {
		t.Errorf("the test does not notice one draw for both axes: %.2f of its limit", ratio)
	}
}

// TestSquaredErrors compares the closed forms with the mean of draws, within six standard errors:
// by the normal approximation each mechanism would fail by chance once in 5·10⁸ runs with fresh
// seeds. An ε that is a tenth off must be noticed.
func TestSquaredErrors(t *testing.T) {
	t.Parallel()
	h := crookedHull(t, .34)
	for _, name := range HullNames() {
		m := mustNew(t, name)
		m.Prepare(h, lawEpsilon)
		src := noise.NewKeyed(noise.KeyFromSeed(45)).Stream([]byte(name))
		const n = 20000
		sum, squares := 0.0, 0.0
		for range n {
			z := m.Sample(src, 38).Sub(h.centre(38))
			d := z.X*z.X + z.Y*z.Y
			sum += d
			squares += d * d
		}
		mean := sum / n
		slack := 6 * math.Sqrt((squares/n-mean*mean)/n)
		if math.Abs(mean-m.SquaredError()) > slack {
			t.Errorf("%s: mean squared error %g, closed form %g ± %g", name, mean, m.SquaredError(),
				slack)
		}
		for _, wrong := range []float64{.9 * lawEpsilon, 1.1 * lawEpsilon} {
			m.Prepare(h, wrong)
			if math.Abs(mean-m.SquaredError()) <= slack {
				t.Errorf("%s: the test takes ε = %g for %g", name, wrong, lawEpsilon)
			}
		}
	}
}

func TestSinglePlace(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(5, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	var h SensitivityHull
	h.OfCells(g, []grid.Cell{7})
	x := g.Centre(7)
	for _, name := range HullNames() {
		m := mustNew(t, name)
		m.Prepare(&h, 1)
		if z := m.Sample(&noSource{t}, 7); z != x {
			t.Errorf("%s: released %v, want the cell's centre", name, z)
		}
		e := make([]float64, 2)
		m.Exponents(e, x, []convex.Vec{convex.Vec(x), {X: 9, Y: 9}})
		if e[0] != 0 || !math.IsInf(e[1], -1) || m.LogPeak() != 0 || m.SquaredError() != 0 {
			t.Errorf("%s: not a point mass: exponents %v, peak %g, squared error %g", name, e,
				m.LogPeak(), m.SquaredError())
		}
	}
}

type noSource struct{ t testing.TB }

func (s *noSource) Uint64() uint64 {
	s.t.Error("a release took a random number too many")
	return 1
}
