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

// moves returns by how much the mean radius of an answer grows with the logarithm of ε: in size,
// as the law goes from some answers to others by the slopes dP/dε. The beyond u of an answer is
// uniform between the sums a and b of the law over the code points that rank after it, without and
// with its own. There the mean of -ln u is 1 - (b·ln b - a·ln a)/(b - a).
func moves(law []float64, ranks []int, slopes []float64, epsilon float64) float64 {
	power := func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		return x * math.Log(x)
	}
	sum, a := 0.0, 0.0
	for i := len(ranks) - 1; i >= 0; i-- {
		j := ranks[i]
		b := a + law[j]
		sum += slopes[j] * (1 - (power(b)-power(a))/law[j])
		a = b
	}
	return math.Abs(epsilon * sum)
}
