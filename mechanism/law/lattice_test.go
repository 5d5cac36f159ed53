package law

import (
	"math"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/oracle"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/noise"
)

func newLattice(tb testing.TB, parts int) *lattice {
	tb.Helper()
	m, err := New(Options{Name: Lattice, Subdivision: parts})
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*lattice)
}

func hullOf(g *grid.Grid, cells ...grid.Cell) *SensitivityHull {
	h := new(SensitivityHull)
	h.OfCells(g, cells)
	return h
}

// steps reads a release back as whole steps from the centre of cell 0. It fails the test where a
// release is not the place that steps stand for.
func (m *lattice) steps(tb testing.TB, z grid.Point) convex.Lattice {
	tb.Helper()
	at := func(km float64) int64 {
		return int64(math.Round((km/m.hull.scale - .5) * float64(m.parts)))
	}
	s := convex.Lattice{X: at(z.X), Y: at(z.Y)}
	if m.place(convex.Lattice{}, s) != z {
		tb.Fatalf("release %v is not on the lattice", z)
	}
	return s
}

// latticeLaw returns the probabilities of all displacements of up to 150 steps on each axis, of a
// line of up to 2000, by the definition, and what is left.
func latticeLaw(m *lattice) (p map[convex.Lattice]float64, rest float64) {
	p = map[convex.Lattice]float64{}
	total := 0.0
	add := func(v convex.Lattice) {
		if n, d := testcase.ExactGauge(m.hull.exact, v); d != 0 {
			p[v] = math.Exp(-m.epsilon * float64(n) / float64(d) / float64(m.parts))
			total += p[v]
		}
	}
	const reach, far = 150, 2000
	for x := int64(-far); x <= far; x++ {
		if m.hull.body.Dim() == 1 {
			add(convex.Lattice{X: x * m.step.X, Y: x * m.step.Y})
			continue
		}
		for y := int64(-reach); y <= reach && x >= -reach && x <= reach; y++ {
			add(convex.Lattice{X: x, Y: y})
		}
	}
	m.sum()
	for v := range p {
		p[v] /= m.mass
	}
	return p, 1 - total/m.mass
}

// latticeFit compares draws of displacements with the law, by oracle.ChiSquare.
func latticeFit(p map[convex.Lattice]float64, draw func() convex.Lattice, n int) float64 {
	drawn := map[convex.Lattice]int{}
	for range n {
		drawn[draw()]++
	}
	var counts []int
	var law []float64
	for v, probability := range p {
		counts, law = append(counts, drawn[v]), append(law, probability)
	}
	return oracle.ChiSquare(counts, law, n)
}

// latticeCases are hulls whose law has few enough outcomes to be compared one by one.
func latticeCases(tb testing.TB) map[string]*lattice {
	tb.Helper()
	g := testcase.Grid(tb, 12, 12, .34)
	cases := map[string]*lattice{}
	for _, c := range []struct {
		name    string
		parts   int
		epsilon float64
		cells   []grid.Cell
	}{
		{"triangle", 3, 1.5, []grid.Cell{0, 1, 12}},
		{"square", 2, 2, []grid.Cell{0, 1, 12, 13}},
		{"diamond", 2, 3.1, []grid.Cell{1, 12, 14, 25}},
		{"crooked", 1, 2.25, []grid.Cell{3, 4, 13, 29, 40, 62}},
		{"thin", 2, 2.5, []grid.Cell{0, 13, 26, 39, 40, 53}},
		{"thin and steep", 1, 3, []grid.Cell{0, 25, 49, 74, 98, 99}},
		{"horizontal line", 5, 1.2, []grid.Cell{0, 1, 3}},
		{"line of slope 2", 3, .7, []grid.Cell{0, 25, 50}},
		{"two cells", 1, 1, []grid.Cell{0, 13}},
		{"fine", 7, 12, []grid.Cell{0, 1, 12}},
		{"large ε", 2, 40, []grid.Cell{0, 2, 12, 40}},
	} {
		m := newLattice(tb, c.parts)
		m.Prepare(hullOf(g, c.cells...), c.epsilon)
		cases[c.name] = m
	}
	return cases
}

const latticeDraws = 100_000

func TestLatticeLaw(t *testing.T) {
	t.Parallel()
	for name, m := range latticeCases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, rest := latticeLaw(m)
			if math.Abs(rest) > 1e-12 {
				t.Fatalf("the closed form of Z and the sum differ by %g", rest)
			}
			src := noise.NewKeyed(noise.KeyFromSeed(71)).Stream([]byte(name))
			const from = 65 // any cell: the draw is compared as a displacement
			centre := convex.Lattice{
				X: int64(from%12) * int64(m.parts),
				Y: int64(from/12) * int64(m.parts),
			}
			draw := func() convex.Lattice { return m.steps(t, m.Sample(src, from)).Sub(centre) }
			if ratio := latticeFit(p, draw, latticeDraws); ratio > 1 {
				t.Errorf("the statistic is %.2f times its limit", ratio)
			}
		})
	}
}

// TestLatticeLawNoticesFaults plants samplers that would break the guarantee, and wrong inner
// workings.
func TestLatticeLawNoticesFaults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"crooked", "thin"} {
		m := latticeCases(t)[name]
		p, _ := latticeLaw(m)
		src := noise.NewKeyed(noise.KeyFromSeed(72)).Stream([]byte(name))
		exact := func() convex.Lattice { return m.steps(t, m.Sample(src, 0)) }
		round := func(v convex.Vec) convex.Lattice {
			scale := m.hull.scale / float64(m.parts)
			return convex.Lattice{
				X: int64(math.Round(v.X / scale)),
				Y: int64(math.Round(v.Y / scale)),
			}
		}
		float := &direct{}
		float.Prepare(m.hull, m.epsilon)
		propose := func(second bool) convex.Lattice {
			a, b := signed(drawWord(src, m.scale[0])), signed(drawWord(src, m.scale[1]))
			if second {
				b = a
			}
			return convex.Lattice{
				X: a*m.base[0].X + b*m.base[1].X,
				Y: a*m.base[0].Y + b*m.base[1].Y,
			}
		}
		double := latticeCases(t)[name] // its draws for ε are those that half of K would have
		double.Prepare(m.hull, 2*m.epsilon)
		for fault, draw := range map[string]func() convex.Lattice{
			"half K": func() convex.Lattice { return double.steps(t, double.Sample(src, 0)) },
			"uniform on the perimeter": func() convex.Lattice {
				v := uniformOnPerimeter(src, m.hull.Body().Vertices())
				r := noise.Gamma(src, 2) / m.epsilon
				return round(convex.Vec{X: r * v.X, Y: r * v.Y})
			},
			"rounded floats": func() convex.Lattice {
				return round(displacement(float, src))
			},
			"one draw for both coordinates": func() convex.Lattice { return propose(true) },
			"every proposal kept":           func() convex.Lattice { return propose(false) },
			"the shorter of two draws": func() convex.Lattice {
				v, w := exact(), exact()
				if convex.Dot(w, w) < convex.Dot(v, v) {
					return w
				}
				return v
			},
			"zero drawn again": func() convex.Lattice {
				if v := exact(); v != (convex.Lattice{}) {
					return v
				}
				return exact()
			},
		} {
			if ratio := latticeFit(p, draw, latticeDraws); ratio <= 1 {
				t.Errorf("%s: the test does not notice %s: %.2f of its limit", name, fault, ratio)
			}
		}
	}
}

func drawWord(src noise.Source, scale [2]uint64) (uint64, bool) {
	size, negative := noise.DiscreteLaplace(src, scale[0], scale[1])
	return size.Lo, negative
}
