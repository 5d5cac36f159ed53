package aggregate

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// CountInterval returns the interval of whole numbers from the (1-level)/2 to the (1+level)/2
// quantile of a count with a mean and a variance: of the binomial distribution that has both where
// the variance is below the mean (the usual approximation to a sum of independent events of unequal
// probability), the Poisson distribution where they are equal, and the negative binomial above.
// most bounds it. The interval holds the mean to a hundredth, up to most: where a skewed
// distribution leaves it further outside, the nearer end moves to the next whole number beyond it.
// A mean of 1.001 and hardly a variance has the interval from 1 to 1.
func CountInterval(mean, variance, level, most float64) (low, high float64) {
	if !(mean > 0) {
		return 0, 0
	}
	cdf := countCDF(mean, variance)
	tail := (1 - level) / 2
	const slack = .01 // of a vehicle: a mean this close to a whole number says nothing of the next
	low = min(countQuantile(cdf, tail, most), math.Floor(mean+slack))
	high = max(countQuantile(cdf, 1-tail, most), math.Ceil(mean-slack))
	return min(low, most), min(high, most)
}

// countCDF returns P(count ≤ k) for whole k ≥ 0.
func countCDF(mean, variance float64) func(k float64) float64 {
	const near = 1e-4 // of each other: Poisson's
	switch {
	case variance < mean*(1-near):
		p := min(1-variance/mean, 1)
		if p == 1 { // no variance: the mean itself
			return func(k float64) float64 {
				if k >= math.Round(mean) {
					return 1
				}
				return 0
			}
		}
		n := mean / p
		return func(k float64) float64 {
			if k >= n {
				return 1
			}
			return mathext.RegIncBeta(n-k, k+1, 1-p)
		}
	case variance <= mean*(1+near):
		return func(k float64) float64 { return mathext.GammaIncRegComp(k+1, mean) }
	}
	r := mean * mean / (variance - mean)
	return func(k float64) float64 { return mathext.RegIncBeta(r, k+1, mean/variance) }
}

// countQuantile returns the least whole number k up to most with cdf(k) ≥ p.
func countQuantile(cdf func(float64) float64, p, most float64) float64 {
	low, high := -1.0, math.Floor(most)
	for low+1 < high {
		middle := math.Floor((low + high) / 2)
		if cdf(middle) >= p {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
