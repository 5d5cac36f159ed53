package testcase

import (
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// ExactSet is a location set with the parameters of a release from it on a lattice. Places are
// whole steps.
type ExactSet struct {
	Grid    *grid.Grid
	Cells   []grid.Cell // ascending
	Epsilon float64
	Parts   int // steps of the lattice in a cell's side
}

// RandomExactSet returns the i-th set of a kind that goes round: scattered cells, patches, lines,
// slivers, pairs, large maps, one cell.
func RandomExactSet(tb testing.TB, r *rand.Rand, i int) ExactSet {
	tb.Helper()
	width, height := 2+r.IntN(30), 2+r.IntN(30)
	if i%8 == 6 {
		width, height = 200+r.IntN(800), 200+r.IntN(800)
	}
	g := Grid(tb, width, height, .05+r.Float64())
	chosen := map[grid.Cell]bool{}
	add := func(x, y int) {
		if x >= 0 && y >= 0 && x < width && y < height {
			chosen[grid.Cell(y*width+x)] = true
		}
	}
	x0, y0 := r.IntN(width), r.IntN(height)
	switch i % 8 {
	case 0, 6:
		for range 1 + r.IntN(25) {
			add(r.IntN(width), r.IntN(height))
		}
	case 1:
		for range 60 {
			add(x0+r.IntN(5)-2, y0+r.IntN(5)-2)
		}
	case 2: // a line of any slope
		dx, dy := r.IntN(7)-3, r.IntN(7)-3
		for k := range 1 + r.IntN(12) {
			add(x0+k*dx, y0+k*dy)
		}
	case 3, 4: // a sliver: near a line of any slope
		dx, dy := r.Float64()*float64(width), r.Float64()*float64(height)
		wide := 1 + float64(i%8-3)*2*r.Float64()
		for range 3 + r.IntN(20) {
			t := r.Float64()
			add(int(t*dx+wide*r.Float64()), int(t*dy+wide*r.Float64()))
		}
	case 5:
		add(r.IntN(width), r.IntN(height))
	}
	add(x0, y0)
	s := ExactSet{
		Grid: g, Epsilon: []float64{.01, .1, .5, 1, 2.5, 12, 100}[r.IntN(7)],
		Parts: []int{1, 2, 3, 16, 256, 1000}[r.IntN(6)],
	}
	if s.Epsilon > float64(s.Parts) { // noise of less than a step: rare here
		s.Epsilon = float64(s.Parts) * r.Float64()
		s.Epsilon = max(math.Round(s.Epsilon*1000)/1000, .001)
	}
	s.Cells = slices.Sorted(maps.Keys(chosen))
	return s
}

// At returns a cell's centre in steps from the centre of cell 0.
func (s *ExactSet) At(c grid.Cell) convex.Lattice {
	return convex.Lattice{X: int64(s.Grid.Column(c) * s.Parts), Y: int64(s.Grid.Row(c) * s.Parts)}
}

// Steps reads a release back as whole steps from the centre of cell 0. It fails the test where the
// release is not the very place that these steps stand for.
func (s *ExactSet) Steps(tb testing.TB, z grid.Point) convex.Lattice {
	tb.Helper()
	n, side := int64(s.Parts), s.Grid.CellKM()
	steps := func(km float64) int64 { return int64(math.Round((km/side - .5) * float64(n))) }
	place := func(steps int64) float64 { return float64(2*steps+n) / float64(2*n) * side }
	v := convex.Lattice{X: steps(z.X), Y: steps(z.Y)}
	if (grid.Point{X: place(v.X), Y: place(v.Y)}) != z {
		tb.Fatalf("release %v is not on the lattice", z)
	}
	return v
}

// Hull returns the vertices of the sensitivity hull K, in cells.
func (s *ExactSet) Hull() []convex.Lattice {
	return convex.Difference(nil, convex.HullOfCells(nil, s.Cells, s.Grid.Width()))
}

// Sampler is what Check asks of a mechanism.
type Sampler interface {
	Sample(src noise.Source, x grid.Cell) grid.Point
}

// Check checks the definition of ε-differential privacy for one set in whole numbers. P(z|x) is
// e^{-(ε/n)·n‖z-x‖_K}/Z, so a ratio is at most e^ε where the gauges of z - x1 and z - x2
// differ by n at most. For all z at once that is ‖x1 - x2‖_K ≤ 1 for all pairs, by the
// triangle inequality; and for some z Check looks at the difference itself. emitting are the cells
// that releases are made from: the surrogates of all cells of the map, or the set where the map is
// too large.
//
// k is the hull that the gauges are of, m a mechanism that is prepared for the set. Check returns
// the greatest difference over n, and whether the definition holds.
func (s *ExactSet) Check(
	tb testing.TB, r *rand.Rand, m Sampler, k []convex.Lattice, emitting []grid.Cell,
) (*big.Rat, bool) {
	tb.Helper()
	var places []convex.Lattice
	for _, c := range emitting {
		places = append(places, s.At(c))
	}
	one := big.NewRat(1, 1)
	for i, a := range s.Cells {
		for _, b := range s.Cells[:i] {
			if n, d := ExactGauge(k, s.At(a).Sub(s.At(b))); d == 0 || n > d*int64(s.Parts) {
				return one, false
			}
		}
	}
	worst := new(big.Rat)
	for _, z := range s.releases(tb, r, m) {
		difference, together := worstDifference(k, z, places)
		if !together {
			return one, false
		}
		if difference.Quo(difference, big.NewRat(int64(s.Parts), 1)); difference.Cmp(worst) > 0 {
			worst = difference
		}
	}
	return worst, worst.Cmp(one) <= 0
}

// releases returns points of the lattice around a set: at and beyond the vertices of K from every
// place, where differences are greatest, near every place, and drawn ones.
func (s *ExactSet) releases(tb testing.TB, r *rand.Rand, m Sampler) []convex.Lattice {
	tb.Helper()
	n, hull := int64(s.Parts), s.Hull()
	base := s.At(s.Cells[r.IntN(len(s.Cells))])
	var z []convex.Lattice
	for _, v := range hull {
		z = append(z, base.Add(convex.Lattice{X: 3 * n * v.X, Y: 3 * n * v.Y}))
	}
	for range 3 {
		z = append(z, s.Steps(tb, m.Sample(r, s.Cells[0])))
		if len(hull) > 2 {
			z = append(z, base.Add(convex.Lattice{X: r.Int64N(41) - 20, Y: r.Int64N(41) - 20}))
		}
	}
	return append(z, base)
}

// ExactGauge returns ‖λ‖_K for K in cells and λ in steps from its definition, the greatest
// quotient over all edges, as a fraction. It is +∞ (the denominator 0) off a line and off a
// point.
func ExactGauge(k []convex.Lattice, v convex.Lattice) (num, den int64) {
	switch {
	case v == (convex.Lattice{}):
		return 0, 1
	case len(k) == 1:
		return 1, 0
	case len(k) == 2:
		if convex.Cross(k[1], v) != 0 {
			return 1, 0
		}
		n := convex.Dot(k[1], v)
		return max(n, -n), convex.Dot(k[1], k[1])
	}
	den = 1
	for i, p := range k {
		q := k[(i+1)%len(k)]
		edge := q.Sub(p)
		n, d := convex.Cross(v, edge), convex.Cross(p, edge)
		if n > 0 && less([2]int64{num, den}, [2]int64{n, d}) {
			num, den = n, d
		}
	}
	return num, den
}

// worstDifference returns the greatest difference of exponents ‖z-x‖_K over all pairs of
// places, each times n, as an exact fraction, and whether all or none of the places can emit z.
func worstDifference(
	k []convex.Lattice, z convex.Lattice, places []convex.Lattice,
) (*big.Rat, bool) {
	var low, high [2]int64
	for i, x := range places {
		n, d := ExactGauge(k, z.Sub(x))
		if i == 0 {
			low, high = [2]int64{n, d}, [2]int64{n, d}
		}
		if d == 0 || low[1] == 0 {
			if d != low[1] {
				return nil, false
			}
			continue
		}
		if less([2]int64{n, d}, low) {
			low = [2]int64{n, d}
		}
		if less(high, [2]int64{n, d}) {
			high = [2]int64{n, d}
		}
	}
	if low[1] == 0 {
		return new(big.Rat), true
	}
	return new(big.Rat).Sub(big.NewRat(high[0], high[1]), big.NewRat(low[0], low[1])), true
}

// less compares two fractions of positive denominators exactly.
func less(a, b [2]int64) bool {
	return noise.Product(uint64(a[0]), uint64(b[1])).Less(noise.Product(uint64(b[0]), uint64(a[1])))
}
