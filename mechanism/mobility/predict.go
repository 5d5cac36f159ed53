package mobility

import (
	"math"
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
	word     []int32
	mask     []uint64
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
				r.word, r.mask = append(r.word, w), append(r.mask, 0)
				last = w
			}
			r.mask[len(r.mask)-1] |= 1 << (column & 63)
		}
		r.rowStart = append(r.rowStart, int64(len(r.word)))
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
	p.step(dst, from)
	dst.Normalize()
}

// step sets dst to from·M. dst may be from, which is read before dst is written.
func (p *Predictor) step(dst, from *Distribution) {
	p.scatter(from)
	dst.resize(p.count())
	p.compact(dst)
}

func (p *Predictor) scatter(from *Distribution) {
	m, r := p.model.Matrix, p.reach
	mass := p.mass
	for i, c := range from.Cells {
		weight := from.P[i]
		start, end := m.RowStart[c], m.RowStart[c+1]
		columns, values := m.Columns[start:end], m.Values[start:end]
		for j, column := range columns {
			mass[column] += float64(weight * values[j])
		}
		marks := r.rowStart[c+1]
		for j := r.rowStart[c]; j < marks; j++ {
			w := r.word[j]
			p.words[w] |= r.mask[j]
			p.summary[w>>6] |= 1 << (w & 63)
		}
	}
}

func (p *Predictor) count() int {
	n := 0
	for s, group := range p.summary {
		for ; group != 0; group &= group - 1 {
			n += bits.OnesCount64(p.words[s<<6+bits.TrailingZeros64(group)])
		}
	}
	return n
}

// compact moves the marked masses to dst in ascending order and leaves mass, words and summary zero. Masses that
// underflowed to 0 are dropped.
func (p *Predictor) compact(dst *Distribution) {
	n := 0
	for s, group := range p.summary {
		if group == 0 {
			continue
		}
		p.summary[s] = 0
		for ; group != 0; group &= group - 1 {
			w := s<<6 + bits.TrailingZeros64(group)
			cells := p.words[w]
			p.words[w] = 0
			for ; cells != 0; cells &= cells - 1 {
				c := w<<6 + bits.TrailingZeros64(cells)
				v := p.mass[c]
				p.mass[c] = 0
				dst.Cells[n], dst.P[n] = grid.Cell(c), v
				if math.Float64bits(v) != 0 {
					n++
				}
			}
		}
	}
	dst.Cells, dst.P = dst.Cells[:n], dst.P[:n]
}
