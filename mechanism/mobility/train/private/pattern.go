package private

import (
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// pattern is what private training may count: moves between cells at most a radius apart. It is
// known before anything is read, so the list of counts tells nothing about anybody.
//
// Counts come in levels. The first level counts the moves of the whole map by their length. Each
// further level cuts the map into smaller blocks and counts the moves out of each. The last level
// counts every pair of cells. A few users rise above the noise in the first levels only, many users
// in all levels.
type pattern struct {
	grid    *grid.Grid
	radius  int
	classes int // of the calendar
	// offsets are those within the radius, by row, then column, without weights.
	offsets []offset
	// ring is the index in rings that each offset belongs to.
	ring    []int
	rings   []train.Ring // by ascending length, without masses
	squared []int        // the square of each ring's length, in cells
}

// offset is a displacement in columns and rows.
type offset struct{ columns, rows int }

func newPattern(g *grid.Grid, classes, radius int) *pattern {
	p := &pattern{grid: g, radius: radius, classes: classes}
	number := make([]int, radius*radius+1)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			if d := columns*columns + rows*rows; d < len(number) {
				number[d]++
			}
		}
	}
	for d, n := range number {
		if n > 0 {
			p.rings, p.squared = append(p.rings, train.Ring{Cells: n}), append(p.squared, d)
		}
	}
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			if ring, ok := p.ringOf(columns, rows); ok {
				p.offsets = append(p.offsets, offset{columns, rows})
				p.ring = append(p.ring, ring)
			}
		}
	}
	return p
}

// ringOf returns the ring of a displacement; ok is false if it lies beyond the radius.
func (p *pattern) ringOf(columns, rows int) (ring int, ok bool) {
	return slices.BinarySearch(p.squared, columns*columns+rows*rows)
}

// level is one of the ways to cut the map: into blocks of side × side cells.
type level struct {
	*pattern
	side          int
	columns, rows int // of blocks
	classes       int // 1 at the first level, which counts all classes of the calendar together
}

// levelFactor is how many times smaller the sides of blocks are from one level to the next.
const levelFactor = 4

// levels returns the levels that count by length, from the whole map to the smallest blocks, which
// are larger than single cells. A map that fits into one such block has only the first level.
func (p *pattern) levels() []level {
	longer := max(p.grid.Width(), p.grid.Height())
	var all []level
	for side := levelFactor; side < longer; side *= levelFactor {
		all = append(all, p.level(side, p.classes))
	}
	all = append(all, p.level(longer, 1))
	slices.Reverse(all)
	return all
}

func (p *pattern) level(side, classes int) level {
	up := func(n int) int { return (n + side - 1) / side }
	return level{
		pattern: p, side: side, columns: up(p.grid.Width()), rows: up(p.grid.Height()),
		classes: classes,
	}
}

// blocks returns the number of blocks, of all classes.
func (l level) blocks() int { return l.classes * l.columns * l.rows }

// block returns the block of a class that holds a cell.
func (l level) block(class int, c grid.Cell) int {
	if l.classes == 1 {
		class = 0
	}
	return (class*l.rows+l.grid.Row(c)/l.side)*l.columns + l.grid.Column(c)/l.side
}

// parent returns the block of a coarser level in which a block lies.
func (l level) parent(coarser level, block int) int {
	class, x, y := l.place(block)
	if coarser.classes == 1 {
		class = 0
	}
	return (class*coarser.rows+y*l.side/coarser.side)*coarser.columns + x*l.side/coarser.side
}

func (l level) place(block int) (class, column, row int) {
	return block / (l.columns * l.rows), block % l.columns, block / l.columns % l.rows
}

// pairs sets dst, for each ring, to the number of moves of that length that start in the block and
// end on the map.
func (l level) pairs(dst []float64, block int) {
	_, column, row := l.place(block)
	clear(dst)
	within := func(at, shift, size int) int {
		first, end := max(at*l.side, -shift), min((at+1)*l.side, size, size-shift)
		return max(0, end-first)
	}
	for i, o := range l.offsets {
		columns, rows := within(column, o.columns, l.grid.Width()),
			within(row, o.rows, l.grid.Height())
		dst[l.ring[i]] += float64(columns * rows)
	}
}

// area returns the number of a block's cells.
func (l level) area(block int) float64 {
	_, column, row := l.place(block)
	columns := min(l.side, l.grid.Width()-column*l.side)
	rows := min(l.side, l.grid.Height()-row*l.side)
	return float64(columns * rows)
}

// reached returns the cell at an offset from c; ok is false if it is not on the map.
func (p *pattern) reached(c grid.Cell, at offset) (grid.Cell, bool) {
	x, y := p.grid.Column(c)+at.columns, p.grid.Row(c)+at.rows
	ok := x >= 0 && y >= 0 && x < p.grid.Width() && y < p.grid.Height()
	return grid.Cell(y*p.grid.Width() + x), ok
}
