package mechanism

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

func TestRules(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	ten := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	twice := []int64{0, 0, 1, 1, 0, 1, 2}
	budget := Budget{Epsilon: 1, WindowSteps: 5}
	// Step 0 is the first minute of 1970, a Thursday: steps 2 to 4 are within the hours.
	open := []hours.Span{
		{Days: 1 << time.Thursday, From: 2, To: 4, Zone: "UTC"},
		{Days: 1 << time.Thursday, From: 64, To: 65, Zone: "Europe/London"}, // an hour ahead then
		{Days: 1 << time.Friday, From: 0, To: 1440, Zone: "UTC"},
	}
	for name, c := range map[string]struct {
		options Options
		steps   []int64
		want    string
		spent   float64
	}{
		"every step": {Options{}, ten, "RRRRRRRRRRRR", 6},
		"interval":   {Options{ReleaseInterval: 4}, ten, "RPPPRPPPRPPP", 1.5},
		"interval, skip": {
			Options{ReleaseInterval: 4, Between: BetweenSkip},
			ten,
			"RSSSRSSSRSSS", 1.5,
		},
		"interval, gaps": {
			Options{ReleaseInterval: 4},
			[]int64{0, 3, 3, 5, 5, 8, 9, 30, 29},
			"RPpR=PRRl", 2,
		},
		"interval, skip, twice": {
			Options{ReleaseInterval: 4, Between: BetweenSkip},
			[]int64{0, 2, 2, 4, 4},
			"RSsR=", 1,
		},
		"repeat": {Options{}, twice, "R=R=l=R", 1.5},
		"budget": {Options{Budget: with(budget, SpentSuppress)}, ten, "RRXXXXRRXXXX", 2},
		"budget, repeat": {
			Options{Budget: with(budget, SpentRepeat)},
			ten, "RR≠≠≠≠RR≠≠≠≠",
			2,
		},
		"budget, predict": {
			Options{Budget: budget},
			ten, "RRPPPPRRPPPP",
			2,
		},
		"budget, twice": {
			Options{Budget: with(budget, SpentRepeat)},
			[]int64{0, 1, 2, 2, 3, 5, 6},
			"RR≠=≠≠R", 1.5,
		},
		"lifetime": {Options{Budget: Budget{Lifetime: 2}}, ten, "RRRRPPPPPPPP", 2},
		"both budgets": {Options{Budget: Budget{
			Epsilon: 1, WindowSteps: 5,
			Lifetime: 1.5,
		}}, ten, "RRPPPPRPPPPP", 1.5},
		"interval and budget": {Options{
			ReleaseInterval: 2, Between: BetweenSkip,
			Budget: budget,
		}, ten, "RSRSXXRSRSXX", 2},
		"hours": {Options{Hours: open}, ten, "PPRRRPPPPPPP", 1.5},
		"hours, skip": {
			Options{Hours: open, ReleaseInterval: 2, Between: BetweenSkip},
			ten, "PPRSRPPPPPPP", 1,
		},
		"hours, suppress": {
			Options{Hours: open, Budget: Budget{Lifetime: .5, Spent: SpentSuppress}},
			ten, "PPRXXPPPPPPP", .5,
		},
		"hours, repeat": {Options{Hours: open}, []int64{1, 1, 2, 2, 5, 5}, "PpR=Pp", .5},
		"hours, the next day": {
			Options{Hours: open}, []int64{1439, 1440, 2879, 2880}, "PRRP", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.Epsilon, c.options.Delta = .5, .1
			s := newSanitizer(t, model, c.options)
			var state State
			outs := follow(t, s, &state, c.steps...)
			if got := kindsOf(outs); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if state.EpsilonSpent != c.spent || state.Ledger.Spent().Epsilon() != c.spent ||
				state.Rho != c.spent*.5/2 || float64(state.Releases) != c.spent/.5 {
				t.Errorf("spent %g, ρ %g in %d releases, want %g", state.EpsilonSpent, state.Rho,
					state.Releases, c.spent)
			}
			var last *Outcome
			for i, o := range outs {
				cost := 0.0
				if o.Kind == Released {
					cost, last = .5, &outs[i]
				}
				published := o.Kind == Released || o.Kind == Repeated || o.Kind == Predicted
				if o.Epsilon != cost || o.Kind.Published() != published ||
					published != (o.RadiusKM > 0) || !published &&
					(o.Release != grid.Point{} || o.Estimate != grid.Point{}) {
					t.Errorf("report %d: %+v", i, o)
				}
				if o.Kind == Repeated && o.Release != last.Release || o.Kind == Predicted &&
					o.Release != o.Estimate {
					t.Errorf("report %d: %+v after %+v", i, o, last)
				}
			}
		})
	}
}

// TestHours: under random hours and rules, over days when clocks change, no release has a step that
// starts outside the hours. All outcomes and states are those of a service whose reports outside of
// them ask for no release. Where every report leaves a record, the observer's state is the same.
func TestHours(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	rng := rand.New(rand.NewPCG(5, 6))
	zones := []string{"UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe"}
	changes := []string{"2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05"}
	released, outside := 0, 0
	for i := range 24 {
		o := Options{
			Mechanism: []string{law.Codebook, law.Lattice}[i%2], Epsilon: 1, Delta: .1,
			ReleaseInterval: 1 + 5*rng.IntN(2),
			Between:         []string{BetweenPredict, BetweenSkip}[rng.IntN(2)],
		}
		if rng.IntN(3) == 0 {
			o.Budget = Budget{Epsilon: 3, WindowSteps: 1440, Spent: SpentPredict}
		}
		for range 1 + rng.IntN(2) {
			o.Hours = append(o.Hours, hours.Span{
				Days: hours.Days(1 + rng.IntN(127)), From: rng.IntN(720), To: 720 + rng.IntN(720),
				Zone: zones[rng.IntN(len(zones))],
			})
		}
		free := o
		free.Hours = nil
		limited, plain, observer := newSanitizer(t, model, o), newSanitizer(t, model, free),
			newSanitizer(t, model, o)
		open, err := hours.New(o.Hours)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, changes[rng.IntN(len(changes))])
		if err != nil {
			t.Fatal(err)
		}
		var a, b, seen State
		for step := day.Unix()/60 - 720; step < day.Unix()/60+2160; step += 1 + rng.Int64N(45) {
			in := Input{User: "u", Step: step, Cell: grid.Cell(rng.IntN(1024)), Release: true}
			got, err := limited.Step(&a, in)
			if err != nil {
				t.Fatal(err)
			}
			in.Release = open.Open(step * 60_000)
			want, err := plain.Step(&b, in)
			if err != nil {
				t.Fatal(err)
			}
			if got != want || !bytes.Equal(a.AppendBinary(nil), b.AppendBinary(nil)) {
				t.Fatalf("%v: step %d is %+v, want %+v", o.Hours, step, got, want)
			}
			if got.Kind == Released && !in.Release || !in.Release && got.Kind != Predicted {
				t.Fatalf("%v: step %d is %v", o.Hours, step, got.Kind)
			}
			if !in.Release {
				outside++
			} else if got.Kind == Released {
				released++
			}
			if o.Between == BetweenSkip {
				continue
			}
			if err := observer.Observe(&seen, Seen{
				Step: step, Kind: got.Kind, Release: got.Release,
			}); err != nil || !slices.Equal(seen.Posterior.P, a.Posterior.P) ||
				!slices.Equal(seen.Posterior.Cells, a.Posterior.Cells) {
				t.Fatalf("%v: the observer differs at step %d: %v", o.Hours, step, err)
			}
		}
	}
	if released < 100 || outside < 300 {
		t.Errorf("%d releases, and %d reports outside the hours", released, outside)
	}
}

func with(b Budget, spent string) Budget {
	b.Spent = spent
	return b
}

// TestWithheldStepsGoOneWay compares the states of what may be published instead of a release: the
// posterior advances the same, so the releases that follow are the same too.
func TestWithheldStepsGoOneWay(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	steps := []int64{0, 1, 1, 3, 4, 9, 9, 12, 13, 20}
	run := func(o Options) (state State, last Outcome) {
		o.Epsilon, o.Delta = 1, .1
		outs := follow(t, newSanitizer(t, model, o), &state, steps...)
		return state, outs[len(outs)-1]
	}
	for _, group := range [][]Options{
		{
			{ReleaseInterval: 5},
			{ReleaseInterval: 5, Between: BetweenSkip},
		},
		{
			{Budget: Budget{Epsilon: 2, WindowSteps: 8, Spent: SpentSuppress}},
			{Budget: Budget{Epsilon: 2, WindowSteps: 8, Spent: SpentRepeat}},
			{Budget: Budget{Epsilon: 2, WindowSteps: 8, Spent: SpentPredict}},
		},
	} {
		first, out := run(group[0])
		for _, o := range group[1:] {
			state, again := run(o)
			if !bytes.Equal(state.AppendBinary(nil), first.AppendBinary(nil)) ||
				again != out {
				t.Errorf("%+v: another state or release than %+v", o, group[0])
			}
		}
		if out.Kind != Released {
			t.Errorf("%+v: the last is %v", group[0], out.Kind)
		}
	}
}

// TestSpentWithNothingToRepeat predicts where the last release is of another map.
func TestSpentWithNothingToRepeat(t *testing.T) {
	t.Parallel()
	o := Options{Epsilon: 1, Delta: .1, Budget: Budget{Lifetime: 2, Spent: SpentRepeat}}
	a, b := newSanitizer(t, roadModel(t), o), newSanitizer(t, denseModel(t, 20, 20), o)
	var state State
	follow(t, a, &state, 0, 1, 2)
	if b.Migrate(&state) != StartedAnew {
		t.Fatal("the grid is the same")
	}
	if outs := follow(t, b, &state, 3, 4); kindsOf(outs) != "PP" ||
		outs[1].Release != outs[1].Estimate {
		t.Errorf("got %s: %+v", kindsOf(outs), outs)
	}
}

// TestDecisionsNeverLookAtTheCell reports every cell of the map at once, at steps where each of the
// rules decides: what is decided is the same for all, and where nothing is released so is all that
// is published and kept.
func TestDecisionsNeverLookAtTheCell(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	seen := map[Kind]int{}
	for name, o := range map[string]Options{
		"interval":       {ReleaseInterval: 3},
		"skip":           {ReleaseInterval: 3, Between: BetweenSkip, Estimate: EstimateMedian},
		"budget":         {Budget: Budget{Epsilon: 4, WindowSteps: 3, Spent: SpentSuppress}},
		"budget, repeat": {Budget: Budget{Epsilon: 4, WindowSteps: 3, Spent: SpentRepeat}},
	} {
		o.Epsilon, o.Delta = 2, .05
		s := newSanitizer(t, model, o)
		var state State
		released, withheld := 0, 0
		for i, cell := range walk(model, 9, 24) {
			for range 1 + i%2 {
				in := Input{User: "u", Step: int64(i), Cell: cell, Release: true}
				var first Outcome
				var kept []byte
				for other := grid.Cell(0); other < grid.Cell(model.Grid.Cells()); other += 11 {
					trial := copyState(&state)
					in.Cell = other
					out := mustStep(t, s, &trial, in)
					now := trial.AppendBinary(nil)
					if other == 0 {
						first, kept = out, now
					}
					if out.Kind != first.Kind || out.Epsilon != first.Epsilon ||
						out.Changed != first.Changed || out.SetSize != first.SetSize ||
						trial.Ledger.Spent() != trial.Ledger.SpentSince(math.MinInt64) {
						t.Fatalf("%s, step %d: cell %d leads to %v, cell 0 to %v", name, i, other,
							out.Kind, first.Kind)
					}
					if out.Kind != Released && (out != first || !bytes.Equal(now, kept)) {
						t.Fatalf("%s, step %d: cell %d is seen in what is published or kept "+
							"without a release", name, i, other)
					}
				}
				seen[first.Kind]++
				if first.Kind == Released {
					released++
				} else {
					withheld++
				}
				in.Cell = cell
				mustStep(t, s, &state, in)
			}
		}
		if released < 3 || withheld < 3 {
			t.Errorf("%s: poor case, %d releases and %d without", name, released, withheld)
		}
	}
	for _, k := range []Kind{Released, Repeated, Predicted, Skipped, Suppressed} {
		if seen[k] == 0 {
			t.Errorf("no step was %v", k)
		}
	}
}
