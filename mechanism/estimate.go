package mechanism

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Credibility is the posterior mass that the radius of an estimate holds.
const Credibility = 0.95

// Places that stand for a distribution.
const (
	// EstimateMean is the mean, the place of least expected squared distance. The default.
	EstimateMean = "mean"
	// EstimateMedian is the geometric median, the place of least expected distance: not drawn away
	// by a small mass far off.
	EstimateMedian = "median"
	// EstimateMode is the centre of the most probable cell, the lowest index among equals: a place
	// where somebody can be, which a mean between two roads is not.
	EstimateMode = "mode"
)

// massTolerance is how far the mass within a radius may stay below Credibility, as a share of all
// mass: ten times what the order of a sum of millions of probabilities can make of it (see
// law.LocationSet, which has the same one).
const massTolerance = 1e-12

// halfDiagonal is how far a place of a cell lies from its centre at most, in cells.
const halfDiagonal = math.Sqrt2 / 2

// Estimator computes what an observer learns: the place that stands for a posterior, the mean
// unless told otherwise, and its credible radius. It is post-processing of releases and costs no
// ε. It is scratch for one goroutine.
type Estimator struct {
	// Place is EstimateMean, EstimateMedian or EstimateMode; empty means EstimateMean.
	Place string

	column, row []float64 // of each cell
	square      []float64 // squared distances to the mean, in cells
	mass        [radiusBuckets]float64
	cut         []distanced
}

// distanced is a cell's squared distance with its probability.
type distanced struct{ square, p float64 }

// Buckets of squared distances: eight per power of two, over 24 powers below the largest. Nearer
// cells, within 2⁻¹² of the largest distance, share the last one; on a map of whole cells that
// is one cell.
const (
	radiusPerOctave = 8
	radiusBuckets   = 24 * radiusPerOctave
)

// Estimate returns the place that stands for a distribution over g's cells, and a radius around it
// that holds at least 95 % of the mass wherever in its cell a place lies: the smallest that reaches
// the centres of so many cells, and half a cell's diagonal. Both in kilometres. A distribution on
// one cell has half the diagonal, not 0: a model of cells knows no place better. The distribution
// must not be empty; it need not be normalized. Linear, except for sorting one bucket of distances;
// the median takes up to 128 passes.
func (e *Estimator) Estimate(
	g *grid.Grid, d *mobility.Distribution,
) (place grid.Point, radiusKM float64) {
	if len(d.Cells) == 0 {
		panic("mechanism: an empty distribution has no mean")
	}
	column, row, total := e.centre(grid.Cell(g.Width()), d)
	switch e.Place {
	case EstimateMedian:
		column, row = e.median(d.P, column, row)
	case EstimateMode:
		c := d.MostProbable()
		column, row = float64(g.Column(c)), float64(g.Row(c))
	}
	cell := g.CellKM()
	place = grid.Point{X: float64((column + 0.5) * cell), Y: float64((row + 0.5) * cell)}
	largest := e.squares(column, row)
	return place, (math.Sqrt(e.quantile(d.P, largest, total)) + halfDiagonal) * cell
}

// Best is the best that a distribution says of a place, by two losses. Of a posterior without any
// release it is the blind baseline: an estimate under another loss would flatter the comparison.
type Best struct {
	Mean   grid.Point // the place of least expected squared distance, in kilometres
	Median grid.Point // the geometric median: the place of least expected distance
}

// Best returns the best places of a distribution over g's cells, which must not be empty and need
// not be normalized, whatever Place is. Cost: see Estimate of the median.
func (e *Estimator) Best(g *grid.Grid, d *mobility.Distribution) Best {
	if len(d.Cells) == 0 {
		panic("mechanism: an empty distribution has no mean")
	}
	cell := g.CellKM()
	at := func(column, row float64) grid.Point {
		return grid.Point{X: float64((column + 0.5) * cell), Y: float64((row + 0.5) * cell)}
	}
	column, row, _ := e.centre(grid.Cell(g.Width()), d)
	mean := at(column, row)
	return Best{Mean: mean, Median: at(e.median(d.P, column, row))}
}

// Distances returns how far the two places lie from another one, in kilometres.
func (b Best) Distances(from grid.Point) (mean, median float64) {
	return b.Mean.Distance(from), b.Median.Distance(from)
}

// centre returns the mean column and row and the total mass, and keeps every cell's column and row.
func (e *Estimator) centre(width grid.Cell, d *mobility.Distribution) (column, row, total float64) {
	n := len(d.Cells)
	e.column = slices.Grow(e.column[:0], n)[:n]
	e.row = slices.Grow(e.row[:0], n)[:n]
	start, end, y := grid.Cell(0), int64(0), 0.0
	for i, c := range d.Cells {
		if int64(c) >= end {
			r := c / width
			start, end, y = r*width, int64(r+1)*int64(width), float64(r)
		}
		x, p := float64(c-start), d.P[i]
		e.column[i], e.row[i] = x, y
		column += float64(p * x)
		row += float64(p * y)
		total += p
	}
	return column / total, row / total, total
}

// squares fills in the squared distances to a place and returns the largest.
func (e *Estimator) squares(column, row float64) float64 {
	n := len(e.column)
	e.square = slices.Grow(e.square[:0], n)[:n]
	square, rows := e.square[:len(e.column)], e.row[:len(e.column)]
	largest := uint64(0) // the bits of numbers without a sign have their order, and compare faster
	for i, x := range e.column {
		dx, dy := x-column, rows[i]-row
		s := float64(dx*dx) + float64(dy*dy)
		square[i] = s
		largest = max(largest, math.Float64bits(s))
	}
	return math.Float64frombits(largest)
}

// quantile returns the smallest squared distance s so that the cells at most that far hold
// Credibility of the total mass.
func (e *Estimator) quantile(p []float64, largest, total float64) float64 {
	clear(e.mass[:])
	top := radiusKey(largest)
	for i, s := range e.square {
		e.mass[radiusBucket(top, s)] += p[i]
	}
	target := float64(Credibility*total) - float64(massTolerance*total)
	sum, b := 0.0, radiusBuckets-1
	for b > 0 && sum+e.mass[b] < target {
		sum += e.mass[b]
		b--
	}
	e.cut = e.cut[:0]
	for i, s := range e.square {
		if radiusBucket(top, s) == b {
			e.cut = append(e.cut, distanced{s, p[i]})
		}
	}
	slices.SortStableFunc(e.cut, func(a, b distanced) int {
		switch {
		case a.square < b.square:
			return -1
		case a.square > b.square:
			return 1
		}
		return 0
	})
	for _, c := range e.cut {
		if sum += c.p; sum >= target {
			return c.square
		}
	}
	// Added one by one the cells stayed below what their bucket's sum reached, by a rounding error.
	if len(e.cut) > 0 {
		return e.cut[len(e.cut)-1].square
	}
	return largest
}

// radiusKey orders squares: the exponent and three bits of the fraction.
func radiusKey(square float64) int { return int(math.Float64bits(square) >> 49) }

// radiusBucket returns 0 for squares as large as the largest, and higher ones for smaller.
func radiusBucket(top int, square float64) int {
	return min(top-radiusKey(square), radiusBuckets-1)
}

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
