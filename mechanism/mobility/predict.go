package mobility

import (
	"math"
	"math/bits"

	"github.com/geodither/geodither/mechanism/grid"
)

// Predictor computes predictions p·M^k of one model. It is scratch memory for one goroutine: 16
// bytes for each cell, of which only what was ever reached is touched.
type Predictor struct {
	model *Model
	*layout
	masses
	smooth *smoother
	// jumping is the mass of each block of cells that jumps, 0 between calls; jumped are the blocks
	// that have some.
	jumping []float64
	jumped  []int32
	// spreading is what the kernels about cells are multiplied by.
	spreading []float64
	steps     [2]Distribution
	moved     Distribution // of PredictGap
}

// NewPredictor returns a predictor for m.
func NewPredictor(m *Model) *Predictor {
	l := m.layout()
	blocks := (m.Grid.Cells() + blockSize - 1) >> blockBits
	return &Predictor{
		model: m, layout: l,
		masses: masses{
			mass: make([]float64, blocks<<blockBits), touched: make([]uint64, (blocks+63)/64),
		},
		smooth:  newSmoother(m.Grid, m.Kernel),
		jumping: make([]float64, max(0, len(l.start)-1)),
	}
}

// Predict sets dst to the distribution k steps after from, which is that of step at: from·M^k,
// normalized, where the matrix of each step's class applies. k = 0 copies. from must hold cells of
// the model's grid; dst may be from. Predict panics if k is negative.
//
// Cost: the entries out of the support and twice the kernel's weights for each cell that it
// reaches, k times as the support widens, whatever the size of the grid. It does not allocate once
// dst and p have grown. The order in which contributions to a cell are added depends on the support
// alone.
func (p *Predictor) Predict(dst, from *Distribution, at int64, k int) {
	p.PredictPruned(dst, from, at, k, 0)
}

// PredictPruned is [Predictor.Predict] that prunes at the threshold after each step (see
// [Distribution.Prune]; all cells of blocks that the step reaches count). A long gap then costs as
// much as the mass spreads over, and not everything within reach. With threshold 0 or k = 0 nothing
// is pruned.
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
	weights := from.P[:len(from.Cells)]
	m := p.model.Matrices[p.model.ClassAt(at)]
	if m.Spread != nil {
		p.smooth.spread(p.masses, from.Cells, p.shares(from.Cells, weights, m.Spread))
	}
	p.scatter(m, from.Cells, weights)
	if p.blocks > 0 {
		p.jump(from.Cells, weights)
	}
	dst.divide(p.compact(dst, p.level(threshold, from)))
}

// level returns what a prediction from a distribution prunes. The cells that it reaches are in the
// touched blocks, and rows of a model sum to 1. So a cell that has the mean or more always stays.
func (p *Predictor) level(threshold float64, from *Distribution) float64 {
	if threshold <= 0 {
		return 0
	}
	blocks := 0
	for _, group := range p.touched {
		blocks += bits.OnesCount64(group)
	}
	return PruneLevel(blocks<<blockBits, min(threshold, .5/PruneCells), from.Total())
}

// shares returns what the kernel about each cell is multiplied by: the cell's weight, times what
// its row spreads, over what of the kernel stays on the map.
func (p *Predictor) shares(cells []grid.Cell, weights, spread []float64) []float64 {
	p.spreading = p.spreading[:0]
	width, first, end, inverse := grid.Cell(p.width), grid.Cell(0), grid.Cell(0), 0.0
	for i, c := range cells {
		if c >= end {
			row := c / width
			first, end, inverse = row*width, row*width+width, p.rows[row]
		}
		p.spreading = append(p.spreading,
			float64(weights[i]*spread[c])*float64(p.columns[c-first]*inverse))
	}
	return p.spreading
}

// scatter adds the stored entries of the rows of cells with weights.
func (p *Predictor) scatter(m *Matrix, cells []grid.Cell, weights []float64) {
	mass, touched, rowStart := p.mass, p.touched, m.RowStart
	for i, c := range cells {
		weight := weights[i]
		start, end := rowStart[c], rowStart[c+1]
		columns, values := m.Columns[start:end], m.Values[start:end]
		values = values[:len(columns)]
		for j, column := range columns {
			before := mass[column]
			if before == 0 {
				touched[column>>(blockBits+6)] |= 1 << (column >> blockBits & 63)
			}
			mass[column] = before + float64(weight*values[j])
		}
	}
}

// addMass adds mass to a cell.
func (p *Predictor) addMass(c grid.Cell, mass float64) {
	p.mass[c] += mass
	p.touched[c>>(blockBits+6)] |= 1 << (c >> blockBits & 63)
}

// jump adds the jumps of cells with weights, block by block.
func (p *Predictor) jump(cells []grid.Cell, weights []float64) {
	width, side := grid.Cell(p.width), grid.Cell(p.side)
	band, first, end := grid.Cell(0), grid.Cell(0), grid.Cell(0)
	for i := 0; i < len(cells); {
		if cells[i] >= end {
			row := cells[i] / width
			band, first, end = row/side*grid.Cell(p.blocks), row*width, row*width+width
		}
		// The cells of one row and one block lie side by side.
		column := p.blockColumn[cells[i]-first]
		block, next := band+column, first+(column+1)*side
		sum := 0.0
		for next = min(next, end); i < len(cells) && cells[i] < next; i++ {
			sum += weights[i]
		}
		if p.jumping[block] == 0 {
			p.jumped = append(p.jumped, block)
		}
		p.jumping[block] += sum
	}
	each := p.model.Jumps.each()
	for _, block := range p.jumped {
		targets := p.targets[p.start[block]:p.start[block+1]]
		share := float64(p.jumping[block] * each)
		for _, c := range targets {
			p.addMass(c, share)
		}
		p.jumping[block] = 0
	}
	p.jumped = p.jumped[:0]
}

// compact moves the masses of the touched blocks that are positive and not below least to dst, in
// ascending order, and returns their total. It leaves mass and touched zero.
func (p *Predictor) compact(dst *Distribution, least float64) (total float64) {
	n, from := 0, max(math.Float64bits(least), 1)
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
			for marks := atLeast(mass, from); marks != 0; marks &= marks - 1 {
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

// atLeast returns a bit for each mass whose bits are a number of at least so much. Masses are not
// negative, so these numbers have their order and are below 2⁶³, and the sign of a difference
// compares two without a branch.
func atLeast(mass *[blockSize]float64, least uint64) (marks uint64) {
	sign := func(j int) uint64 {
		return (least - 1 - math.Float64bits(mass[j&(blockSize-1)])) >> 63
	}
	for j := 0; j < blockSize; j += 8 {
		marks |= (sign(j) | sign(j+1)<<1 | sign(j+2)<<2 | sign(j+3)<<3 |
			sign(j+4)<<4 | sign(j+5)<<5 | sign(j+6)<<6 | sign(j+7)<<7) << j
	}
	return marks
}
