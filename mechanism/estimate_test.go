package mechanism

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestEstimateAgainstSorting compares mean and radius with sums over all cells in the order of their distance: without half a cell's diagonal
// the radius reaches just so many centres, and with it the far corners of as many cells lie within.
func TestEstimateAgainstSorting(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(62, 1))
	var e Estimator
	for i := range 2000 {
		g, err := grid.Plain(1+r.IntN(50), 1+r.IntN(50), .34)
		if err != nil {
			t.Fatal(err)
		}
		d := randomPrior(r, g.Cells())
		if i%3 == 0 {
			d.Round()
		}
		mean, radius := e.Estimate(g, d)
		total := d.Total()
		want := d.Mean(g)
		want = grid.Point{X: (want.X-.17)/total + .17, Y: (want.Y-.17)/total + .17}
		if mean.Distance(want) > 1e-9 {
			t.Fatalf("case %d: mean %v, want %v", i, mean, want)
		}
		reach := radius - .17*math.Sqrt2
		within, less, whole := 0.0, 0.0, 0.0
		for j, c := range d.Cells {
			if distance := g.Centre(c).Distance(mean); distance <= reach+1e-9 {
				within += d.P[j]
				if distance < reach-1e-9 {
					less += d.P[j]
				}
			}
			if farthestCorner(g, c, mean) <= radius+1e-9 {
				whole += d.P[j]
			}
		}
		if whole < (Credibility-1e-9)*total {
			t.Fatalf("case %d: radius %g holds all of cells of %g only", i, radius, whole/total)
		}
		if within < (Credibility-1e-9)*total || less >= (Credibility+1e-9)*total {
			t.Fatalf("case %d: radius %g holds %g, and less than it %g", i, radius, within/total, less/total)
		}
	}
}

// farthestCorner returns the distance from a place to the corner of a cell that is farthest from it.
func farthestCorner(g *grid.Grid, c grid.Cell, from grid.Point) float64 {
	centre, half, farthest := g.Centre(c), g.CellKM()/2, 0.0
	for _, corner := range []grid.Point{{X: half, Y: half}, {X: half, Y: -half}, {X: -half, Y: half}, {X: -half, Y: -half}} {
		farthest = max(farthest, centre.Add(corner).Distance(from))
	}
	return farthest
}

func TestEstimateOfOneCell(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(4, 4, .5)
	if err != nil {
		t.Fatal(err)
	}
	mean, radius := new(Estimator).Estimate(g, &mobility.Distribution{Cells: []grid.Cell{6}, P: []float64{.5}})
	if mean != g.Centre(6) || math.Abs(radius-math.Hypot(.25, .25)) > 1e-15 {
		t.Errorf("got %v ± %g, want half a cell's diagonal", mean, radius)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty distribution did not panic")
		}
	}()
	new(Estimator).Estimate(g, &mobility.Distribution{})
}
