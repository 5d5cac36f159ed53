package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// patches are a prior as few masses in the plane, which code points are placed by: its heaviest
// cells as they are, and the others as patches of neighbours at their centre of mass. Places are in
// cells from the prior's mean, and masses are shares of the prior's total. Every sum has a fixed
// order.
type patches struct {
	x, y, p     []float64
	column, row float64 // of the prior's mean

	columns []sums // of the band at hand, by column
}

// sums are of cells in one column: their mass, mass times row, and weight.
type sums struct{ mass, moment, weight float64 }

// bandWeight is the least weight of a band, in shares of what it would have if as many bands as
// patches in a band divided the prior evenly.
const bandWeight = .7

// gather makes patches of a prior on a map of the given width. Up to ¾·most cells stay as they are.
// Otherwise patches have about the same weight, of which a cell has the root of its mass: many code
// points are best as dense as the root of the density (Gersho 1979, doi 10.1109/TIT.1979.1056067,
// in two dimensions), so patches are too. Rows are joined to bands, and in each band columns to
// patches of at most 1/most of the weight. A cell or a column that has more is one of its own. Two
// neighbours in a band have more than one may, so there are at most 2·most, and one for each band.
//
// Linear in the cells and, for each band, in the columns that it spans.
func (a *patches) gather(width grid.Cell, cells []grid.Cell, p []float64, most int) {
	a.x, a.y, a.p = a.x[:0], a.y[:0], a.p[:0]
	if len(a.columns) < int(width) {
		a.columns = make([]sums, width)
	}
	total, weight := weigh(p)
	patch, bandLeast := weight/float64(most), bandWeight*weight/math.Sqrt(float64(most))
	least := patch
	if 4*len(p) <= 3*most {
		least = 0
	}
	band, left, right := 0.0, width, grid.Cell(-1)
	for i := 0; i < len(cells); {
		row := cells[i] / width
		first, end, y := row*width, int64(row+1)*int64(width), float64(row)
		left = min(left, cells[i]-first)
		for ; i < len(cells) && int64(cells[i]) < end; i++ {
			q, column := p[i], cells[i]-first
			w := weightOf(q)
			if w >= least {
				a.addPatch(float64(column), y, q)
				continue
			}
			band += w
			c := &a.columns[column]
			c.mass += q
			c.moment += float64(q * y)
			c.weight += w
		}
		right = max(right, cells[i-1]-first)
		if band >= bandLeast {
			a.closeBand(int(left), int(right), patch)
			band, left, right = 0, width, -1
		}
	}
	a.closeBand(int(left), int(right), patch)
	a.centre(total)
}

// weightOf returns the root of a mass within 7 %, with the same bits everywhere: half the exponent,
// and half the mantissa.
func weightOf(p float64) float64 {
	const half = 1023 << 51 // of the exponent's bias
	return math.Float64frombits(math.Float64bits(p)>>1 + half)
}

// weigh returns the sums of masses and of their weights.
func weigh(p []float64) (total, weight float64) {
	for _, q := range p {
		total += q
		weight += weightOf(q)
	}
	return total, weight
}

// closeBand makes patches of the columns from left to right, and clears them.
func (a *patches) closeBand(left, right int, most float64) {
	var p, columns, moment, weight float64
	for column := left; column <= right; column++ {
		c := &a.columns[column]
		if p > 0 && weight+c.weight > most {
			a.addPatch(columns/p, moment/p, p)
			p, columns, moment, weight = 0, 0, 0, 0
		}
		p += c.mass
		columns += float64(c.mass * float64(column))
		moment += c.moment
		weight += c.weight
		*c = sums{}
	}
	if p > 0 {
		a.addPatch(columns/p, moment/p, p)
	}
}

func (a *patches) addPatch(column, row, p float64) {
	a.x, a.y, a.p = append(a.x, column), append(a.y, row), append(a.p, p)
}

// centre divides masses by the total, and counts places from the mean.
func (a *patches) centre(total float64) {
	column, row := 0.0, 0.0
	for i, p := range a.p {
		share := p / total
		a.p[i] = share
		column += float64(share * a.x[i])
		row += float64(share * a.y[i])
	}
	for i := range a.x {
		a.x[i] -= column
		a.y[i] -= row
	}
	a.column, a.row = column, row
}
