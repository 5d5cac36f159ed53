package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// dayPlan says how a fleet releases for a day: ε every so often, up to a sum in 24 hours.
type dayPlan struct {
	epsilon float64
	every   time.Duration
	sum     float64
}

var fleetPlan = dayPlan{epsilon: 5, every: 30 * time.Minute, sum: 20}

// TestFleetDay: a fleet of real days, drawn with repeats, each under a model that has not seen its
// user and with noise of its own. The days of all are moved to one date. A zone's day is the sum of
// its hours. The releases must bring the estimate of the buses' day closer to the truth.
//
// GEODITHER_FLEET_DAYS names a folder of Geolife's traces, and has 1,000 buses and 10,000 vehicles
// measured too, in a quarter of an hour: RESULTS.md has the table.
func TestFleetDay(t *testing.T) {
	t.Parallel()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	buses := newFleetDays(t, "buses", fixes, fleet.SampleBox(), fleet.SampleCellM, fleet.SampleStep)
	users := map[string]bool{}
	for _, fix := range fixes {
		users[fix.UserID] = true
	}
	for _, bus := range slices.Sorted(maps.Keys(users)) {
		buses.hold(t, func(user string) bool { return user == bus })
	}
	score := buses.measure(t, fleetPlan, 100, 3)
	if day := score.day; day.Fitted > .95*day.Blind {
		t.Errorf("a variation of %.3f by 3 km and day, %.3f by the model alone",
			day.Fitted, day.Blind)
	}
	folder := os.Getenv("GEODITHER_FLEET_DAYS")
	if folder == "" {
		return
	}
	for _, km := range []float64{1, 3} {
		buses.measure(t, fleetPlan, 1000, km)
	}
	box := grid.Box{South: 39.85, West: 116.27, North: 39.97, East: 116.50}
	const cellM = 1000
	geolife := newFleetDays(t, "Geolife", fixesOf(t, folder), box, cellM, time.Minute)
	geolife.hold(t, func(user string) bool {
		number, err := strconv.Atoi(user)
		if err != nil {
			t.Fatal(err)
		}
		return number%3 == 0
	})
	for _, km := range []float64{1, 3} {
		geolife.measure(t, fleetPlan, 10_000, km)
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
	models  aggregate.Models
	days    []userDay
}

// userDay is a day of a user, and the number of the model that has not seen the user.
type userDay struct {
	model   int
	reports []dayReport
}

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

// hold adds the days of the users that are held, and a model of all others.
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
				f.days, last = append(f.days, userDay{model: len(f.models)}), day
			}
			d := &f.days[len(f.days)-1]
			d.reports = append(d.reports, dayReport{s % perDay, track.Cells[i]})
		}
	}
	f.models = append(f.models, model)
}

// variations are total variation distances from the truth.
type variations struct{ Fitted, Posterior, Blind, Naive float64 }

func (v *variations) add(truth []float64, d *aggregate.Density, weight float64) {
	v.Fitted += float64(weight * aggregate.Variation(d.Fitted, truth))
	v.Posterior += float64(weight * aggregate.Variation(d.Posterior, truth))
	v.Blind += float64(weight * aggregate.Variation(d.Blind, truth))
	v.Naive += float64(weight * aggregate.Variation(d.Naive, truth))
}

// dayScore is the error by zones of one size: the mean over hours, weighted by their vehicles, and
// that of the day.
type dayScore struct {
	hour, day     variations
	held, counted float64 // zones of hours whose interval holds the truth, and all that count

	zones  *aggregate.Zones
	truths map[int64][]float64
	whole  aggregate.Density // sums over the hours
	truth  []float64
}

// measure releases a fleet's day and compares its estimate by zones with the truth.
func (f *fleetDays) measure(t *testing.T, p dayPlan, vehicles int, zoneKM float64) *dayScore {
	t.Helper()
	g, perHour := f.models[0].Grid, int64(time.Hour/f.models[0].Step)
	o := mechanism.Options{
		Mechanism: law.Codebook, Epsilon: p.epsilon, Delta: .01,
		ReleaseInterval: int(p.every / f.models[0].Step),
		Budget: mechanism.Budget{
			Epsilon: p.sum, WindowSteps: int(24 * perHour), Spent: mechanism.SpentPredict,
		},
	}
	var sanitizers []*mechanism.Sanitizer
	for _, m := range f.models {
		s, err := mechanism.NewSanitizer(m, noise.NewKeyed(noise.KeyFromSeed(1)), o)
		if err != nil {
			t.Fatal(err)
		}
		sanitizers = append(sanitizers, s)
	}
	block := max(1, int(math.Round(zoneKM/g.CellKM())))
	zones, err := aggregate.NewZones(g, block)
	if err != nil {
		t.Fatal(err)
	}
	const date = 20_000 // any: days since 1970
	score := &dayScore{zones: zones, truths: map[int64][]float64{}}
	c, err := aggregate.NewCollector(f.models, o,
		aggregate.CollectOptions{WindowSteps: perHour, Block: block, Open: 1},
		func(w *aggregate.Window) error {
			hour := w.StartMS/time.Hour.Milliseconds() - date*24
			score.add(t, score.truths[hour], w.Estimate(aggregate.EstimateOptions{Seed: 1}))
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	releases := 0
	f.drive(vehicles, score, perHour, func(v, model int, r dayReport, s *mechanism.State) {
		user, step := fmt.Sprintf("vehicle %05d", v), date*24*perHour+r.step
		out, err := sanitizers[model].Step(s, mechanism.Input{
			User: user, Step: step, Cell: r.cell, Release: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if out.Kind == mechanism.Released {
			releases++
		}
		if err := c.Add(aggregate.Record{
			User: user, Model: f.models[model].ID(), Step: step, Kind: out.Kind,
			Release: out.Release, Estimate: out.Estimate, Number: int64(out.Number),
		}); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	score.finish()
	t.Logf("%s, %d days, %d vehicles, %.1f releases each: coverage %.3f", f.name, len(f.days),
		vehicles, float64(releases)/float64(vehicles), score.held/score.counted)
	for _, by := range []struct {
		name string
		of   variations
	}{{"hour", score.hour}, {"day", score.day}} {
		t.Logf("| %s | %g every %s, %g a day | %.2g km and %s | %.3f / %.3f / %.3f / %.3f |",
			f.name, p.epsilon, p.every, p.sum, zones.SideKM(), by.name, by.of.Fitted,
			by.of.Posterior, by.of.Blind, by.of.Naive)
	}
	return score
}

// drive draws a day for each vehicle and hands on the reports of all in the order of time. Before
// that it notes the truth: where each was last in each hour.
func (f *fleetDays) drive(vehicles int, score *dayScore, perHour int64,
	each func(vehicle, model int, r dayReport, s *mechanism.State),
) {
	type report struct {
		vehicle, model int
		dayReport
	}
	random := rand.New(rand.NewPCG(1, 0x64617973))
	var all []report
	for v := range vehicles {
		day := f.days[random.IntN(len(f.days))]
		for i, r := range day.reports {
			all = append(all, report{v, day.model, r})
			hour := r.step / perHour
			if i+1 < len(day.reports) && day.reports[i+1].step/perHour == hour {
				continue
			}
			if score.truths[hour] == nil {
				score.truths[hour] = make([]float64, score.zones.Count())
			}
			score.truths[hour][score.zones.Of(r.cell)]++
		}
	}
	slices.SortStableFunc(all, func(a, b report) int { return cmp.Compare(a.step, b.step) })
	states := make([]mechanism.State, vehicles)
	for _, r := range all {
		each(r.vehicle, r.model, r.dayReport, &states[r.vehicle])
	}
}

// add takes an hour in.
func (s *dayScore) add(t *testing.T, truth []float64, d aggregate.Density) {
	t.Helper()
	n := 0.0
	for _, of := range truth {
		n += of
	}
	if int(n) != d.Vehicles {
		t.Fatalf("%d vehicles were estimated, %g drove", d.Vehicles, n)
	}
	s.hour.add(truth, &d, n)
	in, all := aggregate.Coverage(d.Fitted, d.Low, d.High, truth)
	s.held, s.counted = s.held+in, s.counted+all
	if s.truth == nil {
		s.truth = make([]float64, len(truth))
		s.whole = aggregate.Density{
			Fitted: make([]float64, len(truth)), Posterior: make([]float64, len(truth)),
			Blind: make([]float64, len(truth)), Naive: make([]float64, len(truth)),
		}
	}
	for z := range truth {
		s.truth[z] += truth[z]
		s.whole.Fitted[z] += d.Fitted[z]
		s.whole.Posterior[z] += d.Posterior[z]
		s.whole.Blind[z] += d.Blind[z]
		s.whole.Naive[z] += d.Naive[z]
	}
}

// finish scores the day, and turns the sums over the hours into means.
func (s *dayScore) finish() {
	s.day.add(s.truth, &s.whole, 1)
	total := 0.0
	for _, n := range s.truth {
		total += n
	}
	h := &s.hour
	for _, v := range []*float64{&h.Fitted, &h.Posterior, &h.Blind, &h.Naive} {
		*v /= total
	}
}
