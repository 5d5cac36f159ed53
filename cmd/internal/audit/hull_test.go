package audit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

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
