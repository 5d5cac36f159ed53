package law

import (
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// ChoosePadded fills s with the location set of a prior and pads it to at least so many cells, in
// two ways, one after the other:
//
//  1. The set is the shortest prefix of the prior's cells, by probability, that both holds 1-δ
//     and has minCells cells.
//  2. If the prior has fewer cells than minCells, the other cells of the map are added: the
//     nearest to the prior's most probable cell first, the lower index among equals. A map of
//     fewer than minCells cells is in the set as a whole.
//
// With minCells at most 1 it is Choose.
//
// Guarantee: the set is a function of the prior, δ, minCells and the grid, hence of earlier
// releases and the model, and never of the true cell. ε-differential privacy on the set, and over
// all cells by their surrogates, is proved for any set that is given, so it holds on this larger
// one.
//
// Cost: linear in the prior, and sorting up to 16·minCells cells where the prior has too few. No
// allocation once s has grown.
func (s *LocationSet) ChoosePadded(
	g *grid.Grid, prior *mobility.Distribution, delta float64, minCells int,
) {
	s.choose(prior, delta, minCells)
	if missing := min(minCells, g.Cells()) - len(s.Cells); missing > 0 {
		s.addNearest(g, prior.MostProbable(), missing)
	}
}

// addNearest adds the missing cells that are nearest to a given one. It looks at a square around
// that cell. All cells no farther away than the square's half side are in the square, so once there
// are enough of them the nearest are among them.
func (s *LocationSet) addNearest(g *grid.Grid, around grid.Cell, missing int) {
	for half := int64(1); ; half *= 2 {
		whole := s.lookAround(g, around, half)
		complete := 0
		for _, n := range s.nearby {
			if n.square <= half*half {
				complete++
			}
		}
		if whole || complete >= missing {
			break
		}
	}
	slices.SortFunc(s.nearby, func(a, b nearCell) int {
		switch {
		case a.square < b.square:
			return -1
		case a.square > b.square:
			return 1
		}
		return int(a.cell) - int(b.cell)
	})
	for _, n := range s.nearby[:min(missing, len(s.nearby))] {
		s.Cells = append(s.Cells, n.cell)
	}
	slices.Sort(s.Cells)
}

// lookAround lists the cells of a square that are not in the set, and says whether the square holds
// the whole map.
func (s *LocationSet) lookAround(g *grid.Grid, around grid.Cell, half int64) (whole bool) {
	s.nearby = s.nearby[:0]
	column, row := int64(g.Column(around)), int64(g.Row(around))
	left, right := max(column-half, 0), min(column+half, int64(g.Width())-1)
	bottom, top := max(row-half, 0), min(row+half, int64(g.Height())-1)
	for y := bottom; y <= top; y++ {
		for x := left; x <= right; x++ {
			c := grid.Cell(y*int64(g.Width()) + x)
			if _, member := slices.BinarySearch(s.Cells, c); !member {
				s.nearby = append(s.nearby, nearCell{(x-column)*(x-column) + (y-row)*(y-row), c})
			}
		}
	}
	return left == 0 && bottom == 0 && right == int64(g.Width())-1 && top == int64(g.Height())-1
}
