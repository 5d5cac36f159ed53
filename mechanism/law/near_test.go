package law

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

// beside lists the neighbours of a cell by definition.
func beside(g *grid.Grid, c grid.Cell) (cells []grid.Cell) {
	for x := range grid.Cell(g.Cells()) {
		if dx, dy := g.Column(x)-g.Column(c), g.Row(x)-g.Row(c); dx*dx+dy*dy == 1 {
			cells = append(cells, x)
		}
	}
	return cells
}

// TestNearShareByDefinition goes through all pairs of cells of small maps.
func TestNearShareByDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(121, 1))
	var n Neighbours
	seen := map[float64]bool{}
	for range 400 {
		g := testcase.Grid(t, 1+r.IntN(9), 1+r.IntN(9), .34)
		prior := testcase.Prior(r, g.Cells())
		q := newQuantizer(t, g, []float64{.5, 1, 4, 7}[r.IntN(4)])
		q.Prepare(prior.Cells, prior.P)
		apart, all := 0.0, 0.0
		for x := range grid.Cell(g.Cells()) {
			for _, y := range beside(g, x) {
				mass := prior.At(x) + prior.At(y)
				all += mass
				if q.Vote(x) != q.Vote(y) {
					apart += mass
				}
			}
		}
		want := 0.0
		if all > 0 {
			want = apart / all
		}
		got := q.NearShare(&n, prior.Cells, prior.P)
		if math.Abs(got-want) > 1e-6 { // masses are rounded to 2⁻³²
			t.Fatalf("map of %d×%d: the share is %v, not %v", g.Width(), g.Height(), got, want)
		}
		seen[math.Round(4*got)/4] = true
	}
	for _, share := range []float64{0, .25, .5, .75, 1} {
		if !seen[share] {
			t.Errorf("poor cases: no share near %v", share)
		}
	}
}

// TestNearShareChangesNothing: what is released and inferred does not depend on whether the share
// was computed; and computing it does not allocate.
func TestNearShareChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(122, 1))
	g := testcase.Grid(t, 20, 20, .34)
	prior := testcase.Prior(r, g.Cells())
	q, plain := newQuantizer(t, g, 4), newQuantizer(t, g, 4)
	q.Prepare(prior.Cells, prior.P)
	plain.Prepare(prior.Cells, prior.P)
	var n Neighbours
	first := q.NearShare(&n, prior.Cells, prior.P)
	if again := q.NearShare(&n, prior.Cells, prior.P); again != first {
		t.Errorf("first %v, then %v", first, again)
	}
	likely, want := q.Likelihoods(nil, 0, prior.Cells), plain.Likelihoods(nil, 0, prior.Cells)
	for i := range want {
		if likely[i] != want[i] {
			t.Fatal("the likelihoods have changed")
		}
	}
	if string(q.AppendFacts(nil, 0)) != string(plain.AppendFacts(nil, 0)) {
		t.Error("the facts have changed")
	}
	if a := testing.AllocsPerRun(10, func() { q.NearShare(&n, prior.Cells, prior.P) }); a > 0 {
		t.Errorf("%v allocations", a)
	}
}

// TestNeighboursWeighLikeTheirCell: a cell's pairs count as much as its mass, whatever the total.
func TestNeighboursWeighLikeTheirCell(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 3, 1, 1)
	d := mobility.Distribution{Cells: []grid.Cell{0, 1}, P: []float64{1, 3}}
	var n Neighbours
	n.Gather(g, d.Cells, d.P)
	got := map[[2]grid.Cell]uint64{}
	for i, y := range n.Cells {
		got[[2]grid.Cell{d.Cells[n.Of[i]], y}] = n.Weight(i) >> 30
	}
	want := map[[2]grid.Cell]uint64{{0, 1}: 1, {1, 0}: 3, {1, 2}: 3}
	if len(got) != len(want) {
		t.Fatalf("pairs %v", got)
	}
	for pair, weight := range want {
		if got[pair] != weight {
			t.Errorf("pair %v counts %d quarters, not %d", pair, got[pair], weight)
		}
	}
}

func BenchmarkNearShare(b *testing.B) {
	g := testcase.Grid(b, 60, 60, .34)
	prior := testcase.Prior(rand.New(rand.NewPCG(123, 1)), g.Cells())
	q := newQuantizer(b, g, 4)
	q.Prepare(prior.Cells, prior.P)
	var n Neighbours
	b.ReportAllocs()
	for b.Loop() {
		q.NearShare(&n, prior.Cells, prior.P)
	}
	b.ReportMetric(float64(len(prior.Cells)), "cells")
}
