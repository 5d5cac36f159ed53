package aggregate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// answers is a fleet whose vehicles tell their zone with randomized response: the zone itself with
// probability keep, else one of all. It returns the true counts too.
func answers(density []float64, keep float64, vehicles int, seed uint64) (*Fleet, []float64) {
	random := rand.New(rand.NewPCG(seed, 3))
	zones := len(density)
	f, truth := &Fleet{Prior: make([]float64, zones)}, make([]float64, zones)
	for z := range f.Prior {
		f.Prior[z] = 1 / float64(zones)
	}
	for range vehicles {
		at, u := 0, random.Float64()
		for u -= density[at]; u > 0 && at < zones-1; u -= density[at] {
			at++
		}
		truth[at]++
		told := at
		if random.Float64() >= keep {
			told = random.IntN(zones)
		}
		var l Likelihood
		for z := range zones {
			p := (1 - keep) / float64(zones)
			if z == told {
				p += keep
			}
			l.Zones, l.Values = append(l.Zones, int32(z)), append(l.Values, float32(p))
		}
		f.Vehicles = append(f.Vehicles, l)
	}
	return f, truth
}

// TestFitIsTheMaximum holds the fit against a search over all distributions on three zones.
func TestFitIsTheMaximum(t *testing.T) {
	t.Parallel()
	f := &Fleet{Prior: []float64{.5, .3, .2}, Vehicles: []Likelihood{
		{Zones: []int32{0, 1, 2}, Values: []float32{1, .2, .1}},
		{Zones: []int32{0, 1}, Values: []float32{.5, 2}},
		{Zones: []int32{1, 2}, Values: []float32{.1, 4}},
		{Zones: []int32{2}, Values: []float32{7}},
		{Zones: []int32{0, 1, 2}, Values: []float32{3, 3, 3}},
	}}
	for _, kappa := range []float64{.1, 1, 20} {
		for _, weights := range [][]float64{nil, {3, 0, 1, .5, 1}} {
			objective := func(theta []float64) float64 {
				sum := 0.0
				for v, l := range f.Vehicles {
					sum += f.weight(weights, v) * math.Log(l.evidence(theta))
				}
				for z, b := range f.Prior {
					sum += kappa * b * math.Log(theta[z])
				}
				return sum
			}
			best, at := math.Inf(-1), []float64(nil)
			const parts = 400
			for i := 1; i < parts; i++ {
				for j := 1; i+j < parts; j++ {
					theta := []float64{
						float64(i) / parts, float64(j) / parts, float64(parts-i-j) / parts,
					}
					if o := objective(theta); o > best {
						best, at = o, theta
					}
				}
			}
			for _, start := range [][]float64{nil, {.01, .01, .98}} {
				fit := f.Fit(kappa, weights, start)
				if got := objective(fit.Prior); got < best-1e-4 ||
					!near(total(fit.Prior), 1, 1e-12) {
					t.Errorf("κ=%g: the fit %v has %.6f, %v %.6f", kappa, fit.Prior, got, at, best)
				}
				for z := range at {
					if !near(fit.Prior[z], at[z], .02) {
						t.Errorf("κ=%g: the fit is %v, the best of all %v", kappa, fit.Prior, at)
					}
				}
			}
		}
	}
	if fit := f.Fit(math.Inf(1), nil, nil); !slices.Equal(fit.Prior, f.Prior) {
		t.Errorf("with κ=∞ the fit is %v", fit.Prior)
	}
}

// TestFitNeverLoses: the objective grows with every iteration, and no result depends on the number
// of workers.
func TestFitNeverLoses(t *testing.T) {
	t.Parallel()
	f, _ := answers([]float64{.5, .2, .1, .1, .05, .05}, .3, 500, 1)
	for _, kappa := range []float64{0, 1, 100} {
		fit := f.Fit(kappa, nil, nil)
		for i := 1; i < len(fit.Objective); i++ {
			if fit.Objective[i] < fit.Objective[i-1]-1e-9 {
				t.Errorf("κ=%g: iteration %d loses %g", kappa, i,
					fit.Objective[i-1]-fit.Objective[i])
			}
		}
		if len(fit.Objective) < 5 {
			t.Errorf("κ=%g: only %d iterations", kappa, len(fit.Objective))
		}
		f.Workers = 7
		if again := f.Fit(kappa, nil, nil); !slices.Equal(again.Prior, fit.Prior) {
			t.Errorf("κ=%g: seven workers come to another fit", kappa)
		}
		f.Workers = 1
	}
}

// TestChoose: a fleet that the model predicts leaves it alone, also where many vehicles have the
// same likelihood; one that it does not moves it. Under the first hypothesis another choice comes
// up in one of forty fleets; of ten fleets three or more do with a probability below .002.
func TestChoose(t *testing.T) {
	t.Parallel()
	uniform := []float64{.125, .125, .125, .125, .125, .125, .125, .125}
	moved, grouped := 0, 0
	for seed := range uint64(10) {
		f, _ := answers(uniform, .3, 400, seed)
		if !math.IsInf(f.Choose(), 1) {
			moved++
		}
		if f.group(); !math.IsInf(f.Choose(), 1) {
			grouped++
		}
		if len(f.Vehicles) != len(uniform) || f.Len() != 400 {
			t.Errorf("%d vehicles have %d likelihoods", f.Len(), len(f.Vehicles))
		}
	}
	if moved > 2 || grouped > 2 {
		t.Errorf("the model is given up for %d of ten fleets that it predicts, %d where they are "+
			"grouped", moved, grouped)
	}
	f, _ := answers([]float64{.7, .3, 0, 0, 0, 0, 0, 0}, .3, 400, 1)
	if kappa := f.Choose(); kappa > 4000 {
		t.Errorf("a fleet of two zones leaves a model of eight the weight %g", kappa)
	}
	few, _ := answers([]float64{1, 0, 0, 0, 0, 0, 0, 0}, 1, 7, 1)
	if kappa := few.Choose(); !math.IsInf(kappa, 1) {
		t.Errorf("seven vehicles move the model: κ=%g", kappa)
	}
}

// TestCountInterval holds quantiles against sums of the distributions' own terms.
func TestCountInterval(t *testing.T) {
	t.Parallel()
	// Binomial with n = 10, p = .3; Poisson with mean 3; negative binomial with r = 3, p = .5.
	tables := map[string]struct {
		mean, variance float64
		p              func(k int) float64
	}{
		"binomial": {3, 2.1, func(k int) float64 {
			return choose(10, k) * math.Pow(.3, float64(k)) * math.Pow(.7, float64(10-k))
		}},
		"poisson": {3, 3, func(k int) float64 {
			return math.Exp(-3) * math.Pow(3, float64(k)) / math.Gamma(float64(k+1))
		}},
		"negative binomial": {3, 6, func(k int) float64 {
			return choose(k+2, k) * math.Pow(.5, float64(k+3))
		}},
	}
	for name, c := range tables {
		for _, level := range []float64{.5, .9, .99} {
			low, high := CountInterval(c.mean, c.variance, level, 1000)
			want := [2]float64{-1, -1}
			sum := 0.0
			for k := 0; k <= 60 && want[1] < 0; k++ {
				if name != "binomial" || k <= 10 {
					sum += c.p(k)
				}
				if want[0] < 0 && sum >= (1-level)/2 {
					want[0] = float64(k)
				}
				if sum >= (1+level)/2 {
					want[1] = float64(k)
				}
			}
			if low != want[0] || high != want[1] {
				t.Errorf("%s, %g: [%g, %g], want %v", name, level, low, high, want)
			}
		}
	}
	// The lowest quantile of a narrow count may be the whole number above its mean.
	for mean := .05; mean < 6; mean += .05 {
		for _, share := range []float64{.001, .01, .1, .5, 1, 3} {
			for _, level := range []float64{.1, .5, .9} {
				low, high := CountInterval(mean, share*mean, level, 10)
				if low > mean+.01 || mean-.01 > high {
					t.Errorf("mean %g, variance %g, level %g: %g to %g", mean, share*mean, level,
						low, high)
				}
			}
		}
	}
	if low, high := CountInterval(0, 0, .9, 10); low != 0 || high != 0 {
		t.Errorf("nobody: [%g, %g]", low, high)
	}
	if low, high := CountInterval(3, 0, .9, 10); low != 3 || high != 3 {
		t.Errorf("certainty: [%g, %g]", low, high)
	}
	for _, mean := range []float64{.9986, 1.0014} {
		if low, high := CountInterval(mean, .0014, .9, 10); low != 1 || high != 1 {
			t.Errorf("%g vehicles, for sure: [%g, %g]", mean, low, high)
		}
	}
	if low, high := CountInterval(1.02, .001, .9, 10); low > 1 || high != 2 {
		t.Errorf("1.02 vehicles: [%g, %g]", low, high)
	}
	if _, high := CountInterval(3, 9, .99, 4); high != 4 {
		t.Errorf("more than there are: %g", high)
	}
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}
