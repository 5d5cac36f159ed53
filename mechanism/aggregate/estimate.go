package aggregate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Level is the confidence of all intervals.
const Level = .9

// EstimateOptions say how to estimate. The zero value of each field means its default.
type EstimateOptions struct {
	// Resamples is how many times the fleet is resampled to see how much the fitted prior depends
	// on chance, at least 2, default 40.
	Resamples int
	// Seed is that of the resampling. The same seed, code and window give the same estimate, in
	// whatever order the vehicles came.
	Seed uint64
	// Workers is the number of goroutines, default one. The estimate does not depend on it.
	Workers int
}

// Density is an estimate of how many vehicles are in each zone.
type Density struct {
	// Vehicles is their sum.
	Vehicles int
	// Naive, Blind, Posterior and Fitted are the four estimates, by zone; Naive sums to the
	// vehicles with a release.
	Naive, Blind, Posterior, Fitted []float64
	// PosteriorLow and PosteriorHigh are an interval around Posterior. It holds the number of
	// vehicles of this fleet with at least the confidence Level, if vehicles move independently
	// by the model.
	PosteriorLow, PosteriorHigh []float64
	// Low and High are an interval around Fitted: the same under the fitted prior, wider by how
	// much that prior owes to chance and to the weight of the model. A fit that trusts the model
	// 30 times less than the fleet counts as one standard error away. Where a fleet has gathered
	// against the model's expectation they hold the number less often than the level says.
	//
	// A zone with an estimate below three vehicles, and three or more with a probability of .01 at
	// least, has a higher end, here and in PosteriorHigh: it also holds the number with the level
	// given that it is three or more. Those are the zones that a reader looks at afterwards.
	Low, High []float64
	// Kappa is how many vehicles the model was worth to the fit; +∞ if the releases do not
	// contradict it.
	Kappa float64
}

const (
	// folds of the choice of kappa.
	folds = 4
	// surely is by how many standard errors a fit has to be better than the model before it moves
	// the map: under a true model one fleet in fifty does so by chance.
	surely = 2
	// leastWeight is how much more than the fleet the model weighs at least.
	leastWeight = 10
	// distrust is how much less than the fleet the model may deserve to weigh: the interval reaches
	// out to the fit with that weight.
	distrust = 30
)

// Estimate computes the four estimates of a window. Cost: some hundred passes over the zones of the
// different likelihoods for the choice of kappa, and up to twenty for each resample.
func (w *Window) Estimate(o EstimateOptions) Density {
	o.Resamples = cmp.Or(o.Resamples, 40)
	fleet := w.Fleet()
	fleet.Workers = max(o.Workers, 1)
	n := float64(w.Vehicles())
	d := Density{
		Vehicles: w.Vehicles(), Naive: w.naive, Posterior: valuesOf(w.posterior),
		Blind: make([]float64, len(w.naive)), Kappa: fleet.Choose(),
	}
	variance := make([]float64, len(w.naive))
	for z, sum := range d.Posterior {
		d.Blind[z] = float64(n * fleet.Prior[z])
		variance[z] = max(sum-w.squares[z].value(), 0)
	}
	d.PosteriorLow, d.PosteriorHigh = intervals(d.Posterior, variance, n)
	d.Fitted, variance = fleet.average(d.Kappa, o)
	distrustful, _ := fleet.Expected(fleet.fit(fleet.pseudo(n/distrust), nil, nil, roughly).Prior)
	for z, m := range distrustful {
		away := m - d.Fitted[z]
		variance[z] += float64(away * away)
	}
	d.Low, d.High = intervals(d.Fitted, variance, n)
	return d
}

func intervals(mean, variance []float64, most float64) (low, high []float64) {
	low, high = make([]float64, len(mean)), make([]float64, len(mean))
	for z := range mean {
		low[z], high[z] = judgedInterval(mean[z], variance[z], most)
	}
	return low, high
}

// surprised is the least probability that a zone has fewest vehicles that judgedInterval looks at.
const surprised = .01

// judgedInterval is CountInterval, with a higher end for a zone that has hardly fewest vehicles by
// the estimate but may well have them: it also holds the number with the level given that it is
// fewest or more. Those are the zones that a reader looks at afterwards, and an interval that is
// right on average over all numbers is too short for them.
func judgedInterval(mean, variance, most float64) (low, high float64) {
	level := Level // a variable: 1 - level is rounded as in CountInterval
	low, high = CountInterval(mean, variance, level, most)
	if !(mean > 0) || mean >= fewest {
		return low, high
	}
	cdf := countCDF(mean, min(variance, mean)) // doubt of the prior is no reason for many
	if many := 1 - cdf(fewest-1); many >= surprised {
		high = max(high, min(countQuantile(cdf, 1-float64((1-level)*many), most), most))
	}
	return low, high
}

// Choose returns the weight of the model's prior, in vehicles, under which a fit to three quarters
// of the fleet best predicts the releases of the rest: of weights from ten times the fleet upwards,
// those whose mean log likelihood over the held-out vehicles is within one standard error of the
// best, and of those the largest (Breiman and others 1984, section 3.4.3). Under strong noise
// likelihoods are nearly flat, and a chance gain must not move the map: the model stays unless the
// best weight is better than the model alone by twice the standard error.
//
// The model outweighs the fleet ten times at least. Likelihoods judge a whole history of releases
// by the model's way of starting and moving. A fit to zones of the present explains a misfit in
// those by places, whatever the held-out likelihood says: of a fleet that had gathered half an hour
// ago (ε = 4, three releases, 1,000 vehicles) a fit in which the model weighed a tenth of the fleet
// erred 3.3 times as much as the mean of posteriors, with equal weights 1.7 times, and with ten
// times the fleet's .94 times. The price is that a fleet which the model does not expect is found
// little better than by the mean of posteriors.
func (f *Fleet) Choose() float64 {
	n := f.Len()
	if n < 2*folds {
		return math.Inf(1)
	}
	candidates := []float64{math.Inf(1)}
	for _, times := range []float64{100, 30, leastWeight} {
		candidates = append(candidates, times*float64(n))
	}
	gains, counts := f.gains(candidates)
	best, most := 0, 0.0
	for i := range gains {
		if gain, _ := difference(gains[i], gains[0], counts); gain > most {
			best, most = i, gain
		}
	}
	if gain, deviation := difference(gains[best], gains[0], counts); gain <= surely*deviation {
		return candidates[0]
	}
	for i := 1; i < best; i++ {
		if loss, deviation := difference(gains[best], gains[i], counts); loss <= deviation {
			return candidates[i]
		}
	}
	return candidates[best]
}

// gains returns, for each candidate and each likelihood in each fold, how much likelier the
// releases are under the fit to the other folds than under the model alone, as a difference of
// logarithms; and how many held-out vehicles have it. The first candidate is the model alone.
func (f *Fleet) gains(candidates []float64) (gains [][]float64, counts []float64) {
	gains = make([][]float64, len(candidates))
	for _, held := range f.divide() {
		weights := make([]float64, len(held))
		for v, n := range held {
			weights[v] = f.weight(nil, v) - n
		}
		theta, first := f.Prior, len(counts)
		counts = append(counts, held...)
		for i, kappa := range candidates {
			if !math.IsInf(kappa, 1) {
				theta = f.fit(f.pseudo(kappa), weights, theta, roughly).Prior
			}
			for v := range f.Vehicles {
				gain := 0.0
				if held[v] > 0 {
					gain = math.Log(max(f.Vehicles[v].evidence(theta), math.SmallestNonzeroFloat64))
				}
				if i > 0 {
					gain -= gains[0][first+v]
				}
				gains[i] = append(gains[i], gain)
			}
		}
	}
	clear(gains[0])
	return gains, counts
}

// divide returns how many vehicles of each likelihood are held out in each fold. Each vehicle is
// put into one at random. Dealt out in turns, every fold would have the same likelihoods as the
// rest, and what the fit owes to chance would look as if it held for vehicles that it has not seen.
func (f *Fleet) divide() (held [folds][]float64) {
	random := rand.New(rand.NewPCG(0, 0x666f6c6473))
	for fold := range held {
		held[fold] = make([]float64, len(f.Vehicles))
	}
	for v := range f.Vehicles {
		for range int(f.weight(nil, v)) {
			held[random.IntN(folds)][v]++
		}
	}
	return held
}

// difference returns the sum over vehicles of a minus b, and its standard deviation if vehicles are
// independent.
func difference(a, b, counts []float64) (sum, deviation float64) {
	n, squares := sumOf(counts), 0.0
	for i, count := range counts {
		sum += float64(count * (a[i] - b[i]))
	}
	for i, count := range counts {
		e := a[i] - b[i] - sum/n
		squares += float64(count * float64(e*e))
	}
	return sum, math.Sqrt(squares)
}

// average returns the vehicles to be expected in each zone, and the variance of their number, over
// the priors that fleets of the kind would have taught: the means over resamples of the fleet, and
// of the kappa vehicles that stand for the model, each fitted and then judged for the fleet itself
// (Laird and Louis 1987, doi 10.1080/01621459.1987.10478490; the resampled prior as in Lyddon,
// Walker and Holmes 2018, arXiv 1806.11544). The fit itself is a mode, which strong noise makes
// jagged; the mean over resamples is nearer to the truth (Breiman 1996, doi 10.1007/BF00058655).
// What the variance does not hold is the bias towards the model that is left.
func (f *Fleet) average(kappa float64, o EstimateOptions) (mean, variance []float64) {
	var of []int // each vehicle's likelihood
	for v := range f.Vehicles {
		of = append(of, slices.Repeat([]int{v}, int(f.weight(nil, v)))...)
	}
	n := len(of)
	if math.IsInf(kappa, 1) || n < 2 {
		return f.Expected(f.Prior)
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x666c656574))
	theta := f.Fit(kappa, nil, nil).Prior
	mean, variance = make([]float64, len(theta)), make([]float64, len(theta))
	squares := make([]float64, len(theta))
	count := float64(o.Resamples)
	for range o.Resamples {
		weights, pseudo := make([]float64, len(f.Vehicles)), make([]float64, len(theta))
		for range n {
			weights[of[random.IntN(n)]]++
		}
		for z, b := range f.Prior {
			if a := float64(kappa * b); a > 0 {
				pseudo[z] = max(distuv.Gamma{Alpha: a, Beta: 1, Src: random}.Rand(), 1e-12)
			}
		}
		m, v := f.Expected(f.fit(pseudo, weights, theta, roughly).Prior)
		for z := range m {
			mean[z] += m[z] / count
			variance[z] += v[z] / count
			squares[z] += float64(m[z] * m[z])
		}
	}
	for z, m := range mean {
		variance[z] += max(squares[z]-float64(count*float64(m*m)), 0) / (count - 1)
	}
	return mean, variance
}

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
