package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/density"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study/studytest"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// steadyData has six users who report in each of 50 steps, each in a row of the map of their own,
// to and fro.
func steadyData(tb testing.TB, o train.Options) *study.Data {
	tb.Helper()
	g := studytest.Grid(tb)
	trainer := studytest.Trainer(tb, g, o, 0, 0)
	for u := range 6 {
		for i := range 50 {
			x := i % (2 * (studytest.Side - 1))
			if x >= studytest.Side {
				x = 2*(studytest.Side-1) - x
			}
			lat, lon := g.ToDegrees(g.Centre(grid.Cell(2*u*studytest.Side + x)))
			trainer.Add(
				train.Fix{
					User:   fmt.Sprintf("user-%d", u),
					TimeMS: int64(i) * studytest.Step.Milliseconds(), Lat: lat, Lon: lon,
				},
			)
		}
	}
	d, err := study.NewData(
		study.Definition{
			Name: "steady", Title: "Steady", Timestamps: 20, Least: 20, MaxGap: time.Minute,
			Folds: 3,
		},
		trainer,
	)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func fleetStudy(tb testing.TB, d *study.Data) *study.Study {
	tb.Helper()
	s, err := study.New([]*study.Data{d},
		study.Options{Seed: 5, Vehicles: 25, FleetEpsilons: []float64{1, 4}, Tool: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestFleetTraces: every stretch is of a user of its fold, whom the fold's model has not seen; no
// two are the same one; and a small fleet is of many users.
func TestFleetTraces(t *testing.T) {
	d := steadyData(t, train.Options{})
	tracesOf := func(o study.Options) []stretch {
		return (&fleet{
			Study: &study.Study{Options: o}, data: d,
		}).traces()
	}
	list := tracesOf(study.Options{Seed: 1, Vehicles: 1000})
	if len(list) != 6*5 {
		t.Fatalf("%d stretches of 6 users of 50 steps", len(list))
	}
	first := map[int32]bool{}
	for i, s := range list {
		row := d.Grid.Row(s.cells[0])
		if user := row / 2; d.Traces[user].Fold != s.fold {
			t.Errorf("a stretch of user %d, of fold %d, is taken for one of fold %d",
				user, d.Traces[user].Fold, s.fold)
		}
		if len(s.cells) != fleetSteps {
			t.Errorf("a stretch of %d steps", len(s.cells))
		}
		if i < study.LeastFleet {
			first[int32(row)] = true
		}
	}
	if len(first) < 3 {
		t.Errorf("the first ten vehicles are of %d users", len(first))
	}
	if few := tracesOf(study.Options{Seed: 1, Vehicles: 12}); !reflect.DeepEqual(few, list[:12]) {
		t.Error("fewer vehicles are others")
	}
	if other := tracesOf(study.Options{Seed: 2, Vehicles: 1000}); reflect.DeepEqual(other, list) {
		t.Error("another seed has the same order")
	}
}

// TestFleetScores holds the pieces to what density.Run says of all at once.
func TestFleetScores(t *testing.T) {
	d := steadyData(t, train.Options{})
	s := fleetStudy(t, d)
	model, err := d.WithoutFold(0)
	if err != nil {
		t.Fatal(err)
	}
	// 12 × 12 cells of .5 km are zones of their own: 144.
	x := density.Options{
		Model: model, Fleets: []string{density.Expected, density.Gathered, density.Traces},
		Release: d.Release(fleetVariant, 7, .01), Epsilons: []float64{1, 4},
		Vehicles: []int{10, 25}, Steps: 10, Block: 1, GatheredKM: 1.1 * .5, Top: 10, Seed: 5,
		Workers: 2,
	}
	for _, trace := range (&fleet{s, d}).traces() {
		unseen, err := d.WithoutFold(trace.fold)
		if err != nil {
			t.Fatal(err)
		}
		x.Traces, x.Models = append(x.Traces, trace.cells), append(x.Models, unseen)
	}
	want, err := density.Run(x)
	if err != nil {
		t.Fatal(err)
	}
	pieces := whereFleet.Plan(s)
	if len(pieces) != 6 {
		t.Fatalf("%d pieces", len(pieces))
	}
	for _, p := range pieces {
		if p.Work != 25*fleetSteps {
			t.Errorf("%s: work %d", p.Name, p.Work)
		}
	}
	results, err := s.Measure([]study.Experiment{whereFleet}, study.Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	got := (&fleet{s, d}).scores(&study.Page{Study: s, Results: results})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d scores differ from %d", len(got), len(want))
	}
}

// TestFleetReport: what the section says of fleets of traces and of simulated ones.
func TestFleetReport(t *testing.T) {
	got, err := Carry(fleetStudy(t, steadyData(t, train.Options{})),
		[]study.Experiment{whereFleet}, study.Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(words(got), "\n")
	for _, want := range []string{
		"There are 25 traces of 6 users", "12 × 12 zones of 0.5 km",
		"[expected 1 10 2 variation", "[traces 4 25 1 variation",
		"fleet-steady-variation", "so that the 10 releases of a vehicle take 5 min",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

// TestFleetKeys: what a piece's result depends on is part of its key, and what is drawn beside the
// paper's mechanisms is not.
func TestFleetKeys(t *testing.T) {
	d := steadyData(t, train.Options{})
	keys := func(change func(*study.Options)) (list []string) {
		s := fleetStudy(t, d)
		change(&s.Options)
		for _, p := range whereFleet.Plan(s) {
			list = append(list, p.Key("t"))
		}
		return list
	}
	base := keys(func(*study.Options) {})
	if len(slices.Compact(slices.Sorted(slices.Values(base)))) != len(base) {
		t.Error("two pieces have one key")
	}
	if !slices.Equal(
		base, keys(func(o *study.Options) { o.Also, o.Runs, o.MaxUsers = study.Alsos(), 7, 2 }),
	) {
		t.Error("other experiments' options change the fleet's keys")
	}
	for name, change := range map[string]func(*study.Options){
		"seed": func(o *study.Options) { o.Seed++ }, "δ": func(o *study.Options) { o.Delta *= 2 },
		"vehicles": func(o *study.Options) { o.Vehicles++ },
		"ε":        func(o *study.Options) { o.FleetEpsilons = []float64{.5, 3} },
	} {
		for i, key := range keys(change) {
			if key == base[i] {
				t.Errorf("%s is not in the key of piece %d", name, i)
			}
		}
	}
}

// TestFleetOfCheckIns: simulated fleets alone, and the report says why.
func TestFleetOfCheckIns(t *testing.T) {
	s := fleetStudy(t, steadyData(t, train.Options{EveryFix: true}))
	pieces := whereFleet.Plan(s)
	if len(pieces) != 4 {
		t.Fatalf("%d pieces", len(pieces))
	}
	for _, p := range pieces {
		if strings.Contains(p.Name, density.Traces) {
			t.Errorf("a piece %q", p.Name)
		}
	}
	zones, _, err := zonesOf(s.Data[0])
	text := study.NewProse(fleetText).Say("data", (&fleet{s, s.Data[0]}).figures(zones))
	if err != nil || !strings.Contains(text, "There is no fleet of traces") {
		t.Errorf("the report does not say that check-ins have no fleet of traces: %v", err)
	}
}

// TestFleetZones: as small as they can be.
func TestFleetZones(t *testing.T) {
	for _, c := range []struct{ width, height, block int }{
		{15, 10, 1}, {15, 11, 2}, {58, 40, 4}, {29, 20, 2}, {3, 2, 1},
	} {
		g, err := grid.Plain(c.width, c.height, .34)
		if err != nil {
			t.Fatal(err)
		}
		d := &study.Data{Grid: g}
		zones, block, err := zonesOf(d)
		if err != nil || block != c.block || zones.Count() > mostZones {
			t.Errorf("%d × %d cells: blocks of %d, %d zones, %v",
				c.width, c.height, block, zones.Count(), err)
		}
	}
}

// fleetCase is a row of so many fleets in which the model alone errs by .5 each, and the fit takes
// shares of it away that lie evenly around gain.
func fleetCase(kind string, epsilon float64, vehicles, fleets int, gain, spread float64) fleetRow {
	score := func(estimator string, variation func(f int) float64) density.Score {
		s := density.Score{
			Fleet: kind, Epsilon: epsilon, Vehicles: vehicles, Fleets: fleets, Estimator: estimator,
			Coverage: .95,
		}
		for f := range fleets {
			s.Variations = append(s.Variations, variation(f))
			s.Variation += variation(f) / float64(fleets)
		}
		return s
	}
	constant := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	fitted := func(f int) float64 {
		return .5 * (1 - gain - spread*(float64(f)-float64(fleets-1)/2))
	}
	return fleetRow{
		score("naive", constant(.45)), score("blind", constant(.5)),
		score("posterior", constant(.48)), score("fitted", fitted),
	}
}

// TestFleetUse: nine fleets whose gains lie a hundredth apart have an interval of their mean ±
// .021 (TestComparison). A size is of use whose interval lies above a tenth, and a single fleet
// decides nothing however much it gains.
func TestFleetUse(t *testing.T) {
	rows := []fleetRow{
		fleetCase("expected", 1, 10, 9, .07, .01),
		fleetCase("expected", 1, 100, 9, .09, .01),
		fleetCase("expected", 1, 1000, 1, .9, 0),
		fleetCase("gathered", 1, 10, 9, .13, .01),
		fleetCase("gathered", 1, 100, 9, .07, .01),
		fleetCase("gathered", 1, 200, 4, .3, .01),
		fleetCase("gathered", 1, 1000, 1, -.02, 0),
		fleetCase("gathered", 4, 10, 9, .11, .01),
		fleetCase("gathered", 4, 100, 9, .13, .01),
		fleetCase("gathered", 4, 1000, 9, .6, .01),
	}
	got := uses(rows)
	var words []string
	for _, u := range got {
		words = append(words, u.String())
	}
	if want := []string{
		"not at 10, undecided at 100 and 1000", "at 10, not at 100, undecided at 200 and 1000",
		"at 100 and 1000, undecided at 10",
	}; !slices.Equal(words, want) {
		t.Errorf("of use %q, want %q", words, want)
	}
	if g := got[1].gains(); g != "10: 13 % (11 to 15), 100: 7 % (5 to 9), 200: 30 %, 1000: -2 %" {
		t.Errorf("gains %q", g)
	}
	if one := rows[2].gain(); !studytest.Near(one.Value, .9) || !math.IsNaN(one.Low) ||
		!math.IsNaN(one.High) {
		t.Errorf("a single fleet has the gain %+v", one)
	}
	text := study.NewProse(fleetText).Say("findings", findings(&study.Data{}, rows))
	for _, want := range []string{
		"expected, ε = 1: not at 10,", "; gathered, ε = 1: at 10, not at 100,", "; gathered, ε = " +
			"4: at 100 and 1000,",
		"by -90 to +2 %; the mean of posteriors is nearer than the fit in 1 of 10 rows",
		"in 10 of 10 rows",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said: %s", want, text)
		}
	}
}

// TestFleetBands: a single fleet has no band.
func TestFleetBands(t *testing.T) {
	s := fleetStudy(t, steadyData(t, train.Options{}))
	zones, _, err := zonesOf(s.Data[0])
	if err != nil {
		t.Fatal(err)
	}
	score := density.Score{
		Fleet: "expected", Epsilon: 1, Vehicles: 25, Fleets: 1, Estimator: "fitted", Variation: .3,
		VariationLow: .2, VariationHigh: .3,
	}
	variation := func() report.Band {
		t := study.Long("", "data")
		(&fleet{s, s.Data[0]}).addTo(t, zones, score)
		return t.Rows[0][len(t.Rows[0])-1].(report.Band)
	}
	if b := variation(); b.Value != .3 || !math.IsNaN(b.Low) || !math.IsNaN(b.High) {
		t.Errorf("a single fleet: %+v", b)
	}
	score.Fleets = 2
	if b := variation(); b.Low != .2 || b.High != .3 {
		t.Errorf("two fleets: %+v", b)
	}
}
