package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// patches are a prior as few masses in the plane, for placing code points: its cells themselves, or
// patches of neighbouring cells at their centre of mass. Places are in cells from the prior's mean,
// and masses are shares of the prior's total. Every sum has a fixed order.
type patches struct {
	x, y, p     []float64
	column, row float64 // of the mean
	total       float64

	runs []run
	// by column of the band at hand: mass, and mass times row
	mass, moment []float64
}

// run is the cells of a prior in one row of the map, by their positions in the prior.
type run struct {
	from, to int
	first    grid.Cell // of the row
	row      float64
	mass     float64
}

// patchMass is how much a patch of several columns may hold, in shares of 1/most of the total. With
// 1.5 a prior that spreads evenly gets a little fewer patches than asked for. Two neighbours in a
// band hold more than one may, so no prior gets more than 4/3 of them and one for each band.
const patchMass = 1.5

// gather makes patches of a prior on a map of the given width. Cells ascend. Up to ¾·most cells
// stay as they are. Otherwise rows are joined to bands of at most total/√most, and in each band
// columns to patches of at most patchMass·total/most; a row or column that holds more is one of its
// own. So patches are small where the mass is, wherever that is on the map, and mostly fewer than
// ¾·most. Linear in the cells and, for each band, in the columns that it spans.
func (a *patches) gather(width grid.Cell, cells []grid.Cell, p []float64, most int) {
	a.measure(width, cells, p)
	a.x, a.y, a.p = a.x[:0], a.y[:0], a.p[:0]
	if 4*len(cells) <= 3*most {
		for _, r := range a.runs {
			for i := r.from; i < r.to; i++ {
				a.add(float64(cells[i]-r.first), r.row, p[i])
			}
		}
		return
	}
	if len(a.mass) < int(width) {
		a.mass, a.moment = make([]float64, width), make([]float64, width)
	}
	bandMost := a.total / math.Sqrt(float64(most))
	patchMost := patchMass * a.total / float64(most)
	band, left, right := 0.0, width, grid.Cell(0)
	for _, r := range a.runs {
		if band > 0 && band+r.mass > bandMost {
			a.closeBand(int(left), int(right), patchMost)
			band, left, right = 0, width, 0
		}
		band += r.mass
		left = min(left, cells[r.from]-r.first)
		right = max(right, cells[r.to-1]-r.first)
		for i := r.from; i < r.to; i++ {
			column := cells[i] - r.first
			a.mass[column] += p[i]
			a.moment[column] += float64(p[i] * r.row)
		}
	}
	a.closeBand(int(left), int(right), patchMost)
}

// measure finds the rows of the prior, its total and its mean.
func (a *patches) measure(width grid.Cell, cells []grid.Cell, p []float64) {
	a.runs = a.runs[:0]
	var total, columns, rows float64
	for i := 0; i < len(cells); {
		row := cells[i] / width
		r := run{from: i, first: row * width, row: float64(row)}
		end := int64(r.first) + int64(width)
		for ; i < len(cells) && int64(cells[i]) < end; i++ {
			r.mass += p[i]
			columns += float64(p[i] * float64(cells[i]-r.first))
		}
		r.to = i
		rows += float64(r.mass * r.row)
		total += r.mass
		a.runs = append(a.runs, r)
	}
	a.total, a.column, a.row = total, columns/total, rows/total
}

// closeBand makes patches of the columns from left to right, and clears them.
func (a *patches) closeBand(left, right int, most float64) {
	var p, columns, rows float64
	for column := left; column <= right; column++ {
		q := a.mass[column]
		if q == 0 {
			continue
		}
		if p > 0 && p+q > most {
			a.add(columns/p, rows/p, p)
			p, columns, rows = 0, 0, 0
		}
		p += q
		columns += float64(q * float64(column))
		rows += a.moment[column]
		a.mass[column], a.moment[column] = 0, 0
	}
	if p > 0 {
		a.add(columns/p, rows/p, p)
	}
}

func (a *patches) add(column, row, p float64) {
	a.x = append(a.x, column-a.column)
	a.y = append(a.y, row-a.row)
	a.p = append(a.p, p/a.total)
}

// moments are the mass and the first moment of what votes for a code point, of a total mass of 1.
type moments struct{ p, x, y float64 }

// worth is what a code point takes off the expected squared error, before the factor that counts
// the points: |M|²/(r + P).
func (m moments) worth(rest float64) float64 {
	return (float64(m.x*m.x) + float64(m.y*m.y)) / (rest + m.p)
}

func (m moments) plus(n moments) moments { return moments{m.p + n.p, m.x + n.x, m.y + n.y} }

// site is a code point in cells from the mean, with half its squared distance from there: the
// nearest site of a place x is that of the least half - x·site.
type site struct{ x, y, half float64 }
