package convex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteHull keeps the points that lie in no triangle or segment of others: O(n⁴), straight from
// the definition of a vertex.
func bruteHull(points []Lattice) []Lattice {
	var vertices []Lattice
	for i, p := range points {
		if slices.Contains(points[:i], p) {
			continue
		}
		if !insideOthers(p, points) {
			vertices = append(vertices, p)
		}
	}
	first := slices.MinFunc(vertices, func(a, b Lattice) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	slices.SortFunc(vertices, func(a, b Lattice) int {
		// around the first vertex, which sees all others within half a turn
		c := Cross(a.Sub(first), b.Sub(first))
		switch {
		case a == first || c > 0:
			return -1
		case b == first || c < 0:
			return 1
		}
		return 0
	})
	return vertices
}

func insideOthers(p Lattice, points []Lattice) bool {
	for _, a := range points {
		for _, b := range points {
			if a == p || b == p {
				continue
			}
			if Cross(b.Sub(a), p.Sub(a)) == 0 && Dot(p.Sub(a), p.Sub(b)) < 0 {
				return true
			}
			for _, c := range points {
				if c == p || Cross(b.Sub(a), c.Sub(a)) <= 0 {
					continue
				}
				if Cross(b.Sub(a), p.Sub(a)) >= 0 && Cross(c.Sub(b), p.Sub(b)) >= 0 &&
					Cross(a.Sub(c), p.Sub(c)) >= 0 {
					return true
				}
			}
		}
	}
	return false
}

func randomCells(r *rand.Rand, width, height int) []int32 {
	var cells []int32
	share := r.Float64()
	for c := range width * height {
		if r.Float64() < share {
			cells = append(cells, int32(c))
		}
	}
	if len(cells) == 0 {
		cells = append(cells, int32(r.IntN(width*height)))
	}
	return cells
}

func points(cells []int32, width int) []Lattice {
	var p []Lattice
	for _, c := range cells {
		p = append(p, Lattice{int64(c) % int64(width), int64(c) / int64(width)})
	}
	return p
}

func TestHullOfCellsAgainstDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 600 {
		width, height := 1+r.IntN(6), 1+r.IntN(6)
		cells := randomCells(r, width, height)
		want := bruteHull(points(cells, width))
		if got := HullOfCells(nil, cells, width); !slices.Equal(got, want) {
			t.Fatalf("case %d: hull of cells %v (width %d): got %v, want %v",
				i, cells, width, got, want)
		}
		if got := Hull(nil, points(cells, width)); !slices.Equal(got, want) {
			t.Fatalf("case %d: hull of points of %v (width %d): got %v, want %v",
				i, cells, width, got, want)
		}
	}
}

func TestDifferenceAgainstAllPairs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 1))
	for i := range 600 {
		width, height := 1+r.IntN(20), 1+r.IntN(20)
		cells := randomCells(r, width, height)
		p := points(cells, width)
		hull := HullOfCells(nil, cells, width)
		var all []Lattice
		for _, a := range hull {
			for _, b := range hull {
				all = append(all, a.Sub(b))
			}
		}
		want := Hull(nil, all)
		got := Difference(nil, hull)
		if !slices.Equal(got, want) {
			t.Fatalf("case %d: K of %v: got %v, want %v", i, p, got, want)
		}
		checkSymmetric(t, got)
	}
}

func checkSymmetric[T Number](t *testing.T, k []Point[T]) {
	t.Helper()
	if len(k) == 1 {
		return
	}
	for i, v := range k[:len(k)/2] {
		if k[i+len(k)/2] != v.Neg() {
			t.Fatalf("K is not symmetric: vertices %v and %v", v, k[i+len(k)/2])
		}
	}
}

func TestDifferenceOfPointsIsSymmetricAndConvex(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		var p []Vec
		for range 1 + r.IntN(12) {
			p = append(p, Vec{r.NormFloat64(), 3 * r.NormFloat64()})
		}
		k := Difference(nil, Hull(nil, p))
		checkSymmetric(t, k)
		for i := range k {
			if len(k) < 3 {
				break
			}
			a, b, c := k[i], k[(i+1)%len(k)], k[(i+2)%len(k)]
			if Cross(b.Sub(a), c.Sub(b)) < -1e-12 {
				t.Fatalf("K turns right at %v", b)
			}
		}
		var body Body
		body.Reset(k)
		for _, a := range p {
			for _, b := range p {
				if g := body.GaugeFrom(a, b); g > 1+1e-12 {
					t.Fatalf("the difference of two points has gauge %g", g)
				}
			}
		}
	}
}

// TestCollinearFloats takes centres of cells along lines of every slope, in units that float64
// cannot hold: each is a segment between its ends, and no difference of two of its points has a
// gauge that is not a number or beyond 1.
func TestCollinearFloats(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 1))
	for i := range 4000 {
		unit := []float64{.1, .34, .7, .89, 1e-3, 12.3, r.Float64()}[i%7]
		dx, dy := float64(r.IntN(9)), float64(r.IntN(9)-4)
		if i%10 == 0 {
			dx, dy = 1, 3
		}
		if dx == 0 && dy == 0 {
			continue
		}
		x, y := float64(r.IntN(1000)), float64(r.IntN(1000))
		var p []Vec
		for range 2 + r.IntN(20) {
			k := float64(r.IntN(40))
			at := Vec{(x + k*dx + .5) * unit, (y + k*dy + .5) * unit}
			switch r.IntN(3) { // the same place, rounded on another way
			case 1:
				at = Vec{(x+.5)*unit + k*(dx*unit), (y+.5)*unit + k*(dy*unit)}
			case 2:
				at.X, at.Y = math.Nextafter(at.X, 0), math.Nextafter(at.Y, 1e9)
			}
			p = append(p, at)
		}
		hull := Hull(nil, slices.Clone(p))
		if len(hull) > 2 {
			t.Fatalf("case %d: points on a line of slope %g/%g in units of %g have the hull %v",
				i, dy, dx, unit, hull)
		}
		if len(hull) == 2 && !hull[0].Less(hull[1]) {
			t.Fatalf("case %d: the segment %v does not begin at its smaller end", i, hull)
		}
		if size := hull[len(hull)-1].Sub(hull[0]); Dot(size, size) < unit*unit/4 {
			continue // one place
		}
		checkDifferences(t, p, hull, 1e-12)
	}
}

// checkDifferences checks that the body of a hull holds every difference of two of the points.
func checkDifferences(t *testing.T, points, hull []Vec, margin float64) {
	t.Helper()
	var body Body
	body.Reset(Difference(nil, hull))
	for _, a := range points {
		for _, b := range points {
			if g := body.GaugeFrom(a, b); !(g <= 1+margin) {
				t.Fatalf("the difference of %v and %v has gauge %g in the body of %v",
					a, b, g, hull)
			}
		}
	}
	if m := body.Moment(); !(body.Measure() > 0) || math.IsNaN(m.Trace()) ||
		math.IsNaN(m.Determinant) {
		t.Fatalf("the body of %v has measure %g and moment %+v", hull, body.Measure(), m)
	}
}

// TestFloatPolygonsHaveTrueCorners puts many points on the sides of slanted squares, where rounding
// makes corners that are none.
func TestFloatPolygonsHaveTrueCorners(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	for i := range 1000 {
		unit := []float64{.1, .34, .7, r.Float64()}[i%4]
		dx, dy := float64(1+r.IntN(9)), float64(1+r.IntN(9))
		x, y := float64(r.IntN(100)), float64(r.IntN(100))
		var p []Vec
		for n := range 21 {
			k := float64(n)
			for _, at := range []Vec{
				{k * dx, k * dy},
				{k*dx - 20*dy, k*dy + 20*dx},
				{-k * dy, k * dx},
				{20*dx - k*dy, 20*dy + k*dx},
			} {
				p = append(p, Vec{(x + at.X + .5) * unit, (y + at.Y + .5) * unit})
			}
		}
		hull := Hull(nil, slices.Clone(p))
		if len(hull) != 4 {
			t.Fatalf("case %d: a square with sides (%g, %g) in units of %g has %d corners",
				i, dx, dy, unit, len(hull))
		}
		checkDifferences(t, p, hull, 1e-13)
	}
}

// TestShortEdges cuts a corner of a square off, so near it that the edge's distance from 0 would
// drown in v × w.
func TestShortEdges(t *testing.T) {
	t.Parallel()
	for _, cut := range []float64{1e-6, 1e-10, 1e-13} {
		p := []Vec{{.1, .2}, {1.3, .2}, {1.3, 1.4 - cut}, {1.3 - cut, 1.4}, {.1, 1.4}}
		hull := Hull(nil, slices.Clone(p))
		if len(hull) != 5 {
			t.Fatalf("a square whose corner is cut by %g has the hull %v", cut, hull)
		}
		checkDifferences(t, p, hull, 1e-14)
	}
}

// TestAlmostCollinearFloats widens a line by shares of its length, from rounding to a thousandth:
// the body is a segment or a sound polygon.
func TestAlmostCollinearFloats(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 1))
	polygons := 0
	for i := range 4000 {
		width := math.Pow(10, -17+14*r.Float64())
		dx, dy := r.NormFloat64(), r.NormFloat64()
		var p []Vec
		for range 3 + r.IntN(30) {
			k, off := 10*r.Float64(), 10*width*(r.Float64()-.5)
			p = append(p, Vec{1 + k*dx - off*dy, 2 + k*dy + off*dx})
		}
		hull := Hull(nil, slices.Clone(p))
		if width < 1e-16 && len(hull) > 2 {
			t.Fatalf("case %d: a width of %g has the hull %v", i, width, hull)
		}
		if width > 1e-12 && len(hull) < 3 {
			t.Fatalf("case %d: a width of %g is taken for a line", i, width)
		}
		if len(hull) > 2 {
			polygons++
			checkDifferences(t, p, hull, 1e-13/width)
		}
	}
	if polygons < 1000 {
		t.Errorf("only %d polygons", polygons)
	}
}

func TestLargestGridStaysExact(t *testing.T) {
	t.Parallel()
	const width = 46340 // 46340² < 2³¹
	cells := []int32{0, width - 1, width*width/2 + 7, width*(width-1) + 3, width*width - 1}
	k := Difference(nil, HullOfCells(nil, cells, width))
	want := Lattice{-(width - 1), -(width - 1)}
	if k[0] != want {
		t.Fatalf("K begins at %v, want %v", k[0], want)
	}
	var body Body
	body.ResetLattice(k, 0.34)
	if g := body.Gauge(Vec{0.34 * (width - 1), 0.34 * (width - 1)}); g < 1-1e-12 || g > 1+1e-12 {
		t.Errorf("a vertex has gauge %g, want 1", g)
	}
}

func TestExtents(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 1))
	for range 200 {
		width := 1 + r.IntN(9)
		cells := randomCells(r, width, 1+r.IntN(9))
		p := points(cells, width)
		var dx, dy, l1 int64
		for _, a := range p {
			for _, b := range p {
				d := a.Sub(b)
				dx, dy = max(dx, d.X), max(dy, d.Y)
				l1 = max(l1, max(d.X, -d.X)+max(d.Y, -d.Y))
			}
		}
		hull := HullOfCells(nil, cells, width)
		if gx, gy := Extent(hull); gx != dx || gy != dy {
			t.Fatalf("extents of %v: got %d, %d, want %d, %d", p, gx, gy, dx, dy)
		}
		if got := Diameter1(hull); got != l1 {
			t.Fatalf("ℓ1 diameter of %v: got %d, want %d", p, got, l1)
		}
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"no cells":    func() { HullOfCells(nil, nil, 3) },
		"no width":    func() { HullOfCells(nil, []int32{1}, 0) },
		"no points":   func() { Hull[float64](nil, nil) },
		"no polygon":  func() { Difference[float64](nil, nil) },
		"odd body":    func() { new(Body).Reset(make([]Vec, 3)) },
		"scale":       func() { new(Body).ResetLattice([]Lattice{{}}, 0) },
		"few results": func() { new(Body).Gauges(nil, Vec{}, make([]Vec, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			call()
		})
	}
}

func FuzzHullOfCells(f *testing.F) {
	f.Add([]byte{1, 5, 9, 200}, uint8(7))
	f.Add([]byte{0}, uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, w uint8) {
		width := 1 + int(w)%40
		var cells []int32
		at := int32(-1)
		for _, b := range raw {
			at += 1 + int32(b)
			cells = append(cells, at)
		}
		if len(cells) == 0 {
			t.Skip("no cells")
		}
		got := HullOfCells(nil, cells, width)
		if want := Hull(nil, points(cells, width)); !slices.Equal(got, want) {
			t.Fatalf("cells %v, width %d: by rows %v, by sorting %v", cells, width, got, want)
		}
		k := Difference(nil, got)
		checkSymmetric(t, k)
		var body Body
		body.ResetLattice(k, 1)
		for i, c := range cells {
			p, q := points(cells[:1], width)[0], points(cells[i:i+1], width)[0]
			d := Vec{float64(q.X - p.X), float64(q.Y - p.Y)}
			if g := body.Gauge(d); !(g <= 1+1e-9) {
				t.Fatalf("cell %d: difference %v has gauge %g", c, d, g)
			}
		}
	})
}

func ExampleDifference() {
	// Three cells of a map five columns wide: two corners of the bottom row and one above them.
	hull := HullOfCells(nil, []int32{0, 2, 6}, 5)
	fmt.Println(hull)
	fmt.Println(Difference(nil, hull))
	// Output:
	// [{0 0} {2 0} {1 1}]
	// [{-2 0} {-1 -1} {1 -1} {2 0} {1 1} {-1 1}]
}

func BenchmarkHullAndDifference(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 1))
	cells := randomCells(r, 32, 32)
	cells = cells[:min(len(cells), 26)]
	var hull, k []Lattice
	var body Body
	b.Run("hull", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hull = HullOfCells(hull, cells, 32)
		}
	})
	b.Run("difference", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k = Difference(k, hull)
		}
	})
	b.Run("body", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body.ResetLattice(k, 0.34)
		}
	})
}
