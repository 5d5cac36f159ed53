package audit

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// epsilonLowerBound returns a number that does not exceed the true ε but with probability alpha.
// It is for an observer who is shown releases of two places, each place chosen by a fair coin, and
// guesses which one it was or says nothing; hits and misses are how often he was right and wrong. 0
// at least.
//
// Guarantee: under ε-differential privacy a release that leads to a guess is at most e^ε times as
// likely to be a hit as a miss, so given the number of guesses the hits are binomial with a
// probability q ≤ e^ε/(1+e^ε). The lower bound of Clopper and Pearson (1934, doi
// 10.1093/biomet/26.4.404) on q is the α quantile of the Beta law of hits and misses+1; it is
// exact, without an approximation by a normal law. One bound on a ratio takes the place of two on
// both probabilities, and the whole of α with it.
func epsilonLowerBound(hits, misses int64, alpha float64) float64 {
	if hits == 0 {
		return 0
	}
	q := math.Pow(alpha, 1/float64(hits)) // the quantile for no miss
	if misses > 0 {
		q = distuv.Beta{Alpha: float64(hits), Beta: float64(misses) + 1}.Quantile(alpha)
	}
	return max(math.Log(q/(1-q)), 0)
}
