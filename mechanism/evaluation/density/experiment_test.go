package density

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

func scoreOf(t *testing.T, scores []Score, fleet string, vehicles int, estimator string) Score {
	t.Helper()
	for _, s := range scores {
		if s.Fleet == fleet && s.Vehicles == vehicles && s.Estimator == estimator {
			return s
		}
	}
	t.Fatalf("no score of %s with %d vehicles for %s", fleet, vehicles, estimator)
	return Score{}
}

// TestExperiment: the same whatever the workers; a fleet that the model does not predict is found
// by its releases, the better the more vehicles there are, and far better than by the model alone
// or by a histogram of releases.
func TestExperiment(t *testing.T) {
	t.Parallel()
	o := Options{
		Model: testcase.Town(t), Release: mechanism.Options{Delta: .05}, Epsilons: []float64{4},
		Vehicles: []int{20, 200, 600}, Steps: 4, Block: 1, Seed: 3, Workers: 1, GatheredKM: .1,
	}
	scores, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Workers = 3
	last := int64(0)
	o.Progress = func(done, total int64) error {
		if done < last || total != 1200 {
			t.Errorf("progress %d after %d of %d", done, last, total)
		}
		last = done
		return nil
	}
	again, err := Run(o)
	if err != nil || !reflect.DeepEqual(scores, again) || last != 1200 {
		t.Errorf("three workers come to other scores, or %v; %d vehicles", err, last)
	}
	get := func(
		fleet string, n int, estimator string,
	) Score {
		return scoreOf(t, scores, fleet, n, estimator)
	}
	f, p := get(Gathered, 600, "fitted"), get(Gathered, 600, "posterior")
	b, n := get(Gathered, 600, "blind"), get(Gathered, 600, "naive")
	if f.Variation > .8*b.Variation || p.Variation > .8*b.Variation ||
		f.Variation > get(Gathered, 20, "fitted").Variation || f.Variation > .8*n.Variation {
		t.Errorf("gathered: naive %.3f, blind %.3f, posterior %.3f, fitted %.3f",
			n.Variation, b.Variation, p.Variation, f.Variation)
	}
	for _, s := range scores {
		if !(s.Variation >= s.VariationLow-1e-9 && s.Variation <= s.VariationHigh+1e-9) &&
			s.Fleets < 2 || s.Variation < 0 || s.Variation > 1 || s.TopFound < 0 ||
			s.TopFound > 1 || math.Abs(s.Rank) > 1 {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range scores {
		if len(s.Variations) != s.Fleets || math.Abs(mean(s.Variations)-s.Variation) > 1e-12 {
			t.Errorf("%d fleets with the variations %v, mean %g",
				s.Fleets, s.Variations, s.Variation)
		}
	}
	stop := errors.New("stop")
	o.Progress = func(int64, int64) error { return stop }
	if _, err := Run(o); !errors.Is(err, stop) {
		t.Errorf("the callback's error is lost: %v", err)
	}
}

// TestExperimentInParts: one kind of fleet at one ε gives what it gives beside others, so that the
// parts can be measured apart.
func TestExperimentInParts(t *testing.T) {
	t.Parallel()
	whole := Options{
		Model: testcase.Town(t), Fleets: []string{Expected, Gathered, Traces},
		Release:  mechanism.Options{Delta: .05},
		Epsilons: []float64{1, 4}, Vehicles: []int{5, 30}, Steps: 3, Block: 2, Seed: 4, Workers: 2,
	}
	for v := range 40 {
		c := grid.Cell(v)
		whole.Traces = append(whole.Traces, []grid.Cell{c, c, c, c}[:3+v%2])
	}
	want, err := Run(whole)
	if err != nil {
		t.Fatal(err)
	}
	var got []Score
	for _, kind := range whole.Fleets {
		for _, epsilon := range whole.Epsilons {
			part := whole
			part.Fleets, part.Epsilons, part.Workers = []string{kind}, []float64{epsilon}, 1
			scores, err := Run(part)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, scores...)
		}
	}
	// Two kinds of two sizes and one of three, each at two ε.
	if len(want) != (2+2+3)*2*len(Estimators()) || !reflect.DeepEqual(got, want) {
		t.Errorf("%d scores in parts differ from %d at once", len(got), len(want))
	}
	for name, broken := range map[string]func(*Options){
		"no model":       func(o *Options) { o.Model = nil },
		"another fleet":  func(o *Options) { o.Fleets = []string{"lost"} },
		"no traces":      func(o *Options) { o.Traces = nil },
		"models missing": func(o *Options) { o.Models = []*mobility.Model{o.Model} },
		"a short trace":  func(o *Options) { o.Traces = [][]grid.Cell{{1, 2}} },
	} {
		o := whole
		broken(&o)
		if _, err := Run(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestExperimentModels: each trace is released under its own model, and judged by what that model
// alone says of it. Under models that have each half of the fleet on a side of the town of its own,
// the model alone knows where they are.
func TestExperimentModels(t *testing.T) {
	t.Parallel()
	west, east := testcase.Town(t), testcase.Town(t)
	o := Options{
		Model: west, Release: mechanism.Options{Delta: .05}, Vehicles: []int{40}, Steps: 1,
		Block: 2, Seed: 5,
	}
	for i, m := range []*mobility.Model{west, east} {
		m.Initial = mobility.Distribution{Cells: []grid.Cell{grid.Cell(7 * i)}, P: []float64{1}}
		for range 20 {
			o.Traces = append(o.Traces, []grid.Cell{grid.Cell(7 * i)})
			o.Models = append(o.Models, m)
		}
	}
	own, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Models = nil
	one, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if v := scoreOf(t, own, Traces, 40, "blind").Variation; v != 0 {
		t.Errorf("models that know where their vehicles are err by %g", v)
	}
	if v := scoreOf(t, one, Traces, 40, "blind").Variation; v != .5 {
		t.Errorf("a model that knows half of them errs by %g", v)
	}
}

func TestStretches(t *testing.T) {
	t.Parallel()
	tracks := []mobility.Track{
		{
			Steps: []int64{1, 2, 3, 4, 5, 7, 8, 9},
			Cells: []grid.Cell{10, 11, 12, 13, 14, 15, 16, 17},
		},
		{Steps: []int64{1}, Cells: []grid.Cell{1}},
	}
	want := [][]grid.Cell{{10, 11}, {12, 13}, {15, 16}}
	if got := Stretches(slices.Values(tracks), 2); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Stretches(slices.Values(tracks), 6); len(got) != 0 {
		t.Errorf("a stretch over a gap: %v", got)
	}
}

// TestMeasures holds the measures against cases by hand.
func TestMeasures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b                 []float64
		variation, rank, top float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 0, 1, 1},
		{[]float64{4, 3, 2, 1}, []float64{1, 2, 3, 4}, .4, -1, 0},
		{[]float64{2, 0, 0, 0}, []float64{0, 5, 0, 0}, 1, -1. / 3, 0},
		{[]float64{0, 0, 0, 0}, []float64{0, 5, 0, 1}, 1, 0, .5},
		{[]float64{1, 1, 2, 0}, []float64{2, 2, 4, 0}, 0, 1, 1},
	} {
		if v := aggregate.Variation(c.a, c.b); math.Abs(v-c.variation) > 1e-12 {
			t.Errorf("%v and %v: a variation of %g, want %g", c.a, c.b, v, c.variation)
		}
		if r := trial.RankCorrelation(c.a, c.b); math.Abs(r-c.rank) > 1e-12 {
			t.Errorf("%v and %v: a rank correlation of %g, want %g", c.a, c.b, r, c.rank)
		}
		if f := TopFound(c.a, c.b, 2); math.Abs(f-c.top) > 1e-12 {
			t.Errorf("%v and %v: %g of the top two are found, want %g", c.a, c.b, f, c.top)
		}
	}
}
