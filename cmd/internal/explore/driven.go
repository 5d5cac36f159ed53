package explore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

const (
	// slotLength is the length of a slot: a day has 24 of them.
	slotLength = time.Hour
	// mostDays is how many days of the calendar are looked at: twenty of them are working days.
	mostDays    = 28
	workingDays = "mon-fri"
	// zoneKM is about the side of a zone. A map has fewZones where it has as many cells. It has
	// leastZones or more, and else no more than have vehiclesOfZone each, or noise is all that they
	// show, and at most mostZones: a knob draws noise for each zone of each slot of each day.
	zoneKM         = 1
	fewZones       = 64
	leastZones     = 16
	vehiclesOfZone = 10
	mostZones      = 256
)

// Usual is where a fleet usually is at a time of the day: in truth, and as it may be published.
type Usual struct {
	Epsilon   float64 `json:"epsilon"` // for all that a vehicle does on all days
	Days      int     `json:"days"`    // that the calendar has chosen
	Weekdays  string  `json:"weekdays"`
	From      string  `json:"from"` // the first one of the days
	To        string  `json:"to"`   // the last one
	Clock     string  `json:"clock"`
	Simulated bool    `json:"simulated"` // by the sample's model
	Vehicles  number  `json:"vehicles"`  // null without the truth
	PerDay    int     `json:"per_day"`   // in how many windows of a day a vehicle counts at most
	Zones     string  `json:"zones"`     // what zones are, in words
	ZoneKM    float64 `json:"zone_km"`
	// HalfWidth is that of an interval which holds 90 % of the typical day's counts.
	HalfWidth float64 `json:"half_width"`
	// Gain is by how much a map that is worth something is less off than an even one.
	Gain  float64 `json:"gain"`
	Slots []Slot  `json:"slots"` // in the order of the clock
	Off   Off     `json:"off"`   // in all slots

	// The maps are those of one slot. The cells of the fields are zones. Typical and Daily have
	// the estimates of what is published at Epsilon. Truth is secret; null: it is not asked for.
	Truth   *Field `json:"truth"`
	Typical *Field `json:"typical"`
	Daily   *Field `json:"daily"`
}

// Slot is a time of the day, milliseconds since midnight.
type Slot struct {
	StartMS int64 `json:"start_ms"`
	EndMS   int64 `json:"end_ms"`
	Off     Off   `json:"off"`
}

// Off is how far maps are from the truth: the share of the vehicles that they show in a wrong zone
// (total variation). Null: nobody is on the map, or the truth is not asked for.
type Off struct {
	Typical number `json:"typical"`
	Daily   number `json:"daily"` // the mean of daily counts, of which all together cost Epsilon
	Each    number `json:"each"`  // the same, where each day costs Epsilon
	Even    number `json:"even"`  // every zone has as many
}

// driven is what a fleet did on the days of a typical day.
type driven struct {
	Usual        // what all publications have in common
	vehicles int // that report on these days
	plan     *counts.Plan
	zones    *zones
	typical  *counts.Typical
	tallies  [][][]int64 // under the cap, by day, window and zone
	capped   [][]int64   // the sums of tallies, by slot and zone
	seen     [][]int64   // the same without the cap
}

// drive counts what vehicles do on the working days of their busiest four weeks.
func drive(users []User, plan *counts.Plan, g *grid.Grid, o Outline) (*driven, error) {
	d := &driven{plan: plan}
	if err := d.divide(g, o, len(users)); err != nil {
		return nil, err
	}
	dates := map[counts.Date]int{}
	for i := range users {
		for _, fix := range users[i].Fixes {
			if engine.Plausible(fix) == nil {
				dates[plan.At(fix.Timestamp).Day]++
			}
		}
	}
	if len(dates) == 0 {
		return nil, errOther("the traces have no report that can be counted")
	}
	first, last := busiest(dates)
	var weekdays hours.Days
	var err error
	for _, name := range []string{workingDays, ""} { // all days where none is a working day
		if weekdays, err = hours.ParseDays(name); err != nil {
			return nil, err
		}
		if d.typical, err = plan.Typical(first, last+1, weekdays, nil); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	d.Days, d.Weekdays = len(d.typical.Days), weekdays.String()
	d.From, d.To = d.typical.Days[0][0].Day.String(), d.typical.Days[d.Days-1][0].Day.String()
	d.Clock, d.ZoneKM, d.Gain = plan.Zone(), d.zones.sideKM(), countfiles.UsefulGain
	d.count(d.visits(users))
	return d, nil
}

// divide makes zones of the outline's areas, or of squares where these cannot be.
func (d *driven) divide(g *grid.Grid, o Outline, vehicles int) (err error) {
	if areas := o.areas(g); len(areas) > 0 {
		var named *counts.Zones
		if named, err = counts.Polygons(areas); err == nil {
			d.zones = newZones(named, g, nil)
			d.Zones = fmt.Sprintf("Zones are the %d named areas of the outline, and the rest of "+
				"the map.", len(areas))
			return nil
		}
		d.Zones = fmt.Sprintf("The areas of the outline cannot be zones: %s. ", err)
	}
	if d.zones, err = squaresOf(g, sideOf(g.Cells(), g.CellKM(), vehicles)); err != nil {
		return err
	}
	d.Zones += fmt.Sprintf("Zones are %.2f km wide.", d.zones.sideKM())
	return nil
}

// sideOf returns how many cells the side of a zone has on a map, for a number of vehicles.
func sideOf(cells int, cellKM float64, vehicles int) int {
	side := max(1, int(math.Round(zoneKM/cellKM)))
	for side > 1 && cells/(side*side) < fewZones {
		side--
	}
	most := min(max(vehicles/vehiclesOfZone, leastZones), mostZones)
	for cells/(side*side) > most {
		side++
	}
	return side
}

// busiest returns the first and the last day with fixes of those mostDays that have most of them.
func busiest(fixes map[counts.Date]int) (first, last counts.Date) {
	most := 0
	for start := range fixes {
		sum, end := 0, start
		for day := start; day < start+mostDays; day++ {
			if n := fixes[day]; n > 0 {
				sum, end = sum+n, day
			}
		}
		if sum > most || sum == most && start < first {
			most, first, last = sum, start, end
		}
	}
	return first, last
}

// visits returns where each vehicle is first in each window, by day.
func (d *driven) visits(users []User) [][]*counts.Counter {
	places := map[counts.Date]int{}
	for day, windows := range d.typical.Days {
		places[windows[0].Day] = day
	}
	all := make([][]*counts.Counter, d.Days)
	for i := range users {
		own, counted := make([]*counts.Counter, d.Days), 0
		for _, fix := range users[i].Fixes {
			window := d.plan.At(fix.Timestamp)
			day, ok := places[window.Day]
			if !ok || engine.Plausible(fix) != nil {
				continue
			}
			if own[day] == nil {
				own[day], counted = new(counts.Counter), 1
				all[day] = append(all[day], own[day])
			}
			windows := d.typical.Days[day]
			at, _ := counts.Index(windows, window.StartMS)
			own[day].Take(counts.Visit{
				Order:  uint32(fix.Timestamp - windows[0].StartMS),
				Window: uint16(at), Zone: d.zones.Of(fix.Latitude, fix.Longitude),
			}, counts.MaxPerDay)
		}
		d.vehicles += counted
	}
	return all
}

// count chooses the cap that covers the shifts, and counts with and without it.
func (d *driven) count(days [][]*counts.Counter) {
	var shifts countfiles.Shifts
	for day, users := range days {
		for _, own := range users {
			for n, v := range own.Visits() {
				shifts.Add(d.plan.Hour(d.typical.Days[day][v.Window].StartMS), n)
			}
		}
	}
	d.PerDay = shifts.Cover()
	d.seen, d.capped = d.typical.Sums(d.zones.Zones), d.typical.Sums(d.zones.Zones)
	for day, users := range days {
		windows := d.typical.Days[day]
		tally := func(perDay int) [][]int64 {
			return counts.Tally(len(windows), d.zones.Count(),
				func(yield func(*counts.Counter) bool) {
					for _, own := range users {
						var capped counts.Counter
						capped.Merge(own, perDay)
						yield(&capped)
					}
				})
		}
		d.tallies = append(d.tallies, tally(d.PerDay))
		d.typical.Add(d.capped, d.plan, windows, d.tallies[day])
		d.typical.Add(d.seen, d.plan, windows, tally(counts.MaxPerDay))
	}
}

// Simulated vehicles drive on working days: from the same place on each of them, as the model says
// for a part of each hour, and in the second half of a shift back the same way.
const (
	simulatedVehicles = 1000
	simulatedShift    = 10 // hours; it starts at 6 to 10 o'clock
	simulatedMoves    = 15 // in an hour
)

// simulated is a fleet that moves by the sample's model.
func simulated(t *Truth) []User {
	m, rng, users := t.model, rand.New(rand.NewPCG(1, 1)), make([]User, simulatedVehicles)
	hour := time.Hour.Milliseconds()
	midnight := t.users[0].Fixes[0].Timestamp / (24 * hour) * (24 * hour)
	for i := range users {
		users[i].Name = fmt.Sprintf("sim-%04d", i)
		home := m.SampleInitial(rng)
		for day := range int64(mostDays) {
			start := midnight + (24*day+6+int64(i%5))*hour
			if at := time.UnixMilli(start).UTC().Weekday(); at%6 == 0 { // a weekend
				continue
			}
			var way [simulatedShift]grid.Point
			w := trial.WalkerAt(m, rng, home)
			for n := range simulatedShift / 2 {
				way[n], way[simulatedShift-1-n] = w.Place(), w.Place()
				for move := range int64(simulatedMoves) {
					w.Move((start+int64(n)*hour)/m.Step.Milliseconds() + move)
				}
			}
			for n, at := range way {
				lat, lon := m.Grid.ToDegrees(at)
				users[i].Fixes = append(users[i].Fixes, schemas.Raw{
					UserID: users[i].Name, Timestamp: start + int64(n)*hour,
					Latitude: lat, Longitude: lon,
				})
			}
		}
	}
	return users
}
