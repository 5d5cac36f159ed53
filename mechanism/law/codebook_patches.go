package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// patches are a prior as few masses in the plane, for a first placing of code points: its heaviest
// cells as they are, and the others as patches of neighbours at their centre of mass. Places are in
// cells from the prior's mean, and masses are shares of the prior's total. Every sum has a fixed
// order.
type patches struct {
	x, y, p []float64

	classes [massClasses]massClass
	// by column of the band at hand: mass, and mass times row
	mass, moment []float64
}

// massClass is the cells whose masses are equal up to a factor of about √2.
type massClass struct {
	count int
	mass  float64
}

const (
	// massClasses is how many classes are told apart, from the total downwards. The last one holds
	// everything below 2⁻⁶³ of the total.
	massClasses = 128
	// patchMass is how much a patch of several columns may hold, in shares of what an even
	// division would give. With 1.5 a prior that spreads evenly gets a little fewer patches than
	// asked for. Two neighbours in a band hold more than one may, so there are at most 4/3 as many
	// as asked for, and one for each band.
	patchMass = 1.5
)

// gather makes patches of a prior whose rows are known, on a map of the given width. Up to ¾·most
// cells stay as they are. Otherwise the heaviest stay, up to most/2. The rows of the others are
// joined to about √(most/2) bands, and in each band columns to patches of at most
// patchMass·2/most of what is left; a row or column that holds more is one of its own. So patches
// are small where the mass is, wherever that is on the map. Linear in the cells and, for each band,
// in the columns that it spans.
func (a *patches) gather(rows *rows, width grid.Cell, p []float64, most int) {
	a.x, a.y, a.p = a.x[:0], a.y[:0], a.p[:0]
	if 4*len(p) <= 3*most {
		for _, r := range rows.runs {
			for i := r.from; i < r.to; i++ {
				a.add(rows, float64(rows.cells[i]-r.first), r.row, p[i])
			}
		}
		return
	}
	if len(a.mass) < int(width) {
		a.mass, a.moment = make([]float64, width), make([]float64, width)
	}
	heavy, rest := a.heavy(rows.total, p, most/2)
	bandLeast := rest / math.Sqrt(float64(most/2))
	patchMost := patchMass * rest / float64(most/2)
	band, left, right := 0.0, width, grid.Cell(0)
	for _, r := range rows.runs {
		left = min(left, rows.cells[r.from]-r.first)
		right = max(right, rows.cells[r.to-1]-r.first)
		for i := r.from; i < r.to; i++ {
			column := rows.cells[i] - r.first
			if classOf(rows.total, p[i]) < heavy {
				a.add(rows, float64(column), r.row, p[i])
				continue
			}
			band += p[i]
			a.mass[column] += p[i]
			a.moment[column] += float64(p[i] * r.row)
		}
		if band >= bandLeast {
			a.closeBand(rows, int(left), int(right), patchMost)
			band, left, right = 0, width, 0
		}
	}
	a.closeBand(rows, int(left), int(right), patchMost)
}

// classOf returns the class of a mass: twice the difference of the binary logarithms, roughly.
func classOf(total, mass float64) int {
	const half = 51 // bits below the exponent and the first bit of the mantissa
	return min(int(math.Float64bits(total)>>half)-int(math.Float64bits(mass)>>half), massClasses-1)
}

// heavy returns the first class that does not stay as cells, where up to most cells may, and the
// mass from there on.
func (a *patches) heavy(total float64, p []float64, most int) (class int, rest float64) {
	clear(a.classes[:])
	for _, v := range p {
		c := &a.classes[classOf(total, v)]
		c.count++
		c.mass += v
	}
	for class < massClasses-1 && a.classes[class].count <= most {
		most -= a.classes[class].count
		class++
	}
	for _, c := range a.classes[class:] {
		rest += c.mass
	}
	return class, rest
}

// closeBand makes patches of the columns from left to right, and clears them.
func (a *patches) closeBand(rows *rows, left, right int, most float64) {
	var p, columns, moment float64
	for column := left; column <= right; column++ {
		q := a.mass[column]
		if q == 0 {
			continue
		}
		if p > 0 && p+q > most {
			a.add(rows, columns/p, moment/p, p)
			p, columns, moment = 0, 0, 0
		}
		p += q
		columns += float64(q * float64(column))
		moment += a.moment[column]
		a.mass[column], a.moment[column] = 0, 0
	}
	if p > 0 {
		a.add(rows, columns/p, moment/p, p)
	}
}

func (a *patches) add(rows *rows, column, row, p float64) {
	a.x = append(a.x, column-rows.column)
	a.y = append(a.y, row-rows.row)
	a.p = append(a.p, p/rows.total)
}
