package study

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Band is a value with its 95 % confidence interval. With a single cluster, or where none differs
// from another, there is no interval: Low and High are NaN.
type Band struct{ Value, Low, High float64 }

// Level is the confidence of a Band, two-sided.
const Level = .95

// equal is up to which part of a value an interval is rounding alone.
const equal = 1e-12

// Ratio returns Σ over / Σ by of some clusters, users or runs, each of which brings a sum of many
// dependent values and their number. The interval treats clusters as independent and nothing else:
// the ratio estimator's linearized variance (Cochran, Sampling Techniques, 1977, section 6.4) with
// Student's quantile of one degree less than clusters. It is an approximation, poor below some ten
// clusters, and near the ends of a share too symmetric: what would reach below 0 is cut off there,
// since no quantity here is negative. Clusters that are all equal, such as users none of whom has
// drifted, tell nothing of how others would differ: no interval is better than one of width 0.
func Ratio(over, by []float64) Band {
	b := Signed(over, by, Level)
	b.Low = max(0, b.Low)
	return b
}

// Signed is Ratio at any confidence, of what may be below 0.
func Signed(over, by []float64, confidence float64) Band {
	n := float64(len(over))
	var sum, weight float64
	for i := range over {
		sum += over[i]
		weight += by[i]
	}
	if weight == 0 {
		return Band{math.NaN(), math.NaN(), math.NaN()}
	}
	b := Band{Value: sum / weight, Low: math.NaN(), High: math.NaN()}
	if n < 2 {
		return b
	}
	var squares float64
	for i := range over {
		rest := over[i] - float64(b.Value*by[i])
		squares += float64(rest * rest)
	}
	quantile := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1 + confidence) / 2)
	half := quantile * math.Sqrt(n/(n-1)*squares) / weight
	if half > equal*math.Abs(b.Value) {
		b.Low, b.High = b.Value-half, b.Value+half
	}
	return b
}

// Root returns the band of the root of a mean square. Squares of distances have long tails: the
// interval is symmetric for the logarithm (the delta method), and so never reaches 0.
func (b Band) Root() Band {
	root := Band{math.Sqrt(b.Value), math.NaN(), math.NaN()}
	if half := (b.High - b.Value) / b.Value; !math.IsNaN(half) {
		root.Low, root.High = root.Value*math.Exp(-half/2), root.Value*math.Exp(half/2)
	}
	return root
}

// of returns the band of a quantity over users' tallies.
func bandOf(tallies []Tally, quantity func(*Tally) float64) Band {
	over, by := make([]float64, len(tallies)), make([]float64, len(tallies))
	for i := range tallies {
		over[i], by[i] = quantity(&tallies[i]), float64(tallies[i].N)
	}
	return Ratio(over, by)
}

// The paper's metrics, and the estimate's distance, over users.

// SetBand is the mean |ΔX|, cells.
func SetBand(t []Tally) Band { return bandOf(t, func(t *Tally) float64 { return t.Set }) }

// DriftBand is the drift ratio.
func DriftBand(t []Tally) Band { return bandOf(t, func(t *Tally) float64 { return t.Drift }) }

// ReleaseBand is √E‖z-x*‖², km.
func ReleaseBand(t []Tally) Band {
	return bandOf(t, func(t *Tally) float64 { return t.Release2 }).Root()
}

// EstimateBand is the same of the posterior's mean.
func EstimateBand(t []Tally) Band {
	return bandOf(t, func(t *Tally) float64 { return t.Estimate2 }).Root()
}

// Metric is one of them with its names.
type Metric struct {
	Name string // short: in tables
	Axis string // with the unit
	Of   func([]Tally) Band
	// Log axes suit what spans powers of ten.
	Log bool
}

// Metrics are the paper's three, and the estimate's distance.
func Metrics() []Metric {
	return []Metric{
		{"set", "|ΔX|, cells", SetBand, true},
		{"drift", "drift ratio, share of timestamps", DriftBand, true},
		{"release", "release to truth (rms), km", ReleaseBand, true},
		{"estimate", "estimate to truth (rms), km", EstimateBand, false},
	}
}
