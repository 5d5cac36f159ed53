// Package oracle has what tests of the mathematics compare with: whether samples are of a
// distribution, and distances on the ground.
//
// A statistic comes as a multiple of what it exceeds by chance with a probability of FalseAlarm at
// most: above 1 the distribution is rejected.
package oracle

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// FalseAlarm is the significance level of one test: with fresh seeds it would fail by chance once
// in a million runs. With fixed seeds a run is reproducible.
const FalseAlarm = 1e-6

// Kolmogorov sorts a sample of any size and compares its empirical distribution function with cdf,
// by √n·D: P(√n·D > x) ≤ 2e^{-2x²} (Massart 1990, doi 10.1214/aop/1176990746).
func Kolmogorov(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	n, d := float64(len(sample)), 0.0
	for i, x := range sample {
		f := cdf(x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d * math.Sqrt(n) / math.Sqrt(math.Log(2/FalseAlarm)/2)
}

// ChiSquare compares counts of n outcomes with their probabilities. Outcomes expected fewer than
// ten times, and all that have no count of their own, share one.
func ChiSquare(counts []int, p []float64, n int) float64 {
	statistic, degrees := 0.0, -1.0
	add := func(count, expected float64) {
		statistic += (count - expected) * (count - expected) / expected
		degrees++
	}
	restCount, restP := float64(n), 1.0
	for i, count := range counts {
		if expected := float64(n) * p[i]; expected >= 10 {
			add(float64(count), expected)
			restCount -= float64(count)
			restP -= p[i]
		}
	}
	if expected := float64(n) * restP; expected >= 10 {
		add(restCount, expected)
	} else if restCount > 60 {
		// A Poisson number of mean 10 exceeds 60 less than once in 10²⁰ times.
		return math.Inf(1)
	}
	if degrees < 1 { // one outcome, with nearly all of the probability
		return 0
	}
	return statistic / ChiSquareLimit(degrees)
}

// ChiSquareLimit is what a χ² statistic of so many degrees of freedom exceeds by chance.
func ChiSquareLimit(degrees float64) float64 {
	return distuv.ChiSquared{K: degrees}.Quantile(1 - FalseAlarm)
}
