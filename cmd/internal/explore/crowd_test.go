package explore

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

func fleetsOf(truth *Truth, o Outline) *crowdsOf {
	return &crowdsOf{newComputing[fleetOf, *crowd](truth, keptCrowds), o}
}

// TestFleet: the windows of all users have the truth beside two estimates, and each sums to the
// vehicles. Where ε is large the estimate is better than the model alone, and close.
func TestFleet(t *testing.T) {
	truth := sampleTruth(t)
	s := Settings{Mechanism: law.Codebook, Epsilon: 10, Interval: 1, Seed: 1}
	k := fleetsOf(truth, nil)
	c, err := k.crowds(t.Context(), s, false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.crowds(t.Context(), s, false)
	if err != nil || again != c {
		t.Errorf("the same fleet was computed twice: %v", err)
	}
	if !c.Simulated || c.PerDay != 4 ||
		math.Abs(float64(c.Spent)-4*10) > 1e-6 {
		t.Errorf("the fleet: %+v", c.Crowds)
	}
	quick, err := k.crowds(t.Context(), s, true)
	if err != nil || quick.NoEstimate == "" || len(quick.windows) != len(c.windows) ||
		!slices.Equal(quick.windows[2].counted, c.windows[2].counted) {
		t.Errorf("counts alone: %+v, %v", quick, err)
	}
	if side := c.zones.sideKM(); math.Abs(side-.75) > 1e-9 { // of 1 km there would be 54 zones
		t.Errorf("zones of the buses' map are %g km", side)
	}
	records, counted, seen := 0., 0., 0
	for i, w := range c.spans().Windows {
		one, err := c.at(w.StartMS)
		if err != nil || one.CrowdSpan != w || w.EndMS-w.StartMS != crowdWindow.Milliseconds() {
			t.Fatalf("window %d: %v, %+v", i, err, w)
		}
		for name, f := range map[string]*Field{
			"posterior": one.Posterior, "truth": one.Truth, "counted": one.Counted,
		} {
			total := 0.
			for _, x := range values(t, f) {
				total += x
			}
			if name == "counted" { // noise of scale 4/10 in 70 zones
				total -= math.Min(30, math.Max(-30, total-float64(w.Vehicles)))
			}
			if math.Abs(total-float64(w.Vehicles)) > .01*float64(w.Vehicles) {
				t.Errorf("window %d: %g vehicles in %s, want %d", i, total, name, w.Vehicles)
			}
		}
		records += float64(w.PosteriorOff)
		seen, counted = seen+w.Vehicles, counted+float64(w.CountedOff)
	}
	n := float64(len(c.windows))
	if n != 4 || seen < 3800 || records/n > .25 || counted > records || counted/n > .05 {
		t.Errorf("%g windows of %d vehicles: the records are off by %g, and the counts by %g", n,
			seen, records/n, counted/n)
	}
}

// TestFleetCountsTheFirst: a vehicle counts in the zone of its first report in a window, with and
// without an estimate.
func TestFleetCountsTheFirst(t *testing.T) {
	truth := newTruth(sampleTruth(t).model)
	fix, g := sampleTruth(t).users[0].Fixes[0], sampleTruth(t).model.Grid
	fix.Timestamp -= fix.Timestamp % crowdWindow.Milliseconds()
	u := User{Name: fix.UserID}
	for i, cell := range []grid.Cell{0, grid.Cell(g.Cells() - 1)} {
		fix.Latitude, fix.Longitude = g.ToDegrees(g.Centre(cell))
		fix.Timestamp += int64(i) * 60_000
		u.Fixes = append(u.Fixes, fix)
	}
	truth.users = []User{u}
	k := fleetsOf(truth, nil)
	for _, quick := range []bool{true, false} {
		c, err := k.crowds(t.Context(), DefaultSettings(), quick)
		if err != nil || len(c.windows) != 1 {
			t.Fatalf("%d windows, %v", len(c.windows), err)
		}
		if zone := c.zones.cells[0]; c.windows[0].truth[zone] != 1 {
			t.Errorf("quick %v: the vehicle is not where it reported first", quick)
		}
	}
}

// TestFleetZones: zones are about a kilometre, whatever the cells, but a map has 64 of them where
// it has as many cells.
func TestFleetZones(t *testing.T) {
	for _, c := range []struct {
		cells int // along a side, or one more
		cellM float64
		block int
	}{{100, 250, 4}, {100, 100, 10}, {100, 1000, 1}, {40, 3000, 1}, {17, 100, 2}, {3, 100, 1}} {
		north := float64(c.cells) * c.cellM / 111_200 // degrees of latitude
		g, err := grid.New(grid.Box{South: 0, West: 0, North: north, East: north}, c.cellM)
		if err != nil {
			t.Fatal(err)
		}
		_, block, many := dividing(nil, &mobility.Model{Grid: g, Step: time.Minute})
		if many != "" || block != c.block {
			t.Errorf("%d cells of %g m: zones of %d cells, want %d: %s", c.cells, c.cellM,
				block, c.block, many)
		}
	}
}

// TestTooLargeFleet: what cannot be estimated for a page is counted, and the page has words for it.
func TestTooLargeFleet(t *testing.T) {
	large := newTruth(sampleTruth(t).model)
	fix := sampleTruth(t).users[0].Fixes[0]
	u := User{Name: "a"}
	for range crowdWork/large.model.Grid.Cells() + 1 {
		u.Fixes = append(u.Fixes, fix)
	}
	large.users = []User{u}
	k := fleetsOf(large, nil)
	c, err := k.crowds(t.Context(), DefaultSettings(), false)
	if err != nil || !strings.Contains(c.NoEstimate, "too many records") || len(c.windows) != 1 {
		t.Fatalf("too many traces: %+v, %v", c, err)
	}
	one, err := c.at(c.windows[0].StartMS)
	if err != nil || one.Vehicles != 1 || one.Truth.Blocks != 1 || one.Posterior.Blocks != 0 ||
		!math.IsNaN(float64(one.PosteriorOff)) || math.IsNaN(float64(one.CountedOff)) {
		t.Errorf("the window: %+v, %v", one, err)
	}
}

// TestFleetAreas: areas of the outline that have names are the zones of truth, counts and estimate.
// Those that overlap cannot be, and squares are in their place.
func TestFleetAreas(t *testing.T) {
	const west, east = `[[-3.1,53.3],[-2.95,53.3],[-2.95,53.6],[-3.1,53.6],[-3.1,53.3]]`,
		`[[-2.95,53.3],[-2.8,53.3],[-2.8,53.6],[-2.95,53.6],[-2.95,53.3]]`
	area := func(name, ring string) string {
		return `{"type":"Feature","properties":{"name":"` + name +
			`"},"geometry":{"type":"Polygon","coordinates":[` + ring + `]}}`
	}
	fleet := func(areas ...string) *crowd {
		o, err := parseOutline([]byte(`{"type":"FeatureCollection","features":[` +
			strings.Join(areas, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := fleetsOf(sampleTruth(t), o).crowds(t.Context(), DefaultSettings(), false)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := fleet(area("west", west), area("east", east), area("", east))
	w := c.windows[0]
	if !strings.Contains(c.Zones, "2 named areas") || len(w.truth) != 3 ||
		len(w.counted) != 3 || len(w.Posterior) != 3 ||
		w.truth[0]+w.truth[1] != float64(w.Vehicles) || w.truth[0] == 0 || w.truth[2] != 0 {
		t.Errorf("two areas and the rest: %+v, %v of %d vehicles", c.Crowds, w.truth, w.Vehicles)
	}
	for i := range 2 { // a noise of a few vehicles
		if math.Abs(w.counted[i]-w.truth[i]) > 60 || math.Abs(w.Posterior[i]-w.truth[i]) > 300 {
			t.Errorf("area %d: %v counted, %v by posteriors, %v in truth", i, w.counted,
				w.Posterior, w.truth)
		}
	}
	one, err := c.at(w.StartMS)
	g := c.zones.on
	if err != nil || one.ZoneKM != g.CellKM() || one.Truth.Blocks != g.Cells() {
		t.Errorf("the window: %v, %g km, %d blocks", err, one.ZoneKM, one.Truth.Blocks)
	}
	for at, x := range values(t, one.Truth) {
		zone := c.zones.cells[at[1]*g.Width()+at[0]]
		if math.Abs(x-w.truth[zone]) > .01*w.truth[zone] {
			t.Fatalf("cell %v has %g vehicles, its zone %g", at, x, w.truth[zone])
		}
	}
	c = fleet(area("west", west), area("all", west))
	if !strings.Contains(c.Zones, `cannot be zones: the zones "west" and "all" overlap`) ||
		len(c.windows[0].truth) < fewZones {
		t.Errorf("areas above each other: %+v", c.Crowds)
	}
}
