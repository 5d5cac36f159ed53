package convex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func randomBody(r *rand.Rand) (*Body, []Lattice) {
	for {
		width, height := 1+r.IntN(12), 1+r.IntN(12)
		k := Difference(nil, HullOfCells(nil, randomCells(r, width, height), width))
		if len(k) < 4 {
			continue
		}
		b := new(Body)
		b.ResetLattice(k, 0.5+r.Float64())
		return b, k
	}
}

// inside tells whether v lies in the polygon by the signs of cross products alone, with a margin of
// rounding.
func inside(b *Body, v Vec, margin float64) bool {
	k := b.Vertices()
	for i, p := range k {
		q := k[(i+1)%len(k)]
		if Cross(q.Sub(p), v.Sub(p)) < -margin {
			return false
		}
	}
	return true
}

func TestGaugeIsTheUnitBall(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 1))
	for range 300 {
		b, _ := randomBody(r)
		for range 50 {
			v := Vec{4 * b.spread * (r.Float64() - .5), 4 * b.spread * (r.Float64() - .5)}
			g := b.Gauge(v)
			if g < 1-1e-12 && !inside(b, v, 1e-9) || g > 1+1e-12 && inside(b, v, -1e-9) {
				t.Fatalf("gauge %g of %v contradicts membership in %v", g, v, b.Vertices())
			}
			if minus := b.Gauge(v.Neg()); minus != g {
				t.Fatalf("‖-v‖ = %g, ‖v‖ = %g", minus, g)
			}
			if twice := b.Gauge(Vec{2 * v.X, 2 * v.Y}); twice != 2*g {
				t.Fatalf("‖2v‖ = %g, ‖v‖ = %g", twice, g)
			}
		}
		for i, v := range b.Vertices() {
			w := b.Vertices()[(i+1)%len(b.Vertices())]
			middle := Vec{(v.X + w.X) / 2, (v.Y + w.Y) / 2}
			if g := b.Gauge(v); math.Abs(g-1) > 1e-12 {
				t.Fatalf("vertex %d has gauge %g", i, g)
			}
			if g := b.Gauge(middle); math.Abs(g-1) > 1e-12 {
				t.Fatalf("the middle of edge %d has gauge %g", i, g)
			}
		}
	}
}

func TestGaugesAtOnce(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(12, 1))
	bodies := []*Body{{}, {}, {}}
	bodies[0].Reset([]Vec{{}})
	bodies[1].Reset([]Vec{{-1, -2}, {1, 2}})
	bodies[2], _ = randomBody(r)
	z := Vec{.25, .5}
	points := []Vec{{.25, .5}, {0, 0}, {1.25, 2.5}, {1, 0}}
	for _, b := range bodies {
		got := make([]float64, len(points))
		b.Gauges(got, z, points)
		for i, p := range points {
			if want := b.GaugeFrom(z, p); got[i] != want {
				t.Errorf("dimension %d, point %d: at once %g, alone %g", b.Dim(), i, got[i], want)
			}
			if want := b.Gauge(z.Sub(p)); math.Abs(got[i]-want) > 1e-12 {
				t.Errorf("dimension %d, point %d: at once %g, of the difference %g",
					b.Dim(), i, got[i], want)
			}
		}
	}
}

func TestSegmentAndPoint(t *testing.T) {
	t.Parallel()
	var b Body
	b.Reset([]Vec{{-3, -6}, {3, 6}})
	if b.Dim() != 1 || math.Abs(b.Measure()-2*math.Sqrt(45)) > 1e-12 {
		t.Errorf("segment: dimension %d, length %g", b.Dim(), b.Measure())
	}
	if g := b.Gauge(Vec{-1, -2}); math.Abs(g-1.0/3) > 1e-15 {
		t.Errorf("gauge on the line: %g", g)
	}
	if g := b.Gauge(Vec{-1, -2.001}); !math.IsInf(g, 1) {
		t.Errorf("gauge off the line: %g", g)
	}
	if m := b.Moment(); m.XX != 3 || m.XY != 6 || m.YY != 12 || m.Determinant != 0 {
		t.Errorf("moment of a segment: %+v", m)
	}
	if p, q := b.Sectors().Boundary(.2, .9), b.Sectors().Boundary(.7, .1); p != (Vec{-3, -6}) ||
		q != (Vec{3, 6}) {
		t.Errorf("ends of the segment: %v, %v", p, q)
	}
	b.Reset([]Vec{{}})
	if b.Dim() != 0 || b.Measure() != 1 || b.Gauge(Vec{}) != 0 ||
		!math.IsInf(b.Gauge(Vec{1e-300, 0}), 1) {
		t.Error("a point is its own unit ball")
	}
	if _, ok := b.Moment().InverseRoot(); ok {
		t.Error("a point has no isotropic position")
	}
	if p := b.Sectors().Boundary(.3, .3); p != (Vec{}) {
		t.Errorf("boundary of a point: %v", p)
	}
}

// TestOnLineOfCells draws cells on and next to long lines with awkward spacings, and points of the
// line as releases make them.
func TestOnLineOfCells(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 1))
	for range 2000 {
		cell := []float64{.34, .89, 1, .001, 12.3}[r.IntN(5)]
		dx, dy := int64(r.IntN(2000)), int64(r.IntN(2000))
		if dx == 0 && dy == 0 {
			continue
		}
		var b Body
		b.ResetLattice(Difference(nil, Hull(nil, []Lattice{{}, {dx, dy}})), cell)
		at := func(x, y int64) Vec {
			return Vec{
				(float64(x) + .5) * cell, (float64(y) + .5) * cell,
			}
		}
		ox, oy := int64(r.IntN(4000)), int64(r.IntN(4000))
		x, u, s := at(ox, oy), b.Vertices()[1], 8*r.Float64()-4
		z := Vec{x.X + s*u.X, x.Y + s*u.Y}
		for _, c := range []Vec{x, at(ox+dx, oy+dy), at(ox-dx, oy-dy)} {
			if g := b.GaugeFrom(z, c); math.IsInf(g, 1) {
				t.Fatalf("a cell on the line counts as off it: spacing %g, step (%d, %d), share %g",
					cell, dx, dy, s)
			}
		}
		if g := b.GaugeFrom(z, at(ox+1, oy)); dy != 0 && !math.IsInf(g, 1) {
			t.Fatalf("a cell next to the line counts as on it: spacing %g, step (%d, %d)",
				cell, dx, dy)
		}
	}
}

// TestLineTolerance moves points off a line by shares of the lengths that take part: what rounding
// can do counts as on the line, ten times the tolerance does not.
func TestLineTolerance(t *testing.T) {
	t.Parallel()
	var b Body
	b.Reset([]Vec{{-3, -6}, {3, 6}})
	x, along, across := Vec{40, 50}, Vec{3, 6}, Vec{-6 / math.Sqrt(45), 3 / math.Sqrt(45)}
	z := x.Add(along)
	size := b.spread + math.Abs(z.X) + math.Abs(z.Y) + math.Abs(x.X) + math.Abs(x.Y)
	for share, on := range map[float64]bool{
		1e-15: true, 1e-14: true, 1e-13: true, 5e-13: true, 1e-11: false, 1e-10: false, 1e-6: false,
	} {
		for _, side := range []float64{1, -1} {
			off := side * share * size
			at := Vec{z.X + off*across.X, z.Y + off*across.Y}
			if got := !math.IsInf(b.GaugeFrom(at, x), 1); got != on {
				t.Errorf("%g of the lengths off the line: on it %t, want %t", side*share, got, on)
			}
			short := Vec{
				along.X + off/size*2*b.spread*across.X, along.Y + off/size*2*b.spread*across.Y,
			}
			if got := !math.IsInf(b.Gauge(short), 1); got != on {
				t.Errorf("%g of the lengths off the line, from 0: on it %t, want %t",
					side*share, got, on)
			}
		}
	}
}

// gridMoment sums u uᵀ over the middle points of a fine lattice inside K.
func gridMoment(b *Body, steps int) (m Matrix, area float64) {
	h := 2 * b.spread / float64(steps)
	n := 0.0
	for i := range steps {
		for j := range steps {
			v := Vec{-b.spread + (float64(i)+.5)*h, -b.spread + (float64(j)+.5)*h}
			if b.Gauge(v) <= 1 {
				n++
				m.XX += v.X * v.X
				m.XY += v.X * v.Y
				m.YY += v.Y * v.Y
			}
		}
	}
	return Matrix{m.XX / n, m.XY / n, m.YY / n}, n * h * h
}

func TestAreaAndMomentBySummation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 1))
	for range 6 {
		b, _ := randomBody(r)
		want, area := gridMoment(b, 600)
		got := b.Moment()
		size := got.Trace()
		if math.Abs(area-b.Measure()) > .02*area {
			t.Errorf("area %g, by summation %g", b.Measure(), area)
		}
		for _, d := range []float64{got.XX - want.XX, got.XY - want.XY, got.YY - want.YY} {
			if math.Abs(d) > .02*size {
				t.Errorf("moment %+v, by summation %+v", got, want)
			}
		}
	}
}

// anisotropy is 1 for bodies of isotropic position and grows with the ratio of length to width.
func anisotropy(m Moment) float64 { return m.Trace() / (2 * math.Sqrt(m.Determinant)) }

func TestInverseRoot(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 1))
	for range 500 {
		b, _ := randomBody(r)
		m := b.Moment()
		root, ok := m.InverseRoot()
		if !ok {
			t.Fatal("a polygon has an isotropic position")
		}
		// T Σ T = 1, column by column.
		x := root.Times(m.Times(root.Times(Vec{1, 0})))
		y := root.Times(m.Times(root.Times(Vec{0, 1})))
		limit := 1e-12 * anisotropy(m) * anisotropy(m)
		for _, d := range []float64{x.X - 1, x.Y, y.X, y.Y - 1} {
			if math.Abs(d) > limit {
				t.Fatalf("TΣT - 1 has entry %g for Σ = %+v", d, m)
			}
		}
		back := root.Inverse().Times(root.Times(Vec{1, 2}))
		if math.Abs(back.X-1)+math.Abs(back.Y-2) > 1e-9*anisotropy(m) {
			t.Fatalf("T⁻¹T(1, 2) = %v", back)
		}
	}
}

// TestThinBody takes a hull whose moment's determinant would be lost if it were computed from
// scaled, rounded entries.
func TestThinBody(t *testing.T) {
	t.Parallel()
	// A parallelogram with sides (900, 901) and (1, 1)/(0, 1): area 4·|det| of the half sides,
	// moment of a parallelogram ±p±q: (ppᵀ+qqᵀ)/3.
	p, q := Lattice{900, 901}, Lattice{1, 1}
	k := Hull(nil, []Lattice{p.Add(q), p.Sub(q), q.Sub(p), p.Neg().Sub(q)})
	var b Body
	b.ResetLattice(k, .34)
	cross := float64(Cross(p, q))
	s := .34 * .34
	if want := cross * cross / 9 * s * s; math.Abs(b.Moment().Determinant/want-1) > 1e-12 {
		t.Errorf("determinant %g, want %g", b.Moment().Determinant, want)
	}
	if want := 4 * math.Abs(cross) * s; math.Abs(b.Measure()/want-1) > 1e-14 {
		t.Errorf("area %g, want %g", b.Measure(), want)
	}
}

func TestBoundaryMapsUniformsToTheConeMeasure(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(16, 1))
	for range 100 {
		b, _ := randomBody(r)
		k := b.Vertices()
		share := 0.0
		for i, v := range k {
			w := k[(i+1)%len(k)]
			start := share
			share += Cross(v, w) / 2 / b.Measure()
			u := start + (share-start)*(.001+.998*r.Float64())
			s := r.Float64()
			p := b.Sectors().Boundary(u, s)
			want := Vec{v.X + s*(w.X-v.X), v.Y + s*(w.Y-v.Y)}
			if d := p.Sub(want); math.Abs(d.X)+math.Abs(d.Y) > 1e-9 {
				t.Fatalf("u = %g in sector %d: got %v, want %v", u, i, p, want)
			}
		}
	}
}

func TestSectorsOfTheImage(t *testing.T) {
	t.Parallel()
	b, _ := randomBody(rand.New(rand.NewPCG(17, 1)))
	m := Matrix{1.5, .3, .7}
	var s Sectors
	s.ResetImage(b.Sectors(), m)
	if want := b.Measure() * m.Det(); math.Abs(s.Area()/want-1) > 1e-12 {
		t.Errorf("area of the image %g, want %g", s.Area(), want)
	}
	p, want := s.Boundary(.3, .6), m.Times(b.Sectors().Boundary(.3, .6))
	if d := p.Sub(want); math.Abs(d.X)+math.Abs(d.Y) > 1e-12 {
		t.Errorf("a point of the image: %v, want %v", p, want)
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	hull, k := make([]Lattice, 0, 64), make([]Lattice, 0, 64)
	var b Body
	cells := []int32{0, 3, 12, 17, 33}
	run := func() {
		hull = HullOfCells(hull, cells, 10)
		k = Difference(k, hull)
		b.ResetLattice(k, .34)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%g allocations a run", n)
	}
}

func ExampleBody_Gauge() {
	hull := HullOfCells(nil, []int32{0, 2, 6}, 5)
	var k Body
	k.ResetLattice(Difference(nil, hull), 0.5) // cells of half a kilometre
	fmt.Printf("area %g km², gauge of (1, 0): %g, of (0, 1): %g\n", k.Measure(), k.Gauge(Vec{X: 1}),
		k.Gauge(Vec{Y: 1}))
	// Output:
	// area 1.5 km², gauge of (1, 0): 1, of (0, 1): 2
}
