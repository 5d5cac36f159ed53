package mechanism

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestTenReleasesFit counts ε = .1 as what it is written as: in float64 ten of them are less than
// 1, and three more than .3.
func TestTenReleasesFit(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	for _, c := range []struct {
		epsilon, budget float64
		fit             int
	}{
		{.1, 1, 10},
		{.1, .3, 3},
		{.1, .999999999, 9},
		{.7, 2.1, 3},
		{1.1, 3.3, 3},
		{math.Ln2, 2 * math.Ln2, 1},
		{1.0 / 3, 1, 2},
		{1e-6, 1e-5, 10},
		{700, 2100, 3},
	} {
		for name, b := range map[string]Budget{
			"window":   {Epsilon: c.budget, WindowSteps: 100},
			"lifetime": {Lifetime: c.budget},
		} {
			s := newSanitizer(t, model, Options{
				Mechanism: law.KNorm, Epsilon: c.epsilon, Delta: .1,
				Budget: b,
			})
			var state State
			steps := make([]int64, 30)
			for i := range steps {
				steps[i] = int64(i)
			}
			got := strings.Count(kindsOf(follow(t, s, &state, steps...)), "R")
			if got != c.fit {
				t.Errorf("ε = %g in a %s of %g: %d releases, want %d", c.epsilon, name, c.budget,
					got, c.fit)
			}
		}
	}
}

// billionth is the number of billionths in 1: an auditor adds up whole ones.
const billionth = 1e9

// charged is a release as an auditor writes it down: in which milliseconds its report can have been
// made, and what it cost.
type charged struct {
	from, to int64
	amount   uint64
}

// TestNoBudgetIsExceeded runs random users with settings and models that change under them, states
// that are stored, and reports in any order. After each release an auditor who keeps everything
// adds up every cost whose report can lie less than the window away, and over the lifetime.
func TestNoBudgetIsExceeded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(95, 1))
	small := denseModel(t, 5, 4)
	var models []*mobility.Model
	for _, step := range []time.Duration{time.Minute, 45 * time.Second, 10 * time.Minute} {
		m := *denseModel(t, 5, 4)
		m.Step = step
		models = append(models, &m)
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(95))
	released, withheld, changed, filled := 0, 0, 0, 0
	for user := range 60 {
		var state State
		var list []charged
		options, model := randomPolicy(r), models[0]
		s := sanitizerWith(t, model, streams, options)
		now, kind := int64(1e12), r.IntN(4)
		for report := range 400 {
			if r.IntN(80) == 0 {
				if options = randomPolicy(r); r.IntN(2) == 0 {
					model = models[r.IntN(len(models))]
				}
				s = sanitizerWith(t, model, streams, options)
				changed++
			}
			if r.IntN(40) == 0 {
				kind = r.IntN(4)
			}
			stepMS := model.Step.Milliseconds()
			now += testcase.Habit(r, kind) * 60_000 * int64(1+r.IntN(3)) / 2
			if r.IntN(20) == 0 {
				now -= 300_000
			}
			var restored State
			if err := restored.DecodeBinary(state.AppendBinary(nil)); err != nil {
				t.Fatal(err)
			}
			state = restored
			s.Migrate(&state)
			step := now / stepMS
			out, err := s.Step(&state, Input{
				User: "u", Step: step,
				Cell: grid.Cell(r.IntN(small.Grid.Cells())), Release: r.IntN(20) > 0,
			})
			if err != nil {
				t.Fatal(err)
			}
			if out.Kind != Released {
				withheld++
				continue
			}
			released++
			list = append(list, charged{
				step * stepMS, (step+1)*stepMS - 1,
				uint64(math.Round(out.Epsilon * billionth)),
			})
			windowFrom := (step - int64(options.Budget.WindowSteps)) * stepMS
			all, window := uint64(0), uint64(0)
			for _, c := range list {
				all += c.amount
				if c.to > windowFrom {
					window += c.amount
				}
			}
			b := options.Budget
			if b.Lifetime > 0 && all > uint64(math.Round(b.Lifetime*billionth)) ||
				b.WindowSteps > 0 && window > uint64(math.Round(b.Epsilon*billionth)) {
				t.Fatalf("user %d, report %d: ε %g in the window and %g in all, under %+v", user,
					report, float64(window)/billionth, float64(all)/billionth, b)
			}
			once := uint64(math.Round(out.Epsilon * billionth))
			if b.WindowSteps > 0 && window+once > uint64(math.Round(b.Epsilon*billionth)) {
				filled++
			}
			if uint64(state.Ledger.Spent()) != all || uint64(len(list)) != state.Releases {
				t.Fatalf("user %d: the ledger has %d billionths of %d releases, want %d of %d",
					user, state.Ledger.Spent(), state.Releases, all, len(list))
			}
		}
	}
	if released < 2000 || withheld < 2000 || changed < 50 || filled < 200 {
		t.Errorf("poor cases: %d releases, %d without, %d changes of settings, %d budgets filled "+
			"to the last", released, withheld, changed, filled)
	}
}

// TestSinceByDefinition compares Since with its definition, millisecond by millisecond: a release
// in an earlier step counts if some fix of its step lies no more than the window before some fix of
// the given one. Steps have other lengths where another model was in force. Until is where Since
// stops.
func TestSinceByDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(43, 1))
	for range 20_000 {
		stepMS, before := 1+r.Int64N(40), 1+r.Int64N(40)
		b := Budget{WindowSteps: 1 + r.IntN(12)}
		window := int64(b.WindowSteps) * stepMS
		step := r.Int64N(400) - 200
		start := step * stepMS
		end := before * ((start-2*window)/before + r.Int64N(2*window/before+2))
		if end > start {
			continue
		}
		// Fixes may have any fraction of a millisecond, so the last of a step is before its end.
		near := false
		for _, fix := range []float64{float64(end) - 1e-3, float64(end - before)} {
			near = near || float64(start)-fix <= float64(window)
		}
		if counts := end > b.Since(step, stepMS); counts != near {
			t.Fatalf("%d steps of %d ms, a step that ended %d ms before: counts %t, want %t",
				b.WindowSteps, stepMS, start-end, counts, near)
		}
		until := b.Until(end, stepMS)
		if until%stepMS != 0 || end > b.Since(until/stepMS, stepMS) ||
			end <= b.Since(until/stepMS-1, stepMS) {
			t.Fatalf("%d steps of %d ms: of the end %d Until gives %d", b.WindowSteps, stepMS, end,
				until)
		}
	}
}

func randomPolicy(r *rand.Rand) Options {
	o := Options{
		Mechanism: law.KNorm, Delta: .1, Epsilon: []float64{.1, .3, 1, 2.5}[r.IntN(4)],
	}
	if r.IntN(4) > 0 {
		o.Budget = Budget{
			Epsilon:     o.Epsilon * float64(1+r.IntN(30)),
			WindowSteps: []int{1, 7, 60, 1440}[r.IntN(4)],
			Spent:       []string{SpentSuppress, SpentRepeat, SpentPredict}[r.IntN(3)],
		}
	}
	if r.IntN(4) == 0 {
		o.Budget.Lifetime = 50 + 200*r.Float64()
	}
	if r.IntN(3) == 0 {
		o.ReleaseInterval = 1 + r.IntN(5)
	}
	return o
}

// TestIntervalSurvivesAChangeOfModel keeps the interval where the step's length changes, though the
// release cannot be repeated any more.
func TestIntervalSurvivesAChangeOfModel(t *testing.T) {
	t.Parallel()
	other := roadModel(t)
	other.Step = 30 * time.Second
	o := Options{Epsilon: 1, Delta: .1, ReleaseInterval: 10}
	a, b := newSanitizer(t, roadModel(t), o), newSanitizer(t, other, o)
	var state State
	follow(t, a, &state, 100) // ends at 6060 s, step 202 of the other model begins there
	b.Migrate(&state)
	if outs := follow(t, b, &state, 201, 203, 210, 211, 212); kindsOf(outs) != "pPPRP" {
		t.Errorf("got %s", kindsOf(outs))
	}
}
