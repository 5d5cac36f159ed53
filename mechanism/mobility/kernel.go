package mobility

import (
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Kernel is what a row spreads its weight over: a user moves by so many columns and, independently,
// so many rows. Columns[i] is the weight of a move by i columns in either direction, Rows[i] that
// of one by i rows. At the edges of the map the kernel is cut and normalized, which is a product
// too. A kernel without weights is none.
type Kernel struct {
	Columns []float64 `json:"columns"`
	Rows    []float64 `json:"rows"`
}

// MaxRadius is the largest reach of a kernel in cells.
const MaxRadius = 125

// Radius returns how far the kernel reaches, in columns and in rows; -1 without a kernel.
func (k Kernel) Radius() int { return len(k.Columns) - 1 }

func (k Kernel) validate() error {
	if len(k.Columns) != len(k.Rows) || k.Radius() > MaxRadius {
		return errors.New("mobility: the kernel must be square, of 125 cells at most")
	}
	for i := range k.Columns {
		for _, w := range [...]float64{k.Columns[i], k.Rows[i]} {
			if !(w >= 0) || w > 1 || i == 0 && w == 0 {
				return errors.New("mobility: a weight of the kernel is not in [0, 1]")
			}
		}
	}
	return nil
}

// cut returns the inverse, for each of n columns (or rows), of the weights that stay on the map.
func cut(weights []float64, n int) []float64 {
	inverse := make([]float64, n)
	for at := range inverse {
		sum := 0.0
		for to := max(0, at-len(weights)+1); to < min(n, at+len(weights)); to++ {
			sum += weights[max(to-at, at-to)]
		}
		inverse[at] = 1 / sum
	}
	return inverse
}

// Jumps give a share of every row to far cells, so that a user who reappears beyond the kernel is
// found again. Jumps start from blocks of Side × Side cells and go to the middles of the blocks
// that lie about two, four and eight blocks away in eight directions. Each of these 24 gets the
// same part of the share, and the row keeps the part of one that is not on the map. The zero value
// has none.
type Jumps struct {
	Side  int     `json:"side"`
	Share float64 `json:"share"`
}

// jumpsAway are the distances of jumps in blocks: along an axis, and along both on a diagonal,
// where √2/2 times as much is as far.
var jumpsAway = [...]struct{ straight, diagonal int }{{2, 1}, {4, 3}, {8, 6}}

func (j Jumps) validate() error {
	if j != (Jumps{}) && (j.Side < 1 || j.Side > grid.MaxCells || !(j.Share > 0) || j.Share >= 1) {
		return errors.New("mobility: jumps need a share in (0, 1) and blocks of a cell")
	}
	return nil
}

// JumpTargets is the number of blocks to which one jumps on a large map.
const JumpTargets = 8 * len(jumpsAway)

// From returns the share of cell c's row that jumps.
func (j Jumps) From(g *grid.Grid, c grid.Cell) float64 {
	if j.Share == 0 {
		return 0
	}
	n := 0.0
	for range j.targets(g, g.Column(c)/j.Side, g.Row(c)/j.Side) {
		n++
	}
	return float64(n * j.each())
}

// each returns the part of one target.
func (j Jumps) each() float64 { return j.Share / float64(JumpTargets) }

// blocks returns how many columns and rows of blocks there are.
func (j Jumps) blocks(g *grid.Grid) (columns, rows int) {
	return (g.Width() + j.Side - 1) / j.Side, (g.Height() + j.Side - 1) / j.Side
}

// targets yields the middles of the blocks to which a block jumps.
func (j Jumps) targets(g *grid.Grid, column, row int) iter.Seq[grid.Cell] {
	columns, rows := j.blocks(g)
	middle := func(block, cells int) int { return min(block*j.Side+j.Side/2, cells-1) }
	return func(yield func(grid.Cell) bool) {
		for _, away := range jumpsAway {
			for i := range 9 {
				right, up := i%3-1, i/3-1
				distance := away.straight
				if right != 0 && up != 0 {
					distance = away.diagonal
				}
				x, y := column+right*distance, row+up*distance
				if i != 4 && x >= 0 && y >= 0 && x < columns && y < rows && !yield(grid.Cell(
					middle(y, g.Height())*g.Width()+middle(x, g.Width()))) {
					return
				}
			}
		}
	}
}

// layout is what follows from a model's grid, kernel and jumps, once for all predictors.
type layout struct {
	width, height int
	// columns and rows are the inverse weights of the kernel that stay on the map.
	columns, rows []float64
	// blocks is how many blocks there are in a row of them, 0 without jumps. Each has side columns.
	blocks, side int
	// blockColumn is the column of blocks in which each column of cells lies: a look instead of a
	// division.
	blockColumn []int32
	// Block b jumps to targets[start[b]:start[b+1]].
	start   []int32
	targets []grid.Cell
}

func newLayout(g *grid.Grid, k Kernel, j Jumps) *layout {
	l := &layout{
		width: g.Width(), height: g.Height(),
		columns: cut(k.Columns, g.Width()), rows: cut(k.Rows, g.Height()),
	}
	if j.Share == 0 {
		return l
	}
	columns, rows := j.blocks(g)
	l.blocks, l.side, l.start = columns, j.Side, append(l.start, 0)
	for column := range l.width {
		l.blockColumn = append(l.blockColumn, int32(column/l.side))
	}
	for block := range columns * rows {
		to := slices.Sorted(j.targets(g, block%columns, block/columns))
		l.targets = append(l.targets, to...)
		l.start = append(l.start, int32(len(l.targets)))
	}
	return l
}

// blockOf returns the block from which a cell jumps.
func (l *layout) blockOf(c grid.Cell) int {
	row := int(c) / l.width
	return row/l.side*l.blocks + (int(c)-row*l.width)/l.side
}

// jumpsFrom returns the cells to which the block of a cell jumps, ascending.
func (l *layout) jumpsFrom(c grid.Cell) []grid.Cell {
	if l.blocks == 0 {
		return nil
	}
	block := l.blockOf(c)
	return l.targets[l.start[block]:l.start[block+1]]
}

// along inverts at u the distribution of a kernel's move along one axis, and returns where u lies
// within the weight that it chose, from 0 to 1.
func along(at int, weights, inverse []float64, u float64) (to int, rest float64) {
	last := min(len(inverse), at+len(weights)) - 1
	for to = max(0, at-len(weights)+1); ; to++ {
		w := float64(weights[max(to-at, at-to)] * inverse[at])
		if u < w || to == last {
			return to, math.Min(u/w, 1)
		}
		u -= w
	}
}
