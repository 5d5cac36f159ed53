package explore

import (
	"context"
	"math"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

const (
	// crowdWindow is the length of a window of the fleet.
	crowdWindow = 15 * time.Minute
	// crowdWork bounds the fixes of all users times the cells of the map, and crowdZones the
	// windows of all users times the zones: 60 MB.
	crowdWork  = 200_000_000
	crowdZones = 5_000_000
	keptCrowds = 2
	// crowdZoneKM is about the side of a zone: in a zone of one cell a fleet has a vehicle or none,
	// and an estimate of that errs nearly always. fewZones are what a map keeps where it has them.
	crowdZoneKM = 1
	fewZones    = 64
)

// crowd is where all users of the traces were, window by window: in truth, and as an analyst
// estimates it who has their sanitized records alone.
type crowd struct {
	settings Settings
	zones    *aggregate.Zones
	windows  []crowdOf
}

// crowdOf is one window. Numbers are vehicles by zone.
type crowdOf struct {
	window
	truth []float64
}

// Crowds are the windows of all users of the traces under some settings.
type Crowds struct {
	Settings Settings    `json:"settings"`
	Windows  []CrowdSpan `json:"windows"` // oldest first
}

// CrowdSpan is a window, and how far two estimates are from the truth: the share of the vehicles
// that would have to be elsewhere (total variation).
type CrowdSpan struct {
	Span
	FittedOff float64 `json:"fitted_off"`
	BlindOff  float64 `json:"blind_off"`
}

// Crowd is one window. The cells of the fields are zones. Fitted and Blind follow from sanitized
// records and the public model alone; Truth is secret.
type Crowd struct {
	CrowdSpan
	ZoneKM float64 `json:"zone_km"`
	Fitted *Field  `json:"fitted"`
	Blind  *Field  `json:"blind"`
	Truth  *Field  `json:"truth"`
}

// crowdsOf are the fleets under some settings. The holder of its turn computes one.
type crowdsOf struct {
	turn
	truth *Truth
	kept  shelf[Settings, *crowd]
}

func newCrowdsOf(truth *Truth) *crowdsOf {
	return &crowdsOf{make(turn, 1), truth, shelf[Settings, *crowd]{least: keptCrowds}}
}

// rowsDone is 0: crowdZones bounds the room that a fleet takes.
func (*crowd) rowsDone() int64 { return 0 }

// crowds returns the windows under settings, kept ones if there are some.
func (k *crowdsOf) crowds(ctx context.Context, s Settings) (*crowd, error) {
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer k.leave()
	return k.kept.get(s, func() (*crowd, int, error) {
		model, err := k.truth.modelOf(s.CellM)
		if err != nil {
			return nil, 0, err
		}
		c, err := k.released(ctx, s, model)
		return c, model.Grid.Cells(), err
	})
}

// collecting returns how the records of all users are collected, or an error for the person at the
// page if they are too many.
func (k *crowdsOf) collecting(m *mobility.Model) (aggregate.CollectOptions, error) {
	o := aggregate.CollectOptions{
		WindowSteps: max(1, int64((crowdWindow+m.Step-1)/m.Step)),
		Block:       max(1, int(math.Round(crowdZoneKM/m.Grid.CellKM()))),
	}
	for o.Block > 1 && m.Grid.Cells()/(o.Block*o.Block) < fewZones {
		o.Block--
	}
	fixes, windows := 0, 0
	for i := range k.truth.users {
		last := int64(math.MinInt64)
		for _, fix := range k.truth.users[i].Fixes {
			if n := m.StepAt(fix.Timestamp) / o.WindowSteps; n != last {
				windows, last = windows+1, n
			}
		}
		fixes += len(k.truth.users[i].Fixes)
	}
	if fixes*m.Grid.Cells() > crowdWork {
		return o, errOther("these are too many traces on too large a map for a page: " +
			"\"geodither sanitize\" and then \"geodither aggregate\" estimate such a fleet")
	}
	most := max(fewZones, min(maxZones, crowdZones/max(1, windows)))
	for m.Grid.Cells()/(o.Block*o.Block) > most {
		o.Block++
	}
	return o, nil
}

// released releases all users, and estimates the windows from what is published.
func (k *crowdsOf) released(ctx context.Context, s Settings, m *mobility.Model) (*crowd, error) {
	c := &crowd{settings: s}
	collect, err := k.collecting(m)
	if err != nil {
		return nil, err
	}
	if c.zones, err = aggregate.NewZones(m.Grid, collect.Block); err != nil {
		return nil, err
	}
	truth := map[int64][]float64{} // by the beginning of a window
	read := aggregate.ReadOptions{
		Models: aggregate.Models{m}, Release: s.options(m.Step), Collect: collect,
	}
	read.Estimate.Resamples = resamples
	reader, err := aggregate.NewReader(read, func(w *aggregate.Window, d aggregate.Density) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.windows = append(c.windows, crowdOf{window{
			startMS: w.StartMS, endMS: w.EndMS, vehicles: d.Vehicles, zones: c.zones,
			fitted: d.Fitted, blind: d.Blind,
		}, truth[w.StartMS]})
		return nil
	})
	if err != nil {
		return nil, errOther(err.Error())
	}
	defer reader.Close()
	for i := range k.truth.users {
		last, err := k.published(ctx, s, &k.truth.users[i], collect.WindowSteps, reader.Add)
		if err != nil {
			return nil, err
		}
		// A vehicle counts where it last reported, as it does in the estimate.
		for start, cell := range last {
			if truth[start] == nil {
				truth[start] = make([]float64, c.zones.Count())
			}
			truth[start][c.zones.Of(cell)]++
		}
	}
	_, err = reader.Finish()
	if gone := ctx.Err(); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, errOther("where this fleet was cannot be estimated: " + err.Error())
	}
	return c, nil
}

// published releases a user, and returns in which cell each window's last record was really made,
// by the beginning of the window, which has a number of steps.
func (k *crowdsOf) published(
	ctx context.Context, s Settings, u *User, wide int64, each func(aggregate.Published) error,
) (map[int64]grid.Cell, error) {
	run, m, err := k.truth.run(s)
	if err != nil {
		return nil, err
	}
	last := map[int64]grid.Cell{}
	for _, fix := range u.Fixes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step, err := run.Next(fix)
		if err != nil {
			return nil, err
		}
		if step.Refused != "" || !step.Outcome.Kind.Published() {
			continue
		}
		if err := each(engine.Published(step.Record, "a record")); err != nil {
			return nil, err
		}
		start := m.StepAt(fix.Timestamp) / wide * wide * m.Step.Milliseconds()
		last[start] = m.Grid.Locate(fix.Latitude, fix.Longitude)
	}
	return last, nil
}

// span says how far the estimates of a window are off.
func (w *crowdOf) span() CrowdSpan {
	return CrowdSpan{
		Span:      Span{w.startMS, w.endMS, w.vehicles},
		FittedOff: aggregate.Variation(w.fitted, w.truth),
		BlindOff:  aggregate.Variation(w.blind, w.truth),
	}
}

// spans are all windows.
func (c *crowd) spans() *Crowds {
	all := &Crowds{Settings: c.settings, Windows: []CrowdSpan{}}
	for i := range c.windows {
		all.Windows = append(all.Windows, c.windows[i].span())
	}
	return all
}

// at returns the window that starts at a time.
func (c *crowd) at(startMS int64) (*Crowd, error) {
	for i := range c.windows {
		if w := &c.windows[i]; w.startMS == startMS {
			return &Crowd{
				CrowdSpan: w.span(), ZoneKM: c.zones.SideKM(),
				Fitted: fieldOfZones(c.zones, w.fitted), Blind: fieldOfZones(c.zones, w.blind),
				Truth: fieldOfZones(c.zones, w.truth),
			}, nil
		}
	}
	return nil, errOther("no window of the fleet starts at that time")
}
