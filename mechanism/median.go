package mechanism

import "math"

// Where the search for a geometric median ends: after a move of less than 2⁻¹² cells, 8 cm in
// cells of 340 m, or after so many moves.
const (
	medianMove  = 0x1p-12
	medianMoves = 128
)

// median returns the geometric median, the place with the least expected distance, of the cells
// that centre has noted, in columns and rows. It goes there from the mean by Weiszfeld's steps,
// each to the mean of the cells weighted by probability over distance, with the rule of Vardi and
// Zhang for a place that is a cell's centre (2000, doi 10.1073/pnas.97.4.1423). Each step has no
// larger expected distance than the one before.
//
// The steps come to the most probable cell only slowly where that cell is the median, so median
// looks there first. It looks at the cell nearest to where the steps end too. Sums ascend, so the
// bits are the same everywhere. Linear for each step.
func (e *Estimator) median(p []float64, column, row float64) (x, y float64) {
	best := 0
	for i, q := range p {
		if q > p[best] {
			best = i
		}
	}
	if x, y := e.column[best], e.row[best]; e.pull(p, x, y).still() {
		return x, y
	}
	x, y = column, row
	for range medianMoves {
		f := e.pull(p, x, y)
		if f.still() {
			break
		}
		// f's place is the weighted mean of all cells but the one here; what that one holds back
		// shortens the move.
		stay := min(1, f.here/f.strength())
		dx, dy := float64((1-stay)*(f.x-x)), float64((1-stay)*(f.y-y))
		x, y = x+dx, y+dy
		if float64(dx*dx)+float64(dy*dy) < medianMove*medianMove {
			break
		}
	}
	if column, row := math.Floor(x+0.5), math.Floor(y+0.5); e.pull(p, column, row).still() {
		return column, row
	}
	return x, y
}

// pull is what draws a place towards the cells.
type pull struct {
	x, y   float64 // Weiszfeld's next place, without the cell whose centre is here
	dx, dy float64 // the sum of p times the unit vector to each other cell
	here   float64 // probability of the cell here
	others bool    // there is another one
}

func (f pull) strength() float64 { return math.Sqrt(float64(f.dx*f.dx) + float64(f.dy*f.dy)) }

// still says that no move is shorter for all cells together: the one here holds at least as much as
// the others pull.
func (f pull) still() bool { return !f.others || f.strength() <= f.here }

func (e *Estimator) pull(p []float64, x, y float64) pull {
	var f pull
	weights := 0.0
	rows, p := e.row[:len(e.column)], p[:len(e.column)]
	for i, column := range e.column {
		dx, dy := column-x, rows[i]-y
		square := float64(dx*dx) + float64(dy*dy)
		if square == 0 {
			f.here += p[i]
			continue
		}
		w := p[i] / math.Sqrt(square)
		f.x += float64(w * column)
		f.y += float64(w * rows[i])
		f.dx += float64(w * dx)
		f.dy += float64(w * dy)
		weights += w
	}
	if f.others = weights > 0; f.others {
		f.x, f.y = f.x/weights, f.y/weights
	}
	return f
}
