package aggregate

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestCollectWindows: every vehicle counts once in each of its windows, and the mean of posteriors
// is that of the service's own states.
func TestCollectWindows(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 1, 30, 12, nil)
	windows, counts := collect(t, Models{model}, o,
		CollectOptions{WindowSteps: 5, Block: 2}, records)
	if len(windows) != 3 || counts.Followed != int64(len(records)) || counts.Lost != 0 ||
		counts.Users != 30 {
		t.Fatalf("%d windows, %+v", len(windows), counts)
	}
	// The service's posteriors at the ends of the windows, by a filter of their own.
	f, zones := newFollower(t, Models{model}, o), zonesOf(t, model.Grid, 2)
	want := make([][]float64, 3)
	for i := range want {
		want[i] = make([]float64, zones.Count())
	}
	states := map[string]*Track{}
	for _, r := range records {
		if states[r.User] == nil {
			states[r.User] = new(Track)
		}
		if known, err := f.Follow(states[r.User], r); err != nil || !known {
			t.Fatalf("%t, %v", known, err)
		}
		if r.Step%5 == 4 || r.Step == 11 {
			for i, c := range f.state.Posterior.Cells {
				want[r.Step/5][zones.Of(c)] += f.state.Posterior.P[i]
			}
		}
	}
	for i, w := range windows {
		if w.StartMS != int64(i)*300_000 || w.EndMS-w.StartMS != 300_000 || w.Vehicles() != 30 ||
			w.Released != 30 || w.Lost != 0 {
			t.Errorf("window %d: %d to %d, %d vehicles", i, w.StartMS, w.EndMS, w.Vehicles())
		}
		d := w.Estimate(EstimateOptions{})
		for z := range want[i] {
			if !near(d.Posterior[z], want[i][z], 1e-4) {
				t.Errorf("window %d, zone %d: %g vehicles, want %g",
					i, z, d.Posterior[z], want[i][z])
			}
			if d.Low[z] > d.Fitted[z]+1 || d.High[z] < d.Fitted[z]-1 ||
				d.PosteriorLow[z] > d.Posterior[z]+1 || d.PosteriorHigh[z] < d.Posterior[z]-1 {
				t.Errorf("window %d, zone %d: intervals miss their estimates", i, z)
			}
		}
		for name, sum := range map[string]float64{
			"naive": total(d.Naive), "blind": total(d.Blind), "posterior": total(d.Posterior),
			"fitted": total(d.Fitted),
		} {
			if !near(sum, 30, 1e-3) {
				t.Errorf("window %d: %s has %g vehicles", i, name, sum)
			}
		}
	}
}

// TestCollectOrder: the order of users does not matter, windows close when they may, and what comes
// too late has no part.
func TestCollectOrder(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 2, 8, 20, nil)
	byTime, _ := collect(t, Models{model}, o, CollectOptions{WindowSteps: 5, Open: 1}, records)
	grouped := byUser(records)
	apart, counts := collect(t, Models{model}, o, CollectOptions{WindowSteps: 5}, grouped)
	if len(byTime) != 4 || len(apart) != 4 || counts.Late != 0 {
		t.Fatalf("%d and %d windows, %+v", len(byTime), len(apart), counts)
	}
	for i := range byTime {
		if d := Variation(valuesOf(byTime[i].posterior), valuesOf(apart[i].posterior)); d > 1e-9 ||
			byTime[i].Vehicles() != 8 {
			t.Errorf("window %d differs by %g", i, d)
		}
	}
	_, counts = collect(t, Models{model}, o, CollectOptions{WindowSteps: 5, Open: 1}, grouped)
	if counts.Late == 0 || counts.Followed != int64(len(records)) {
		t.Errorf("users one after the other under one open window: %+v", counts)
	}
	k, err := NewCollector(Models{model}, o, CollectOptions{WindowSteps: 5},
		func(*Window) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Add(records[8]), k.Add(records[0])); !errors.Is(err, ErrOrder) &&
		!errors.Is(err, ErrSettings) {
		t.Errorf("records in the wrong order: %v", err)
	}
}

// TestCollectShuffled: the order of users' records does not change a bit of any estimate. The fleet
// teaches the prior. Reports without a record let users' windows end in
// different steps.
func TestCollectShuffled(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{
		Mechanism: law.Codebook, Epsilon: 1, ReleaseInterval: 2, Between: mechanism.BetweenSkip,
	}
	start := func(v int) grid.Cell { return grid.Cell(20 + v%3) }
	records, _ := drive(t, model, o, 5, 24, 20, start)
	byUser := map[string][]Record{}
	for _, r := range records {
		byUser[r.User] = append(byUser[r.User], r)
	}
	names := slices.Sorted(maps.Keys(byUser))
	estimates := func(records []Record) string {
		windows, counts := collect(t, Models{model}, o,
			CollectOptions{WindowSteps: 5, Block: 2}, records)
		text := fmt.Sprintf("%+v\n", counts)
		for _, w := range windows {
			text += fmt.Sprintln(w.StartMS, w.Lost, w.Released,
				w.Estimate(EstimateOptions{Workers: 2}))
		}
		return text
	}
	want := estimates(records)
	if !strings.Contains(want, "Lost:0") || strings.Count(want, "+Inf") > 2 {
		t.Fatalf("users are lost, or no fleet teaches a prior:\n%.300s", want)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		queues, shuffled := maps.Clone(byUser), make([]Record, 0, len(records))
		for len(shuffled) < len(records) {
			name := names[random.IntN(len(names))]
			n := min(1+random.IntN(9), len(queues[name]))
			shuffled = append(shuffled, queues[name][:n]...)
			queues[name] = queues[name][n:]
		}
		if got := estimates(shuffled); got != want {
			t.Fatalf("another order gives another estimate: %d and %d bytes", len(got), len(want))
		}
	}
}

// TestFollowSettings: a reader with other settings than the service's is told so.
func TestFollowSettings(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .3}
	records, _ := drive(t, model, o, 4, 5, 10, nil)
	for name, change := range map[string]func(*mechanism.Options){
		"wrong ε": func(o *mechanism.Options) { o.Epsilon = 1 },
		"wrong δ": func(o *mechanism.Options) { o.Delta = .01 },
		"surrogates ignored": func(o *mechanism.Options) {
			o.Inference = mechanism.InferencePaper
		},
		"another mechanism": func(o *mechanism.Options) { o.Mechanism = law.Laplace },
		"the median instead of a mean": func(o *mechanism.Options) {
			o.Estimate = mechanism.EstimateMedian
		},
		"a location set that is padded": func(o *mechanism.Options) { o.MinCells = 60 },
	} {
		wrong := o
		change(&wrong)
		k, err := NewCollector(Models{model}, wrong, CollectOptions{WindowSteps: 5},
			func(*Window) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Add(records[0]); !errors.Is(err, ErrSettings) ||
			!strings.Contains(err.Error(), "delta, near, interval") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLikelihoodIsBayes holds one vehicle's likelihood against a sum over all paths, with the law
// of the releases evaluated at every cell, surrogates included. Under Codebook the state that is
// kept has short masses. The law of a release follows from them, and nothing else does: read out of
// them, likelihoods are wrong by half and more.
func TestLikelihoodIsBayes(t *testing.T) {
	t.Parallel()
	for _, o := range []mechanism.Options{
		{Mechanism: law.Lattice, Epsilon: 3, Delta: .2, Prune: -1},
		{Mechanism: law.Codebook, Epsilon: 3},
	} {
		for _, steps := range []int64{1, 3, 12} {
			t.Run(fmt.Sprint(o.Mechanism, steps), func(t *testing.T) {
				t.Parallel()
				testLikelihood(t, o, steps)
			})
		}
	}
}

func testLikelihood(t *testing.T, o mechanism.Options, steps int64) {
	t.Helper()
	model := testcase.Town(t)
	records, _ := drive(t, model, o, 5, 1, steps, nil)
	windows, _ := collect(t, Models{model}, o, CollectOptions{WindowSteps: 100}, records)
	got := windows[0].vehicles[0]

	f := newFollower(t, Models{model}, o)
	cells := make([]grid.Cell, model.Grid.Cells())
	joint := make([]float64, len(cells)) // of the cell now and all releases
	blind := make([]float64, len(cells))
	for c := range cells {
		cells[c] = grid.Cell(c)
	}
	for i, c := range model.Initial.Cells {
		joint[c], blind[c] = model.Initial.P[i], model.Initial.P[i]
	}
	var track Track
	for step, r := range records {
		if step > 0 {
			joint, blind = moved(model, joint), moved(model, blind)
		}
		if known, err := f.Follow(&track, r); err != nil || !known || r.Kind != mechanism.Released {
			t.Fatalf("%t, %v, %v", known, err, r.Kind)
		}
		likelihoods := f.of(track.filter).Emission().Likelihoods(r.Release, cells)
		for c, l := range likelihoods {
			joint[c] *= l
		}
	}
	first := got.Zones[0]
	for i, z := range got.Zones {
		want := joint[z] / blind[z] / (joint[first] / blind[first]) * float64(got.Values[0])
		if !near(float64(got.Values[i]), want, 1e-4*want) {
			t.Errorf("zone %d: %g, want %g", z, got.Values[i], want)
		}
	}
	if len(got.Zones) != len(cells) {
		t.Errorf("%d zones of %d", len(got.Zones), len(cells))
	}
}

func moved(model *mobility.Model, p []float64) []float64 {
	next := make([]float64, len(p))
	for from := range p {
		columns, values := model.Matrices[0].Entries(grid.Cell(from))
		for i, to := range columns {
			next[to] += p[from] * values[i]
		}
	}
	return next
}
