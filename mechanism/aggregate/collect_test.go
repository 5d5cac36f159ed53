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
	records, _ := drive(t, model, o, 6, 24, 20, start)
	for _, lag := range []int64{0, 3, mechanism.SmoothAll} {
		testShuffled(t, model, o, CollectOptions{WindowSteps: 5, Block: 2, LagSteps: lag}, records)
	}
}

// byUserLists returns the records of each user.
func byUserLists(records []Record) map[string][]Record {
	lists := map[string][]Record{}
	for _, r := range records {
		lists[r.User] = append(lists[r.User], r)
	}
	return lists
}

func testShuffled(
	t *testing.T, model *mobility.Model, o mechanism.Options, c CollectOptions, records []Record,
) {
	t.Helper()
	byUser := byUserLists(records)
	names := slices.Sorted(maps.Keys(byUser))
	estimates := func(records []Record) string {
		windows, counts := collect(t, Models{model}, o, c, records)
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

// TestCollectLag: with a lag a vehicle counts where its records up to its first release at or after
// window and lag have it. Its posterior is that of mechanism.Smoother, which rounds a little. It is
// sharper than that of the filter. A closing window does not wait for a late release.
func TestCollectLag(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 4, Delta: .05, ReleaseInterval: 3, Prune: -1,
	}
	const vehicles, window, lag = 40, 5, 4
	records, _ := drive(t, model, o, 9, vehicles, 20, nil)
	windows := func(c CollectOptions, records []Record) []*Window {
		c.WindowSteps = window
		all, counts := collect(t, Models{model}, o, c, records)
		if len(all) != 4 || counts.Followed != int64(len(records)) {
			t.Fatalf("%d windows, %+v", len(all), counts)
		}
		return all
	}
	filter, smoothed := windows(CollectOptions{}, records), windows(CollectOptions{LagSteps: lag},
		records)
	want := smoothedZones(t, model, o, records, lag)
	for i, w := range smoothed {
		if w.Vehicles() != vehicles {
			t.Fatalf("window %d has %d vehicles", i, w.Vehicles())
		}
		got := valuesOf(w.posterior)
		for z, n := range want[int64(i+1)*window-1] {
			if !near(got[z], n, 1e-4) {
				t.Errorf("window %d, zone %d: %g vehicles, want %g", i, z, got[z], n)
			}
		}
		before, after := total(valuesOf(filter[i].squares)), total(valuesOf(w.squares))
		if i == 3 && !near(before, after, 1e-4) || i < 3 && after < 1.05*before {
			t.Errorf("window %d: the squares of posteriors add up to %g without a lag, to %g "+
				"with it", i, before, after)
		}
	}
	// Open windows wait for the release, and no longer.
	for i, w := range windows(CollectOptions{LagSteps: lag, Open: 1}, records) {
		if !slices.Equal(w.posterior, smoothed[i].posterior) {
			t.Errorf("window %d, read as a topic, has another posterior", i)
		}
	}
	var silent []Record // in the second window and the third
	for _, r := range records {
		if r.User != "v0" || r.Step < window || r.Step >= 3*window {
			silent = append(silent, r)
		}
	}
	waits, counts := collect(t, Models{model}, o,
		CollectOptions{WindowSteps: window, LagSteps: lag, Open: 1}, silent)
	if waits[0].Vehicles() != vehicles || counts.Late != 0 {
		t.Errorf("%d vehicles in the first window, %+v", waits[0].Vehicles(), counts)
	}
}

// TestCollectLagHorizon: a record that comes later than the lag and one release interval after a
// vehicle's last one in a window does not count in it, whether or not a bound ends the reading.
func TestCollectLagHorizon(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{Mechanism: law.Lattice, Epsilon: 4, Delta: .05, ReleaseInterval: 3}
	records, _ := driveSome(t, model, o, 6, 20, 60, nil,
		func(_ int, step int64) bool { return step%15 == 5 })
	var all []Published
	for _, r := range records {
		all = append(all, published(model.Grid, o, r))
	}
	first := func(lag, before int64, after int64) Density {
		t.Helper()
		windows, s, err := read(t, ReadOptions{
			Models: Models{model}, Release: o,
			Collect: CollectOptions{WindowSteps: 10, LagSteps: lag, BeforeMS: before},
		}, all)
		if err != nil || s.After != after || s.Counts.Followed+after != int64(len(all)) {
			t.Fatalf("lag %d: %v, %+v", lag, err, s)
		}
		return windows[0]
	}
	bounded := first(3, 600_000, 60)
	if d := Variation(first(3, 0, 0).Posterior, bounded.Posterior); d > 1e-9 {
		t.Errorf("without a bound the first window differs by %g", d)
	}
	// The record 15 steps later would tell something, and counts under a lag that reaches it.
	if d := Variation(first(12, 0, 0).Posterior, bounded.Posterior); d < .01 {
		t.Errorf("a lag that reaches the next record changes the first window by %g", d)
	}
}

// TestCollectLagGoesOn: a window that closes ends the wait for itself alone. The vehicle waits on
// in later windows, and a release within the horizon counts there.
func TestCollectLagGoesOn(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	o := mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 4, Delta: .05, ReleaseInterval: 6, Prune: -1,
	}
	const window, lag, late = 2, 1, 10
	records, _ := driveSome(t, model, o, 3, 2, late+1, nil,
		func(v int, step int64) bool { return v == 0 || step < 6 || step == late })
	n := len(records) - 1
	if r := records[n]; r.User != "v1" || r.Step != late || r.Kind != mechanism.Released {
		t.Fatalf("the last record is %+v", r)
	}
	second := func(records []Record) []float64 {
		windows, counts := collect(t, Models{model}, o,
			CollectOptions{WindowSteps: window, LagSteps: lag, Open: 1}, records)
		if counts.Late != 0 || windows[1].Vehicles() != 2 {
			t.Fatalf("%d vehicles, %+v", windows[1].Vehicles(), counts)
		}
		return valuesOf(windows[1].posterior)
	}
	got, without := second(records), second(records[:n])
	for z, want := range smoothedZones(t, model, o, records, lag)[2*window-1] {
		if !near(got[z], want, 1e-4) {
			t.Errorf("zone %d: %g vehicles, want %g", z, got[z], want)
		}
	}
	if d := Variation(got, without); d < .01 {
		t.Errorf("the release changes the window by %g", d)
	}
}

// smoothedZones returns the sums of the vehicles' smoothed posteriors, by step and cell.
func smoothedZones(
	t *testing.T, model *mobility.Model, o mechanism.Options, records []Record, lag int64,
) map[int64][]float64 {
	t.Helper()
	sums := map[int64][]float64{}
	each := func(m mechanism.Smoothed) {
		if sums[m.Step] == nil {
			sums[m.Step] = make([]float64, model.Grid.Cells())
		}
		for i, c := range m.Posterior.Cells {
			sums[m.Step][c] += m.Posterior.P[i]
		}
	}
	s, smoother := newService(t, model, o), mechanism.NewSmoother(o, lag)
	for _, of := range byUserLists(records) {
		var block mechanism.Block
		var state mechanism.State
		for _, r := range of {
			seen := mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release}
			if _, err := smoother.Observe(&block, s, &state, seen, each); err != nil {
				t.Fatal(err)
			}
		}
		smoother.Finish(&block, each)
	}
	return sums
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
