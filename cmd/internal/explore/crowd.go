package explore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

const (
	// crowdWindow is the length of a window of the fleet.
	crowdWindow = 15 * time.Minute
	// crowdWork bounds the fixes of all users times the cells of the map, and crowdZones the
	// windows of all users times the zones: 60 MB.
	crowdWork  = 40_000_000
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
// under an ε of a day, and as an analyst estimates it who has sanitized records alone.
type crowd struct {
	Crowds
	zones   *zones
	windows []crowdOf
}

// crowdOf is one window. Numbers are vehicles by zone.
type crowdOf struct {
	window
	truth, counted []float64
}

// Crowds are the windows of all vehicles under some settings.
type Crowds struct {
	Settings  Settings    `json:"settings"`
	Simulated bool        `json:"simulated"` // by the sample's model
	Windows   []CrowdSpan `json:"windows"`   // oldest first
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
// estimated.
type CrowdSpan struct {
	Span
	CountedOff   number `json:"counted_off"`
	PosteriorOff number `json:"posterior_off"`
}

// Crowd is one window. The cells of the fields are zones. Posterior follows from sanitized records
// and the public model alone, Counted is the "estimate" of the counts that the trusted side may
// publish; Truth is secret.
type Crowd struct {
	CrowdSpan
	ZoneKM    float64 `json:"zone_km"`
	Counted   *Field  `json:"counted"`
	Posterior *Field  `json:"posterior"`
	Truth     *Field  `json:"truth"`
}

// computing keeps answers that are computed on a model, one at a time.
type computing[Q comparable, A answer] struct {
	turn
	truth *Truth
	kept  shelf[Q, A]
}

func newComputing[Q comparable, A answer](truth *Truth, most int) computing[Q, A] {
	return computing[Q, A]{make(turn, 1), truth, shelf[Q, A]{least: most}}
}

// get returns what is kept for a question, or else computes it.
func (k *computing[Q, A]) get(
	ctx context.Context, question Q, compute func(*mobility.Model) (A, error),
) (a A, err error) {
	if err := k.take(ctx); err != nil {
		return a, err
	}
	defer k.leave()
	return k.kept.get(question, func() (a A, cells int, err error) {
		a, err = compute(k.truth.model)
		return a, k.truth.model.Grid.Cells(), err
	})
}

// crowdsOf are the fleets under some settings. The holder of its turn computes one.
type crowdsOf struct {
	computing[fleetOf, *crowd]
	outline Outline
}

// fleetOf is what a question about a fleet names.
type fleetOf struct {
	Settings
	quick bool // nothing is estimated
}

// rowsDone is 0: crowdZones bounds the room that a fleet takes.
func (*crowd) rowsDone() int64 { return 0 }

// crowds returns the windows under settings, kept ones if there are some.
func (k *crowdsOf) crowds(ctx context.Context, s Settings, quick bool) (*crowd, error) {
	return k.get(ctx, fleetOf{s, quick}, func(m *mobility.Model) (*crowd, error) {
		return k.released(ctx, s, m, quick)
	})
}

// users returns the vehicles of a fleet.
func (k *crowdsOf) users(m *mobility.Model) []User {
	if !k.truth.sample {
		return k.truth.users
	}
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

// released releases all users, and estimates the windows from what is published, unless it has to
// be quick.
func (k *crowdsOf) released(
	ctx context.Context, s Settings, m *mobility.Model, quick bool,
) (*crowd, error) {
	users := k.users(m)
	steps, block, many := dividing(users, m)
	if quick && many == "" {
		many = "The records are being made and read."
	}
	c := &crowd{Crowds: Crowds{
		Settings: s, Simulated: k.truth.sample, NoEstimate: many, Spent: number(math.NaN()),
	}}
	if err := c.divide(m.Grid, k.outline, block); err != nil {
		return nil, err
	}
	sums, err := follow.NewSums(follow.SumOptions{
		Public:      follow.Public{Models: follow.Models{m}, Release: s.options(m.Step)},
		WindowSteps: steps, Zones: c.zones.Count(), ZoneOf: c.zones.Of,
	}, func(w *follow.Window) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.windows = append(c.windows, crowdOf{window: window{w, c.zones}})
		return nil
	})
	if err != nil {
		return nil, errOther(err.Error())
	}
	defer sums.Close()
	// A vehicle counts where it reported first in a window, as it does in the command counts.
	first, spent := make([]map[int64]grid.Cell, len(users)), 0.
	for i := range users {
		each := sums.Add
		if many != "" {
			each = nil
		}
		cells, own, err := k.published(ctx, s, &users[i], steps, each)
		if err != nil {
			return nil, err
		}
		first[i], spent = cells, spent+own/float64(len(users))
	}
	if many == "" {
		c.Spent = number(spent)
		err = sums.Finish()
	}
	if gone := ctx.Err(); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, errOther("where this fleet was cannot be estimated: " + err.Error())
	}
	return c, c.count(first, steps*m.Step.Milliseconds())
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

// published releases a user, and returns in which cell each window's first record was really made,
// by the beginning of the window, which has a number of steps, and the Σε of the records. Without
// each it releases nothing, and takes all fixes.
func (k *crowdsOf) published(
	ctx context.Context, s Settings, u *User, wide int64, each func(follow.Published) error,
) (first map[int64]grid.Cell, spent float64, err error) {
	run, err := k.truth.run(s)
	if err != nil {
		return nil, 0, err
	}
	m := k.truth.model
	first = map[int64]grid.Cell{}
	for _, fix := range u.Fixes {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if each != nil {
			step, err := run.Next(fix)
			if err != nil {
				return nil, 0, err
			}
			if step.Refused != "" || !step.Outcome.Kind.Published() {
				continue
			}
			if err := each(engine.Published(step.Record, "a record")); err != nil {
				return nil, 0, err
			}
		} else if engine.Plausible(fix) != nil {
			continue
		}
		start := m.StepAt(fix.Timestamp) / wide * wide * m.Step.Milliseconds()
		if _, known := first[start]; !known {
			first[start] = m.Grid.Locate(fix.Latitude, fix.Longitude)
		}
	}
	return first, run.State().EpsilonSpent, nil
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
func (c *crowd) count(first []map[int64]grid.Cell, windowMS int64) error {
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
			Source: "page", Edition: 1, Epsilon: c.Settings.Epsilon, PerDay: c.PerDay,
		})
	if err != nil {
		return errOther(err.Error())
	}
	c.HalfWidth = publisher.HalfWidth()
	if c.NoEstimate != "" {
		for _, start := range slices.Sorted(maps.Keys(truth)) {
			c.windows = append(c.windows, crowdOf{window: window{&follow.Window{
				StartMS: start, EndMS: start + windowMS, Vehicles: vehicles[start],
			}, c.zones}})
		}
	}
	for i := range c.windows {
		w := &c.windows[i]
		day := counts.Date(w.StartMS / dayMS)
		p, err := publisher.Publish(counts.Window{StartMS: w.StartMS, EndMS: w.EndMS, Day: day},
			counted[w.StartMS], nil)
		if err != nil {
			return err
		}
		w.truth, w.counted = truth[w.StartMS], p.Estimates
	}
	return nil
}

// off is how far an estimate is from the truth; NaN: there is none.
func (w *crowdOf) off(estimate []float64) number {
	if estimate == nil {
		return number(math.NaN())
	}
	n := len(w.truth)
	if w.zones.squares != nil {
		n-- // elsewhere, where nobody is
	}
	return number(counts.Variation(estimate[:n], w.truth[:n]))
}

// span says how far the estimates of a window are off.
func (w *crowdOf) offs() CrowdSpan {
	return CrowdSpan{
		Span:       w.span(),
		CountedOff: w.off(w.counted), PosteriorOff: w.off(w.Posterior),
	}
}

// spans are all windows.
func (c *crowd) spans() *Crowds {
	all := c.Crowds
	all.Windows = []CrowdSpan{}
	for i := range c.windows {
		all.Windows = append(all.Windows, c.windows[i].offs())
	}
	return &all
}

// at returns the window that starts at a time.
func (c *crowd) at(startMS int64) (*Crowd, error) {
	for i := range c.windows {
		if w := &c.windows[i]; w.StartMS == startMS {
			most := slices.Max(slices.Concat(w.truth, w.counted, w.Posterior))
			field := func(numbers []float64) *Field {
				return fieldOfZones(c.zones, numbers, most)
			}
			return &Crowd{
				CrowdSpan: w.offs(), ZoneKM: c.zones.sideKM(), Posterior: field(w.Posterior),
				Truth: field(w.truth), Counted: field(w.counted),
			}, nil
		}
	}
	return nil, errOther("no window of the fleet starts at that time")
}
