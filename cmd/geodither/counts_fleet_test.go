package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// TestCountsFleet: a fleet of real days, drawn with repeats and moved to one date, counted by the
// command. What it publishes has to be near the truth: the total variation by hour, negative
// numbers taken as 0, of where each vehicle was first in each hour, also where the cap leaves it
// out. Intervals have to hold 90 % of the counts under the cap, less what chance allows.
//
// GEODITHER_FLEET_DAYS names a folder of Geolife's traces, and has fleets of held-out users
// measured too, in some minutes: RESULTS.md has the table.
func TestCountsFleet(t *testing.T) {
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	buses := newFleetDays(t, "buses", fixes, fleet.SampleBox(), fleet.SampleCellM, fleet.SampleStep)
	buses.hold(t, func(bus string) bool { return bus < "bus-4800" }) // half of them
	buses.count(t, 2000, 3, 1, 4, .05)
	folder := os.Getenv("GEODITHER_FLEET_DAYS")
	if folder == "" {
		return
	}
	all := fixesOf(t, folder)
	geolife := newFleetDays(t, "Geolife", all,
		grid.Box{South: 39.85, West: 116.27, North: 39.97, East: 116.50}, 1000, time.Minute)
	held := func(user string) bool {
		number, err := strconv.Atoi(user)
		if err != nil {
			t.Fatal(err)
		}
		return number%3 == 0
	}
	geolife.hold(t, held)
	geolife.days = beijingDays(geolife.model.Grid, all, held)
	for _, c := range []struct {
		vehicles    int
		zoneKM      float64
		epsilon     float64
		perDay      int
		mostAtHours float64 // of the total variation
	}{
		{30, 3, 1, 8, 1},
		{100, 3, 1, 8, 1},
		{1000, 3, 1, 8, 1},
		{1000, 3, 1, 4, 1},
		{1000, 3, 4, 8, 1},
		{10_000, 3, 1, 8, .10},
		{10_000, 3, 1, 6, .10},
		{10_000, 3, 2, 8, .10},
		{10_000, 3, 4, 8, .10},
		{10_000, 1, 1, 8, 1},
		{10_000, 1, 1, 4, .32},
		{10_000, 1, 4, 8, 1},
		{100_000, 1, 1, 8, .09},
		{100_000, 1, 4, 8, .09},
	} {
		geolife.count(t, c.vehicles, c.zoneKM, c.epsilon, c.perDay, c.mostAtHours)
	}
}

// fixesOf returns the fixes of a folder of CSV files.
func fixesOf(t *testing.T, folder string) (fixes []schemas.Raw) {
	t.Helper()
	reader, err := traces.Open(t.Context(), []string{folder}, nil,
		traces.Options{Format: traces.CSV})
	if err != nil {
		t.Fatal(err)
	}
	for fix, err := range reader.Fixes() {
		if err != nil {
			t.Fatal(err)
		}
		fixes = append(fixes, fix)
	}
	return fixes
}

// dayReport is a report of a day: its step since midnight, UTC.
type dayReport struct {
	step int64
	cell grid.Cell
}

// fleetDays are days of users.
type fleetDays struct {
	name    string
	trainer *train.Trainer
	model   *mobility.Model
	days    []userDay
}

// userDay is a day of a user.
type userDay struct{ reports []dayReport }

func newFleetDays(
	t *testing.T, name string, fixes []schemas.Raw, box grid.Box, cellM float64,
	step time.Duration,
) *fleetDays {
	t.Helper()
	g, err := grid.New(box, cellM)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleetDays{name: name}
	if f.trainer, err = train.New(g, step, train.Options{Source: name}); err != nil {
		t.Fatal(err)
	}
	for _, r := range fixes {
		f.trainer.Add(train.Fix{
			User: r.UserID, TimeMS: r.Timestamp, Lat: r.Latitude, Lon: r.Longitude,
		})
	}
	return f
}

// hold takes the days of the users that are held, and a model of all others.
func (f *fleetDays) hold(t *testing.T, held func(user string) bool) {
	t.Helper()
	model, _, err := f.trainer.Without(held).Finish()
	if err != nil {
		t.Fatal(err)
	}
	perDay, last := int64(24*time.Hour/model.Step), ""
	for track := range f.trainer.Tracks(held) {
		for i, s := range track.Steps {
			if day := fmt.Sprintf("%s %d", track.User, s/perDay); day != last {
				f.days, last = append(f.days, userDay{}), day
			}
			d := &f.days[len(f.days)-1]
			d.reports = append(d.reports, dayReport{s % perDay, track.Cells[i]})
		}
	}
	f.model = model
}

// beijingDays returns users' days by the clock of Beijing, with all fixes, in minutes.
func beijingDays(g *grid.Grid, fixes []schemas.Raw, held func(user string) bool) (days []userDay) {
	const ahead, perDay = 8 * 60, 24 * 60 // minutes
	slices.SortStableFunc(fixes, func(a, b schemas.Raw) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Timestamp, b.Timestamp))
	})
	last := ""
	for _, fix := range fixes {
		if !held(fix.UserID) {
			continue
		}
		minute := fix.Timestamp/time.Minute.Milliseconds() + ahead
		if day := fmt.Sprintf("%s %d", fix.UserID, minute/perDay); day != last {
			days, last = append(days, userDay{}), day
		}
		day := &days[len(days)-1]
		day.reports = append(day.reports,
			dayReport{minute % perDay, g.Locate(fix.Latitude, fix.Longitude)})
	}
	return days
}

// countScore sums up how far published counts are from the truth.
type countScore struct {
	onMap                    int         // zones without elsewhere, where nobody is
	truth, capped            [24][]int64 // vehicles by hour and zone; those under the cap
	alone                    []float64   // what the model says
	weight, variation, model float64     // vehicles of all hours; weighted by them
	estimates                float64     // their variation
	held, numbers            float64     // intervals
}

// count draws a day for each vehicle and counts the fleet by the command, five times with other
// noise, the means of which count. Of every ten minutes the first fix is written.
func (f *fleetDays) count(
	t *testing.T, vehicles int, zoneKM, epsilon float64, perDay int, most float64,
) {
	t.Helper()
	m := f.model
	zones, err := m.Grid.Coarser(zoneKM)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := f.writeDays(t, filepath.Join(dir, "days.csv"), vehicles, perDay, zones)
	key := write(t, dir, "noise.key", strings.Repeat("5a", 32)+"\n")
	box := m.Grid.Box()
	for edition := range 5 {
		s.add(t, succeed(t, "counts", "--in", filepath.Join(dir, "days.csv"),
			"--from", "2026-11-23", "--to", "2026-11-24", "--epsilon", fmt.Sprint(epsilon),
			"--per-day", fmt.Sprint(perDay), "--zone", fmt.Sprintf("%gm", zones.CellM()),
			"--box", fmt.Sprintf("%v,%v,%v,%v", box.South, box.West, box.North, box.East),
			"--key-file", key, "--edition", fmt.Sprint(edition+1)).out)
	}
	cut, coverage := 0.0, s.held/s.numbers
	for hour := range s.truth {
		for zone, n := range s.truth[hour] {
			cut += float64(n - s.capped[hour][zone])
		}
	}
	t.Logf("%s,%d,%.2g km,%g,%d,%.3f,%.3f,%.3f,%.3f,%.3f", f.name, vehicles, zones.CellKM(),
		epsilon, perDay, s.variation/s.weight, s.estimates/s.weight, s.model/s.weight, coverage,
		5*cut/s.weight)
	if s.variation/s.weight > most {
		t.Errorf("a variation of %.3f, at most %g", s.variation/s.weight, most)
	}
	if vehicles > 1000 && s.estimates > s.variation {
		t.Errorf("estimates have a variation of %.3f", s.estimates/s.weight)
	}
	// Five standard deviations: a false alarm in 3 million runs.
	if coverage < .9-5*math.Sqrt(.09/s.numbers) {
		t.Errorf("the intervals hold %.3f of the counts", coverage)
	}
}

// add takes the records of one edition in.
func (s *countScore) add(t *testing.T, out string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	zones := s.onMap + 1
	if len(rows) != 1+24*zones {
		t.Fatalf("%d records for %d zones", len(rows), zones)
	}
	for hour := range s.truth {
		n, truth, published := 0.0, make([]float64, zones), make([]float64, zones)
		estimates := make([]float64, zones)
		for zone, count := range s.truth[hour] {
			numbers := [3]int64{} // vehicles, low and high
			for i := range numbers {
				text := rows[1+hour*zones+zone][6+i]
				if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			n += float64(count)
			truth[zone], published[zone] = float64(count), float64(max(0, numbers[0]))
			text := rows[1+hour*zones+zone][9]
			if estimates[zone], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
			s.numbers++
			if c := s.capped[hour][zone]; c >= numbers[1] && c <= numbers[2] {
				s.held++
			}
		}
		if n > 0 {
			s.weight += n
			s.variation += n * counts.Variation(published[:s.onMap], truth[:s.onMap])
			s.estimates += n * counts.Variation(estimates[:s.onMap], truth[:s.onMap])
			s.model += n * counts.Variation(s.alone, truth)
		}
	}
}

// writeDays writes the fixes of a fleet's day. It notes where the vehicles were first in each hour.
func (f *fleetDays) writeDays(
	t *testing.T, path string, vehicles, perDay int, zones *grid.Grid,
) *countScore {
	t.Helper()
	s := &countScore{onMap: zones.Cells(), alone: make([]float64, zones.Cells()+1)}
	initial, step, g := &f.model.Initial, f.model.Step, f.model.Grid
	of := func(c grid.Cell) grid.Cell { return zones.CellAt(g.Centre(c)) }
	for i, c := range initial.Cells {
		s.alone[of(c)] += initial.P[i]
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprint(w, countsColumns)
	for hour := range s.truth {
		s.truth[hour], s.capped[hour] = make([]int64, s.onMap+1), make([]int64, s.onMap+1)
	}
	random := rand.New(rand.NewPCG(1, 0x64617973))
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for v := range vehicles {
		hours, slot := 0, int64(-1)
		for _, r := range f.days[random.IntN(len(f.days))].reports {
			at := time.Duration(r.step) * step
			if now := int64(at / (10 * time.Minute)); now == slot {
				continue
			} else if now/6 != slot/6 || slot < 0 {
				hours++
				s.truth[now/6][of(r.cell)]++
				if hours <= perDay {
					s.capped[now/6][of(r.cell)]++
				}
			}
			slot = int64(at / (10 * time.Minute))
			lat, lon := g.ToDegrees(g.Centre(r.cell))
			fmt.Fprintf(w, "v%d,%s,%.7f,%.7f\n", v, start.Add(at).Format(time.RFC3339), lat, lon)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}
