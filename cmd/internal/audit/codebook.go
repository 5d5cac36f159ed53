package audit

import (
	"math"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
)

// The codebook mechanism has no location set, no surrogates and no hull. In their place the audit
// computes the code points from public facts and the votes of cells by their definition. A release
// is an answer: the code point that the true cell votes for, its own one, or another.

// code returns the codebook of a fix after a state.
func (o *observer) code(before []byte, step int64) (*attack.Codebook, error) {
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil {
		return nil, err
	}
	return o.lookout.Codebook(&state, step)
}

// moves returns by how much the mean radius of an answer grows with the logarithm of ε, as the law
// goes from own to other points. With p = P(own|own) and u the beyond of an answer that is p(1-p)·ε
// times the difference of the means of -ln u, which are 1 - ln(1-p) for other points, where u is
// uniform below 1-p, and what makes it 1 in all for the own one.
func moves(code *attack.Codebook, epsilon float64) float64 {
	p := code.P(0, 0)
	if p >= 1 {
		return 0
	}
	others := 1 - math.Log1p(-p)
	own := (1 - (1-p)*others) / p
	return epsilon * p * (1 - p) * (others - own)
}
