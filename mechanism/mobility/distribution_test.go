package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

func TestUpdate(t *testing.T) {
	prior := Distribution{Cells: []grid.Cell{2, 5, 7}, P: []float64{.5, .25, .25}}
	var got Distribution
	evidence, ok := Update(&got, &prior, []float64{.2, 0, .4})
	if !ok || math.Abs(evidence-.2) > 1e-15 {
		t.Errorf("evidence %v, %v; want .2", evidence, ok)
	}
	if !slices.Equal(got.Cells, []grid.Cell{2, 7}) || math.Abs(got.P[0]-.5) > 1e-15 ||
		math.Abs(got.P[1]-.5) > 1e-15 {
		t.Errorf("posterior %v", got)
	}
	if prior.Len() != 3 {
		t.Error("the prior was changed")
	}
	if _, ok := Update(&prior, &prior, []float64{.2, 0, .4}); !ok || !slices.Equal(prior.P, got.P) {
		t.Errorf("in place: %v, want %v", prior, got)
	}
}

func TestUpdateWithoutEvidence(t *testing.T) {
	for _, likelihood := range [][]float64{{0, 0}, {math.NaN(), 1}, {math.Inf(1), 1}} {
		prior := Distribution{Cells: []grid.Cell{2, 5}, P: []float64{.5, .5}}
		var got Distribution
		if _, ok := Update(&got, &prior, likelihood); ok || !slices.Equal(got.P, prior.P) ||
			!slices.Equal(got.Cells, prior.Cells) {
			t.Errorf("likelihood %v: ok=%v, %v", likelihood, ok, got)
		}
		if _, ok := Update(&prior, &prior, likelihood); ok || !slices.Equal(got.P, prior.P) {
			t.Errorf("likelihood %v in place: %v", likelihood, prior)
		}
	}
}

func TestPrune(t *testing.T) {
	d := Distribution{Cells: []grid.Cell{0, 1, 2, 3}, P: []float64{1e-9, 1.2, 3e-8, .8}}
	before, total := d.P[1], d.Total()
	d.Prune(1e-8)
	if !slices.Equal(d.Cells, []grid.Cell{1, 2, 3}) {
		t.Fatalf("kept %v", d.Cells)
	}
	if math.Abs(d.Total()-1) > 1e-15 {
		t.Errorf("total %v", d.Total())
	}
	// The stated effect: the kept masses grow by at most 1/(1 - m·threshold).
	if growth := d.P[0] / (before / total); growth <= 1 || growth > 1/(1-4e-8) {
		t.Errorf("a kept mass grew by %v", growth)
	}
	one := Distribution{Cells: []grid.Cell{4, 5}, P: []float64{.5, .5}}
	one.Prune(.9)
	if one.Len() != 2 {
		t.Error("nothing would be left: nothing may be dropped")
	}
}

// TestPruneKeepsTheUniformShare prunes what training makes of a map of 2,000,000 cells: a uniform
// share of a tenth, 5e-8 a cell, and a few cells with the rest. At the threshold of 1e-7 alone the
// tenth would be gone.
func TestPruneKeepsTheUniformShare(t *testing.T) {
	const n, popular = 2_000_000, 150
	var d Distribution
	for c := range grid.Cell(n) {
		p := .1 / n
		if c%(n/popular) == 0 {
			p += .9 / popular
		}
		d.Cells, d.P = append(d.Cells, c), append(d.P, p)
	}
	cells, p := d.Cells, d.P
	if allocations := testing.AllocsPerRun(1, func() { d.Prune(1e-7) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if d.Len() != n {
		t.Errorf("%d of %d cells are left", d.Len(), n)
	}
	// The fault that this finds: the threshold without the bound.
	d.Cells, d.P = cells, p
	if total := d.Total(); d.drop(1e-7*total, total) > .91 {
		t.Errorf("without the bound %d cells are left: this test shows nothing", d.Len())
	}
}

// TestPruneLevel draws distributions whose masses span many powers of ten, and checks that what
// pruning drops stays below the bound, and that the threshold is as it is for few cells.
func TestPruneLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	dropped, unbounded := 0, 0
	for i := range 400 {
		var d Distribution
		for c := range 1 + random.IntN(20*PruneCells) {
			d.Cells = append(d.Cells, grid.Cell(c))
			d.P = append(d.P, math.Exp(-15*random.Float64()*random.Float64()))
		}
		n, total, threshold := d.Len(), d.Total(), math.Pow(10, -7+3*random.Float64())
		lost, alone := 0.0, 0.0
		for _, p := range d.P {
			if p < PruneLevel(n, threshold, total) {
				lost += p / total
			}
			if p < threshold*total {
				alone += p / total
			}
		}
		if bound := PruneCells * threshold; lost > bound {
			t.Fatalf("case %d: %g is lost, the bound is %g", i, lost, bound)
		} else if alone > bound {
			unbounded++ // without the bound this test would fail
		}
		if n <= PruneCells && PruneLevel(n, threshold, total) != threshold*total {
			t.Fatalf("case %d: the threshold is lowered for %d cells", i, n)
		}
		if d.Prune(threshold); d.Len() < n {
			dropped++
		}
	}
	if dropped < 100 || unbounded < 20 {
		t.Errorf("%d cases drop cells, and %d would drop too many: this test shows little", dropped,
			unbounded)
	}
}

func TestMean(t *testing.T) {
	g := plainGrid(t, 10, 4)
	d := Distribution{Cells: []grid.Cell{0, 39}, P: []float64{.25, .75}}
	want := grid.Point{X: .5 + .75*9, Y: .5 + .75*3}
	if got := d.Mean(g); got.Distance(want) > 1e-12 {
		t.Errorf("mean %v, want %v", got, want)
	}
}
