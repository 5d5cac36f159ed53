package audit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// TestSpanIsTheHullOfDifferences compares with the mechanism's hull, and the gauge with its
// definition: every difference of two cells has a gauge of 1 at most, and the corners 1.
func TestSpanIsTheHullOfDifferences(t *testing.T) {
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
		k := SpanOf(cells, width)
		want := convex.Difference(nil, convex.HullOfCells(nil, cells, width))
		if len(want) != len(k.Corners()) && k.Dim() > 0 {
			t.Fatalf("%v has %d corners, want %d", cells, len(k.Corners()), len(want))
		}
		for _, c := range k.Corners() {
			if k.Dim() > 0 && !slices.Contains(want, c) {
				t.Fatalf("%v: %v is no corner", cells, c)
			}
			if norm := k.Gauge(float64(c.X), float64(c.Y)); k.Dim() > 0 &&
				math.Abs(norm-1) > 1e-12 {
				t.Fatalf("%v: the corner %v has the gauge %v", cells, c, norm)
			}
		}
		for _, a := range cells {
			for _, b := range cells {
				x, y := int(a)%width-int(b)%width, int(a)/width-int(b)/width
				if norm := k.Gauge(float64(x), float64(y)); norm > 1+1e-12 {
					t.Fatalf("%v: %d, %d has the gauge %v", cells, x, y, norm)
				}
			}
		}
		if k.Dim() == 1 {
			lines++
			if u := k.Corners()[0]; !math.IsInf(k.Gauge(float64(-u.Y), float64(u.X)), 1) {
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
	k := SpanOf([]grid.Cell{0, 3, 41, 67, 90}, 20)
	const points, parts = 40_000, 10
	var counts [parts]float64
	for n := 0; n < points; {
		x, y := 40*r.Float64()-20, 20*r.Float64()-10
		if norm := k.Gauge(x, y); norm > 1 || norm == 0 {
			continue
		}
		counts[int(parts*k.Cone(x, y))]++
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

// TestDiamond: the sums of coordinates that Laplace noise is scaled by.
func TestDiamond(t *testing.T) {
	t.Parallel()
	cells := []grid.Cell{0, 3, 41} // columns and rows (0, 0), (3, 0), (1, 2)
	if c := DiamondOf(cells, 20, false).Gauge(5, 0); c != 1 {
		t.Errorf("extents of 3 and 2: the gauge of (5, 0) is %v", c)
	}
	if c := DiamondOf(cells, 20, true).Gauge(2, 2); c != 1 {
		t.Errorf("a greatest distance of 4: the gauge of (2, 2) is %v", c)
	}
}

// TestRatioNoticesAnotherHull: a mechanism that draws with the hull of a part of the set.
func TestRatioNoticesAnotherHull(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Lattice)
	for _, planted := range []bool{false, true} {
		at := *situations[len(situations)-1]
		if planted {
			at.hull = law.SensitivityHull{}
			at.hull.OfCells(m.Grid, at.cells[:len(at.cells)/2])
		}
		a := &auditor{
			model: m, release: o, situations: []*Situation{&at},
			options: Options{Seed: 3, Ratio: true}.withDefaults(),
		}
		var report Report
		if err := exponents(a, &report); err != nil {
			t.Fatal(err)
		}
		if (report.Ratio.Failures > 0) != planted {
			t.Errorf("planted %v: %+v", planted, report.Ratio)
		}
	}
}
