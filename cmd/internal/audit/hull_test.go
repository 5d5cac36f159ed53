package audit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

// hull is the convex hull K of all differences of two cells of a location set. It is
// built from that definition, by code that the mechanism does not share, so a probe can
// compare the mechanism's own hull with it. Lengths are in cells.
type hull struct {
	corners []convex.Lattice // counter-clockwise; two on a line, one of a single cell
	cones   []float64        // cones[i]: share of the area before the sector of corner i
}

// hullOf returns K of the cells of a map of so many columns. A cell between two others of
// its row is no corner of the set's hull, so the ends of the rows are enough: with r rows
// of the set there are at most (2r)² differences, which are sorted.
func hullOf(cells []grid.Cell, width int) *hull {
	ends := rowEnds(cells, width)
	differences := make([]convex.Lattice, 0, len(ends)*len(ends))
	for _, a := range ends {
		for _, b := range ends {
			differences = append(differences, a.Sub(b))
		}
	}
	return newHull(monotoneChain(differences))
}

func rowEnds(cells []grid.Cell, width int) []convex.Lattice {
	var ends []convex.Lattice
	for _, c := range cells { // ascending, so the cells of a row follow each other
		at := convex.Lattice{X: int64(c) % int64(width), Y: int64(c) / int64(width)}
		if n := len(ends); n >= 2 && ends[n-1].Y == at.Y && ends[n-2].Y == at.Y {
			ends[n-1] = at
			continue
		}
		ends = append(ends, at)
	}
	return ends
}

// monotoneChain returns the corners of a hull (Andrew 1979, doi
// 10.1016/0020-0190(79)90072-3), without points on its sides.
func monotoneChain(points []convex.Lattice) []convex.Lattice {
	slices.SortFunc(points, func(a, b convex.Lattice) int {
		if a.X != b.X {
			return int(a.X - b.X)
		}
		return int(a.Y - b.Y)
	})
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	half := func(chain []convex.Lattice, p convex.Lattice, least int) []convex.Lattice {
		for len(chain) > least &&
			convex.Cross(chain[len(chain)-1].Sub(chain[len(chain)-2]),
				p.Sub(chain[len(chain)-1])) <= 0 {
			chain = chain[:len(chain)-1]
		}
		return append(chain, p)
	}
	var corners []convex.Lattice
	for _, p := range points {
		corners = half(corners, p, 1)
	}
	lower := len(corners)
	for _, p := range slices.Backward(points[:len(points)-1]) {
		corners = half(corners, p, lower)
	}
	return corners[:len(corners)-1] // the first point closes the hull
}

func newHull(corners []convex.Lattice) *hull {
	k := &hull{corners: corners, cones: make([]float64, len(corners))}
	total := 0.0
	for i := range corners {
		k.cones[i] = total
		total += float64(convex.Cross(corners[i], k.corner(i+1)))
	}
	for i := range k.cones {
		k.cones[i] /= total
	}
	return k
}

func (k *hull) corner(i int) convex.Lattice { return k.corners[i%len(k.corners)] }

// dim is 2, or 1 on a line, or 0 of a single cell.
func (k *hull) dim() int {
	switch len(k.corners) {
	case 0, 1:
		return 0
	case 2:
		return 1
	}
	return 2
}

// gauge returns the norm of a vector whose unit ball is K. It is infinite beside a line,
// and for whatever is not 0 where K is a point. O(corners).
func (k *hull) gauge(x, y float64) float64 {
	norm := 0.0
	switch k.dim() {
	case 0:
		if x != 0 || y != 0 {
			norm = math.Inf(1)
		}
	case 1:
		u := k.corners[1]
		along := float64(x*float64(u.X)) + float64(y*float64(u.Y))
		beside := float64(x*float64(u.Y)) - float64(y*float64(u.X))
		square := float64(u.X*u.X + u.Y*u.Y)
		if norm = math.Abs(along) / square; math.Abs(beside) > 1e-6*square {
			norm = math.Inf(1)
		}
	default:
		for i, c := range k.corners {
			edge := k.corner(i + 1).Sub(c)
			norm = max(norm, (float64(x*float64(edge.Y))-float64(y*float64(edge.X)))/float64(
				convex.Cross(c, edge)))
		}
	}
	return norm
}

// cone returns the share of K's area between a fixed direction and that of a vector,
// counter-clockwise, in [0, 1): a uniform number for K-norm noise. It is only for a K that
// has an area, and for a vector that is not 0.
func (k *hull) cone(x, y float64) float64 {
	for i, c := range k.corners {
		d := k.corner(i + 1)
		// (x, y) = a·c + b·d within the sector, with a and b ≥ 0.
		area := float64(convex.Cross(c, d))
		a := (float64(x*float64(d.Y)) - float64(y*float64(d.X))) / area
		b := (float64(float64(c.X)*y) - float64(float64(c.Y)*x)) / area
		if a < 0 || b < 0 || a+b == 0 {
			continue
		}
		next := 1.0
		if i+1 < len(k.cones) {
			next = k.cones[i+1]
		}
		return min(k.cones[i]+(next-k.cones[i])*b/(a+b), math.Nextafter(1, 0))
	}
	return 0
}

// TestHullIsTheHullOfDifferences compares with the mechanism's hull, and the gauge with its
// definition: every difference of two cells has a gauge of 1 at most, and the corners 1.
func TestHullIsTheHullOfDifferences(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 9))
	const width, height = 23, 17
	lines := 0
	for range 3000 {
		var cells []grid.Cell
		for range 1 + r.IntN(12) {
			cells = append(cells, grid.Cell(r.IntN(width*height)))
		}
		slices.Sort(cells)
		cells = slices.Compact(cells)
		k := hullOf(cells, width)
		want := convex.Difference(nil, convex.HullOfCells(nil, cells, width))
		if len(want) != len(k.corners) && k.dim() > 0 {
			t.Fatalf("%v has %d corners, want %d", cells, len(k.corners), len(want))
		}
		for _, c := range k.corners {
			if k.dim() > 0 && !slices.Contains(want, c) {
				t.Fatalf("%v: %v is no corner", cells, c)
			}
			if norm := k.gauge(float64(c.X), float64(c.Y)); k.dim() > 0 &&
				math.Abs(norm-1) > 1e-12 {
				t.Fatalf("%v: the corner %v has the gauge %v", cells, c, norm)
			}
		}
		for _, a := range cells {
			for _, b := range cells {
				x, y := int(a)%width-int(b)%width, int(a)/width-int(b)/width
				if norm := k.gauge(float64(x), float64(y)); norm > 1+1e-12 {
					t.Fatalf("%v: %d, %d has the gauge %v", cells, x, y, norm)
				}
			}
		}
		if k.dim() == 1 {
			lines++
			if u := k.corners[0]; !math.IsInf(k.gauge(float64(-u.Y), float64(u.X)), 1) {
				t.Fatalf("%v: beside the line the gauge is finite", cells)
			}
		}
	}
	if lines < 50 {
		t.Errorf("%d lines only", lines)
	}
}

// TestConeIsUniform: the shares of K's area that directions of uniform points have.
func TestConeIsUniform(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 9))
	k := hullOf([]grid.Cell{0, 3, 41, 67, 90}, 20)
	const points, parts = 40_000, 10
	var counts [parts]float64
	for n := 0; n < points; {
		x, y := 40*r.Float64()-20, 20*r.Float64()-10
		if norm := k.gauge(x, y); norm > 1 || norm == 0 {
			continue
		}
		counts[int(parts*k.cone(x, y))]++
		n++
	}
	sum := 0.0
	for _, n := range counts {
		sum += (n - points/parts) * (n - points/parts) / (points / parts)
	}
	if sum > 45 { // χ² of 9 degrees of freedom: below 10⁻⁶
		t.Errorf("χ² is %v: %v", sum, counts)
	}
}
