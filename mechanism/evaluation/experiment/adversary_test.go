package experiment

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// TestLearnedByHand: a belief of a half in the true cell and a quarter in each of two others.
func TestLearnedByHand(t *testing.T) {
	g := wanderGrid(t) // cells of .5 km
	belief := mobility.Distribution{Cells: []grid.Cell{0, 2, 4}, P: []float64{.5, .25, .25}}
	// The mean lies at .5·.25 + .25·1.25 + .25·2.25 = 1 km of x, .75 km from the true cell's
	// centre.
	got := learned(g, &belief, 0)
	for i, want := range []float64{.5, 1.5, .75 * .75} {
		if !near(got[i], want) {
			t.Errorf("%v, want .5, 1.5 bits and .5625 km²", got)
		}
	}
	if wrong := learned(g, &belief, 1); wrong[0] != 0 {
		t.Errorf("the wrong cell counts: %v", wrong)
	}
	all := mobility.Uniform(g)
	if got := entropy(&all); !near(got, math.Log2(side*side)) {
		t.Errorf("%g bits of %d equal cells", got, side*side)
	}
}

// TestFilters: the standard adversary believes what the sanitizer's state holds, the one who takes
// people to walk at random what Observe gives under that model: bit for bit, with and without gaps.
// With all releases the former smooths.
func TestFilters(t *testing.T) {
	d := testData(t)
	trace := &d.Traces[0]
	model, err := d.WithoutFold(trace.Fold)
	if err != nil {
		t.Fatal(err)
	}
	o := d.Release(PIM, 2, .05)
	filters, err := filters(&Walk{
		Point: popular(d, PIM, 2, .05), Trace: trace, Model: model, Options: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	truth, err := mechanism.NewEmission(d.Grid, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mechanism.NewSanitizer(model, Keyed(1, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := mechanism.NewSanitizer(model, Keyed(1, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	smoother := mechanism.NewSmoother(o, mechanism.SmoothAll)
	var block mechanism.Block
	smoothed := map[int64]grid.Point{} // by moment
	look := func(m mechanism.Smoothed) { smoothed[m.Number] = m.Estimate }
	var moments []int64 // of each report
	walker, err := mechanism.NewSanitizer(model.RandomWalk(), Keyed(1, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.RandomWalk().Validate(); err != nil {
		t.Fatal(err)
	}
	known, walk := slices.Index(Adversaries(), Standard), slices.Index(Adversaries(), WeakWalk)
	next := standard(model, o)
	var walking, seen mechanism.State
	runner := trial.Runner{Sanitizer: s, Release: true}
	err = runner.Run(trace.Track(d.Grid), func(r *trial.Result) error {
		i, out, state := r.Number, r.Outcome, r.State
		next.foresee(trace.Steps[i])
		truth.Prepare(&next.prior)
		for _, f := range filters {
			f.observe(trace.Steps[i], &out.Release, truth)
		}
		next.posterior.CopyFrom(&state.Posterior)
		sameBelief(t, "standard", i, &filters[known].posterior, &state.Posterior)
		release := mechanism.Seen{
			Step: trace.Steps[i], Kind: mechanism.Released, Release: out.Release,
		}
		moment, err := smoother.Observe(&block, reader, &seen, release, look)
		if err := errors.Join(err, walker.Observe(&walking, release)); err != nil {
			return err
		}
		moments = append(moments, moment)
		sameBelief(t, "random walk", i, &filters[walk].posterior, &walking.Posterior)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// With all releases the standard adversary guesses where a mechanism.Smoother does, up to the
	// rounding of states.
	smoother.Finish(&block, look)
	for i, b := range filters[known].lookBack() {
		if off := b.Mean(d.Grid).Distance(smoothed[moments[i]]); off > 1e-5 {
			t.Errorf("timestamp %d: the guess is %g km from the smoothed one", i, off)
		}
	}
}

func sameBelief(t *testing.T, name string, i int, got, want *mobility.Distribution) {
	t.Helper()
	if !slices.Equal(got.Cells, want.Cells) || !slices.Equal(got.P, want.P) {
		t.Fatalf("timestamp %d: the filter %s believes something else: %d cells, want %d",
			i, name, got.Len(), want.Len())
	}
}

// TestAdversariesRank: with an ε at which releases tell something, an adversary who knows more
// gives the true cell more: the releases help everybody, and the one who knows the start knows all
// of the first timestamp.
func TestAdversariesRank(t *testing.T) {
	s := testStudy(t)
	got := walked(t, s, beliefs, popular(s.Data[0], PIM, 5, .01))
	of := func(a Adversary, sees string, m int, sample Sample) float64 {
		return learnedScores(slices.Index(Adversaries(), a), sees)[m].bandOf(sample).Value
	}
	truth := func(a Adversary, with bool) float64 {
		if with {
			return of(a, seesReleases, 0, got.All())
		}
		return of(a, seesNothing, 0, got.All())
	}
	for _, a := range Adversaries() {
		at, all := of(a, seesReleases, 2, got.All()), of(a, seesAll, 2, got.All())
		if a == WeakUniform {
			if !near(at, all) {
				t.Errorf("who takes all cells to be equally likely learns from later releases")
			}
		} else if all >= .97*at || of(a, seesAll, 0, got.All()) <= truth(a, true) {
			t.Errorf("%s: the guess is off by %.3f km, and by %.3f with all releases", a, at, all)
		}
	}
	first := got.Between(0, 1)
	if of(StrongStart, seesNothing, 0, first) != 1 || of(StrongStart, seesNothing, 1, first) != 0 {
		t.Errorf("who knows the start believes %v of it", first)
	}
	for _, a := range Adversaries() {
		if truth(a, true) < 1.5*truth(a, false) && a != StrongPersonal {
			t.Errorf("%s: %.3f with the releases, %.3f without", a, truth(a, true),
				truth(a, false))
		}
	}
	if !(truth(WeakUniform, true) < truth(Standard, true) &&
		truth(Standard, true) < truth(StrongPersonal, true) &&
		truth(Standard, true) < truth(StrongStart, true)) {
		t.Errorf("uniform %.3f, standard %.3f, personal %.3f, start %.3f",
			truth(WeakUniform, true), truth(Standard, true), truth(StrongPersonal, true),
			truth(StrongStart, true))
	}
	if p := truth(WeakUniform, false); !near(p, 1./(side*side)) {
		t.Errorf("who knows nothing gives the true cell %g", p)
	}
}
