package mechanism

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

func TestAngleAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(64, 1))
	worst := 0.0
	for range 300000 {
		y, x := math.Exp(40*r.Float64()-20), math.Exp(40*r.Float64()-20)
		if r.IntN(2) == 0 {
			y = x * (1 + r.Float64())
		}
		for _, v := range [][2]float64{{y, x}, {-y, x}, {y, -x}, {-y, -x}} {
			worst = max(worst, math.Abs(angle(v[0], v[1])/math.Atan2(v[0], v[1])-1))
		}
	}
	if worst > 8*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
	for _, v := range [][3]float64{
		{0, 0, 0},
		{0, 1, 0},
		{math.Copysign(0, -1), 1, 0},
		{0, -1, math.Pi},
		{math.Copysign(0, -1), -1, math.Pi},
		{1, 0, math.Pi / 2},
		{-1, 0, -math.Pi / 2},
		{1, 1, math.Pi / 4},
		{-1, -1, -3 * math.Pi / 4},
	} {
		if got := angle(v[0], v[1]); math.Abs(got-v[2]) > 0x1p-52*math.Abs(v[2]) ||
			math.Signbit(got) != (v[2] < 0) {
			t.Errorf("angle(%g, %g) is %g, want %g", v[0], v[1], got, v[2])
		}
	}
}

// TestEllipseAgainstDirections compares the ellipse with variances that are computed from the
// definition, two passes over all cells, in all directions: none is beyond the axes', and those are
// reached at the azimuth and across it.
func TestEllipseAgainstDirections(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(65, 1))
	for i := range 1000 {
		g := testcase.Grid(t, 1+r.IntN(60), 1+r.IntN(60), .34)
		d := testcase.Prior(r, g.Cells())
		if i%3 == 0 {
			for j := range d.P {
				d.P[j] *= .25 // not normalized
			}
		}
		got := EllipseOf(g, d)
		along := func(degrees float64) float64 {
			sin, cos := math.Sincos(degrees * math.Pi / 180)
			mean, variance, total := 0.0, 0.0, d.Total()
			for j, c := range d.Cells {
				p := g.Centre(c)
				mean += d.P[j] / total * (p.X*sin + p.Y*cos)
			}
			for j, c := range d.Cells {
				p := g.Centre(c)
				x := p.X*sin + p.Y*cos - mean
				variance += d.P[j] / total * x * x
			}
			return math.Sqrt(variance + g.CellKM()*g.CellKM()/12)
		}
		const tolerance = 1e-9
		if a := got.AzimuthDeg; !(a >= 0 && a < 180) {
			t.Fatalf("case %d: azimuth %g", i, a)
		}
		if x := along(got.AzimuthDeg); math.Abs(x/got.MajorKM-1) > tolerance {
			t.Fatalf("case %d: σ along the major axis is %g, not %g", i, x, got.MajorKM)
		}
		if x := along(got.AzimuthDeg + 90); math.Abs(x/got.MinorKM-1) > tolerance {
			t.Fatalf("case %d: σ across the major axis is %g, not %g", i, x, got.MinorKM)
		}
		for degrees := range 180 {
			x := along(float64(degrees))
			if x > got.MajorKM*(1+tolerance) || x < got.MinorKM*(1-tolerance) {
				t.Fatalf("case %d: σ at %d° is %g, beyond %+v", i, degrees, x, got)
			}
		}
	}
}

// TestEllipseDirections: azimuths turn clockwise from north, and north is up.
func TestEllipseDirections(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 101, 101, 1)
	at := func(columns, rows int) grid.Cell { return grid.Cell((50+rows)*101 + 50 + columns) }
	for _, test := range []struct {
		name    string
		cells   []grid.Cell
		azimuth float64
		major   float64
	}{
		{"one cell", []grid.Cell{at(0, 0)}, 0, 0},
		{"north", []grid.Cell{at(0, 0), at(0, 20)}, 0, 10},
		{"east", []grid.Cell{at(0, 0), at(20, 0)}, 90, 10},
		{"north-east", []grid.Cell{at(0, 0), at(20, 20)}, 45, math.Sqrt(200)},
		{"north-west", []grid.Cell{at(0, 0), at(-20, 20)}, 135, math.Sqrt(200)},
		{"a square", []grid.Cell{at(-5, -5), at(5, -5), at(-5, 5), at(5, 5)}, 0, 5},
	} {
		d := &mobility.Distribution{Cells: test.cells}
		for range test.cells {
			d.P = append(d.P, 1/float64(len(test.cells)))
		}
		got, cell := EllipseOf(g, d), 1.0/12
		want := math.Sqrt(test.major*test.major + cell)
		if math.Abs(got.AzimuthDeg-test.azimuth) > 1e-12 || math.Abs(got.MajorKM-want) > 1e-12 {
			t.Errorf("%s: %+v, want %g at %g", test.name, got, want, test.azimuth)
		}
		if test.name != "a square" && math.Abs(got.MinorKM-math.Sqrt(cell)) > 1e-12 {
			t.Errorf("%s: σ across is %g, want that of one cell", test.name, got.MinorKM)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty distribution did not panic")
		}
	}()
	EllipseOf(g, &mobility.Distribution{})
}

// TestEllipseBits pins bits: records are compared byte for byte, on all architectures.
func TestEllipseBits(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 97, 89, .34)
	r := rand.New(rand.NewPCG(66, 1))
	hash := uint64(14695981039346656037) // FNV-1a of the bits, a word at a time
	for range 500 {
		// Without the standard library's exp, whose bits are not the same everywhere.
		d := &mobility.Distribution{Cells: testcase.Cells(r, g.Cells(), .1)}
		for range d.Cells {
			d.P = append(d.P, float64(float32(r.Float64())))
		}
		e := EllipseOf(g, d)
		for _, x := range []float64{e.MajorKM, e.MinorKM, e.AzimuthDeg} {
			hash = (hash ^ math.Float64bits(x)) * 1099511628211
		}
	}
	if want := uint64(0xccded758c1f9d0f4); hash != want {
		t.Errorf("the bits have changed: %#x, want %#x", hash, want)
	}
}

func BenchmarkEllipse(b *testing.B) {
	for _, set := range settings(b, Options{Epsilon: 1, Delta: .01}) {
		b.Run(set.name, func(b *testing.B) {
			b.ReportAllocs()
			g, posterior := set.sanitizer.model.Grid, &set.states[benchPath/2].Posterior
			for b.Loop() {
				EllipseOf(g, posterior)
			}
			b.ReportMetric(float64(posterior.Len()), "cells")
		})
	}
}
