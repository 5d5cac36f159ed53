package explore

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// vans are vehicles on a map of 10 by 10 km. The first of them is in the south-west, the others in
// the north-east. Each reports once in some hours of some days, from Monday 2026-01-26 on.
func vans(t *testing.T, vehicles, days int, hours ...int) *Truth {
	t.Helper()
	g, err := grid.New(grid.Box{South: 0, West: 0, North: .09, East: .09}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	truth := newTruth(&mobility.Model{Grid: g, Step: time.Minute})
	for i := range vehicles {
		at := .085
		if i == 0 {
			at = .005
		}
		for day := range days {
			for _, hour := range hours {
				truth.add(schemas.Raw{
					UserID: fmt.Sprint(i), Latitude: at, Longitude: at,
					Timestamp: 1769385600_000 + int64(24*day+hour)*time.Hour.Milliseconds(),
				})
			}
		}
	}
	return truth.sorted()
}

// published returns what is published of a truth.
func published(t *testing.T, truth *Truth, epsilon float64) *publication {
	t.Helper()
	p, err := newPublications(Options{Truth: truth}).at(t.Context(), priced{epsilon, 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestUsualSample: the simulated fleet has working days, and a typical day says where it is then.
// Daily counts for the same price say nothing, and for as much a day more.
func TestUsualSample(t *testing.T) {
	p := published(t, sampleTruth(t), 1)
	if p.Days != 20 || p.Weekdays != "mon-fri" || p.From != "2026-01-26" || p.To != "2026-02-20" ||
		!p.Simulated || p.PerDay != 10 || len(p.Slots) != 24 || p.Clock != "UTC" ||
		math.Abs(p.ZoneKM-.75) > 1e-9 { // of 1 km there would be 54 zones
		t.Errorf("the sample: %+v", p.Usual)
	}
	if o := p.Off; !(o.Each < o.Typical && o.Typical < .6*o.Even && o.Daily > o.Even-.02) {
		t.Errorf("the whole day: %+v", o)
	}
	if o := p.Slots[8].Off; !(o.Typical < .6*o.Even && o.Even > .5) {
		t.Errorf("8 o'clock: %+v", o)
	}
	if o := p.Slots[2].Off; !math.IsNaN(float64(o.Typical)) || !math.IsNaN(float64(o.Even)) {
		t.Errorf("nobody drives at night: %+v", o)
	}
	u := p.with(12, true)
	total := 0.
	for _, x := range values(t, u.Truth) {
		total += x
	}
	if u.Vehicles != 1000 || math.Abs(total-1000) > 5 {
		t.Errorf("at noon %g of %v vehicles drive", total, u.Vehicles)
	}
}

// TestUsualOff: how far off the maps are is what the definition of the total variation says.
func TestUsualOff(t *testing.T) {
	p := published(t, vans(t, 4, 10, 8, 9, 10), 100)
	if p.Days != 8 || p.PerDay != 3 { // of ten days eight are working days
		t.Fatalf("%+v", p.Usual)
	}
	n := p.of.zones.Count() - 1
	variation := func(shown []float64) float64 {
		sum, wrong := 0., 0.
		for _, x := range shown[:n] {
			sum += x
		}
		for zone, x := range shown[:n] {
			wrong += math.Abs(x/sum-float64(p.of.seen[8][zone])/(8*4)) / 2
		}
		return wrong
	}
	off := p.Slots[8].Off
	for name, c := range map[string]struct {
		got   number
		shown []float64
	}{
		"typical": {off.Typical, p.typical[8]}, "daily": {off.Daily, p.daily[8]},
		"even": {off.Even, countfiles.Evenly(n + 1)},
	} {
		if want := variation(c.shown); math.Abs(float64(c.got)-want) > 1e-9 {
			t.Errorf("%s: %v, want %g", name, c.got, want)
		}
	}
	// All are in 2 of n zones: one vehicle of four in the first one.
	if want := 1 - 2/float64(n); math.Abs(float64(off.Even)-want) > 1e-9 || off.Typical > .2 {
		t.Errorf("off: %+v, want %g for an even map", off, want)
	}
}

// TestUsualIsCounts: the numbers are those of mechanism/counts, with the keys and settings that the
// page names.
func TestUsualIsCounts(t *testing.T) {
	p := published(t, vans(t, 4, 3, 8, 9), 7) // ε of a day is 2.333333333
	d := p.of
	if len(d.capped) != 24 || d.PerDay != 2 {
		t.Fatalf("%+v", d.Usual)
	}
	for slot, row := range d.seen {
		for zone, n := range row {
			drives := slot == 8 || slot == 9
			want := map[bool]int64{true: 3}[drives && zone == int(d.zones.Of(.005, .005))]
			if drives && zone == int(d.zones.Of(.085, .085)) {
				want = 9
			}
			if n != want || d.capped[slot][zone] != want {
				t.Fatalf("slot %d, zone %d: %d and %d, want %d", slot, zone, n,
					d.capped[slot][zone], want)
			}
		}
	}
	once, err := counts.NewTypical(noise.NewKeyed(noise.KeyFromSeed(1)), d.zones.Zones,
		counts.Settings{Source: "page", Edition: 1, Epsilon: 7, PerDay: 2}, d.typical)
	if err != nil {
		t.Fatal(err)
	}
	var want []counts.Published
	for i, slot := range d.typical.Slots {
		one, err := once.PublishSlot(slot, d.capped[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, one)
	}
	once.Estimate(want)
	for i := range want {
		if !slices.Equal(p.typical[i], want[i].Estimates) {
			t.Errorf("slot %d: %v, want %v", i, p.typical[i], want[i].Estimates)
		}
	}
	if half := p.HalfWidth * 3; half != math.Trunc(half) || half < 1 {
		t.Errorf("an average is within %g", p.HalfWidth)
	}
}

// TestUsualCap: the cap leaves out the late hours of few vehicles, and the truth has them.
func TestUsualCap(t *testing.T) {
	truth := vans(t, 40, 5, 8, 9)
	late := truth.users[0].Fixes[0]
	for hour := range int64(10) {
		late.Timestamp += time.Hour.Milliseconds()
		if hour > 0 {
			truth.users[0].Fixes = append(truth.users[0].Fixes, late)
		}
	}
	p := published(t, truth, 1)
	if p.PerDay != 2 || slices.Max(p.of.seen[15]) != 1 || slices.Max(p.of.capped[15]) != 0 ||
		!(p.Slots[15].Off.Even > .9) {
		t.Errorf("one vehicle drives longer: %+v", p.Slots[15])
	}
}

// TestUsualShort: of one day, of a weekend and of few vehicles there is something to see too.
func TestUsualShort(t *testing.T) {
	if p := published(t, vans(t, 1, 1, 8), 1); p.Days != 1 || p.From != p.To ||
		float64(p.Off.Typical) < float64(p.Off.Even)-.3 {
		t.Errorf("one vehicle on one day: %+v", p.Usual)
	}
	weekend := vans(t, 3, 7, 8)
	for i := range weekend.users {
		u := &weekend.users[i]
		u.Fixes = u.Fixes[5:]
	}
	if p := published(t, weekend, 1); p.Days != 2 || p.Weekdays != "mon-sun" {
		t.Errorf("a weekend: %+v", p.Usual)
	}
	long := vans(t, 2, 100, 8)
	long.add(schemas.Raw{UserID: "0", Latitude: 0, Longitude: 0, Timestamp: 2e12}) // in 2033
	if p := published(t, long, 1); p.Days != 20 || p.From != "2026-01-26" {
		t.Errorf("a hundred days: %+v", p.Usual)
	}
	tokyo, err := newPublications(Options{Truth: vans(t, 2, 1, 8), TimeZone: "Asia/Tokyo"}).
		at(t.Context(), priced{1, 1})
	if err != nil || tokyo.Clock != "Asia/Tokyo" || slices.Max(tokyo.of.seen[17]) != 1 {
		t.Errorf("eight o'clock UTC in Tokyo: %v, %+v", err, tokyo)
	}
	_, err = newPublications(Options{Truth: vans(t, 0, 0)}).at(t.Context(), priced{1, 1})
	if err == nil || !strings.Contains(err.Error(), "no report") {
		t.Errorf("no vehicle: %v", err)
	}
}

// TestUsualAnswers: equal questions have equal answers, byte for byte, and without the truth they
// have nothing secret.
func TestUsualAnswers(t *testing.T) {
	server := func() http.Handler {
		return handler(Options{Truth: vans(t, 40, 5, 8, 9), Logger: quiet()})
	}
	h, again := server(), server()
	get := func(h http.Handler, query string) (u Usual, body string) {
		status, body := ask(t, h, "/api/fleet?slot=8"+query, &u)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, status, body)
		}
		return u, body
	}
	for _, query := range []string{"", "&epsilon=5", "&seed=2", "&truth=0"} {
		_, first := get(h, query)
		if _, second := get(again, query); first != second {
			t.Errorf("%s: two answers differ", query)
		}
	}
	shown, all := get(h, "")
	if shown.Truth == nil || shown.Vehicles != 40 || !strings.Contains(all, `"even":0.`) {
		t.Errorf("the truth is missing: %s", all)
	}
	u, body := get(h, "&truth=0")
	for _, secret := range []string{`"truth":null`, `"vehicles":null`, `"even":null`} {
		if !strings.Contains(body, secret) || strings.Contains(body, `"even":0`) {
			t.Errorf("a hidden truth: %s lacks %s", body, secret)
		}
	}
	p, most := published(t, vans(t, 40, 5, 8, 9), 1), 0.
	for _, row := range slices.Concat(p.typical, p.daily) {
		most = max(most, slices.Max(row[:len(row)-1]))
	}
	if u.Typical.Max != most {
		t.Errorf("the scale without the truth is %g, of what is published %g", u.Typical.Max, most)
	}
}

// TestFleetOffTheMap: of vehicles that are never on the map no figure says how far off they are.
func TestFleetOffTheMap(t *testing.T) {
	truth := vans(t, 3, 1, 8)
	for _, u := range truth.users {
		for i := range u.Fixes {
			u.Fixes[i].Latitude += 5
		}
	}
	if p := published(t, truth, 1); !math.IsNaN(float64(p.Off.Even)) ||
		!math.IsNaN(float64(p.Slots[8].Off.Typical)) {
		t.Errorf("%+v", p.Off)
	}
}

// TestBusiest: of many days those four weeks are looked at that have most fixes.
func TestBusiest(t *testing.T) {
	first, last := busiest(map[counts.Date]int{10: 1, 100: 5, 127: 1, 128: 2, 500: 3})
	if first != 100 || last != 127 {
		t.Errorf("days %d to %d", first, last)
	}
}

// TestFleetZones: zones are about a kilometre, whatever the cells, but a map has 64 of them where
// it has as many cells and vehicles, and no more than a knob can draw noise for.
func TestFleetZones(t *testing.T) {
	for _, c := range []struct {
		cells    int // along a side
		cellM    float64
		vehicles int
		side     int
	}{
		{40, 250, 9999, 4},
		{160, 100, 9999, 10},
		{16, 1000, 9999, 1},
		{40, 3000, 9999, 3},
		{17, 100, 9999, 2},
		{3, 100, 9999, 1},
		{40, 250, 300, 8},
		{40, 250, 30, 10},
		{40, 250, 0, 10},
	} {
		if side := sideOf(c.cells*c.cells, c.cellM/1000, c.vehicles); side != c.side {
			t.Errorf("%d cells of %g m: zones of %d cells, want %d", c.cells, c.cellM, side, c.side)
		}
	}
}

// TestFleetAreas: areas of the outline that have names are the zones. Those that overlap cannot be,
// and squares are in their place.
func TestFleetAreas(t *testing.T) {
	const west, east = `[[-3.1,53.3],[-2.95,53.3],[-2.95,53.6],[-3.1,53.6],[-3.1,53.3]]`,
		`[[-2.95,53.3],[-2.8,53.3],[-2.8,53.6],[-2.95,53.6],[-2.95,53.3]]`
	area := func(name, ring string) string {
		return `{"type":"Feature","properties":{"name":"` + name +
			`"},"geometry":{"type":"Polygon","coordinates":[` + ring + `]}}`
	}
	fleet := func(areas ...string) *publication {
		o, err := parseOutline([]byte(`{"type":"FeatureCollection","features":[` +
			strings.Join(areas, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPublications(Options{Truth: sampleTruth(t), Outline: o}).
			at(t.Context(), priced{1, 1})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := fleet(area("west", west), area("east", east), area("", east))
	noon := p.of.seen[12]
	if !strings.Contains(p.Zones, "2 named areas") || len(noon) != 3 || len(p.typical[12]) != 3 ||
		noon[0]+noon[1] != 20*1000 || noon[0] == 0 || noon[2] != 0 || p.Off.Typical > .05 {
		t.Errorf("two areas and the rest: %+v, %v", p.Usual, noon)
	}
	u, g := p.with(12, true), p.of.zones.on
	if u.ZoneKM != g.CellKM() || u.Truth.Blocks != g.Cells() {
		t.Errorf("at noon: %g km, %d blocks", u.ZoneKM, u.Truth.Blocks)
	}
	for at, x := range values(t, u.Truth) {
		mean := float64(noon[p.of.zones.cells[at[1]*g.Width()+at[0]]]) / 20
		if math.Abs(x-mean) > .01*mean {
			t.Fatalf("cell %v has %g vehicles, its zone %g", at, x, mean)
		}
	}
	p = fleet(area("west", west), area("all", west))
	if !strings.Contains(p.Zones, `cannot be zones: the zones "west" and "all" overlap`) ||
		p.of.zones.Count() < fewZones {
		t.Errorf("areas above each other: %+v", p.Usual)
	}
}
