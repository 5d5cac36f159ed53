package mobility

import (
	"math/bits"

	"github.com/geodither/geodither/mechanism/grid"
)

// Predictor computes predictions p·M^k for one model. It is scratch memory, 8 bytes a cell of which only the cells ever
// reached are touched: one per goroutine.
type Predictor struct {
	model *Model
	reach *reach
	// mass accumulates p·M; it is all zero between calls.
	mass []float64
	// words marks the cells reached, 64 a word; summary marks the non-zero words, 64 a word. All zero between calls.
	words   []uint64
	summary []uint64
	steps   [2]Distribution
}

// reach lists, per row of the matrix, which 64-cell words its columns fall into, with the bits to set: a row of 81
// columns costs a dozen marks instead of 81.
type reach struct {
	rowStart []int64
	marks    []mark
}

type mark struct {
	bits uint64
	word int32
}

// NewPredictor returns a predictor for m. The first one of a model costs a pass over its transitions and memory of 12
// bytes per row and map row reached, shared by all.
func NewPredictor(m *Model) *Predictor {
	m.reachOnce.Do(func() { m.reach = newReach(m.Matrix) })
	cells := m.Grid.Cells()
	words := (cells + 63) / 64
	return &Predictor{
		model:   m,
		reach:   m.reach,
		mass:    make([]float64, cells),
		words:   make([]uint64, words),
		summary: make([]uint64, (words+63)/64),
	}
}

func newReach(m *Matrix) *reach {
	rows := len(m.RowStart) - 1
	r := &reach{rowStart: make([]int64, 1, rows+1)}
	for c := range grid.Cell(rows) {
		columns, _ := m.Row(c)
		last := int32(-1)
		for _, column := range columns {
			if w := column >> 6; w != last {
				r.marks = append(r.marks, mark{word: w})
				last = w
			}
			r.marks[len(r.marks)-1].bits |= 1 << (column & 63)
		}
		r.rowStart = append(r.rowStart, int64(len(r.marks)))
	}
	return r
}

// Predict sets dst to from·M^k, normalized; k = 0 copies. from must hold cells of the model's grid; dst may be from.
// Cost: the transitions out of the support, k times over as it widens, whatever the size of the grid; no allocation once
// dst and p have grown. Contributions to a cell are added in ascending order of the cell they come from. Panics if k is
// negative.
func (p *Predictor) Predict(dst, from *Distribution, k int) { p.PredictPruned(dst, from, k, 0) }

// PredictPruned is Predict that prunes at the threshold after each step but the last (see [Distribution.Prune]), so
// that a long gap costs what the mass spreads over, not everything within reach. With threshold 0 nothing is pruned.
func (p *Predictor) PredictPruned(dst, from *Distribution, k int, threshold float64) {
	switch {
	case k < 0:
		panic("mobility: a prediction needs k ≥ 0")
	case k == 0:
		if dst != from {
			dst.CopyFrom(from)
		}
		dst.Normalize()
		return
	}
	for step := 1; step < k; step++ {
		next := &p.steps[step&1]
		p.step(next, from)
		if threshold > 0 {
			next.Prune(threshold)
		}
		from = next
	}
	total := p.step(dst, from)
	dst.divide(total)
}

// step sets dst to from·M and returns its total. dst may be from, which is read before dst is written.
func (p *Predictor) step(dst, from *Distribution) (total float64) {
	p.scatter(from)
	return p.compact(dst)
}

func (p *Predictor) scatter(from *Distribution) {
	m, r := p.model.Matrix, p.reach
	mass, words := p.mass, p.words
	for i, c := range from.Cells {
		weight := from.P[i]
		start, end := m.RowStart[c], m.RowStart[c+1]
		columns := m.Columns[start:end]
		values := m.Values[start:end]
		if len(columns) >= longRow {
			columns, values = scatterFours(mass, weight, columns, values)
		}
		for j, column := range columns {
			mass[column] += float64(weight * values[j])
		}
		for _, mark := range r.marks[r.rowStart[c]:r.rowStart[c+1]] {
			before := words[mark.word]
			words[mark.word] = before | mark.bits
			if before == 0 { // a branch that is seldom taken beats a chain of stores to one word of the summary
				p.summary[mark.word>>6] |= 1 << (mark.word & 63)
			}
		}
	}
}

// longRow is where taking four columns at a time starts to pay (measured: 10 % at 25 columns, 30 % at 81, a loss at 5).
const longRow = 16

// scatterFours adds weight·values to the masses of the columns, which differ, four at a time, and returns the rest.
func scatterFours(mass []float64, weight float64, columns []grid.Cell, values []float64) ([]grid.Cell, []float64) {
	for len(columns) >= 4 && len(values) >= 4 {
		a, b, c, d := float64(weight*values[0]), float64(weight*values[1]), float64(weight*values[2]), float64(weight*values[3])
		mass[columns[0]] += a
		mass[columns[1]] += b
		mass[columns[2]] += c
		mass[columns[3]] += d
		columns, values = columns[4:], values[4:]
	}
	return columns, values
}

// compact moves the marked masses to dst in ascending order, leaves mass, words and summary zero, and returns the total.
// Masses that underflowed to 0 are dropped.
func (p *Predictor) compact(dst *Distribution) (total float64) {
	mass := p.mass
	n := 0
	dst.resize(cap(dst.P))
	for s, group := range p.summary {
		if group == 0 {
			continue
		}
		p.summary[s] = 0
		for ; group != 0; group &= group - 1 {
			w := s<<6 + bits.TrailingZeros64(group)
			if n+64 > len(dst.P) || n+64 > len(dst.Cells) {
				dst.resize(n + 64)
			}
			marks := p.words[w]
			p.words[w] = 0
			for ; marks != 0; marks &= marks - 1 {
				c := w<<6 + bits.TrailingZeros64(marks)
				v := mass[c]
				if v == 0 {
					continue
				}
				mass[c] = 0
				total += v
				dst.Cells[n], dst.P[n] = grid.Cell(c), v
				n++
			}
		}
	}
	dst.Cells, dst.P = dst.Cells[:n], dst.P[:n]
	return total
}
