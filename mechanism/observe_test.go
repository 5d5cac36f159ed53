package mechanism

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// observed lets an observer with another key, or none that matters, see what a sanitizer publishes,
// through degrees as a record has them, and calls each with both states after every report that
// leaves a record.
func observed(
	t *testing.T, model *mobility.Model, o, theirs Options, reports []int64,
	each func(step int64, state, seen *State),
) (hidden int) {
	t.Helper()
	s := newSanitizer(t, model, o)
	observer := sanitizerWith(t, model, noise.NewKeyed(noise.KeyFromSeed(99)), theirs)
	path := walk(model, 5, 400)
	var state, theirState State
	for _, step := range reports {
		out := mustStep(t, s, &state, Input{
			User: "u", Step: step, Cell: path[step%400],
			Release: true,
		})
		if !out.Kind.Published() {
			if out.Changed {
				hidden++
			}
			continue
		}
		z := model.Grid.ToMap(model.Grid.ToDegrees(out.Release))
		if err := observer.Observe(&theirState,
			Seen{Step: step, Kind: out.Kind, Release: observer.Snap(z)}); err != nil {
			t.Fatal(err)
		}
		each(step, &state, &theirState)
	}
	return hidden
}

// reports are steps with repetitions, late ones, and gaps below and above 20 steps.
var reports = []int64{
	3, 4, 4, 5, 6, 7, 7, 6, 8, 9, 12, 13, 14, 15, 30, 31, 32, 33, 34, 35, 60, 61,
	62, 62, 63, 64, 65, 66, 67, 68,
}

// TestObserveFollows: what is published determines the sanitizer's state. Exactly so for the
// lattice and the codebook under all settings that publish something for every report; up to the
// last bits of a release in degrees for the others.
func TestObserveFollows(t *testing.T) {
	t.Parallel()
	for _, mechanism := range law.Names() {
		for name, o := range map[string]Options{
			"plain":      {},
			"paper":      {Inference: InferencePaper},
			"no pruning": {Prune: -1, MinCells: -1, Delta: .3},
			"padded":     {MinCells: 40, Delta: .7, Estimate: EstimateMedian},
			"interval":   {ReleaseInterval: 3, Estimate: EstimateMode},
			"repeat": {Budget: Budget{
				Epsilon: 4, WindowSteps: 6, Lifetime: 20,
				Spent: SpentRepeat,
			}},
			"predict": {Budget: Budget{Epsilon: 4, WindowSteps: 6, Spent: SpentPredict}},
		} {
			if mechanism == law.Codebook && (name == "paper" || name == "padded") {
				continue // refused, see TestOptionsValidate
			}
			o.Mechanism, o.Epsilon, o.MaxGap = mechanism, 2, 20
			if o.Delta == 0 {
				o.Delta = .05
			}
			t.Run(mechanism+" "+name, func(t *testing.T) {
				t.Parallel()
				checkFollows(t, roadModel(t), o)
			})
			t.Run(mechanism+" "+name+", law of gaps", func(t *testing.T) {
				t.Parallel()
				checkFollows(t, gapModel(t), o)
			})
		}
	}
}

// checkFollows wants the states of an observer to be the sanitizer's.
func checkFollows(t *testing.T, model *mobility.Model, o Options) {
	t.Helper()
	n := 0
	hidden := observed(t, model, o, o, reports, func(step int64, state, seen *State) {
		n++
		if o.Mechanism != law.Lattice && o.Mechanism != law.Codebook {
			if d := distance(state, seen); d > 1e-6 ||
				math.Abs(state.Estimate.X-seen.Estimate.X) > 1e-4 {
				t.Fatalf("step %d: the observer's posterior is %g away", step, d)
			}
			return
		}
		if !bytes.Equal(state.AppendBinary(nil), seen.AppendBinary(nil)) {
			t.Fatalf("step %d: the observer's state differs", step)
		}
	})
	if n < 20 || hidden > 0 {
		t.Errorf("%d records, and %d hidden steps", n, hidden)
	}
}

// TestObserveHidden: of reports without a record the observer knows nothing, and follows up to
// rounding and pruning, under the codebook to the last bit.
func TestObserveHidden(t *testing.T) {
	t.Parallel()
	long := slices.Clone(reports)
	for step := int64(70); step < 400; step += 1 + step%3 {
		long = append(long, step)
	}
	for _, mechanism := range []string{law.Lattice, law.Codebook} {
		for name, o := range map[string]Options{
			"skip":       {ReleaseInterval: 3, Between: BetweenSkip},
			"no pruning": {ReleaseInterval: 3, Between: BetweenSkip, Prune: -1},
			"suppress":   {Budget: Budget{Epsilon: 2, WindowSteps: 6, Spent: SpentSuppress}},
		} {
			t.Run(mechanism+" "+name, func(t *testing.T) {
				t.Parallel()
				// No gap is longer, so that the filter never starts over.
				o.Mechanism, o.Epsilon, o.MaxGap, o.Delta = mechanism, 1, 400, .05
				n := 0
				model := roadModel(t)
				if mechanism == law.Codebook {
					model = gapModel(t) // its law does not count here
				}
				hidden := observed(t, model, o, o, long, func(step int64, state, seen *State) {
					n++
					if mechanism == law.Lattice {
						if d := distance(state, seen); d > 1e-4 {
							t.Fatalf("step %d: the observer's posterior is %g away", step, d)
						}
						return
					}
					if !bytes.Equal(state.AppendBinary(nil), seen.AppendBinary(nil)) {
						t.Fatalf("step %d: the observer's posterior is %g away", step,
							distance(state, seen))
					}
				})
				if hidden < 10 || n < 20 {
					t.Errorf("%d records, and %d hidden steps", n, hidden)
				}
			})
		}
	}
}

// TestObserveCarried: a gap that hides reports is bridged on demand, where the rule for gaps would
// start over.
func TestObserveCarried(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	o := Options{Epsilon: 2, Delta: .05, MaxGap: 5}
	s := newSanitizer(t, model, o)
	var state, carried, anew State
	mustStep(t, s, &state, Input{User: "u", Step: 1, Cell: 500, Release: true})
	carried.CopyFrom(&state)
	anew.CopyFrom(&state)
	for step := int64(4); step <= 10; step += 3 { // no release, no record
		mustStep(t, s, &state, Input{User: "u", Step: step})
	}
	for _, c := range []struct {
		state *State
		seen  Seen
		near  bool
	}{
		{&carried, Seen{Step: 10, Kind: Predicted, Carried: true}, true},
		{&anew, Seen{Step: 10, Kind: Predicted}, false},
	} {
		if err := s.Observe(c.state, c.seen); err != nil {
			t.Fatal(err)
		}
		if d := distance(&state, c.state); (d < 1e-5) != c.near {
			t.Errorf("%+v: posteriors differ by %g", c.seen, d)
		}
	}
}

// TestObserveNotices: with the wrong public settings the observer's posterior is another one, which
// the records' estimates show.
func TestObserveNotices(t *testing.T) {
	t.Parallel()
	right := Options{Epsilon: 2, Delta: .05, MaxGap: 20}
	for name, change := range map[string]func(*Options){
		"ε":         func(o *Options) { o.Epsilon = 1 },
		"δ":         func(o *Options) { o.Delta = .3 },
		"inference": func(o *Options) { o.Inference = InferencePaper },
		"mechanism": func(o *Options) { o.Mechanism = law.Laplace },
		"max gap":   func(o *Options) { o.MaxGap = 40 },
		"padding":   func(o *Options) { o.MinCells = 60 },
	} {
		wrong, worst := right, 0.0
		change(&wrong)
		observed(t, roadModel(t), right, wrong, reports, func(_ int64, state, seen *State) {
			worst = max(worst, state.Estimate.Distance(seen.Estimate))
		})
		if worst < .01 {
			t.Errorf("another %s moves no estimate by more than %g km", name, worst)
		}
	}
}

func TestObserveRefuses(t *testing.T) {
	t.Parallel()
	s := newSanitizer(t, roadModel(t), Options{Epsilon: 1, Delta: .1})
	var state State
	if err := s.Observe(&state, Seen{
		Step: 5, Kind: Released,
		Release: grid.Point{X: 3, Y: 3},
	}); err != nil {
		t.Fatal(err)
	}
	before := state.AppendBinary(nil)
	for name, seen := range map[string]Seen{
		"late":       {Step: 4, Kind: Released},
		"late kind":  {Step: 6, Kind: Late},
		"no kind":    {Step: 6},
		"suppressed": {Step: 6, Kind: Suppressed},
		"no number":  {Step: 6, Kind: Released, Release: grid.Point{X: math.NaN()}},
		"no place":   {Step: 6, Kind: Released, Release: grid.Point{Y: math.Inf(1)}},
	} {
		if err := s.Observe(&state, seen); !errors.Is(err, ErrUnseen) {
			t.Errorf("%s: %v", name, err)
		}
	}
	state.Model[0]++
	if err := s.Observe(&state, Seen{Step: 6, Kind: Predicted}); !errors.Is(err, ErrOtherModel) {
		t.Errorf("a state of another model: %v", err)
	}
	state.Model[0]--
	if !bytes.Equal(before, state.AppendBinary(nil)) {
		t.Error("what is refused changes the state")
	}
}

// TestSnap takes releases of every kind of lattice back from degrees and from degrees with seven
// decimals.
func TestSnap(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	for _, parts := range []int{1, 3, 256, 255} {
		s := newSanitizer(t, model, Options{Epsilon: .01, Delta: .1, Subdivision: parts})
		var state State
		for step := range int64(200) {
			z := mustStep(t, s, &state, Input{
				User: "u", Step: step, Cell: 500,
				Release: true,
			}).Release
			lat, lon := model.Grid.ToDegrees(z)
			if got := s.Snap(model.Grid.ToMap(lat, lon)); got != z {
				t.Fatalf("%d steps a cell: %v came back as %v", parts, z, got)
			}
			lat, lon = math.Round(lat*1e7)/1e7, math.Round(lon*1e7)/1e7
			if got := s.Snap(model.Grid.ToMap(lat, lon)); got != z {
				t.Fatalf("%d steps a cell, seven decimals: %v came back as %v", parts, z, got)
			}
		}
	}
	far := grid.Point{X: 1e300, Y: -1e300}
	if got := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1}).Snap(far); got != far {
		t.Errorf("what no word holds became %v", got)
	}
	pim := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, Mechanism: law.PIM})
	if got := pim.Snap(grid.Point{X: .123, Y: 4}); got != (grid.Point{X: .123, Y: 4}) {
		t.Errorf("pim has no lattice, but the place became %v", got)
	}
}

// distance is the total variation distance of two posteriors.
func distance(a, b *State) float64 {
	p := map[grid.Cell]float64{}
	for i, c := range a.Posterior.Cells {
		p[c] = a.Posterior.P[i]
	}
	for i, c := range b.Posterior.Cells {
		p[c] -= b.Posterior.P[i]
	}
	sum := 0.0
	for _, d := range p {
		sum += math.Abs(d) / 2
	}
	return sum
}
