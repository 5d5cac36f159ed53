package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

const (
	// crowdWindow is the length of a window of the fleet.
	crowdWindow = 15 * time.Minute
	// crowdWork bounds the fixes of all users times the cells of the map, which take a minute of a
	// core, and crowdZones the windows of all users times the zones: 60 MB.
	crowdWork  = 1_000_000_000
	crowdZones = 5_000_000
	keptCrowds = 4
	// crowdZoneKM is about the side of a zone: in a zone of one cell a fleet has a vehicle or none,
	// and an estimate of that errs nearly always. fewZones are what a map keeps where it has them.
	crowdZoneKM = 1
	fewZones    = 64
	// Eight buses are no fleet, so the sample's fleet is simulated by its model: so many vehicles
	// in windows that lie so far apart. Each vehicle reports once in a window. The gap starts its
	// filter again, so a page need not predict 1000 vehicles through all steps.
	simulated        = 1000
	simulatedWindows = 4
	simulatedApart   = 6 * time.Hour
	// mostPerDay is in how many windows of a day a vehicle counts at most.
	mostPerDay = 24
)

// crowd is where all vehicles were, window by window: in truth, as the trusted side may publish it
// under an ε of a day, and by the sum of their posteriors. Truth and counts are there at once. The
// records are made by and by, as far as somebody asked for. The holder of its turn may use it.
type crowd struct {
	Crowds
	growing
	model   *mobility.Model
	engines [batch]*engine.Engine // one for each vehicle of a batch
	zones   *zones
	users   []User
	steps   int64         // of a window
	index   map[int64]int // of windows, by their start
	windows []crowdOf
	made    float64 // Σε of the records that are made, of all vehicles
}

// crowdOf is one window. Numbers are vehicles by zone; posterior is of those whose records are
// made, nil without one.
type crowdOf struct {
	Span
	truth, counted, posterior []float64
}

// Crowds are the windows of all vehicles under some settings.
type Crowds struct {
	Settings  Settings    `json:"settings"`
	Simulated bool        `json:"simulated"` // by the sample's model
	Windows   []CrowdSpan `json:"windows"`   // oldest first
	// Done of Total parts of the vehicles have their records made.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Spent is the mean Σε of a vehicle's records in all windows. The counts of a day cost
	// Settings.Epsilon, where a vehicle counts in at most PerDay windows; HalfWidth is that of an
	// interval that holds 90 % of them.
	Spent     number `json:"spent"`
	PerDay    int    `json:"per_day"`
	HalfWidth int64  `json:"half_width"`
	// NoEstimate is why nothing is estimated from records; empty if it is. Zones says what zones
	// are, in words.
	NoEstimate string `json:"no_estimate"`
	Zones      string `json:"zones"`
}

// CrowdSpan is a window, and how far the counts and the sum of posteriors are from the truth: the
// share of the vehicles that would have to be elsewhere (total variation). Null: nothing is
// estimated, or not all records are made.
type CrowdSpan struct {
	Span
	CountedOff   number `json:"counted_off"`
	PosteriorOff number `json:"posterior_off"`
}

// Crowd is one window. The cells of the fields are zones. Posterior follows from sanitized records
// and the public model alone, Counted is the "estimate" of the counts that the trusted side may
// publish; Truth is secret. All three have a vehicle where it reported first in the window.
type Crowd struct {
	CrowdSpan
	ZoneKM    float64 `json:"zone_km"`
	Counted   *Field  `json:"counted"`
	Posterior *Field  `json:"posterior"`
	Truth     *Field  `json:"truth"`
}

// crowdsOf are the fleets under some settings.
type crowdsOf struct {
	kept    shelf[Settings, *crowd]
	truth   *Truth
	outline Outline
	users   func() []User // of a fleet
}

func newCrowds(truth *Truth, o Outline) *crowdsOf {
	k := &crowdsOf{
		kept: shelf[Settings, *crowd]{least: keptCrowds}, truth: truth, outline: o,
	}
	k.users = sync.OnceValue(k.vehicles)
	return k
}

// crowd returns the windows under settings, kept ones if there are some.
func (k *crowdsOf) crowd(s Settings) (*crowd, error) {
	return k.kept.get(s, func() (*crowd, int, error) {
		c, err := k.begin(s)
		return c, k.truth.model.Grid.Cells(), err
	})
}

// vehicles are those of a fleet.
func (k *crowdsOf) vehicles() []User {
	if !k.truth.sample {
		return k.truth.users
	}
	m := k.truth.model
	users := make([]User, simulated)
	apart := simulatedApart.Milliseconds()
	start := k.truth.users[0].Fixes[0].Timestamp / (24 * 3600 * 1000) * (24 * 3600 * 1000)
	f, step := fleet.New(m, simulated, 1), m.Step.Milliseconds()
	steps := crowdWindow.Milliseconds() / step
	for n := range simulatedWindows * steps {
		i := int64(0)
		f.Step(start+n/steps*apart+n%steps*step, func(fix schemas.Raw) bool {
			if (n+i)%steps == 0 {
				users[i].Name = fix.UserID
				users[i].Fixes = append(users[i].Fixes, fix)
			}
			i++
			return true
		})
	}
	return users
}

// dividing returns the steps of a window and the cells along the side of a zone, and why the
// records of users are too many to add up where they are, if they are.
func dividing(users []User, m *mobility.Model) (steps int64, block int, many string) {
	steps = max(1, int64((crowdWindow+m.Step-1)/m.Step))
	block = max(1, int(math.Round(crowdZoneKM/m.Grid.CellKM())))
	for block > 1 && m.Grid.Cells()/(block*block) < fewZones {
		block--
	}
	fixes, windows := 0, 0
	for i := range users {
		last := int64(math.MinInt64)
		for _, fix := range users[i].Fixes {
			if n := m.StepAt(fix.Timestamp) / steps; n != last {
				windows, last = windows+1, n
			}
		}
		fixes += len(users[i].Fixes)
	}
	if fixes*m.Grid.Cells() > crowdWork {
		many = "These are too many records on too large a map for a page: \"geodither sanitize\" " +
			"and then \"geodither aggregate\" add up such a fleet. Truth and counts are there."
	}
	most := max(fewZones, min(maxZones, crowdZones/max(1, windows)))
	for m.Grid.Cells()/(block*block) > most {
		block++
	}
	return steps, block, many
}

// begin counts where all vehicles are. Their records are still to be made.
func (k *crowdsOf) begin(s Settings) (*crowd, error) {
	m := k.truth.model
	c := &crowd{
		Crowds: Crowds{
			Settings: s, Simulated: k.truth.sample, Spent: number(math.NaN()),
		},
		growing: newGrowing(), model: m, users: k.users(), index: map[int64]int{},
	}
	for i := range c.engines {
		var err error
		if c.engines[i], err = engine.New(k.truth.settings(s)); err != nil {
			return nil, errOther(err.Error()) // the settings do not fit the map
		}
	}
	var block int
	c.steps, block, c.NoEstimate = dividing(c.users, m)
	if c.NoEstimate == "" {
		c.Total = (len(c.users) + batch - 1) / batch
	}
	if err := c.divide(m.Grid, k.outline, block); err != nil {
		return nil, err
	}
	first := make([]map[int64]grid.Cell, len(c.users))
	for i := range c.users {
		first[i] = c.seen(&c.users[i])
	}
	return c, c.count(first)
}

// start is when the window of a fix starts, in milliseconds since 1970.
func (c *crowd) start(fix schemas.Raw) int64 {
	return c.model.StepAt(fix.Timestamp) / c.steps * c.steps * c.model.Step.Milliseconds()
}

// seen returns in which cell a user's first fix of each window lies, by the start of the window. A
// vehicle counts there, as it does in the command counts.
func (c *crowd) seen(u *User) map[int64]grid.Cell {
	first, g := map[int64]grid.Cell{}, c.model.Grid
	for _, fix := range u.Fixes {
		start := c.start(fix)
		_, known := first[start]
		if !known && engine.Plausible(fix) == nil && !engine.PlaceOn(g, fix).Far {
			first[start] = g.Locate(fix.Latitude, fix.Longitude)
		}
	}
	return first
}

// batch is the number of vehicles whose records are made at once.
const batch = 2

// next makes the records of some more vehicles.
func (c *crowd) next(ctx context.Context) error {
	users := c.users[c.Done*batch : min((c.Done+1)*batch, len(c.users))]
	believed, spent, errs := [batch]map[int][]float64{}, [batch]float64{}, [batch]error{}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() { believed[i], spent[i], errs[i] = c.records(ctx, c.engines[i], &users[i]) })
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for i := range users {
		c.made += spent[i]
		for at, zones := range believed[i] {
			w := &c.windows[at]
			if w.posterior == nil {
				w.posterior = make([]float64, len(zones))
			}
			for zone, p := range zones {
				w.posterior[zone] += p
			}
		}
	}
	return nil
}

// records makes the records of a user, and returns the posterior after the first one of each
// window, by zone, and their Σε. Anybody who has the records computes the same posterior.
func (c *crowd) records(
	ctx context.Context, e *engine.Engine, u *User,
) (believed map[int][]float64, spent float64, err error) {
	var state mechanism.State
	believed = map[int][]float64{}
	for _, fix := range u.Fixes {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if engine.Plausible(fix) != nil {
			continue
		}
		out, err := e.Sanitize(fix, &state)
		if _, refused := errors.AsType[*schemas.Rejection](err); err != nil && !refused {
			return nil, 0, err
		}
		at, known := c.index[c.start(fix)]
		if !known || believed[at] != nil || err != nil || !out.Outcome.Kind.Published() {
			continue
		}
		posterior, total := &state.Posterior, state.Posterior.Total()
		zones := make([]float64, c.zones.Count())
		for i, cell := range posterior.Cells {
			zones[c.zones.cells[cell]] += posterior.P[i] / total
		}
		believed[at] = zones
	}
	return believed, state.EpsilonSpent, nil
}

// divide makes zones of the outline's areas, or of squares where these cannot be.
func (c *crowd) divide(g *grid.Grid, o Outline, block int) (err error) {
	if areas := o.areas(g); len(areas) > 0 {
		var named *counts.Zones
		if named, err = counts.Polygons(areas); err == nil {
			c.zones = newZones(named, g, nil)
			c.Zones = fmt.Sprintf("Zones are the %d named areas of the outline, and the rest of "+
				"the map.", len(areas))
			return nil
		}
		c.Zones = fmt.Sprintf("The areas of the outline cannot be zones: %s. ", err)
	}
	if c.zones, err = squaresOf(g, block); err != nil {
		return err
	}
	c.Zones += fmt.Sprintf("Zones are %.2f km wide.", c.zones.sideKM())
	return nil
}

const dayMS = 24 * 3600 * 1000

// capped counts each vehicle in its first PerDay windows of a day.
func (c *crowd) capped(first []map[int64]grid.Cell, windowMS int64) map[int64][]int64 {
	counted := map[int64][]int64{}
	for _, cells := range first {
		var own counts.Counter
		day := int64(math.MinInt64)
		for _, start := range slices.Sorted(maps.Keys(cells)) {
			if counted[start] == nil {
				counted[start] = make([]int64, c.zones.Count())
			}
			if start/dayMS != day {
				own, day = counts.Counter{}, start/dayMS
			}
			zone := c.zones.cells[cells[start]]
			if own.Next(uint16(start%dayMS/windowMS), zone, c.PerDay) {
				counted[start][zone]++
			}
		}
	}
	return counted
}

// count fills in the truth of all windows, and what may be published of it under an ε of a day.
func (c *crowd) count(first []map[int64]grid.Cell) error {
	windowMS := c.steps * c.model.Step.Milliseconds()
	truth := map[int64][]float64{}
	vehicles, perDay := map[int64]int{}, map[int64]int{}
	for _, cells := range first {
		for start, cell := range cells {
			vehicles[start]++
			if truth[start] == nil {
				truth[start] = make([]float64, c.zones.Count())
				perDay[start/dayMS]++
				c.PerDay = min(max(c.PerDay, perDay[start/dayMS]), mostPerDay)
			}
			truth[start][c.zones.cells[cell]]++
		}
	}
	counted := c.capped(first, windowMS)
	publisher, err := counts.NewPublisher(noise.NewKeyed(noise.KeyFromSeed(c.Settings.Seed)),
		c.zones.Zones, counts.Settings{
			Source: "page", Edition: 1, Epsilon: c.Settings.Epsilon, PerDay: max(1, c.PerDay),
		})
	if err != nil {
		return errOther(err.Error())
	}
	c.HalfWidth = publisher.HalfWidth()
	for _, start := range slices.Sorted(maps.Keys(truth)) {
		w := crowdOf{Span: Span{start, start + windowMS, vehicles[start]}, truth: truth[start]}
		p, err := publisher.Publish(counts.Window{
			StartMS: w.StartMS, EndMS: w.EndMS, Day: counts.Date(start / dayMS),
		}, counted[start], nil)
		if err != nil {
			return err
		}
		w.counted = p.Estimates
		c.index[start] = len(c.windows)
		c.windows = append(c.windows, w)
	}
	return nil
}

// off is how far an estimate is from the truth; NaN: there is none.
func (c *crowd) off(truth, estimate []float64) number {
	if estimate == nil {
		return number(math.NaN())
	}
	n := len(truth)
	if c.zones.squares != nil {
		n-- // elsewhere, where nobody is
	}
	return number(counts.Variation(estimate[:n], truth[:n]))
}

// span says how far the estimates of a window are off.
func (c *crowd) span(w *crowdOf) CrowdSpan {
	span := CrowdSpan{w.Span, c.off(w.truth, w.counted), number(math.NaN())}
	if c.Done == c.Total {
		span.PosteriorOff = c.off(w.truth, w.posterior)
	}
	return span
}

// part returns all windows, after the records of more vehicles are made: those of all, or with a
// time as many as that allows.
func (c *crowd) part(ctx context.Context, within time.Duration) (part *Crowds, err error) {
	err = c.grow(ctx, &c.Done, c.Total, within, c.next, func() {
		all := c.Crowds
		if c.Done == c.Total && c.Total > 0 {
			all.Spent = number(c.made / float64(len(c.users)))
		}
		all.Windows = []CrowdSpan{}
		for i := range c.windows {
			all.Windows = append(all.Windows, c.span(&c.windows[i]))
		}
		part = &all
	})
	return part, err
}

// at returns the window that starts at a time, with the records that are made.
func (c *crowd) at(ctx context.Context, startMS int64) (*Crowd, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	i, known := c.index[startMS]
	if !known {
		return nil, errOther("no window of the fleet starts at that time")
	}
	w := &c.windows[i]
	most := slices.Max(slices.Concat(w.truth, w.counted, w.posterior))
	field := func(numbers []float64) *Field { return fieldOfZones(c.zones, numbers, most) }
	return &Crowd{
		CrowdSpan: c.span(w), ZoneKM: c.zones.sideKM(), Posterior: field(w.posterior),
		Truth: field(w.truth), Counted: field(w.counted),
	}, nil
}
