package mobility

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Distribution is a sparse distribution over the cells of a grid. P[i] > 0 is the mass of Cells[i],
// cells ascend, and every other cell has no mass. Methods that need a total of 1 mention it;
// [Distribution.Normalize] makes it 1. The zero value is empty and ready to use. A distribution
// reuses its slices, so two distributions must not share one.
type Distribution struct {
	Cells []grid.Cell
	P     []float64
}

// Uniform returns the distribution in which all cells are equally likely.
func Uniform(g *grid.Grid) Distribution {
	n := g.Cells()
	d := Distribution{Cells: make([]grid.Cell, n), P: make([]float64, n)}
	for c := range n {
		d.Cells[c], d.P[c] = grid.Cell(c), 1/float64(n)
	}
	return d
}

// Len returns the number of cells with mass.
func (d *Distribution) Len() int { return len(d.Cells) }

// At returns the mass of a cell, or 0 where it has none. Cost: a binary search.
func (d *Distribution) At(c grid.Cell) float64 {
	if i, ok := slices.BinarySearch(d.Cells, c); ok {
		return d.P[i]
	}
	return 0
}

// Total returns the sum of the masses, added in ascending order of cells.
func (d *Distribution) Total() float64 {
	total := 0.0
	for _, p := range d.P {
		total += p
	}
	return total
}

// Normalize divides every mass by the total. If the total is 0 or not finite it changes nothing and
// returns false.
func (d *Distribution) Normalize() bool {
	return d.divide(d.Total())
}

// divide is [Distribution.Normalize] for a total that is already known.
func (d *Distribution) divide(total float64) bool {
	if !(total > 0) || math.IsInf(total, 1) {
		return false
	}
	over := 1 / total
	if math.IsInf(over, 1) { // a total without an inverse
		for i, p := range d.P {
			d.P[i] = p / total
		}
		return true
	}
	for i, p := range d.P {
		d.P[i] = float64(p * over)
	}
	return true
}

// Mean returns the mean of the cells' centres under d, which must be normalized, in kilometres on
// g's map. It is the estimate with the least expected squared distance.
func (d *Distribution) Mean(g *grid.Grid) grid.Point {
	var columns, rows float64
	width := grid.Cell(g.Width())
	for i, c := range d.Cells {
		row := c / width
		columns += float64(d.P[i] * float64(c-row*width))
		rows += float64(d.P[i] * float64(row))
	}
	return grid.Point{
		X: float64((columns + 0.5) * g.CellKM()),
		Y: float64((rows + 0.5) * g.CellKM()),
	}
}

// MostProbable returns the cell with the largest probability, or the lowest index among equals. The
// distribution must not be empty.
func (d *Distribution) MostProbable() grid.Cell {
	best := 0
	for i, p := range d.P {
		if p > d.P[best] {
			best = i
		}
	}
	return d.Cells[best]
}

// Reset empties d and keeps its memory.
func (d *Distribution) Reset() {
	d.Cells = d.Cells[:0]
	d.P = d.P[:0]
}

// CopyFrom makes d equal to from, in d's own memory.
func (d *Distribution) CopyFrom(from *Distribution) {
	d.Cells = append(d.Cells[:0], from.Cells...)
	d.P = append(d.P[:0], from.P...)
}

// Prune drops the cells below [PruneLevel] and normalizes the rest.
//
// At most [PruneCells]·threshold of the total is dropped, whatever the number of cells: 1e-4 at
// 1e-7, well below any δ in use. The masses that are kept grow by at most the factor
// 1/(1 − PruneCells·threshold). A pruned cell has posterior 0, so no later release can bring it
// back; only the matrix can, from its neighbours. If every cell is below the level, d is only
// normalized.
func (d *Distribution) Prune(threshold float64) {
	total := d.Total()
	d.divide(d.drop(PruneLevel(d.Len(), threshold, total), total))
}

// PruneCells bounds what one pruning drops: less than the mass of so many cells at the threshold.
const PruneCells = 1000

// PruneLevel returns the mass below which a pruning at the threshold, a share of the total, drops
// one of n cells: threshold × total for up to PruneCells cells, and for more of them so much less
// that all together would have no more than PruneCells at the threshold. So the uniform share of a
// map of 10⁶ cells stays.
func PruneLevel(n int, threshold, total float64) float64 {
	return float64(threshold*total) / max(1, float64(n)/PruneCells)
}

// drop removes the masses below least and returns the total of the rest. If nothing would be left
// it keeps everything and returns total.
func (d *Distribution) drop(least, total float64) float64 {
	cells, p := d.Cells, d.P[:len(d.Cells)]
	kept, rest := 0, 0.0
	for i, v := range p {
		if v >= least {
			cells[kept], p[kept] = cells[i], v
			rest += v
			kept++
		}
	}
	if kept == 0 {
		return total
	}
	d.Cells, d.P = cells[:kept], p[:kept]
	return rest
}

// Round replaces every mass by the nearest float32 and drops those that become 0. After that d is
// what [Distribution.AppendBinary] stores, bit for bit: what is stored is the state. The total then
// differs from 1 by up to 6e-8.
func (d *Distribution) Round() {
	kept := 0
	for i, p := range d.P {
		if r := float32(p); r > 0 {
			d.Cells[kept], d.P[kept] = d.Cells[i], float64(r)
			kept++
		}
	}
	d.Cells, d.P = d.Cells[:kept], d.P[:kept]
}

// Update sets dst to the posterior, dst ∝ likelihood[i]·prior.P[i], and returns the evidence Σ
// likelihood[i]·prior.P[i]. likelihood[i] belongs to prior.Cells[i], not to the i-th cell of the
// grid. If the evidence is 0 or not finite, nothing was learned: dst is then the prior and ok is
// false. dst may be the prior itself. Cells whose mass becomes 0 are dropped. Update panics if the
// lengths differ.
//
// Update is the whole of Bayes' rule, for users' own filters. The sanitizer does the same in one
// pass together with its pruning and rounding, and is tested against Update.
func Update(dst, prior *Distribution, likelihood []float64) (evidence float64, ok bool) {
	if len(likelihood) != prior.Len() {
		panic("mobility: one likelihood for each cell of the prior is needed")
	}
	for i, p := range prior.P {
		evidence += float64(likelihood[i] * p)
	}
	if !(evidence > 0) || math.IsInf(evidence, 1) {
		if dst != prior {
			dst.CopyFrom(prior)
		}
		return evidence, false
	}
	n := prior.Len()
	dst.resize(n)
	kept := 0
	for i, c := range prior.Cells {
		if q := float64(likelihood[i]*prior.P[i]) / evidence; q > 0 {
			dst.Cells[kept], dst.P[kept] = c, q
			kept++
		}
	}
	dst.Cells, dst.P = dst.Cells[:kept], dst.P[:kept]
	return evidence, true
}

// resize makes room for n cells with undefined contents.
func (d *Distribution) resize(n int) {
	if cap(d.Cells) < n || cap(d.P) < n {
		room := n + n/2
		cells, p := make([]grid.Cell, n, room), make([]float64, n, room)
		copy(cells, d.Cells)
		copy(p, d.P)
		d.Cells, d.P = cells, p
		return
	}
	d.Cells, d.P = d.Cells[:n], d.P[:n]
}

// addInto adds scale·more to dst. It works in place, from the end.
func addInto(dst, more *Distribution, scale float64) {
	n, m := dst.Len(), more.Len()
	fresh := m
	for i, j := 0, 0; i < n && j < m; {
		switch order := cmp.Compare(dst.Cells[i], more.Cells[j]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			fresh--
			i++
			j++
		}
	}
	dst.resize(n + fresh)
	for i, j, at := n-1, m-1, n+fresh-1; j >= 0; at-- {
		switch {
		case i < 0 || dst.Cells[i] < more.Cells[j]:
			dst.Cells[at], dst.P[at] = more.Cells[j], float64(scale*more.P[j])
			j--
		case dst.Cells[i] > more.Cells[j]:
			dst.Cells[at], dst.P[at] = dst.Cells[i], dst.P[i]
			i--
		default:
			dst.Cells[at], dst.P[at] = dst.Cells[i], dst.P[i]+float64(scale*more.P[j])
			i--
			j--
		}
	}
}

// Source yields uniform random bits, as math/rand/v2's sources do.
type Source interface{ Uint64() uint64 }

// sample inverts the distribution function at a uniform multiple of 2⁻⁵³ in [0, 1). What
// rounding leaves over at the top belongs to the last cell.
func sample(cells []grid.Cell, p []float64, src Source) grid.Cell {
	u := uniform01(src)
	for i, v := range p {
		if u -= v; u < 0 {
			return cells[i]
		}
	}
	return cells[len(cells)-1]
}

// uniform01 draws a uniform multiple of 2⁻⁵³ in [0, 1).
func uniform01(src Source) float64 { return float64(src.Uint64()>>11) / (1 << 53) }
