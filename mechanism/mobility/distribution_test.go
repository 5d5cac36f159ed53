package mobility

import (
	"math"
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
	if !slices.Equal(got.Cells, []grid.Cell{2, 7}) || math.Abs(got.P[0]-.5) > 1e-15 || math.Abs(got.P[1]-.5) > 1e-15 {
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
		if _, ok := Update(&got, &prior, likelihood); ok || !slices.Equal(got.P, prior.P) || !slices.Equal(got.Cells, prior.Cells) {
			t.Errorf("likelihood %v: ok=%v, %v", likelihood, ok, got)
		}
		if _, ok := Update(&prior, &prior, likelihood); ok || !slices.Equal(got.P, prior.P) {
			t.Errorf("likelihood %v in place: %v", likelihood, prior)
		}
	}
}

func TestUpdatePanicsOnShape(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("one likelihood for two cells did not panic")
		}
	}()
	prior := Distribution{Cells: []grid.Cell{2, 5}, P: []float64{.5, .5}}
	Update(&Distribution{}, &prior, []float64{1})
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

func TestNormalizeRefuses(t *testing.T) {
	for _, p := range []float64{0, math.NaN(), math.Inf(1)} {
		d := Distribution{Cells: []grid.Cell{1}, P: []float64{p}}
		if d.Normalize() {
			t.Errorf("a total of %v was normalized", p)
		}
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

func TestCopyFromSharesNothing(t *testing.T) {
	a := Distribution{Cells: []grid.Cell{1}, P: []float64{1}}
	var b Distribution
	b.CopyFrom(&a)
	b.P[0], b.Cells[0] = .5, 9
	if a.P[0] != 1 || a.Cells[0] != 1 {
		t.Error("the copy shares memory")
	}
}
