package mechanism

import (
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestEmissionIsTheLawOfSteps: an Emission of a step's prior gives the likelihoods by which the
// step has inferred; over all cells of the map, also those that the prior has dropped, they differ
// by e^ε at most; and an observer who sees the release alone has the same bits.
func TestEmissionIsTheLawOfSteps(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	all := testcase.AllCells(model.Grid)
	for _, name := range []string{law.Codebook, law.Lattice, law.KNorm} {
		// Without pruning nothing is rounded but to float32, so inference can be held to Bayes'
		// rule.
		o := Options{Mechanism: name, Epsilon: 1.5, Delta: .1, Prune: -1}
		s, observer := newSanitizer(t, model, o), newSanitizer(t, model, o)
		e, err := NewEmission(model.Grid, o)
		if err != nil {
			t.Fatal(err)
		}
		var state, seen State
		for step, cell := range walk(model, 7, 40) {
			out := mustStep(t, s, &state, Input{
				User: "u", Step: int64(step), Cell: cell, Release: true, Prior: true,
			})
			if out.Kind != Released {
				t.Fatalf("%s: step %d is %v", name, step, out.Kind)
			}
			e.Prepare(out.Prior)
			likelihoods := slices.Clone(e.Likelihoods(out.Release, all))
			if r := slices.Max(likelihoods) / slices.Min(likelihoods); r > math.Exp(1.5)*(1+1e-9) {
				t.Errorf("%s: step %d tells two cells apart by %g", name, step, r)
			}
			var posterior mobility.Distribution
			mobility.Update(&posterior, out.Prior, e.Likelihoods(out.Release, out.Prior.Cells))
			for i, c := range posterior.Cells {
				if got := state.Posterior.At(c); math.Abs(got-posterior.P[i]) > 1e-7 {
					t.Errorf("%s: step %d, cell %d: %g by the law, %g by the step",
						name, step, c, posterior.P[i], got)
				}
			}
			z := out.Release
			if err := observer.Observe(&seen,
				Seen{Step: int64(step), Kind: Released, Release: z}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(observer.Emission().Likelihoods(z, all), likelihoods) {
				t.Errorf("%s: step %d: the observer has other likelihoods", name, step)
			}
		}
	}
}
