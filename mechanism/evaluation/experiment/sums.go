package experiment

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// Sums adds up some quantities over timestamps. What each quantity is, and its unit, the probe says
// that adds it.
type Sums struct {
	N  float64   // timestamps, or what else the probe counts
	Of []float64 // the sum of each quantity
}

// Add adds n timestamps with the sums of their quantities.
func (s *Sums) Add(n float64, values ...float64) {
	if s.Of == nil {
		s.Of = make([]float64, len(values))
	}
	s.N += n
	for i, v := range values {
		s.Of[i] += v
	}
}

// Windows are what was measured at a point, [cluster][window of time]: a cluster is a user or a
// run. A trace that ends early has fewer windows.
type Windows [][]Sums

// Between returns the sums over the windows from one to another, of the clusters that have any
// timestamp there.
func (w Windows) Between(from, to int) (sample Sample) {
	for _, cluster := range w {
		var sums Sums
		for _, s := range cluster[min(from, len(cluster)):min(to, len(cluster))] {
			sums.Add(s.N, s.Of...)
		}
		if sums.N > 0 {
			sample = append(sample, sums)
		}
	}
	return sample
}

// All returns the sums over all windows.
func (w Windows) All() Sample { return w.Between(0, w.Len()) }

// Len returns the number of windows of the longest trace.
func (w Windows) Len() (n int) {
	for _, cluster := range w {
		n = max(n, len(cluster))
	}
	return n
}

// Sample has the sums of each cluster. Clusters are independent of each other; timestamps within
// one are not.
type Sample []Sums

// N returns the number of timestamps of all clusters.
func (s Sample) N() (n float64) {
	for i := range s {
		n += s[i].N
	}
	return n
}

// Mean returns the mean over timestamps of what a function takes from the sums, with its interval
// over clusters.
func (s Sample) Mean(of func(Sums) float64) report.Band {
	over, by := make([]float64, len(s)), make([]float64, len(s))
	for i, sums := range s {
		over[i], by[i] = of(sums), sums.N
	}
	return Ratio(over, by)
}

// Level is the confidence of an interval, two-sided.
const Level = .95

// equal is up to which part of a value an interval is rounding alone.
const equal = 1e-12

// Ratio returns Σ over / Σ by of some clusters, each of which brings a sum of many dependent values
// and their number. The interval treats clusters as independent and nothing else: the ratio
// estimator's linearized variance (Cochran, Sampling Techniques, 1977, section 6.4) with Student's
// quantile of one degree less than clusters. It is an approximation, poor below ten clusters,
// and too symmetric near the ends of a share: what would reach below 0 is cut off there, since no
// quantity here is negative. A single cluster has no interval. Neither have clusters that are all
// equal, such as users without any drift: they tell nothing about how others would differ, and no
// interval is better than one of width 0.
func Ratio(over, by []float64) report.Band {
	n := float64(len(over))
	var sum, weight float64
	for i := range over {
		sum += over[i]
		weight += by[i]
	}
	if weight == 0 {
		return report.Exact(math.NaN())
	}
	b := report.Exact(sum / weight)
	if n < 2 {
		return b
	}
	var squares float64
	for i := range over {
		rest := over[i] - float64(b.Value*by[i])
		squares += float64(rest * rest)
	}
	half := student(n-1, (1+Level)/2) * math.Sqrt(n/(n-1)*squares) / weight
	if half > equal*math.Abs(b.Value) {
		b.Low, b.High = max(0, b.Value-half), b.Value+half
	}
	return b
}

// student returns the quantile of Student's t distribution for a probability above a half.
func student(freedom, p float64) float64 {
	t := mathext.InvRegIncBeta(freedom/2, .5, 2*(1-p))
	return math.Sqrt(freedom * (1 - t) / t)
}
