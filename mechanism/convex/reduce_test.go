package convex

import (
	"math/rand/v2"
	"testing"
)

// thinCells returns cells near a line of a random slope, up to span cells long and some cells wide.
func thinCells(r *rand.Rand, width, height int32) []int32 {
	dx, dy := r.Float64(), r.Float64()
	wide := []float64{.6, 1.5, 4}[r.IntN(3)]
	seen := map[int32]bool{}
	for range 2 + r.IntN(30) {
		k := r.Float64()
		x := int32(k*dx*float64(width-1) + wide*r.Float64())
		y := int32(k*dy*float64(height-1) + wide*r.Float64())
		seen[min(y, height-1)*width+min(x, width-1)] = true
	}
	var cells []int32
	for c := range width * height {
		if seen[c] {
			cells = append(cells, c)
		}
	}
	return cells
}

// leastWidths returns the two successive minima by trying all forms in a box that must hold them.
func leastWidths(half []Lattice, box int64) (least, other int64) {
	var first Lattice
	least, other = 1<<62, 1<<62
	for pass := range 2 {
		for x := -box; x <= box; x++ {
			for y := -box; y <= box; y++ {
				f := Lattice{x, y}
				if f == (Lattice{}) {
					continue
				}
				w := width(f, half)
				if pass == 0 && w < least {
					least, first = w, f
				}
				if pass == 1 && w < other && Cross(f, first) != 0 {
					other = w
				}
			}
		}
	}
	return least, other
}

func TestReduceFindsTheLeastWidths(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 1))
	thin, changed := 0, 0
	for i := range 1500 {
		var cells []int32
		if i%2 == 0 {
			cells = thinCells(r, 14, 14)
		} else {
			cells = randomCells(r, 14, 14)
		}
		k := Difference(nil, HullOfCells(nil, cells, 14))
		if len(k) < 4 {
			continue
		}
		half := k[:len(k)/2]
		d, e := Reduce(k)
		if det := Cross(d, e); det != 1 && det != -1 {
			t.Fatalf("case %d: %v and %v have determinant %d", i, d, e, det)
		}
		least, other := leastWidths(half, 30)
		if width(d, half) != least || width(e, half) != other {
			t.Fatalf("case %d, K %v: widths %d and %d, want %d and %d", i, k, width(d, half),
				width(e, half), least, other)
		}
		var body Body
		body.ResetLattice(k, 1)
		if area := body.Measure(); float64(least*other) > area/2+1e-9 {
			t.Fatalf("case %d, K %v: widths %d·%d exceed half the area %g",
				i, k, least, other, area)
		}
		if float64(width(Lattice{1, 0}, half)*width(Lattice{0, 1}, half)) > body.Measure()/2 {
			thin++
		}
		if d.X*d.Y != 0 || e.X*e.Y != 0 {
			changed++
		}
	}
	if thin < 200 || changed < 200 {
		t.Errorf("too few thin cases: %d, of which %d were reduced", thin, changed)
	}
}

// TestReduceOfLargestGrids takes slivers across grids of 2³¹ cells, whose forms are as large as
// they get.
func TestReduceOfLargestGrids(t *testing.T) {
	t.Parallel()
	for _, hull := range [][]Lattice{
		{{0, 0}, {46339, 46338}, {46338, 46337}},
		{{0, 0}, {46339, 46338}, {1, 1}},
		{{0, 0}, {1 << 30, 1}, {1<<30 - 1, 1}},
		{{0, 0}, {1<<30 - 1, 1}, {1, 0}},
		{{0, 0}, {28657, 46368}, {17711, 28657}}, // Fibonacci: as many rounds as there can be
	} {
		k := Difference(nil, Hull(nil, hull))
		half := k[:len(k)/2]
		area := int64(0)
		for i, v := range half {
			area += Cross(v, k[i+1])
		}
		d, e := Reduce(k)
		if det := Cross(d, e); det != 1 && det != -1 || 2*width(d, half)*width(e, half) > area {
			t.Errorf("hull %v: forms %v and %v, widths %d and %d, area %d",
				hull, d, e, width(d, half), width(e, half), area)
		}
	}
}

func TestReduceRefusesALine(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("did not panic")
		}
	}()
	Reduce([]Lattice{{-1, 0}, {1, 0}})
}

func BenchmarkReduce(b *testing.B) {
	for _, c := range []struct {
		name string
		hull []Lattice
	}{
		{"square", []Lattice{{0, 0}, {5, 0}, {5, 5}, {0, 5}}},
		{"thin", []Lattice{{0, 0}, {999, 998}, {500, 499}, {400, 401}}},
	} {
		k := Difference(nil, Hull(nil, c.hull))
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Reduce(k)
			}
		})
	}
}
