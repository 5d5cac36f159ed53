package mechanism

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Inference turns a release into the likelihood of every cell of the prior, up to a common factor.
// Prior times likelihood, normalized, is the posterior (the paper, equation 8), which
// Sanitizer.Step prunes and rounds to float32 before it is kept. An Inference is scratch for one
// goroutine; the slices it returns are valid until its next call.
type Inference struct {
	exponents  []float64
	likelihood []float64
}

// Surrogate returns the likelihoods under the law by which releases are made: every cell emits like
// its surrogate. places are the centres of the set's cells, surrogates the position in the set of
// each prior cell's surrogate. One exponential for each cell of the set.
//
// Guarantee: the surrogates of two cells differ by a point of K, so their likelihoods differ by
// e^ε at most, and so |ln posterior/prior| ≤ ε for every cell and every prior.
func (f *Inference) Surrogate(
	m law.Mechanism, z grid.Point, places []convex.Vec, surrogates []int32,
) []float64 {
	emission := f.relative(m, z, places)
	f.likelihood = slices.Grow(f.likelihood[:0], len(surrogates))[:len(surrogates)]
	for i, member := range surrogates {
		f.likelihood[i] = emission[member]
	}
	return f.likelihood
}

// Paper returns the likelihoods as the paper writes them: every cell of the prior, given by its
// centre, emits from its own place. See InferencePaper for what that means outside the set.
func (f *Inference) Paper(m law.Mechanism, z grid.Point, places []convex.Vec) []float64 {
	return f.relative(m, z, places)
}

// relative returns density(z|x) over the largest of them, all 0 where no place can emit z. Dividing
// by the largest keeps the exponentials from underflowing together when z is far away.
func (f *Inference) relative(m law.Mechanism, z grid.Point, places []convex.Vec) []float64 {
	f.exponents = slices.Grow(f.exponents[:0], len(places))[:len(places)]
	e := f.exponents
	m.Exponents(e, z, places)
	largest := math.Inf(-1)
	for _, x := range e {
		largest = max(largest, x)
	}
	if math.IsInf(largest, -1) {
		clear(e)
		return e
	}
	for i, x := range e {
		e[i] = portable.Exp(x - largest)
	}
	return e
}

// store makes dst what is kept of a distribution, where storeShort does not: weight times
// likelihood, without the cells below prune of the total, normalized and rounded to float32. A nil
// likelihood is 1 everywhere. store is mobility.Update, Prune and Round in three passes instead of
// eight, and uses the likelihood up. If no cell with weight has any likelihood, nothing was
// learned: the weights alone are taken. dst keeps its own memory and must not be from. Sums ascend.
func store(dst, from *mobility.Distribution, likelihood []float64, prune float64) {
	weights, total := weigh(from.P, likelihood)
	cells, p := append(dst.Cells[:0], from.Cells...), append(dst.P[:0], weights...)
	least := math.SmallestNonzeroFloat32 * total
	if prune > 0 {
		least = max(least, mobility.PruneLevel(len(p), prune, total))
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

// LeastMass is the smallest mass in a posterior that is kept under law.Codebook, as a share of all
// of it. Smaller ones are rounded to it or to 0 (mobility.ShortOf), so a posterior has no more than
// about four thousand cells whatever the map, and far fewer where something is known. The figures
// that chose it are in evaluation/RESULTS.md.
const LeastMass = 0x1p-12

// storeShort is store under law.Codebook: weight times likelihood, normalized and rounded to short
// masses (mobility.ShortOf), of which none is below LeastMass but 0. Their sum is 1 on average
// only. Small masses are dropped or raised by chance, so that on average none is lost.
func storeShort(dst, from *mobility.Distribution, likelihood []float64, step int64) {
	weights, total := weigh(from.P, likelihood)
	mobility.ShortOf(dst, from.Cells, weights, 1/total, LeastMass, step)
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
