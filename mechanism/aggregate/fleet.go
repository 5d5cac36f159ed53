package aggregate

import (
	"math"

	"github.com/geodither/geodither/mechanism/parallel"
)

// Likelihood is what one vehicle's releases say of its zone, up to a factor: Values[i] of Zones[i],
// which ascend; every other zone has 0.
type Likelihood struct {
	Zones  []int32
	Values []float32
}

// Fleet is the vehicles of one window.
type Fleet struct {
	// Prior is where the model alone puts a vehicle, over all zones; it sums to 1.
	Prior []float64
	// Vehicles are the likelihoods of vehicles. Counts has how many vehicles have each; nil: one.
	// Vehicles that started together and have released the same have the same likelihood.
	Vehicles []Likelihood
	Counts   []float64
	// Workers is the number of goroutines, one at least. No result depends on it.
	Workers int
}

// Bounds of a fit.
const (
	maxIterations = 300
	// fitted and roughly are the gains of the objective, a logarithm of probabilities of the whole
	// fleet's releases, that are worth another iteration: of a fit that is kept, and of one of many
	// that are compared, whose likelihoods differ by 1 or more where it matters.
	fitted, roughly = 1e-5, 1e-3
	// chunks is into how many parts sums over vehicles are divided, always the same ones, added in
	// order.
	chunks = 64
)

// Fit is a fitted prior.
type Fit struct {
	// Prior sums to 1.
	Prior []float64
	// Objective is the penalized log likelihood after each iteration; it never decreases.
	Objective []float64
}

// Fit returns the prior θ over zones under which the fleet's releases are most likely, held to the
// model's as if kappa more vehicles had been seen there: the maximum of
//
//	Σ_v w_v ln Σ_z θ_z L_v(z)  +  κ Σ_z b_z ln θ_z
//
// over distributions θ, where L_v is the likelihood of vehicle v under the public law of its
// releases, surrogates included, b the model's prior, and κ b + 1 the parameters of the Dirichlet
// distribution of which this is the posterior's mode. The function is concave, and with κ > 0
// strictly so where b > 0: there is one maximum, wherever the search starts.
//
// It is found by expectation maximization (Dempster, Laird and Rubin 1977; for noise that was added
// on purpose Agrawal and Aggarwal 2001, doi 10.1145/375551.375602), which is iterative Bayesian
// inference: every vehicle's zone is judged with θ as the prior, and θ becomes the mean of those
// judgements and b. Without κ the maximum is a sum of few spikes, as with any deconvolution:
// strong noise has to be held to something. With κ = ∞ θ is b.
//
// weights, one a likelihood, nil for its number of vehicles; start, nil for b, must be positive
// where b is. Cost: twice the likelihoods' zones an iteration.
func (f *Fleet) Fit(kappa float64, weights, start []float64) Fit {
	if math.IsInf(kappa, 1) {
		return Fit{Prior: append([]float64(nil), f.Prior...)}
	}
	return f.fit(f.pseudo(kappa), weights, start, fitted)
}

// pseudo returns the vehicles that stand for the model.
func (f *Fleet) pseudo(kappa float64) []float64 {
	vehicles := make([]float64, len(f.Prior))
	for z, b := range f.Prior {
		vehicles[z] = float64(kappa * b)
	}
	return vehicles
}

// fit is Fit with so many vehicles more in each zone, up to a gain.
func (f *Fleet) fit(pseudo, weights, start []float64, gain float64) Fit {
	if start == nil {
		start = f.Prior
	}
	theta := append([]float64(nil), start...)
	all := f.total(weights) + sumOf(pseudo)
	if all == 0 {
		return Fit{Prior: theta}
	}
	fit := Fit{Prior: theta}
	for range maxIterations {
		sums, objective := f.judge(theta, weights, nil)
		for z, n := range pseudo {
			if n > 0 {
				objective += float64(n * math.Log(theta[z]))
			}
		}
		n := len(fit.Objective)
		fit.Objective = append(fit.Objective, objective)
		if n > 0 && objective-fit.Objective[n-1] < gain {
			break
		}
		for z, n := range pseudo {
			theta[z] = (sums[z] + n) / all
		}
	}
	return fit
}

// Expected returns the number of vehicles to be expected in each zone if θ is the prior of each,
// and the variance of that number, given θ: of independent vehicles each of which is in a zone or
// not.
func (f *Fleet) Expected(theta []float64) (mean, variance []float64) {
	variance = make([]float64, len(theta))
	mean, _ = f.judge(theta, nil, variance)
	for z, squares := range variance {
		variance[z] = max(mean[z]-squares, 0)
	}
	return mean, variance
}

// weight returns a likelihood's weight: the number of its vehicles, if there are no weights.
func (f *Fleet) weight(weights []float64, v int) float64 {
	switch {
	case weights != nil:
		return weights[v]
	case f.Counts != nil:
		return f.Counts[v]
	}
	return 1
}

// total returns the sum of weights: the number of vehicles, if there are none.
func (f *Fleet) total(weights []float64) (sum float64) {
	for v := range f.Vehicles {
		sum += f.weight(weights, v)
	}
	return sum
}

// Len returns the number of vehicles.
func (f *Fleet) Len() int { return int(f.total(nil)) }

// judge returns the sum over vehicles of w times the probabilities of their zones under the prior
// θ, and the weighted log likelihood. squares, if not nil, is set to the weighted sum of the
// squared probabilities. A vehicle that θ excludes altogether counts by the model's prior.
func (f *Fleet) judge(theta, weights, squares []float64) (sums []float64, logLikelihood float64) {
	parts := min(chunks, len(f.Vehicles))
	results := make([]judgement, parts)
	_ = parallel.Pool{Workers: f.Workers}.Each(parts, func(p int) error { // no part fails
		results[p] = f.judgePart(theta, weights, squares != nil, p*len(f.Vehicles)/parts,
			(p+1)*len(f.Vehicles)/parts)
		return nil
	})
	sums = make([]float64, len(theta))
	clear(squares)
	for _, r := range results {
		logLikelihood += r.logLikelihood
		for z := range sums {
			sums[z] += r.sums[z]
			if squares != nil {
				squares[z] += r.squares[z]
			}
		}
	}
	return sums, logLikelihood
}

type judgement struct {
	sums, squares []float64
	logLikelihood float64
}

func (f *Fleet) judgePart(theta, weights []float64, squared bool, from, to int) judgement {
	r := judgement{sums: make([]float64, len(theta))}
	if squared {
		r.squares = make([]float64, len(theta))
	}
	for v := from; v < to; v++ {
		w := f.weight(weights, v)
		if w == 0 {
			continue
		}
		vehicle, prior := &f.Vehicles[v], theta
		evidence := vehicle.evidence(prior)
		if !(evidence > 0) {
			prior = f.Prior
			evidence = vehicle.evidence(prior)
		}
		if !(evidence > 0) {
			continue
		}
		r.logLikelihood += float64(w * math.Log(evidence))
		for i, z := range vehicle.Zones {
			p := float64(prior[z]*float64(vehicle.Values[i])) / evidence
			r.sums[z] += float64(w * p)
			if squared {
				r.squares[z] += float64(w * float64(p*p))
			}
		}
	}
	return r
}

func (l *Likelihood) evidence(prior []float64) float64 {
	sum := 0.0
	for i, z := range l.Zones {
		sum += float64(prior[z] * float64(l.Values[i]))
	}
	return sum
}
