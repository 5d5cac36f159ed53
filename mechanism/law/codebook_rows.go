package law

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// rows are a prior by the rows of the map. In a row the cells that are nearest to one code point
// lie side by side, so sums along each row give all regions' moments without a look at each cell.
type rows struct {
	runs        []run
	cells       []grid.Cell
	column, row float64 // of the mean
	total       float64
	// Sums of the masses, and of the masses times their columns, of a run's cells before one; each
	// run has one more of them than cells. Columns are counted from the run's first cell.
	mass, moment []float64

	order []uint8 // of the code points by column
	reach []reach // of the row at hand
}

// run is the cells of a prior in one row of the map, by their positions in the prior.
type run struct {
	from, to  int
	sums      int       // position of its sums
	first     grid.Cell // of the row of the map
	left, row float64   // of its first cell
}

// reach is where in a row a code point is the nearest: from a column on, until that of the next. Up
// to what all code points share, half the squared distance of column x is at - x·slope.
type reach struct {
	at, slope, start float64
	site             uint8
}

// gather finds the rows of the prior on a map of the given width, its total and its mean. Cells
// ascend. Linear.
func (a *rows) gather(width grid.Cell, cells []grid.Cell, p []float64) {
	n := len(cells)
	a.cells, a.runs = cells, a.runs[:0]
	a.mass = slices.Grow(a.mass[:0], 2*n)
	a.moment = slices.Grow(a.moment[:0], 2*n)
	var total, columns, rows float64
	for i := 0; i < n; {
		start, row := cells[i], cells[i]/width
		r := run{from: i, sums: len(a.mass), first: row * width, row: float64(row)}
		r.left = float64(start - r.first)
		end := int64(r.first) + int64(width)
		var mass, moment float64
		for ; i < n && int64(cells[i]) < end; i++ {
			a.mass, a.moment = append(a.mass, mass), append(a.moment, moment)
			mass += p[i]
			moment += float64(p[i] * float64(cells[i]-start))
		}
		a.mass, a.moment = append(a.mass, mass), append(a.moment, moment)
		r.to = i
		columns += moment + float64(mass*r.left)
		rows += float64(mass * r.row)
		total += mass
		a.runs = append(a.runs, r)
	}
	a.total, a.column, a.row = total, columns/total, rows/total
}

// polish is Lloyd's iteration on the cells themselves. It ends when a turn gains next to nothing,
// or after so many.
func (a *rows) polish(d *draft, rest float64, turns int) {
	for turn := range turns {
		before := d.worth
		a.vote(d)
		d.aim(rest)
		// What patches are worth says nothing of the first turn.
		if turn > 0 && d.worth <= float64(before*(1+cellGain)) {
			return
		}
	}
}

// vote fills in the moments of what is nearest to each code point. Linear in the rows times the
// code points.
func (a *rows) vote(d *draft) {
	a.sort(d.sites)
	d.regions = slices.Grow(d.regions[:0], len(d.sites))[:len(d.sites)]
	clear(d.regions)
	for i := range a.runs {
		r := &a.runs[i]
		y := r.row - a.row
		a.divide(d.sites, y)
		left, from := r.left-a.column, r.from
		for k := range a.reach {
			to := r.to
			if k+1 < len(a.reach) {
				to = a.position(r, from, a.reach[k+1].start+a.column)
			}
			if to == from {
				continue
			}
			lower, upper := r.sums+from-r.from, r.sums+to-r.from
			mass := a.mass[upper] - a.mass[lower]
			m := &d.regions[a.reach[k].site]
			m.p += mass
			m.x += a.moment[upper] - a.moment[lower] + float64(mass*left)
			m.y += float64(mass * y)
			from = to
		}
	}
	for j, m := range d.regions {
		d.regions[j] = moments{m.p / a.total, m.x / a.total, m.y / a.total}
	}
}

// sort puts the code points in the order of their columns.
func (a *rows) sort(sites []site) {
	a.order = a.order[:0]
	for j := range sites {
		a.order = append(a.order, uint8(j))
		for k := j; k > 0 && sites[a.order[k]].x < sites[a.order[k-1]].x; k-- {
			a.order[k], a.order[k-1] = a.order[k-1], a.order[k]
		}
	}
}

// divide finds which code points are the nearest where in a row. Their distances are lines over the
// columns, which descend the faster the larger the code point's own column is: each one wins from
// some column on, if it wins at all.
func (a *rows) divide(sites []site, y float64) {
	a.reach = a.reach[:0]
	for _, j := range a.order {
		s := &sites[j]
		next := reach{s.half - float64(y*s.y), s.x, math.Inf(-1), j}
		won := true
		for n := len(a.reach) - 1; n >= 0; n-- {
			last := &a.reach[n]
			if next.slope == last.slope {
				if won = next.at < last.at; !won {
					break
				}
			} else if cross := (next.at - last.at) / (next.slope - last.slope); cross > last.start {
				next.start = cross
				break
			}
			a.reach = a.reach[:n]
		}
		if won {
			a.reach = append(a.reach, next)
		}
	}
}

// position returns the position of a run's first cell, from a position on, whose column is not
// below the given one.
func (a *rows) position(r *run, from int, column float64) int {
	if from == r.to {
		return from
	}
	column = math.Ceil(column)
	left, right := a.cells[from]-r.first, a.cells[r.to-1]-r.first
	switch {
	case column <= float64(left):
		return from
	case column > float64(right):
		return r.to
	case int(right-left) == r.to-1-from: // no gap
		return from + int(column) - int(left)
	}
	i, _ := slices.BinarySearch(a.cells[from:r.to], r.first+grid.Cell(column))
	return from + i
}
