package explore

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

const (
	// maxVehicles and trackLength bound what is kept of records: the last trackLength ones of
	// maxVehicles users take 70 MB (TestPublicMemory). Users beyond that are counted and not shown.
	maxVehicles = 10_000
	trackLength = 60
	// maxWindows bounds how many windows of the fleet are kept, and maxZones how many zones each
	// has: 64 MB.
	maxWindows = 96
	maxZones   = 40_000
	// openWindows is how many windows are open at a time: live partitions are not read in step.
	openWindows = 3
	// resamples bounds the work of a window. Intervals are not shown.
	resamples = 5
)

// Source calls each for every sanitized record, those of a user in their order, until the context
// ends, which is no error. An error of each ends the reading.
type Source func(ctx context.Context, each func(schemas.Sanitized) error) error

// PublicOptions say what the public side follows.
type PublicOptions struct {
	// Topic is the name that the page shows.
	Topic  string
	Source Source
	// Read says what the public knows of the service: its models and its settings. Windows and
	// zones are chosen here. Models of single users are not used.
	Read aggregate.ReadOptions
	// Window is the length of a window; it is rounded up to whole steps of the model.
	Window time.Duration
}

// Public is the side of a sanitized topic. It has nothing but what was published, the public model
// and public settings, so no true fix of the topic's vehicles can be in its answers. A model that
// was trained without differential privacy tells about its traces, and so do its map and its
// estimates (Map.Private). Any number of goroutines may use a Public while one runs it.
type Public struct {
	options PublicOptions
	model   *mobility.Model

	mu       sync.Mutex
	records  int64
	seeded   int64
	lastMS   int64 // the latest time of a record
	more     int64 // records of users who are not kept
	trouble  string
	noFleet  string // why no window is estimated
	vehicles map[string]*track
	windows  []window // oldest first
	start    int      // how often the topic was read from its first record
}

// track is the last records of a user, oldest first.
type track []sighting

// sighting is what the page shows of a record. What is missing is NaN.
type sighting struct {
	timeMS, releases    int64
	number              int64      // of the record among all, from 1
	estimate, release   grid.Point // map kilometres
	radiusKM            float64
	majorKM, minorKM    float64
	azimuthDeg, epsilon float64
	kind, mechanism     unique.Handle[string] // one string for all records that have it
}

// sightingOf returns what is kept of a record.
func sightingOf(g *grid.Grid, r *schemas.Sanitized) sighting {
	orMissing := func(n schemas.Nullable, by float64) float64 {
		if !n.Known {
			return math.NaN()
		}
		return n.Number * by
	}
	s := sighting{
		timeMS: r.Timestamp, releases: r.Release, estimate: g.ToMap(r.Latitude, r.Longitude),
		release:  grid.Point{X: math.NaN(), Y: math.NaN()},
		radiusKM: r.RadiusM / 1000, majorKM: orMissing(r.SigmaMajorM, .001),
		minorKM: orMissing(r.SigmaMinorM, .001), azimuthDeg: orMissing(r.AzimuthDeg, 1),
		epsilon: r.Epsilon, kind: unique.Make(r.Kind), mechanism: unique.Make(r.Mechanism),
	}
	if r.ReleaseLatitude.Known {
		s.release = g.ToMap(r.ReleaseLatitude.Number, r.ReleaseLongitude.Number)
	}
	return s
}

// add adds a record, and drops the oldest of trackLength.
func (t *track) add(s sighting) {
	old := *t
	switch n := len(old); {
	case n == trackLength:
		copy(old, old[1:])
		old[n-1] = s
		return
	case n == cap(old): // a slice that grows by itself would be longer than a track can be
		*t = append(make(track, 0, min(max(1, 2*n), trackLength)), old...)
	}
	*t = append(*t, s)
}

// window is one window of the fleet.
type window struct {
	startMS, endMS int64
	vehicles       int
	zones          *aggregate.Zones
	fitted, blind  []float64
}

// NewPublic returns the public side of a topic, which Run follows.
func NewPublic(o PublicOptions) (*Public, error) {
	if len(o.Read.Models) == 0 {
		return nil, errors.New("the public side needs a public model")
	}
	model := o.Read.Models[0]
	steps := (o.Window + model.Step - 1) / model.Step
	block := int(math.Ceil(math.Sqrt(float64(model.Grid.Cells()) / maxZones)))
	o.Read.Collect = aggregate.CollectOptions{
		WindowSteps: max(1, int64(steps)), Block: max(1, block), Open: openWindows,
	}
	o.Read.Estimate.Resamples = resamples
	p := &Public{options: o, model: model}
	p.clear()
	// What cannot be used is said now, and not when the first record comes.
	_, err := aggregate.NewReader(o.Read, p.window)
	return p, err
}

// clear forgets all records.
func (p *Public) clear() {
	p.records, p.seeded, p.lastMS, p.more, p.noFleet = 0, 0, 0, 0, ""
	p.vehicles, p.windows = map[string]*track{}, nil
	p.start++
}

// Run follows the topic until the context ends. After an error it shows it on the page, and starts
// again from the first record.
func (p *Public) Run(ctx context.Context) {
	const least, most = time.Second, 30 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		err := p.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.trouble = "the topic cannot be read"
		if err != nil {
			p.trouble += ": " + err.Error()
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// follow reads the topic once.
func (p *Public) follow(ctx context.Context) error {
	reader, err := aggregate.NewReader(p.options.Read, p.window)
	if err != nil {
		return err
	}
	begun := false
	return p.options.Source(ctx, func(r schemas.Sanitized) error {
		if !begun { // only now is it sure that the topic can be read again
			p.mu.Lock()
			p.clear()
			p.trouble = ""
			p.mu.Unlock()
			begun = true
		}
		if !p.take(r) || reader == nil {
			return nil
		}
		if err := reader.Add(engine.Published(r, "a record of the topic")); err != nil {
			p.mu.Lock()
			p.noFleet, reader = err.Error(), nil
			p.mu.Unlock()
		}
		return nil
	})
}

// take keeps a record, and says whether its user is one of those that are kept.
func (p *Public) take(r schemas.Sanitized) bool {
	seen := sightingOf(p.model.Grid, &r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records++
	p.lastMS = max(p.lastMS, r.Timestamp)
	if schemas.HasNote(r.Mechanism, schemas.Seeded) {
		p.seeded++
	}
	t := p.vehicles[r.UserID]
	if t == nil {
		if len(p.vehicles) == maxVehicles {
			p.more++
			return false
		}
		t = new(track)
		p.vehicles[strings.Clone(r.UserID)] = t // not what it was decoded from
	}
	seen.number = p.records
	t.add(seen)
	return true
}

// window keeps a window that was closed.
func (p *Public) window(w *aggregate.Window, d aggregate.Density) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.windows) == maxWindows {
		p.windows = slices.Delete(p.windows, 0, 1)
	}
	zones, err := aggregate.NewZones(p.model.Grid, p.options.Read.Collect.Block)
	p.windows = append(p.windows, window{
		startMS: w.StartMS, endMS: w.EndMS, vehicles: d.Vehicles, zones: zones,
		fitted: d.Fitted, blind: d.Blind,
	})
	return err
}

// Live is what a topic has told so far.
type Live struct {
	Topic   string `json:"topic"`
	Trouble string `json:"trouble"`  // why nothing comes; empty if all is well
	NoFleet string `json:"no_fleet"` // why no window is estimated; empty if some can be
	Records int64  `json:"records"`
	Seeded  int64  `json:"seeded"` // of them, with noise from a seed: not private
	LastMS  int64  `json:"last_ms"`
	More    int64  `json:"more"` // records of users beyond those that are kept
	Users   int    `json:"users"`
	// Start is how often the topic was read from its first record, which happens after trouble.
	Start int `json:"start"`

	// Vehicles have the last record of each user who has one since what was asked for.
	Vehicles Vehicles `json:"vehicles"`
	Windows  []Span   `json:"windows"` // oldest first
}

// Span is a window of the fleet.
type Span struct {
	StartMS  int64 `json:"start_ms"`
	EndMS    int64 `json:"end_ms"`
	Vehicles int   `json:"vehicles"`
}

// Vehicles are records, column by column: the last one of each user, or those of one user.
type Vehicles struct {
	User       []string  `json:"user"`
	TimeMS     []int64   `json:"time_ms"`
	Kind       []string  `json:"kind"`
	EstimateX  []float64 `json:"estimate_x"` // map kilometres
	EstimateY  []float64 `json:"estimate_y"`
	RadiusKM   []float64 `json:"radius_km"`
	MajorKM    []number  `json:"major_km"` // 1σ; null where the record has no ellipse
	MinorKM    []number  `json:"minor_km"`
	AzimuthDeg []number  `json:"azimuth_deg"`
	ReleaseX   []number  `json:"release_x"` // null where the record has none
	ReleaseY   []number  `json:"release_y"`
	Epsilon    []float64 `json:"epsilon"` // that the record cost
	Releases   []int64   `json:"releases"`
	Mechanism  []string  `json:"mechanism"`
}

func (v *Vehicles) add(user string, s *sighting) {
	v.User, v.TimeMS = append(v.User, user), append(v.TimeMS, s.timeMS)
	v.Kind = append(v.Kind, s.kind.Value())
	v.EstimateX = append(v.EstimateX, s.estimate.X)
	v.EstimateY = append(v.EstimateY, s.estimate.Y)
	v.RadiusKM = append(v.RadiusKM, s.radiusKM)
	v.MajorKM = append(v.MajorKM, number(s.majorKM))
	v.MinorKM = append(v.MinorKM, number(s.minorKM))
	v.AzimuthDeg = append(v.AzimuthDeg, number(s.azimuthDeg))
	v.ReleaseX = append(v.ReleaseX, number(s.release.X))
	v.ReleaseY = append(v.ReleaseY, number(s.release.Y))
	v.Epsilon, v.Releases = append(v.Epsilon, s.epsilon), append(v.Releases, s.releases)
	v.Mechanism = append(v.Mechanism, s.mechanism.Value())
}

// live returns what the topic has told so far. Of the users it has those with a record after the
// first ones of so many, if the topic was not read again since a start.
func (p *Public) live(start int, since int64) Live {
	l, last := p.copied(start, since)
	return l.with(last)
}

// latest is the last record of a user.
type latest struct {
	user string
	sighting
}

// copied copies what the topic has told so far, and the last records of users in no order. The
// reader of the topic waits meanwhile, so all else is done later.
func (p *Public) copied(start int, since int64) (Live, []latest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := Live{
		Topic: p.options.Topic, Trouble: p.trouble, NoFleet: p.noFleet, Records: p.records,
		Seeded: p.seeded, LastMS: p.lastMS, More: p.more, Users: len(p.vehicles),
		Start: p.start, Windows: make([]Span, 0, len(p.windows)),
	}
	for _, w := range p.windows {
		l.Windows = append(l.Windows, Span{w.startMS, w.endMS, w.vehicles})
	}
	if start != p.start {
		since = 0
	}
	var last []latest
	for user, t := range p.vehicles {
		if s := (*t)[len(*t)-1]; s.number > since {
			last = append(last, latest{user, s})
		}
	}
	return l, last
}

// with returns l with the last records, by user.
func (l Live) with(last []latest) Live {
	// A column without any number is a list too.
	l.Vehicles = Vehicles{
		User: []string{}, TimeMS: []int64{}, Kind: []string{}, EstimateX: []float64{},
		EstimateY: []float64{}, RadiusKM: []float64{}, MajorKM: []number{}, MinorKM: []number{},
		AzimuthDeg: []number{}, ReleaseX: []number{}, ReleaseY: []number{}, Epsilon: []float64{},
		Releases: []int64{}, Mechanism: []string{},
	}
	slices.SortFunc(last, func(a, b latest) int { return strings.Compare(a.user, b.user) })
	for i := range last {
		l.Vehicles.add(last[i].user, &last[i].sighting)
	}
	return l
}

// trackOf returns the last records of a user.
func (p *Public) trackOf(user string) (*Vehicles, error) {
	p.mu.Lock()
	t := p.vehicles[user]
	var seen track
	if t != nil {
		seen = slices.Clone(*t)
	}
	p.mu.Unlock()
	if t == nil {
		return nil, errOther("the topic has no record of such a user")
	}
	v := new(Vehicles)
	for i := range seen {
		v.add(user, &seen[i])
	}
	return v, nil
}

// Fleet is where the fleet was in a window, from sanitized records alone: the vehicles to be
// expected in each zone. The cells of the fields are zones.
type Fleet struct {
	Span
	ZoneKM float64 `json:"zone_km"`
	Fitted *Field  `json:"fitted"` // from the records: aggregate.Density.Fitted
	Blind  *Field  `json:"blind"`  // by the model alone
}

// fleet returns the window that starts at a time.
func (p *Public) fleet(startMS int64) (*Fleet, error) {
	p.mu.Lock()
	// A window does not change any more once it is kept, so it is sent without the lock.
	windows := slices.Clone(p.windows)
	p.mu.Unlock()
	for _, w := range windows {
		if w.startMS == startMS {
			most := slices.Max(slices.Concat(w.fitted, w.blind))
			return &Fleet{
				Span: Span{w.startMS, w.endMS, w.vehicles}, ZoneKM: w.zones.SideKM(),
				Fitted: fieldOfZones(w.zones, w.fitted, most),
				Blind:  fieldOfZones(w.zones, w.blind, most),
			}, nil
		}
	}
	return nil, errOther("no window of the fleet starts at that time")
}
