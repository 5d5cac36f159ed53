package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// steadyData has six users who report in each of 50 steps, each in a row of the map of their own,
// to and fro.
func steadyData(tb testing.TB, o train.Options) *Data {
	tb.Helper()
	g := wanderGrid(tb)
	trainer := wandering(tb, g, o, 0, 0)
	for u := range 6 {
		for i := range 50 {
			x := i % (2 * (side - 1))
			if x >= side {
				x = 2*(side-1) - x
			}
			lat, lon := g.ToDegrees(g.Centre(grid.Cell(2*u*side + x)))
			trainer.Add(
				train.Fix{
					User:   fmt.Sprintf("user-%d", u),
					TimeMS: int64(i) * wanderStep.Milliseconds(), Lat: lat, Lon: lon,
				},
			)
		}
	}
	d, err := NewData(
		Definition{
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

func fleetStudy(tb testing.TB, d *Data) *Study {
	tb.Helper()
	s, err := New([]*Data{d},
		Options{Seed: 5, Vehicles: 25, FleetEpsilons: []float64{1, 4}, Tool: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestFleetTraces: every stretch is of a user of its fold, whom the fold's model has not seen; no
// two are the same one; and a small fleet is of many users.
func TestFleetTraces(t *testing.T) {
	d := steadyData(t, train.Options{})
	tracesOf := func(o Options) []stretch {
		return (&fleet{
			Study: &Study{Options: o}, data: d,
		}).traces()
	}
	list := tracesOf(Options{Seed: 1, Vehicles: 1000})
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
		if i < leastFleet {
			first[int32(row)] = true
		}
	}
	if len(first) < 3 {
		t.Errorf("the first ten vehicles are of %d users", len(first))
	}
	if few := tracesOf(Options{Seed: 1, Vehicles: 12}); !reflect.DeepEqual(few, list[:12]) {
		t.Error("fewer vehicles are others")
	}
	if other := tracesOf(Options{Seed: 2, Vehicles: 1000}); reflect.DeepEqual(other, list) {
		t.Error("another seed has the same order")
	}
}

// TestFleetReport: what the section shows of fleets of traces and of simulated ones.
func TestFleetReport(t *testing.T) {
	s := fleetStudy(t, steadyData(t, train.Options{}))
	if pieces := whereFleet.Plan(s); len(pieces) != 6 || pieces[0].Work != 25*fleetSteps {
		t.Fatalf("%d pieces", len(pieces))
	}
	got, err := Carry(s, []Experiment{whereFleet}, Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	bands := map[bool]int{}
	for _, line := range said(got) { // a single fleet has no band, and two have one
		one := strings.HasPrefix(line, "[traces 4 25 1 variation")
		if two := strings.HasPrefix(line, "[expected 1 10 2 variation"); one || two {
			bands[two]++
			if strings.Contains(line, "(") != two {
				t.Errorf("a band of one fleet, or none of two: %s", line)
			}
		}
	}
	if bands[false] != 1 || bands[true] != 1 {
		t.Errorf("%v rows of one fleet and of two", bands)
	}
	text := strings.Join(said(got), "\n")
	for _, want := range []string{
		"[expected 1 10 2 variation", "[traces 4 25 1 variation", "fleet-steady-gain",
		" 0.01 10 144 25 1 fitted ", // δ, steps, zones, vehicles, fleets
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
	keys := func(change func(*Options)) (list []string) {
		s := fleetStudy(t, d)
		change(&s.Options)
		for _, p := range whereFleet.Plan(s) {
			list = append(list, p.Key("t"))
		}
		return list
	}
	base := keys(func(*Options) {})
	if len(slices.Compact(slices.Sorted(slices.Values(base)))) != len(base) {
		t.Error("two pieces have one key")
	}
	if !slices.Equal(
		base, keys(func(o *Options) { o.Also, o.Runs, o.MaxUsers = Alsos(), 7, 2 }),
	) {
		t.Error("other experiments' options change the fleet's keys")
	}
	for name, change := range map[string]func(*Options){
		"seed":     func(o *Options) { o.Seed++ },
		"vehicles": func(o *Options) { o.Vehicles++ },
		"ε":        func(o *Options) { o.FleetEpsilons = []float64{.5, 3} },
	} {
		for i, key := range keys(change) {
			if key == base[i] {
				t.Errorf("%s is not in the key of piece %d", name, i)
			}
		}
	}
}

// TestFleetOfCheckIns: there are simulated fleets alone.
func TestFleetOfCheckIns(t *testing.T) {
	s := fleetStudy(t, steadyData(t, train.Options{EveryFix: true}))
	pieces := whereFleet.Plan(s)
	if len(pieces) != 4 {
		t.Fatalf("%d pieces", len(pieces))
	}
	for _, p := range pieces {
		if strings.Contains(p.Name, OfTraces) {
			t.Errorf("a piece %q", p.Name)
		}
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
		zones, block, err := zonesOf(g)
		if err != nil || block != c.block || zones.Count() > mostZones {
			t.Errorf("%d × %d cells: blocks of %d, %d zones, %v",
				c.width, c.height, block, zones.Count(), err)
		}
	}
}

// TestFleetGain: nine fleets whose gains lie a hundredth apart have an interval of their mean ±
// .021 (TestComparison). Fewer than five, such as a single one, have none.
func TestFleetGain(t *testing.T) {
	for _, c := range []struct {
		fleets int
		gain   float64
	}{{9, .13}, {9, -.02}, {4, .3}, {1, .9}} {
		alone, fit := FleetScore{Variation: .5}, FleetScore{}
		for f := range c.fleets {
			v := .5 * (1 - c.gain - .01*(float64(f)-float64(c.fleets-1)/2))
			alone.Variations = append(alone.Variations, .5)
			fit.Variations = append(fit.Variations, v)
			fit.Variation += v / float64(c.fleets)
		}
		got := fit.gain(&alone)
		if half := (got.High - got.Low) / 2; !near(got.Value, c.gain) ||
			math.IsNaN(half) != (c.fleets < leastFleets) || half > .0211 || half < .021 {
			t.Errorf("%d fleets around %g: %+v", c.fleets, c.gain, got)
		}
	}
}
