package law

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

// paddedByDefinition sorts the whole map twice: by probability and by distance.
func paddedByDefinition(
	g *grid.Grid, prior *mobility.Distribution, delta float64, minCells int,
) []grid.Cell {
	members := map[grid.Cell]bool{}
	for _, c := range testcase.LocationSet(prior, delta) {
		members[c] = true
	}
	order := make([]int, len(prior.P))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case prior.P[a] > prior.P[b]:
			return -1
		case prior.P[a] < prior.P[b]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		if len(members) < minCells {
			members[prior.Cells[i]] = true
		}
	}
	top := prior.Cells[order[0]]
	square := func(c grid.Cell) int {
		dx, dy := g.Column(c)-g.Column(top), g.Row(c)-g.Row(top)
		return dx*dx + dy*dy
	}
	all := testcase.AllCells(g)
	slices.SortStableFunc(all, func(a, b grid.Cell) int { return square(a) - square(b) })
	for _, c := range all {
		if len(members) < minCells {
			members[c] = true
		}
	}
	var set []grid.Cell
	for c := range members {
		set = append(set, c)
	}
	slices.Sort(set)
	return set
}

func TestPaddingByDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(71, 1))
	var s LocationSet
	padded, completed := 0, 0
	for i := range 3000 {
		g := testcase.Grid(t, 1+r.IntN(25), 1+r.IntN(25), .34)
		d := testcase.Prior(r, g.Cells())
		if i%2 == 0 { // a prior of few cells
			d = &mobility.Distribution{}
			for _, c := range testcase.Cells(r, g.Cells(), 3/float64(g.Cells())) {
				d.Cells, d.P = append(d.Cells, c), append(d.P, float64(1+r.IntN(2)))
			}
			if len(d.Cells) == 0 {
				d.Cells, d.P = []grid.Cell{grid.Cell(r.IntN(g.Cells()))}, []float64{1}
			}
			d.Normalize()
		}
		delta := []float64{0, .01, .3, .7}[r.IntN(4)]
		least := []int{0, 1, 2, 5, 9, 40, 700}[r.IntN(7)]
		s.ChoosePadded(g, d, delta, least)
		if want := paddedByDefinition(g, d, delta, least); !slices.Equal(s.Cells, want) {
			t.Fatalf("case %d, map of %d×%d, δ = %g, %d cells, prior %v: got %v, want %v",
				i, g.Width(), g.Height(), delta, least, d, s.Cells, want)
		}
		plain := testcase.LocationSet(d, delta)
		if len(plain) < least {
			padded++
			if len(d.Cells) < least {
				completed++
			}
		}
		if s.ChoosePadded(g, d, delta, 0); !slices.Equal(s.Cells, plain) {
			t.Fatalf("case %d: no padding gives %v, want %v", i, s.Cells, plain)
		}
	}
	if padded < 100 || completed < 100 {
		t.Errorf("poor cases: %d sets padded, %d beyond the prior", padded, completed)
	}
}

// TestPaddingOnALine asks for more cells than one is wide: the square has to grow along the map.
func TestPaddingOnALine(t *testing.T) {
	t.Parallel()
	var s LocationSet
	for _, size := range [][2]int{{200, 1}, {1, 200}} {
		g := testcase.Grid(t, size[0], size[1], 1)
		s.ChoosePadded(g, &mobility.Distribution{Cells: []grid.Cell{3}, P: []float64{1}}, .1, 100)
		if len(s.Cells) != 100 || s.Cells[0] != 0 || s.Cells[99] != 99 {
			t.Errorf("%v: %v", size, s.Cells)
		}
	}
}
