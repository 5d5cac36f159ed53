package law

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// rounding is how far float64 may carry a ratio of densities above e^ε.
const rounding = 1e-9

// scene is a random location set with its hull and an ε.
type scene struct {
	grid    *grid.Grid
	set     LocationSet
	hull    SensitivityHull
	epsilon float64
}

func randomScene(tb testing.TB, r *rand.Rand) *scene {
	tb.Helper()
	g := testcase.Grid(tb, 1+r.IntN(9), 1+r.IntN(9), .1+r.Float64())
	prior := testcase.Prior(r, g.Cells())
	s := &scene{grid: g, epsilon: []float64{.1, 1, 5}[r.IntN(3)]}
	s.set.Choose(prior, []float64{.01, .1, .5}[r.IntN(3)])
	s.hull.OfCells(g, s.set.Cells)
	return s
}

// places returns the centres of cells.
func places(g *grid.Grid, cells []grid.Cell) []convex.Vec {
	var v []convex.Vec
	for _, c := range cells {
		v = append(v, convex.Vec(g.Centre(c)))
	}
	return v
}

// TestFactorAgainstPairs compares the factor with the densities themselves, over all pairs of a
// set: for a pair x1, x2 the ratio is greatest at z = x1. No pair may exceed the factor for its
// distance, and over all sets some pair must come near.
func TestFactorAgainstPairs(t *testing.T) {
	t.Parallel()
	for _, name := range HullNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(81, 1))
			m := mustNew(t, name)
			nearest, dims := math.Inf(1), [3]int{}
			for i := range 400 {
				s := randomScene(t, r)
				if i%4 == 0 { // part of a row, a column or a diagonal
					width := grid.Cell(s.grid.Width())
					first, step := s.set.Cells[0], []grid.Cell{1, width, width + 1}[r.IntN(3)]
					last := first + step*grid.Cell(r.IntN(3))
					s.set.Cells = append(s.set.Cells[:0], first)
					if int(last) < s.grid.Cells() && last > first {
						s.set.Cells = append(s.set.Cells, last)
					}
					s.hull.OfCells(s.grid, s.set.Cells)
				}
				dims[s.hull.Body().Dim()]++
				m.Prepare(&s.hull, s.epsilon)
				centres := places(s.grid, s.set.Cells)
				e := make([]float64, len(centres))
				for j, x := range centres {
					m.Exponents(e, grid.Point(x), centres)
					for k, other := range centres {
						if j == k {
							continue
						}
						bound := math.Log(s.hull.Factor(name, s.epsilon,
							grid.Point(x).Distance(grid.Point(other))))
						if gap := (bound + e[k]) / s.epsilon; gap < -rounding {
							t.Fatalf("scene %d, ε = %g: a pair has the log ratio %g, and the "+
								"factor is e^%g", i, s.epsilon, -e[k], bound)
						} else {
							nearest = min(nearest, gap)
						}
					}
				}
			}
			if nearest > 1e-6 {
				t.Errorf("no pair comes nearer to the bound than %g ε", nearest)
			}
			if dims[0] < 10 || dims[1] < 10 || dims[2] < 100 {
				t.Errorf("poor cases: %v of dimension 0, 1, 2", dims)
			}
		})
	}
}

// TestFactorIsTheGreatestNorm goes round a circle: below the set's width the factor is the greatest
// norm of a vector so long, no more.
func TestFactorIsTheGreatestNorm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(82, 1))
	for i := range 200 {
		s := randomScene(t, r)
		if i%2 == 0 { // the same places without a grid
			var points []grid.Point
			for _, c := range s.set.Cells {
				points = append(points, s.grid.Centre(c))
			}
			s.hull.OfPoints(points)
		}
		if s.hull.Body().Dim() < 2 {
			continue
		}
		const d = 1e-3 // far below the cap
		knorm, sum := 0.0, 0.0
		for k := range 20_000 {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / 20_000)
			v := convex.Vec{X: d * cos, Y: d * sin}
			knorm = max(knorm, s.hull.Body().Gauge(v))
			sum = max(sum, math.Abs(v.X)+math.Abs(v.Y))
		}
		for name, norm := range map[string]float64{
			PIM: knorm, Lattice: knorm,
			Laplace: sum / s.hull.Extents(), LaplaceTight: sum / s.hull.Diameter1(),
		} {
			got := math.Log(s.hull.Factor(name, s.epsilon, d)) / s.epsilon
			// the circle's points miss the greatest by an angle of at most π/20000
			if math.Abs(got/norm-1) > 1e-6 {
				t.Fatalf("scene %d, %s: e^(ε·%g) at %g km, but the greatest norm is %g", i, name,
					got, d, norm)
			}
		}
		if w := s.hull.WidthKM(); math.Abs(math.Log(s.hull.Factor(KNorm, 1, w))-1) > rounding {
			t.Fatalf("scene %d: across its width of %g km the factor is not e^ε", i, w)
		}
	}
}
