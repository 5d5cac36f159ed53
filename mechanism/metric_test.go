package mechanism

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// TestFactorAgainstPairs compares the factor with the densities themselves, over all pairs of a set: for a pair x1, x2 the ratio is greatest at
// z = x1. No pair may exceed the factor for its distance, and over all sets some pair must come near.
func TestFactorAgainstPairs(t *testing.T) {
	t.Parallel()
	for _, name := range mechanismNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(81, 1))
			m := mustMechanism(t, name)
			nearest, dims := math.Inf(1), [3]int{}
			for i := range 400 {
				s := randomScene(t, r)
				if i%4 == 0 { // part of a row, a column or a diagonal
					first, step := s.set.Cells[0], []grid.Cell{1, grid.Cell(s.grid.Width()), grid.Cell(s.grid.Width()) + 1}[r.IntN(3)]
					last := first + step*grid.Cell(r.IntN(3))
					s.set.Cells = append(s.set.Cells[:0], first)
					if int(last) < s.grid.Cells() && last > first {
						s.set.Cells = append(s.set.Cells, last)
					}
					s.hull.OfCells(s.grid, s.set.Cells)
				}
				dims[s.hull.Body().Dim()]++
				m.Prepare(&s.hull, s.epsilon)
				places := centres(nil, s.grid, s.set.Cells)
				e := make([]float64, len(places))
				for j, x := range places {
					m.Exponents(e, grid.Point(x), places)
					for k, other := range places {
						if j == k {
							continue
						}
						bound := math.Log(s.hull.Factor(name, s.epsilon, grid.Point(x).Distance(grid.Point(other))))
						if gap := (bound + e[k]) / s.epsilon; gap < -rounding {
							t.Fatalf("scene %d, ε = %g: a pair has the log ratio %g, and the factor is e^%g", i, s.epsilon, -e[k], bound)
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

// TestFactorIsTheGreatestNorm goes round a circle: below the set's width the factor is the greatest norm of a vector so long, no more.
func TestFactorIsTheGreatestNorm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(82, 1))
	for i := range 200 {
		s := randomScene(t, r)
		if i%2 == 0 { // the same places without a grid
			var places []grid.Point
			for _, c := range s.set.Cells {
				places = append(places, s.grid.Centre(c))
			}
			s.hull.OfPoints(places)
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
		for name, norm := range map[string]float64{PIM: knorm, Lattice: knorm, Laplace: sum / s.hull.Extents(), LaplaceTight: sum / s.hull.Diameter1()} {
			got := math.Log(s.hull.Factor(name, s.epsilon, d)) / s.epsilon
			if math.Abs(got/norm-1) > 1e-6 { // the circle's points miss the greatest by an angle of at most π/20000
				t.Fatalf("scene %d, %s: e^(ε·%g) at %g km, but the greatest norm is %g", i, name, got, d, norm)
			}
		}
		if w := s.hull.WidthKM(); math.Abs(math.Log(s.hull.Factor(KNorm, 1, w))-1) > rounding {
			t.Fatalf("scene %d: across its width of %g km the factor is not e^ε", i, w)
		}
	}
}

// TestMetricHoldsForPositions draws positions anywhere in the cells of a set and compares the releases of the cells they fall into.
func TestMetricHoldsForPositions(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	r := rand.New(rand.NewPCG(83, 1))
	for _, name := range []string{PIM, Laplace, LaplaceTight} {
		s := newSanitizer(t, model, Options{Mechanism: name, Epsilon: 2, Delta: .01})
		var state State
		if _, ok := s.Metric(); ok {
			t.Errorf("%s: a metric before any release", name)
		}
		moved, most := 0, 0.0
		for i, cell := range walk(model, 4, 40) {
			mustStep(t, s, &state, Input{User: "u", Step: int64(i), Cell: cell, Release: true})
			m, ok := s.Metric()
			if !ok || m.Within200M > m.Within1KM || m.Within1KM > m.Across || m.Across > math.Exp(2)*(1+rounding) {
				t.Fatalf("%s: %+v, %t", name, m, ok)
			}
			for range 300 {
				a := s.set.Cells[r.IntN(len(s.set.Cells))]
				p := s.model.Grid.Centre(a).Add(grid.Point{X: (r.Float64() - .5) * .34, Y: (r.Float64() - .5) * .34})
				angle, far := 2*math.Pi*r.Float64(), []float64{.2, 1}[r.IntN(2)]
				b := s.model.Grid.CellAt(p.Add(grid.Point{X: far * math.Cos(angle), Y: far * math.Sin(angle)}))
				if s.set.Cells[testcase.Surrogate(s.model.Grid, s.set.Cells, b)] != b {
					continue // outside the set, where no more than e^ε is said
				}
				e := make([]float64, 1)
				x, y := s.model.Grid.Centre(a), s.model.Grid.Centre(b)
				s.mechanism.Exponents(e, x, []convex.Vec{convex.Vec(y)})
				bound := m.Within200M
				if far == 1 {
					bound = m.Within1KM
				}
				if math.Exp(-e[0]) > bound*(1+rounding) {
					t.Fatalf("%s: two positions %g km apart are told apart by %g, above %g", name, far, math.Exp(-e[0]), bound)
				}
				if a != b {
					moved++
				}
				most = max(most, math.Exp(-e[0])/bound)
			}
		}
		if moved < 100 || most < .8 {
			t.Errorf("%s: poor cases: %d pairs in two cells, the bound reached up to a factor %g", name, moved, most)
		}
		mustStep(t, s, &state, Input{User: "u", Step: 39, Release: true})
		if _, ok := s.Metric(); ok {
			t.Errorf("%s: a repeat has a metric", name)
		}
	}
}

func TestMetricOfOneCell(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, MinCells: -1})
	mustStep(t, s, new(State), Input{User: "u", Cell: 3, Release: true})
	if m, ok := s.Metric(); !ok || m != (Metric{Within200M: 1, Within1KM: 1, Across: 1}) {
		t.Errorf("a release that says nothing: %+v, %t", m, ok)
	}
}
