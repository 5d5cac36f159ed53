package mechanism

import (
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestEstimateAgainstSorting compares mean and radius with sums over all cells in the order of their distance.
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
		within, less := 0.0, 0.0
		for j, c := range d.Cells {
			if distance := g.Centre(c).Distance(mean); distance <= radius+1e-9 {
				within += d.P[j]
				if distance < radius-1e-9 {
					less += d.P[j]
				}
			}
		}
		if within < (Credibility-1e-9)*total || less >= (Credibility+1e-9)*total {
			t.Fatalf("case %d: radius %g holds %g, and less than it %g", i, radius, within/total, less/total)
		}
	}
}

func TestEstimateOfOneCell(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(4, 4, .5)
	if err != nil {
		t.Fatal(err)
	}
	mean, radius := new(Estimator).Estimate(g, &mobility.Distribution{Cells: []grid.Cell{6}, P: []float64{.5}})
	if mean != g.Centre(6) || radius != 0 {
		t.Errorf("got %v ± %g", mean, radius)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty distribution did not panic")
		}
	}()
	new(Estimator).Estimate(g, &mobility.Distribution{})
}
