package mechanism

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// Inference turns a release into the likelihood of every cell of the prior, up to a common factor;
// prior times likelihood, normalized, is the posterior (the paper, equation 8), which
// Sanitizer.Step prunes and rounds to float32 before it is kept. It is scratch for one goroutine;
// the slices it returns are valid until its next call.
type Inference struct {
	exponents  []float64
	likelihood []float64
}

// Surrogate returns the likelihoods under the law by which releases are made: every cell emits like
// its surrogate. places are the centres of the set's cells, surrogates the position in the set of
// each prior cell's surrogate. One exponential for each cell of the set.
//
// Guarantee: the surrogates of two cells differ by a point of K, so their likelihoods differ by e^ε
// at most, and so |ln posterior/prior| ≤ ε for every cell and every prior.
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
		e[i] = exp(x - largest)
	}
	return e
}
