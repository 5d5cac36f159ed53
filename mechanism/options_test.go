package mechanism

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

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
		"no epsilon":       {func(o *Options) { o.Epsilon = 0 }, "not set or 0"},
		"negative epsilon": {func(o *Options) { o.Epsilon = -1 }, "epsilon"},
		"small epsilon":    {func(o *Options) { o.Epsilon = law.MinEpsilon / 2 }, "epsilon"},
		"large epsilon":    {func(o *Options) { o.Epsilon = 2 * law.MaxEpsilon }, "protects no"},
		"no number":        {func(o *Options) { o.Epsilon = math.NaN() }, "epsilon"},
		"delta of 1":       {func(o *Options) { o.Delta = 1 }, "delta"},
		"negative delta":   {func(o *Options) { o.Delta = -.1 }, "delta"},
		"delta no number":  {func(o *Options) { o.Delta = math.NaN() }, "delta"},
		"mechanism": {
			func(o *Options) { o.Mechanism = "PIM" },
			"pim, knorm, laplace, laplace-tight",
		},
		"inference":       {func(o *Options) { o.Inference = "bayes" }, "surrogate, paper"},
		"isotropy":        {func(o *Options) { o.Isotropy = "none" }, "closed-form, sampled"},
		"prune":           {func(o *Options) { o.Prune = .01 }, "prune"},
		"prune no number": {func(o *Options) { o.Prune = math.NaN() }, "prune"},
		"gap":             {func(o *Options) { o.MaxGap = -1 }, "gap"},
		"long gap":        {func(o *Options) { o.MaxGap = MaxMaxGap + 1 }, "gap"},
	} {
		o := good
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	codebook := Options{Mechanism: law.Codebook, Epsilon: 1}
	for name, o := range map[string]Options{
		"plain": codebook, "with its defaults": codebook.withDefaults(),
		"without padding": {Mechanism: law.Codebook, Epsilon: 1, MinCells: -1},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("codebook %s: %v", name, err)
		}
	}
	codebook.MinCells, codebook.Inference = 4, InferencePaper
	err := codebook.Validate()
	if err == nil || strings.Count(err.Error(), law.Codebook) != 2 {
		t.Errorf("what a codebook ignores: %v", err)
	}
	all := Options{Mechanism: "x", Inference: "y", Delta: 2}
	if err := all.Validate(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("every fault is reported at once: %v", err)
	}
}

// TestLargestEpsilon checks the likelihoods that the bounds of ε are made for: none of the set
// underflows at the largest one.
func TestLargestEpsilon(t *testing.T) {
	t.Parallel()
	if least := portable.Exp(-law.MaxEpsilon); !(least > 0x1p-1022) {
		t.Errorf("at ε = %g a cell of the set can have the likelihood %g", law.MaxEpsilon, least)
	}
}

func TestLatticeOptions(t *testing.T) {
	t.Parallel()
	good := Options{Mechanism: law.Lattice, Epsilon: 1.5}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"decimals":        func(o *Options) { o.Epsilon = math.Ln2 },
		"a subdivision":   func(o *Options) { o.Subdivision = -1 },
		"too fine":        func(o *Options) { o.Subdivision = law.MaxSubdivision + 1 },
		"no ε":            func(o *Options) { o.Epsilon = 0 },
		"not for lattice": func(o *Options) { o.Mechanism, o.Subdivision = law.PIM, -1 },
	} {
		o := good
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	others := Options{Mechanism: law.PIM, Epsilon: math.Ln2}
	if err := others.Validate(); err != nil {
		t.Errorf("the other mechanisms take any ε: %v", err)
	}
}

// TestDefaultMechanism: options without a mechanism are those of the codebook, and release the same
// bytes as with its name.
func TestDefaultMechanism(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	var seen [2][]Outcome
	for i, name := range []string{"", law.Codebook} {
		o := Options{Mechanism: name, Epsilon: 2}
		s, err := NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), o)
		if err != nil || s.Options().Mechanism != law.Codebook {
			t.Fatalf("mechanism %q: %+v, %v", name, s, err)
		}
		var state State
		for step, cell := range walk(model, 3, 20) {
			out := mustStep(t, s, &state,
				Input{User: "u", Step: int64(step), Cell: cell, Release: true})
			seen[i] = append(seen[i], out)
		}
	}
	if !slices.Equal(seen[0], seen[1]) {
		t.Error("an empty mechanism releases something else than the codebook")
	}
	if _, err := law.New(law.Options{}); err == nil {
		t.Error("law.New makes a mechanism without a name")
	}
}
