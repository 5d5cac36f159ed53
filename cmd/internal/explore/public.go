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
	"github.com/geodither/geodither/mechanism/follow"
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
	// has: 32 MB.
	maxWindows = 96
	maxZones   = 40_000
	// openWindows is how many windows are open at a time: live partitions are not read in step.
	openWindows = 3
)

// Source calls each for every sanitized record, those of a user in their order, until the context
// ends, which is no error. An error of each ends the reading.
type Source func(ctx context.Context, each func(schemas.Sanitized) error) error

// PublicOptions say what the public side follows.
type PublicOptions struct {
	// Topic is the name that the page shows.
	Topic  string
	Source Source
	// Known is what the public knows of the service: its models and its settings.
	Known follow.Public
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
	sums    follow.SumOptions
	zones   *zones

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
	*follow.Window
	zones *zones
}

// span says which window it is.
func (w window) span() Span { return Span{w.StartMS, w.EndMS, w.Vehicles} }

// NewPublic returns the public side of a topic, which Run follows.
func NewPublic(o PublicOptions) (*Public, error) {
	if len(o.Known.Models) == 0 {
		return nil, errors.New("the public side needs a public model")
	}
	model := o.Known.Models[0]
	steps := (o.Window + model.Step - 1) / model.Step
	block := int(math.Ceil(math.Sqrt(float64(model.Grid.Cells()) / maxZones)))
	zones, err := squaresOf(model.Grid, max(1, block))
	if err != nil {
		return nil, err
	}
	p := &Public{options: o, model: model, zones: zones, sums: follow.SumOptions{
		Public: o.Known, WindowSteps: max(1, int64(steps)), Zones: zones.Count(),
		ZoneOf: zones.Of, Open: openWindows,
	}}
	p.clear()
	// What cannot be used is said now, and not when the first record comes.
	_, err = follow.NewSums(p.sums, p.window)
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
	sums, err := follow.NewSums(p.sums, p.window)
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
		if !p.take(r) || sums == nil {
			return nil
		}
		if err := sums.Add(engine.Published(r, "a record of the topic")); err != nil {
			p.mu.Lock()
			p.noFleet, sums = err.Error(), nil
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
func (p *Public) window(w *follow.Window) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.windows) == maxWindows {
		p.windows = slices.Delete(p.windows, 0, 1)
	}
	p.windows = append(p.windows, window{w, p.zones})
	return nil
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
		l.Windows = append(l.Windows, w.span())
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

// Fleet is where the fleet was in a window, from sanitized records alone: the sum of the vehicles'
// posteriors in each zone. The cells of the field are zones.
type Fleet struct {
	Span
	ZoneKM    float64 `json:"zone_km"`
	Posterior *Field  `json:"posterior"`
}

// fleet returns the window that starts at a time.
func (p *Public) fleet(startMS int64) (*Fleet, error) {
	p.mu.Lock()
	// A window does not change any more once it is kept, so it is sent without the lock.
	windows := slices.Clone(p.windows)
	p.mu.Unlock()
	for _, w := range windows {
		if w.StartMS == startMS {
			return &Fleet{
				Span: w.span(), ZoneKM: w.zones.sideKM(),
				Posterior: fieldOfZones(w.zones, w.Posterior, 0),
			}, nil
		}
	}
	return nil, errOther("no window of the fleet starts at that time")
}
