package train

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Units of trained probabilities. Multiples of a power of two with at most 53 bits add up exactly,
// so sums are exactly 1, and their float64 has zero bytes, which deflate squeezes out. Rows have
// thousands of values at most. The initial distribution has as many as the grid has cells and needs
// the finer unit.
const (
	rowQuantum     = 1.0 / (1 << 32)
	initialQuantum = 1.0 / (1 << 48)
)

// QuantizeRow rounds the parts of a row, which sum to about total, to positive multiples of 2⁻³²
// that sum to exactly total, a multiple of 2⁻³² too.
func QuantizeRow(values []float64, total float64) { quantize(values, rowQuantum, total) }

// quantize rounds the values, which sum to about total, to positive multiples of the quantum that
// sum to exactly total. The difference goes to the largest value, the first of several.
func quantize(values []float64, quantum, total float64) {
	largest, sum := 0, 0.0
	for i, v := range values {
		values[i] = quantum * max(1, math.Round(v/quantum))
		sum += values[i]
		if values[i] > values[largest] {
			largest = i
		}
	}
	values[largest] += total - sum
}

// leastJumpSide is the least side of the blocks that jump. Smaller ones would be so many that jumps
// cost more than the kernel.
const leastJumpSide = 3

// JumpsOf returns the jumps of a trained model: the share, rounded so that each target's part is a
// multiple of the unit of rows, from blocks of the radius, so that jumps go about two, four and
// eight times as far.
func JumpsOf(radius int, share float64) mobility.Jumps {
	const unit = float64(mobility.JumpTargets) * rowQuantum
	if share = unit * math.Round(share/unit); !(share > 0) {
		return mobility.Jumps{}
	}
	return mobility.Jumps{Side: max(radius, leastJumpSide), Share: share}
}

// Initial returns where a user may be whose past is unknown. It is the popularity of the cells,
// moved on by one kernel, with a uniform share added. moved may have any total.
func Initial(g *grid.Grid, moved *mobility.Distribution, uniform float64) mobility.Distribution {
	total := moved.Total()
	if total == 0 { // no fix counts: all were shared, or no step ends between two of them
		uniform, total = 1, 1
	}
	d := mobility.Uniform(g)
	for c := range d.P {
		d.P[c] = float64(uniform * d.P[c])
	}
	for i, c := range moved.Cells {
		d.P[c] += float64((1-uniform)*moved.P[i]) / total
	}
	quantize(d.P, initialQuantum, 1)
	return d
}
