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
	"github.com/geodither/geodither/schemas"
)

// whole returns a fleet whose records are all made.
func whole(t *testing.T, k *crowdsOf, s Settings) (*crowd, *Crowds) {
	t.Helper()
	c, err := k.crowd(s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.part(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, all
}

// TestFleet: the windows of all users have the truth beside two estimates, and each sums to the
// vehicles. Where ε is large the estimate is better than the model alone, and close.
func TestFleet(t *testing.T) {
	truth := sampleTruth(t)
	s := Settings{Mechanism: law.Codebook, Epsilon: 10, Interval: 1, Seed: 1}
	k := newCrowds(truth, nil)
	c, err := k.crowd(s)
	if err != nil {
		t.Fatal(err)
	}
	early, err := c.part(t.Context(), time.Nanosecond)
	if err != nil || early.Done != 1 || early.Total < 400 || len(early.Windows) != 4 ||
		!math.IsNaN(float64(early.Windows[2].PosteriorOff)) ||
		!math.IsNaN(float64(early.Spent)) || math.IsNaN(float64(early.Windows[2].CountedOff)) {
		t.Errorf("after the first records: %+v, %v", early, err)
	}
	again, all := whole(t, k, s)
	if again != c {
		t.Error("the same fleet was computed twice")
	}
	if !all.Simulated || all.PerDay != 4 || math.Abs(float64(all.Spent)-4*10) > 1e-6 {
		t.Errorf("the fleet: %+v", all)
	}
	if side := c.zones.sideKM(); math.Abs(side-.75) > 1e-9 { // of 1 km there would be 54 zones
		t.Errorf("zones of the buses' map are %g km", side)
	}
	records, counted, seen := 0., 0., 0
	for i, w := range all.Windows {
		one, err := c.at(t.Context(), w.StartMS)
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

// TestFleetCountsTheFirst: a vehicle counts in the zone of its first report in a window, and its
// posterior is that of this report.
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
	s := DefaultSettings()
	s.Epsilon = 20
	c, _ := whole(t, newCrowds(truth, nil), s)
	if len(c.windows) != 1 {
		t.Fatalf("%d windows", len(c.windows))
	}
	zone := c.zones.cells[0]
	if w := &c.windows[0]; w.truth[zone] != 1 || w.posterior[zone] < .9 {
		t.Errorf("the vehicle is not where it reported first: %g in truth, %g by its record",
			w.truth[zone], w.posterior[zone])
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
	fixes := slices.Repeat([]schemas.Raw{fix}, crowdWork/large.model.Grid.Cells()+1)
	large.users = []User{{Name: "a", Fixes: fixes}}
	c, _ := whole(t, newCrowds(large, nil), DefaultSettings())
	if !strings.Contains(c.NoEstimate, "too many records") || len(c.windows) != 1 {
		t.Fatalf("too many traces: %+v", c)
	}
	one, err := c.at(t.Context(), c.windows[0].StartMS)
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
		c, _ := whole(t, newCrowds(sampleTruth(t), o), DefaultSettings())
		return c
	}
	c := fleet(area("west", west), area("east", east), area("", east))
	w := c.windows[0]
	if !strings.Contains(c.Zones, "2 named areas") || len(w.truth) != 3 ||
		len(w.counted) != 3 || len(w.posterior) != 3 ||
		w.truth[0]+w.truth[1] != float64(w.Vehicles) || w.truth[0] == 0 || w.truth[2] != 0 {
		t.Errorf("two areas and the rest: %+v, %v of %d vehicles", c.Crowds, w.truth, w.Vehicles)
	}
	for i := range 2 { // a noise of a few vehicles
		if math.Abs(w.counted[i]-w.truth[i]) > 60 || math.Abs(w.posterior[i]-w.truth[i]) > 300 {
			t.Errorf("area %d: %v counted, %v by posteriors, %v in truth", i, w.counted,
				w.posterior, w.truth)
		}
	}
	one, err := c.at(t.Context(), w.StartMS)
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
