package mechanism

import (
	"math"

	"github.com/geodither/geodither/mechanism/mobility"
)

// store makes dst what is kept of a distribution: weight times likelihood (nil: of one everywhere),
// without the cells below prune of the total, normalized and rounded to float32. It is
// mobility.Update, Prune and Round in three passes instead of eight; likelihood is used up. If no
// cell with weight has any likelihood nothing was learned: the weights alone are taken. dst keeps
// its own memory and must not be from. Sums ascend.
func store(dst, from *mobility.Distribution, likelihood []float64, prune float64) {
	weights, total := weigh(from.P, likelihood)
	cells, p := append(dst.Cells[:0], from.Cells...), append(dst.P[:0], weights...)
	least := math.SmallestNonzeroFloat32 * total
	if prune > 0 {
		least = max(least, mobility.PruneLevel(p, prune, total))
	}
	// What rounding to float32 would make 0 is dropped whatever the threshold, so that every stored
	// cell has mass.
	kept, mass := 0, 0.0
	for i, w := range p {
		cells[kept], p[kept] = cells[i], w
		if w >= least {
			mass += w
			kept++
		}
	}
	dst.Cells, dst.P = cells[:kept], p[:kept]
	for i, w := range dst.P {
		dst.P[i] = float64(float32(w / mass))
	}
}

// weigh returns weight times likelihood in the memory of likelihood, and its sum.
func weigh(p, likelihood []float64) (weights []float64, total float64) {
	if likelihood != nil {
		for i, w := range p {
			product := float64(w * likelihood[i])
			likelihood[i] = product
			total += product
		}
		if total > 0 && !math.IsInf(total, 1) {
			return likelihood, total
		}
		total = 0
	}
	for _, w := range p {
		total += w
	}
	return p, total
}
