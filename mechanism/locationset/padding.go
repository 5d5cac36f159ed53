package locationset

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// radiusTolerance keeps a radius of a whole number of cells from losing the outermost ones because
// .68/.34 is not 2 in binary. It is far above the rounding of one division and a square, and far
// below the gap between two squared distances of cells less than 10⁴ cells away.
const radiusTolerance = 1e-9

// Padding is how large a location set is at least. The zero Padding adds nothing.
type Padding struct {
	// MinCells is the least number of cells.
	MinCells int
	// RadiusKM is the radius of a disc that the set holds: every cell of the map whose centre lies
	// at most so far from the centre of the prior's most probable cell, the lowest index among
	// equals. 0 is no disc.
	RadiusKM float64
}

// ChoosePadded fills s with the location set of a prior and pads it in three ways, one after the
// other:
//
//  1. The set is the shortest prefix of the prior's cells, by probability, that both holds 1-δ
//     and has MinCells cells.
//  2. If the prior has fewer cells than MinCells, the other cells of the map are added: the
//     nearest to the prior's most probable cell first, the lower index among equals. A map of
//     fewer than MinCells cells is in the set as a whole.
//  3. The disc of Padding is added.
//
// Guarantee: the set is a function of the prior, δ, the padding and the grid, hence of earlier
// releases and the model, and never of the true cell. ε-differential privacy on the set, and over
// all cells by their surrogates, is proved for any set that is given, so it holds on this larger
// one.
//
// Cost: linear in the prior and the disc, and sorting up to 16·MinCells cells where the prior has
// too few. No allocation once s has grown.
func (s *Set) ChoosePadded(g *grid.Grid, prior *mobility.Distribution, delta float64, p Padding) {
	s.choose(prior, delta, p.MinCells)
	if missing := min(p.MinCells, g.Cells()) - len(s.Cells); missing > 0 {
		s.addNearest(g, prior.MostProbable(), missing)
	}
	if p.RadiusKM > 0 {
		s.addDisc(g, prior.MostProbable(), p.RadiusKM)
	}
}

// nearCell is a cell with its squared distance to another, in cells.
type nearCell struct {
	square int64
	cell   grid.Cell
}

// addNearest adds the missing cells that are nearest to a given one. It looks at a square around
// that cell. All cells no farther away than the square's half side are in the square, so once there
// are enough of them the nearest are among them.
func (s *Set) addNearest(g *grid.Grid, around grid.Cell, missing int) {
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
func (s *Set) lookAround(g *grid.Grid, around grid.Cell, half int64) (whole bool) {
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

// addDisc adds the cells of the map whose centres lie within a radius of that of one: row by row,
// merged with the set as both ascend.
func (s *Set) addDisc(g *grid.Grid, around grid.Cell, radiusKM float64) {
	reach := radiusKM / g.CellKM()
	limit := math.MaxInt64 / 4.0 // wider than any map, whose squared diagonal is below 2⁶³/4
	if square := float64(reach*reach) * (1 + radiusTolerance); square < limit {
		limit = square
	}
	column, row := int64(g.Column(around)), int64(g.Row(around))
	up := int64(math.Sqrt(limit))
	last := int64(g.Width()) - 1
	s.merged = s.merged[:0]
	next := 0
	for y := max(row-up, 0); y <= min(row+up, int64(g.Height())-1); y++ {
		side := int64(math.Sqrt(limit - float64((y-row)*(y-row))))
		start := y * int64(g.Width())
		for x := max(column-side, 0); x <= min(column+side, last); x++ {
			c := grid.Cell(start + x)
			for next < len(s.Cells) && s.Cells[next] < c {
				s.merged = append(s.merged, s.Cells[next])
				next++
			}
			if next < len(s.Cells) && s.Cells[next] == c {
				next++
			}
			s.merged = append(s.merged, c)
		}
	}
	s.merged = append(s.merged, s.Cells[next:]...)
	s.Cells, s.merged = s.merged, s.Cells
}
