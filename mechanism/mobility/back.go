package mobility

import (
	"math/bits"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Backward takes functions of a place back in time: it is the transpose of a [Predictor]. It is
// scratch memory for one goroutine: that of the predictor, 8 bytes for each cell, and 4 bytes for
// each cell that any of up to k - 1 predictions reaches.
type Backward struct {
	predictor *Predictor
	moved     Distribution
	later     Distribution  // a function of the place one step later
	function  []float64     // the same, by cell; all 0 between calls
	weights   []float64     // by the number of moves
	reached   [][]grid.Cell // by the number of moves
	scratch   []float64     // of massOf
}

// NewBackward returns a Backward for m, at the cost of [NewPredictor].
func NewBackward(m *Model) *Backward {
	return &Backward{predictor: NewPredictor(m), function: make([]float64, m.Grid.Cells())}
}

// Back is the transpose of [Predictor.PredictPruned]: it returns, for each cell of from, what a
// function f ≥ 0 is expected to be k steps later for a user who is there at step at, (M^k·f)(c).
// f has the values f.P on f.Cells, ascending, and is 0 elsewhere; it need not sum to anything. So
// ⟨from·M^k, f⟩ = ⟨from, M^k·f⟩ if the threshold is 0 and from sums to 1. Between from and f only
// cells count that a prediction pruned at the threshold reaches. The result is dst's memory, grown.
//
// Cost: k - 1 predictions, and as much again as k of them. No value is larger than the largest of
// f. Sums ascend. Back panics if k is negative.
func (b *Backward) Back(
	dst []float64, from *Distribution, at int64, k int, threshold float64, f *Distribution,
) []float64 {
	if k < 0 {
		panic("mobility: a prediction needs k ≥ 0")
	}
	b.weights = append(slices.Grow(b.weights[:0], k+1)[:0], make([]float64, k+1)...)
	b.weights[k] = 1
	return b.back(dst, from, at, b.weights, threshold, f)
}

// BackGap is the transpose of [Predictor.PredictGap]: Back over a gap by the model's law of gaps.
// It returns false where the law says nothing. Cost: that of Back over the largest number of moves
// that has a weight.
func (b *Backward) BackGap(
	dst []float64, from *Distribution, at int64, gap uint64, threshold float64, f *Distribution,
) ([]float64, bool) {
	if gap < 2 || gap > b.predictor.model.Gaps.Longest() || len(b.predictor.model.Gaps) == 0 {
		return dst, false
	}
	w := &b.predictor.model.Gaps[GapIndex(gap)]
	var weights [longestChain + 1]float64
	most := 0
	add := func(moves int, weight float64) {
		if weight > 0 {
			weights[moves] += weight
			most = max(most, moves)
		}
	}
	for i, moves := range GapMoves {
		add(moves, w.Moves[i])
	}
	add(int(min(gap, longestChain)), w.Chain)
	dst = b.back(dst, from, at, weights[:most+1], threshold, f)
	if w.Anew > 0 {
		anew := float64(w.Anew * expectation(f, &b.predictor.model.Initial))
		for i := range dst {
			dst[i] += anew
		}
	}
	return dst, true
}

// back returns Σ_k weights[k]·(M^k·f)(c) by Horner's rule, whatever the classes of the steps are:
// h_K = w_K·f, and h_k = w_k·f + M·h_(k+1) with the matrix of step at + k.
func (b *Backward) back(
	dst []float64, from *Distribution, at int64, weights []float64, threshold float64,
	f *Distribution,
) []float64 {
	last := len(weights) - 1
	for len(b.reached) < last {
		b.reached = append(b.reached, nil)
	}
	for k, d := 1, from; k < last; k++ {
		b.predictor.step(&b.moved, d, at+int64(k-1), threshold)
		b.reached[k] = append(b.reached[k][:0], b.moved.Cells...)
		d = &b.moved
	}
	later := &b.later
	later.CopyFrom(f)
	for i := range later.P {
		later.P[i] = float64(weights[last] * f.P[i])
	}
	for k := last - 1; k >= 0; k-- {
		to := from.Cells
		if k > 0 {
			to = b.reached[k]
		}
		dst = slices.Grow(dst[:0], len(to))[:len(to)]
		b.expect(dst, to, at+int64(k), later)
		addTo(dst, to, f, weights[k])
		if k > 0 {
			later.Cells, later.P = append(later.Cells[:0], to...), append(later.P[:0], dst...)
		}
	}
	if last == 0 {
		dst = slices.Grow(dst[:0], len(from.Cells))[:len(from.Cells)]
		clear(dst)
		addTo(dst, from.Cells, f, weights[0])
	}
	return dst
}

// addTo adds the weight times a function to dst, at ascending cells.
func addTo(dst []float64, cells []grid.Cell, f *Distribution, weight float64) {
	if weight == 0 {
		return
	}
	next := 0
	for i, c := range cells {
		for next < len(f.Cells) && f.Cells[next] < c {
			next++
		}
		if next < len(f.Cells) && f.Cells[next] == c {
			dst[i] += float64(weight * f.P[next])
		}
	}
}

// expectation returns Σ_c f(c)·p(c).
func expectation(f, p *Distribution) (sum float64) {
	next := 0
	for i, c := range p.Cells {
		for next < len(f.Cells) && f.Cells[next] < c {
			next++
		}
		if next < len(f.Cells) && f.Cells[next] == c {
			sum += float64(f.P[next] * p.P[i])
		}
	}
	return sum
}

// expect sets dst[i] to (M·f)(cells[i]). dst has the length of cells, which
// ascend. Cost: as that of a prediction from f, and the entries out of the cells.
func (b *Backward) expect(dst []float64, cells []grid.Cell, at int64, f *Distribution) {
	p := b.predictor
	for i, c := range f.Cells {
		b.function[c] = f.P[i]
	}
	m := p.model.Matrices[p.model.ClassAt(at)]
	if m.Spread != nil {
		p.smooth.spread(p.masses, f.Cells, f.P) // the kernel is the same in both directions
		copy(dst, p.shares(cells, b.massOf(cells), m.Spread))
		b.clear()
	} else {
		clear(dst)
	}
	for i, c := range cells {
		columns, values := m.Entries(c)
		sum := dst[i]
		for j, column := range columns {
			sum += float64(values[j] * b.function[column])
		}
		dst[i] = sum
	}
	if p.blocks > 0 {
		b.expectJumps(dst, cells)
	}
	for _, c := range f.Cells {
		b.function[c] = 0
	}
}

// massOf returns the masses of cells.
func (b *Backward) massOf(cells []grid.Cell) []float64 {
	b.scratch = b.scratch[:0]
	for _, c := range cells {
		b.scratch = append(b.scratch, b.predictor.mass[c])
	}
	return b.scratch
}

// expectJumps adds what jumps from the cells make of the function.
func (b *Backward) expectJumps(dst []float64, cells []grid.Cell) {
	p := b.predictor
	width, first, end := grid.Cell(p.width), grid.Cell(0), grid.Cell(0)
	last, jumped := int32(-1), 0.0 // the column of blocks, in this row
	for i, c := range cells {
		if c >= end {
			row := c / width
			first, end, last = row*width, row*width+width, -1
		}
		if column := p.blockColumn[c-first]; column != last {
			last, jumped = column, 0
			for _, to := range p.jumpsFrom(c) {
				jumped += b.function[to]
			}
			jumped = float64(jumped * p.model.Jumps.each())
		}
		dst[i] += jumped
	}
}

// clear makes the predictor's masses zero.
func (b *Backward) clear() {
	p := b.predictor
	for s, group := range p.touched {
		p.touched[s] = 0
		for ; group != 0; group &= group - 1 {
			clear(p.mass[(s<<6+bits.TrailingZeros64(group))<<blockBits:][:blockSize])
		}
	}
}
