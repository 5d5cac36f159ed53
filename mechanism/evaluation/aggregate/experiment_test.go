package aggregate

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/grid"
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

// TestExperiment: the same whatever the workers; a fleet that the model does not foretell is found by its releases, the better the more
// vehicles there are, and far better than by the model alone or by a histogram of releases.
func TestExperiment(t *testing.T) {
	t.Parallel()
	o := ExperimentOptions{
		Model: town(t), Release: mechanism.Options{Delta: .05}, Epsilons: []float64{4}, Vehicles: []int{20, 200, 600}, Steps: 4, Block: 1, Seed: 3, Workers: 1, GatheredKM: .1,
	}
	scores, err := Experiment(o)
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
	again, err := Experiment(o)
	if err != nil || !reflect.DeepEqual(scores, again) || last != 1200 {
		t.Errorf("three workers come to other scores, or %v; %d vehicles", err, last)
	}
	get := func(fleet string, n int, estimator string) Score { return scoreOf(t, scores, fleet, n, estimator) }
	f, p, b, n := get(FleetGathered, 600, "fitted"), get(FleetGathered, 600, "posterior"), get(FleetGathered, 600, "blind"), get(FleetGathered, 600, "naive")
	if f.Variation > .8*b.Variation || p.Variation > .8*b.Variation || f.Variation > get(FleetGathered, 20, "fitted").Variation || f.Variation > .8*n.Variation {
		t.Errorf("gathered: naive %.3f, blind %.3f, posterior %.3f, fitted %.3f", n.Variation, b.Variation, p.Variation, f.Variation)
	}
	for _, s := range scores {
		if !(s.Variation >= s.VariationLow-1e-9 && s.Variation <= s.VariationHigh+1e-9) && s.Fleets < 2 || s.Variation < 0 || s.Variation > 1 || s.TopFound < 0 || s.TopFound > 1 || math.Abs(s.Rank) > 1 {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range scores {
		if len(s.Variations) != s.Fleets || math.Abs(sumOf(s.Variations)/float64(s.Fleets)-s.Variation) > 1e-12 {
			t.Errorf("%d fleets with the variations %v, mean %g", s.Fleets, s.Variations, s.Variation)
		}
	}
	stop := errors.New("stop")
	o.Progress = func(int64, int64) error { return stop }
	if _, err := Experiment(o); !errors.Is(err, stop) {
		t.Errorf("the callback's error is lost: %v", err)
	}
	for _, m := range Measures() {
		var image bytes.Buffer
		f := Figure(scores, m)
		if err := f.Write(&image, chart.SVG); err != nil || !bytes.Contains(image.Bytes(), []byte("vehicles")) || len(f.Panels) != 2 || f.Columns != 1 {
			t.Errorf("the figure of %s: %d panels in %d columns, %v", m.Name, len(f.Panels), f.Columns, err)
		}
		for _, series := range f.Panels[0].(*chart.Lines).Series {
			if last := len(series.Low) - 1; m.Name == "variation" && (math.IsNaN(series.Low[0]) || !math.IsNaN(series.Low[last]) || !math.IsNaN(series.High[last])) {
				t.Errorf("%s: a band from %v to %v, want none of the single fleet", series.Name, series.Low, series.High)
			}
		}
	}
}

// TestExperimentInParts: one kind of fleet at one ε gives what it gives beside others, so that the parts can be measured apart.
func TestExperimentInParts(t *testing.T) {
	t.Parallel()
	whole := ExperimentOptions{
		Model: town(t), Fleets: []string{FleetExpected, FleetGathered, FleetTraces}, Release: mechanism.Options{Delta: .05},
		Epsilons: []float64{1, 4}, Vehicles: []int{5, 30}, Steps: 3, Block: 2, Seed: 4, Workers: 2,
	}
	for v := range 40 {
		c := grid.Cell(v)
		whole.Traces = append(whole.Traces, []grid.Cell{c, c, c, c}[:3+v%2])
	}
	want, err := Experiment(whole)
	if err != nil {
		t.Fatal(err)
	}
	var got []Score
	for _, kind := range whole.Fleets {
		for _, epsilon := range whole.Epsilons {
			part := whole
			part.Fleets, part.Epsilons, part.Workers = []string{kind}, []float64{epsilon}, 1
			scores, err := Experiment(part)
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
	for name, broken := range map[string]func(*ExperimentOptions){
		"no model":       func(o *ExperimentOptions) { o.Model = nil },
		"another fleet":  func(o *ExperimentOptions) { o.Fleets = []string{"lost"} },
		"no traces":      func(o *ExperimentOptions) { o.Traces = nil },
		"models missing": func(o *ExperimentOptions) { o.Models = []*mobility.Model{o.Model} },
		"a short trace":  func(o *ExperimentOptions) { o.Traces = [][]grid.Cell{{1, 2}} },
	} {
		o := whole
		broken(&o)
		if _, err := Experiment(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestExperimentModels: each trace is released under its own model, and judged by what that model alone says of it. Under models that have each
// half of the fleet on a side of the town of its own, the model alone knows where they are.
func TestExperimentModels(t *testing.T) {
	t.Parallel()
	west, east := town(t), town(t)
	o := ExperimentOptions{Model: west, Release: mechanism.Options{Delta: .05}, Vehicles: []int{40}, Steps: 1, Block: 2, Seed: 5}
	for i, m := range []*mobility.Model{west, east} {
		m.Initial = mobility.Distribution{Cells: []grid.Cell{grid.Cell(7 * i)}, P: []float64{1}}
		for range 20 {
			o.Traces, o.Models = append(o.Traces, []grid.Cell{grid.Cell(7 * i)}), append(o.Models, m)
		}
	}
	own, err := Experiment(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Models = nil
	one, err := Experiment(o)
	if err != nil {
		t.Fatal(err)
	}
	if v := scoreOf(t, own, FleetTraces, 40, "blind").Variation; v != 0 {
		t.Errorf("models that know where their vehicles are err by %g", v)
	}
	if v := scoreOf(t, one, FleetTraces, 40, "blind").Variation; v != .5 {
		t.Errorf("a model that knows half of them errs by %g", v)
	}
}

// TestCoverage: intervals of 90 % hold the number of vehicles in at least that share of zones and fleets. Zones of one fleet are correlated, so
// that the 16 fleets of 48 zones count as 16 × 10 independent ones: three standard errors are .071, which chance exceeds once in 700.
// That an estimate without any doubt of its prior fails shows that the test can.
func TestCoverage(t *testing.T) {
	t.Parallel()
	model, o := town(t), mechanism.Options{Epsilon: 2, Delta: .05}
	rates := map[string]float64{}
	const fleets = 16
	for fleet := range uint64(fleets) {
		for name, start := range map[string]func(int) grid.Cell{"expected": nil, "gathered": func(v int) grid.Cell { return grid.Cell(20 + v%3) }} {
			records, paths := drive(t, model, o, 100+fleet, 60, 3, start)
			windows, _ := collect(t, model, o, CollectOptions{WindowSteps: 5}, records)
			truth := make([]float64, model.Grid.Cells())
			for _, path := range paths {
				truth[path[2]]++
			}
			d := windows[0].Estimate(EstimateOptions{Seed: fleet})
			rates[name+" posterior"] += covered(d.Posterior, d.PosteriorLow, d.PosteriorHigh, truth) / fleets
			rates[name+" fitted"] += covered(d.Fitted, d.Low, d.High, truth) / fleets
			rates[name+" certain"] += covered(d.Fitted, d.Fitted, d.Fitted, truth) / fleets
		}
	}
	t.Log(rates)
	for _, name := range []string{"expected posterior", "expected fitted", "gathered fitted"} {
		if rates[name] < .9-.071 {
			t.Errorf("%s: %.3f of the zones are covered", name, rates[name])
		}
	}
	if rates["expected certain"] > .5 || rates["gathered posterior"] > rates["gathered fitted"] {
		t.Errorf("what cannot be covered is: %v", rates)
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
		if v := Variation(c.a, c.b); !near(v, c.variation, 1e-12) {
			t.Errorf("%v and %v: a variation of %g, want %g", c.a, c.b, v, c.variation)
		}
		if r := trial.RankCorrelation(c.a, c.b); !near(r, c.rank, 1e-12) {
			t.Errorf("%v and %v: a rank correlation of %g, want %g", c.a, c.b, r, c.rank)
		}
		if f := TopFound(c.a, c.b, 2); !near(f, c.top, 1e-12) {
			t.Errorf("%v and %v: %g of the top two are found, want %g", c.a, c.b, f, c.top)
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	g := town(t).Grid // 8 × 6 cells of .5 km
	z, err := NewZones(g, 4)
	if err != nil {
		t.Fatal(err)
	}
	if z.Count() != 4 || z.Columns() != 2 || z.Rows() != 2 || z.SideKM() != 2 {
		t.Errorf("%d zones of %g km", z.Count(), z.SideKM())
	}
	if z.Of(0) != 0 || z.Of(4) != 1 || z.Of(4*8+3) != 2 || z.Of(47) != 3 {
		t.Error("cells are in the wrong zones")
	}
	if low, high := z.Corners(3); low != (grid.Point{X: 2, Y: 2}) || high != (grid.Point{X: 4, Y: 3}) {
		t.Errorf("the north-east zone reaches from %v to %v", low, high)
	}
	if BlockOf(g, 1.1) != 2 || BlockOf(g, .01) != 1 || BlockOf(g, 1e9) != 8 {
		t.Error("lengths become the wrong blocks")
	}
	if _, err := NewZones(g, 0); err == nil {
		t.Error("zones without cells")
	}
	m := z.Map("", []float64{4, 8, 0, 2})
	if m.Values[0] != 1 || m.Values[4] != 2 || m.Values[47] != 1 { // the last zone is half as high
		t.Errorf("vehicles per km²: %v", m.Values)
	}
}

func TestStretches(t *testing.T) {
	t.Parallel()
	tracks := []mobility.Track{
		{Steps: []int64{1, 2, 3, 4, 5, 7, 8, 9}, Cells: []grid.Cell{10, 11, 12, 13, 14, 15, 16, 17}},
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
