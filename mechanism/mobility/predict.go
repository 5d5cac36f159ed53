package mobility

import (
	"math"
	"math/bits"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Predictor computes predictions p·M^k of one model. It is scratch memory for one goroutine: 8
// bytes for each cell, of which only blocks that were ever reached are touched.
type Predictor struct {
	model *Model
	// personal is the user whose own transitions are blended with the model; nil: nobody's are.
	personal *Personal
	// mass accumulates p·M by whole blocks. It is all zero between calls.
	mass []float64
	// touched marks the blocks that the last scatter may have reached. It is all zero between
	// calls.
	touched []uint64
	steps   [2]Distribution
	moved   Distribution // of PredictGap
}

// blockBits is the logarithm of the number of cells in a block. Which cells a prediction reaches is
// noted by blocks: one note for each block that mass comes from, not for each cell. A mask skips
// the zeros in a block.
const (
	blockBits = 6
	blockSize = 1 << blockBits
)

// reach lists, for each block of rows of the matrix, the blocks of its columns, ascending.
type reach struct {
	start  []int64
	blocks []int32
}

// NewPredictor returns a predictor for m. The first one of a model costs a pass over its
// transitions. All share its memory: where moves are local, one to three bytes for each cell
// (trained with a radius of 2 to 5).
func NewPredictor(m *Model) *Predictor {
	m.reachOnce.Do(func() {
		for i, matrix := range m.Matrices {
			if i > 0 && matrix.sameColumns(m.Matrices[0]) {
				m.reach = append(m.reach, m.reach[0])
			} else {
				m.reach = append(m.reach, newReach(matrix))
			}
		}
	})
	blocks := (m.Grid.Cells() + blockSize - 1) >> blockBits
	return &Predictor{
		model:   m,
		mass:    make([]float64, blocks<<blockBits),
		touched: make([]uint64, (blocks+63)/64),
	}
}

// Use makes the following predictions those of a user's personal model or, if user is nil, of the
// popular model alone. It costs nothing. It panics if the personal model belongs to another popular
// model than the predictor's.
func (p *Predictor) Use(user *Personal) {
	if user != nil && user.popular != p.model && user.popular.ID() != p.model.ID() {
		panic("mobility: the personal model belongs to another popular model than the predictor's")
	}
	p.personal = user
}

func newReach(m *Matrix) *reach {
	rows := len(m.RowStart) - 1
	blocks := (rows + blockSize - 1) >> blockBits
	r := &reach{start: make([]int64, 1, blocks+1)}
	lastFrom := make([]int32, blocks) // by block: 1 + the last block found to reach it
	for from := range int32(blocks) {
		first := m.RowStart[from<<blockBits]
		end := m.RowStart[min(int(from+1)<<blockBits, rows)]
		for _, column := range m.Columns[first:end] {
			if to := column >> blockBits; lastFrom[to] != from+1 {
				lastFrom[to] = from + 1
				r.blocks = append(r.blocks, to)
			}
		}
		slices.Sort(r.blocks[r.start[from]:])
		r.start = append(r.start, int64(len(r.blocks)))
	}
	return r
}

// Predict sets dst to the distribution k steps after from, which is that of step at: from·M^k,
// normalized, where the matrix of each step's class applies. k = 0 copies. from must hold cells of
// the model's grid; dst may be from. Predict panics if k is negative.
//
// Cost: the transitions out of the support, k times as the support widens, whatever the size of the
// grid. It does not allocate once dst and p have grown. Contributions to a cell are added in
// ascending order of the cells they come from.
func (p *Predictor) Predict(dst, from *Distribution, at int64, k int) {
	p.PredictPruned(dst, from, at, k, 0)
}

// PredictPruned is [Predictor.Predict] that prunes at the threshold after each step (see
// [Distribution.Prune]). A long gap then costs as much as the mass spreads over, and not everything
// within reach. With threshold 0 or k = 0 nothing is pruned.
func (p *Predictor) PredictPruned(dst, from *Distribution, at int64, k int, threshold float64) {
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
	for i := 1; i < k; i++ {
		next := &p.steps[i&1]
		p.step(next, from, at, threshold)
		from = next
		at++
	}
	p.step(dst, from, at, threshold)
}

// step sets dst to from·M, pruned and normalized, with the matrix of step at. dst may be from,
// which is read before dst is written.
func (p *Predictor) step(dst, from *Distribution, at int64, threshold float64) {
	if class := p.model.classAt(at); p.personal == nil {
		p.scatter(from, class)
	} else {
		p.scatterPersonal(from, class)
	}
	total := p.compact(dst)
	if threshold > 0 {
		total = dst.drop(PruneLevel(dst.P, threshold, total), total)
	}
	dst.divide(total)
}

func (p *Predictor) scatter(from *Distribution, class int) {
	m, r := p.model.Matrices[class], p.model.reach[class]
	mass := p.mass
	rowStart, weights := m.RowStart, from.P[:len(from.Cells)]
	block := int32(-1)
	for i, c := range from.Cells {
		if c>>blockBits != block {
			block = c >> blockBits
			p.touch(r, block)
		}
		weight := weights[i]
		start, end := rowStart[c], rowStart[c+1]
		columns := m.Columns[start:end]
		values := m.Values[start:end]
		if len(columns) >= longRow {
			columns, values = scatterFours(mass, weight, columns, values)
		}
		values = values[:len(columns)]
		for j, column := range columns {
			mass[column] += float64(weight * values[j])
		}
	}
}

// scatterPersonal is scatter with a user's own rows. The mass w of a cell with n own transitions
// adds w·count/(n + κ) to each own column, and the popular row with the weight w·κ/(n + κ).
func (p *Predictor) scatterPersonal(from *Distribution, class int) {
	m, r := p.model.Matrices[class], p.model.reach[class]
	mass := p.mass
	block := int32(-1)
	user, next := p.personal, 0
	for i, c := range from.Cells {
		if c>>blockBits != block {
			block = c >> blockBits
			p.touch(r, block)
		}
		weight := from.P[i]
		var own bool
		if next, own = user.row(next, c); own {
			first, end := user.start[next], user.start[next+1]
			share := weight / user.totals[next]
			weight = float64(share * user.weight)
			counts := user.n[first:end]
			for j, column := range user.columns[first:end] {
				mass[column] += float64(share * counts[j])
				p.touched[column>>(blockBits+6)] |= 1 << (column >> blockBits & 63)
			}
		}
		columns, values := m.Row(c)
		if len(columns) >= longRow {
			columns, values = scatterFours(mass, weight, columns, values)
		}
		for j, column := range columns {
			mass[column] += float64(weight * values[j])
		}
	}
}

// touch marks the blocks that a block reaches.
func (p *Predictor) touch(r *reach, block int32) {
	for _, to := range r.blocks[r.start[block]:r.start[block+1]] {
		p.touched[to>>6] |= 1 << (to & 63)
	}
}

// longRow is the length from which on taking four columns at a time pays (measured: a gain of 4 %
// at 25 columns and 8 % at 81, a loss at 5).
const longRow = 16

// scatterFours adds weight·values to the masses of the columns, four at a time, and returns the
// rest. No column may occur twice.
func scatterFours(mass []float64, weight float64, columns []grid.Cell, values []float64) (
	[]grid.Cell, []float64,
) {
	for len(columns) >= 4 && len(values) >= 4 {
		a, b, c, d := float64(weight*values[0]), float64(weight*values[1]),
			float64(weight*values[2]), float64(weight*values[3])
		mass[columns[0]] += a
		mass[columns[1]] += b
		mass[columns[2]] += c
		mass[columns[3]] += d
		columns, values = columns[4:], values[4:]
	}
	return columns, values
}

// compact moves the masses of the touched blocks to dst in ascending order and returns the total.
// It leaves mass and touched zero. Masses that underflowed to 0 are dropped.
func (p *Predictor) compact(dst *Distribution) (total float64) {
	n := 0
	dst.resize(cap(dst.P))
	for s, group := range p.touched {
		if group == 0 {
			continue
		}
		p.touched[s] = 0
		for ; group != 0; group &= group - 1 {
			block := s<<6 + bits.TrailingZeros64(group)
			if n+blockSize > len(dst.P) || n+blockSize > len(dst.Cells) {
				dst.resize(n + blockSize)
			}
			mass := (*[blockSize]float64)(p.mass[block<<blockBits:])
			cells, to := dst.Cells[n:n+blockSize], dst.P[n:n+blockSize]
			k := 0
			for marks := nonzero(mass); marks != 0; marks &= marks - 1 {
				j := bits.TrailingZeros64(marks) & (blockSize - 1)
				v := mass[j]
				total += v
				cells[k], to[k] = grid.Cell(block<<blockBits+j), v
				k++
			}
			n += k
			*mass = [blockSize]float64{}
		}
	}
	dst.Cells, dst.P = dst.Cells[:n], dst.P[:n]
	return total
}

// nonzero returns a bit for each mass that is not 0. Masses are not negative, so as whole numbers
// they are below 2⁶³, and the sign of minus such a number says whether it is 0, without a
// branch.
func nonzero(mass *[blockSize]float64) (marks uint64) {
	sign := func(j int) uint64 { return -math.Float64bits(mass[j&(blockSize-1)]) >> 63 }
	for j := 0; j < blockSize; j += 8 {
		marks |= (sign(j) | sign(j+1)<<1 | sign(j+2)<<2 | sign(j+3)<<3 |
			sign(j+4)<<4 | sign(j+5)<<5 | sign(j+6)<<6 | sign(j+7)<<7) << j
	}
	return marks
}

// row returns the place of the cell's own row, searching from first on. If there is none, it
// returns the place of the next row and false.
func (p *Personal) row(first int, c grid.Cell) (int, bool) {
	// Cells are asked for in ascending order, and the next one is rarely far away.
	step := 1
	for first+step < len(p.cells) && p.cells[first+step] <= c {
		first += step
		step *= 2
	}
	end := min(first+step, len(p.cells))
	if first >= end {
		return first, false
	}
	at, found := slices.BinarySearch(p.cells[first:end], c)
	return first + at, found
}
