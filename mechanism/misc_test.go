package mechanism

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

func TestExpAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 1))
	worst := 0.0
	for range 300000 {
		x := -math.Exp(16*r.Float64() - 10)
		if x <= leastExponent {
			continue
		}
		worst = max(worst, math.Abs(exp(x)/math.Exp(x)-1))
	}
	if worst > 4*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
	if exp(0) != 1 || exp(-708) != 0 || exp(math.Inf(-1)) != 0 || exp(-707.9) == 0 || exp(-1e300) != 0 {
		t.Error("wrong at an end")
	}
}

// TestEstimateAgainstSorting compares mean and radius with sums over all cells in the order of their distance.
func TestEstimateAgainstSorting(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(62, 1))
	var e Estimator
	for i := range 2000 {
		g, err := grid.Plain(1+r.IntN(50), 1+r.IntN(50), .34)
		if err != nil {
			t.Fatal(err)
		}
		d := randomPrior(r, g.Cells())
		if i%3 == 0 {
			d.Round()
		}
		mean, radius := e.Estimate(g, d)
		total := d.Total()
		want := d.Mean(g)
		want = grid.Point{X: (want.X-.17)/total + .17, Y: (want.Y-.17)/total + .17}
		if mean.Distance(want) > 1e-9 {
			t.Fatalf("case %d: mean %v, want %v", i, mean, want)
		}
		within, less := 0.0, 0.0
		for j, c := range d.Cells {
			if distance := g.Centre(c).Distance(mean); distance <= radius+1e-9 {
				within += d.P[j]
				if distance < radius-1e-9 {
					less += d.P[j]
				}
			}
		}
		if within < (Credibility-1e-9)*total || less >= (Credibility+1e-9)*total {
			t.Fatalf("case %d: radius %g holds %g, and less than it %g", i, radius, within/total, less/total)
		}
	}
}

func TestEstimateOfOneCell(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(4, 4, .5)
	if err != nil {
		t.Fatal(err)
	}
	mean, radius := new(Estimator).Estimate(g, &mobility.Distribution{Cells: []grid.Cell{6}, P: []float64{.5}})
	if mean != g.Centre(6) || radius != 0 {
		t.Errorf("got %v ± %g", mean, radius)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty distribution did not panic")
		}
	}()
	new(Estimator).Estimate(g, &mobility.Distribution{})
}

// TestStoreIsUpdatePruneAndRound compares the three passes with the operations they stand for.
func TestStoreIsUpdatePruneAndRound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(63, 1))
	var got mobility.Distribution
	for i := range 2000 {
		prior := randomPrior(r, 1+r.IntN(300))
		likelihood := make([]float64, prior.Len())
		for j := range likelihood {
			likelihood[j] = math.Exp(-10 * r.Float64())
			if i%5 == 0 && r.IntN(2) == 0 {
				likelihood[j] = 0
			}
		}
		if i%50 == 0 {
			clear(likelihood)
		}
		prune := []float64{-1, 1e-7, 1e-4}[i%3]
		var want mobility.Distribution
		mobility.Update(&want, prior, likelihood)
		if prune > 0 {
			want.Prune(prune)
		}
		want.Round()
		if i%7 == 0 {
			likelihood = nil
			want.CopyFrom(prior)
			if prune > 0 {
				want.Prune(prune)
			}
			want.Round()
		}
		store(&got, prior, likelihood, prune)
		if got.Len() != want.Len() {
			t.Fatalf("case %d: %d cells, want %d", i, got.Len(), want.Len())
		}
		for j, p := range got.P {
			// Other roundings on the way may end at the neighbouring float32.
			if got.Cells[j] != want.Cells[j] || math.Abs(p-want.P[j]) > 1.3e-7*p || float64(float32(p)) != p || !(p > 0) {
				t.Fatalf("case %d: cell %d has %g, want %g", i, got.Cells[j], p, want.P[j])
			}
		}
	}
}

// TestStoreKeepsAFlatDistribution has more cells than the threshold allows for: none may be dropped.
func TestStoreKeepsAFlatDistribution(t *testing.T) {
	t.Parallel()
	const n = 20000
	d := mobility.Distribution{}
	for i := range n {
		d.Cells, d.P = append(d.Cells, grid.Cell(i)), append(d.P, 1.0/n)
	}
	var got mobility.Distribution
	if store(&got, &d, nil, MaxPrune); got.Len() != n {
		t.Errorf("%d of %d cells are left", got.Len(), n)
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	good := Options{Epsilon: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no epsilon":       {func(o *Options) { o.Epsilon = 0 }, "no default"},
		"negative epsilon": {func(o *Options) { o.Epsilon = -1 }, "epsilon"},
		"small epsilon":    {func(o *Options) { o.Epsilon = MinEpsilon / 2 }, "epsilon"},
		"large epsilon":    {func(o *Options) { o.Epsilon = 2 * MaxEpsilon }, "smaller"},
		"no number":        {func(o *Options) { o.Epsilon = math.NaN() }, "epsilon"},
		"delta of 1":       {func(o *Options) { o.Delta = 1 }, "delta"},
		"negative delta":   {func(o *Options) { o.Delta = -.1 }, "delta"},
		"delta no number":  {func(o *Options) { o.Delta = math.NaN() }, "delta"},
		"mechanism":        {func(o *Options) { o.Mechanism = "PIM" }, "pim, knorm, laplace, laplace-tight"},
		"inference":        {func(o *Options) { o.Inference = "bayes" }, "surrogate, paper"},
		"isotropy":         {func(o *Options) { o.Isotropy = "none" }, "closed-form, sampled"},
		"prune":            {func(o *Options) { o.Prune = .01 }, "prune"},
		"prune no number":  {func(o *Options) { o.Prune = math.NaN() }, "prune"},
		"gap":              {func(o *Options) { o.MaxGap = -1 }, "gap"},
		"long gap":         {func(o *Options) { o.MaxGap = MaxMaxGap + 1 }, "gap"},
	} {
		o := good
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := Options{Mechanism: "x", Inference: "y", Delta: 2}
	if err := all.Validate(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("every fault is reported at once: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Released.String(): "released", Repeated.String(): "repeated", Predicted.String(): "predicted", Late.String(): "late", Kind(9).String(): "Kind(9)",
		Unchanged.String(): "unchanged", PosteriorKept.String(): "posterior_kept", StartedAnew.String(): "started_anew",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	id, err := ParseID("0123456789abcdef")
	if err != nil || id.String() != "0123456789abcdef" {
		t.Errorf("%v, %v", id, err)
	}
	for _, digits := range []string{"", "0123", "0123456789abcdeg"} {
		if _, err := ParseID(digits); err == nil {
			t.Errorf("%q is an identifier", digits)
		}
	}
	if _, err := NewMechanism("x", ""); err == nil {
		t.Error("an unknown mechanism")
	}
	if _, err := NewMechanism(PIM, "x"); err == nil {
		t.Error("an unknown way of isotropy")
	}
}
