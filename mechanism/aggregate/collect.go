package aggregate

import (
	"errors"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// CollectOptions say what is collected.
type CollectOptions struct {
	// WindowSteps is the length of a window in steps of the model. Windows begin at multiples of it since 1970.
	WindowSteps int64
	// Block is the number of cells along a zone's side; 0 means 1. ZoneKM, if positive, gives the side instead: the whole number of cells nearest to it.
	Block  int
	ZoneKM float64
	// Flows says to count flows between the zones of successive windows, but for users under models of their own.
	Flows bool
	// Open is how many windows are open at once: a record that comes when so many later ones have begun has no part in its window any more, but is
	// followed. 0 keeps all open until the end.
	Open int
	// FromMS and BeforeMS bound the windows that are wanted: those that begin at FromMS or later and end at BeforeMS or earlier, milliseconds since 1970; 0 is
	// no bound. The records of others are followed and no more, on whatever map they are.
	FromMS, BeforeMS int64
}

// Collector gathers records into windows. Memory: for each user the posterior, twice (with releases and without), about 10 bytes a cell that has
// probability, and with flows 8 more; for each vehicle of an open window 12 bytes a zone. Time: a record costs the service's own step, and with flows about twice that;
// a vehicle once a window the prediction of its prior through the window. It is for one goroutine.
type Collector struct {
	follower *Follower
	zones    *Zones // nil before the first record that is wanted
	tracers  map[*version]*tracer
	options  CollectOptions
	stepMS   int64
	each     func(*Window) error

	users   map[string]*user
	order   []*user
	windows map[int64]*Window
	latest  int64 // window
	closed  int64 // windows before are closed
	counts  Counts
	whole   int                // users whose first record is here
	foreign map[string]foreign // models that are not given

	state     mechanism.State // scratch
	dense     []float64       // scratch, a number a zone
	posterior ByZone
	blind     blindFilter
}

// Counts say what became of records.
type Counts struct {
	Records  int64 `json:"records"`
	Followed int64 `json:"followed"`  // whose posterior is known
	Late     int64 `json:"late"`      // of windows that were closed
	Unwanted int64 `json:"unwanted"`  // of windows that are not wanted
	Foreign  int64 `json:"foreign"`   // under models that are not given
	Users    int   `json:"users"`     // seen
	Own      int   `json:"own"`       // users with a record under a model that is not given and that no other user has
	Lost     int   `json:"lost_ever"` // other users with a record that could not be followed
	Personal int   `json:"personal"`  // users followed under models of their own
	Models   int   `json:"models"`    // that are given and that records name
}

type user struct {
	Track
	name     string
	window   int64
	pending  bool // the window lacks the user yet
	release  int32
	lost     bool
	personal bool   // was followed under a model of the user's own
	foreign  string // model of the last record whose model is not given

	blind     []byte // encoded
	blindStep int64
	blindFrom int64
	turns     string // from one model to another since blindFrom, and when

	marked     []uint16 // ancestors since the mark; empty: none
	markWindow int64
}

// NewCollector calls each for every window, in order, when it is closed. Its error ends the work.
func NewCollector(models Models, o mechanism.Options, c CollectOptions, each func(*Window) error) (*Collector, error) {
	if c.WindowSteps < 1 {
		return nil, errors.New("aggregate: a window needs a step at least")
	}
	follower, err := NewFollower(models, o)
	if err != nil {
		return nil, err
	}
	return &Collector{
		follower: follower, options: c, stepMS: models[0].Step.Milliseconds(), each: each,
		tracers: map[*version]*tracer{}, foreign: map[string]foreign{},
		users: map[string]*user{}, windows: map[int64]*Window{}, latest: -1 << 62, closed: -1 << 62,
		blind: newBlindFilter(),
	}, nil
}

// Zones returns the zones: those of the map of the first record that is wanted, nil before it.
func (k *Collector) Zones() *Zones { return k.zones }

// MaxGap returns the number of steps after which a user that was lost can be found again.
func (k *Collector) MaxGap() int { return int(k.follower.maxGap) }

// Grid and Snap are the Follower's.
func (k *Collector) Grid(model string) *grid.Grid { return k.follower.Grid(model) }

// Snap returns the release that a place written in degrees stands for, on the map of a model that is given.
func (k *Collector) Snap(model string, p grid.Point) grid.Point { return k.follower.Snap(model, p) }

// Counts returns what became of the records so far.
func (k *Collector) Counts() Counts {
	c := k.counts
	c.Users = len(k.order)
	for _, u := range k.order {
		if u.personal {
			c.Personal++
		}
		switch {
		case u.foreign != "" && !k.foreign[u.foreign].shared:
			c.Own++
		case u.lost:
			c.Lost++
		}
	}
	for _, v := range k.follower.versions {
		if v.seen {
			c.Models++
		}
	}
	return c
}

// Add takes the next record. Records of a user come in their order; those of different users in any, as far as Open allows.
func (k *Collector) Add(r Record) error {
	window := mobility.StepOf(r.Step, k.options.WindowSteps)
	u := k.users[r.User]
	if u == nil {
		u = &user{name: r.User, window: window}
		k.users[r.User] = u
		k.order = append(k.order, u)
		if r.Number <= 1 {
			k.whole++
		}
	}
	if u.pending && window > u.window {
		if err := k.settle(u); err != nil {
			return err
		}
	}
	wanted := k.wanted(window)
	version, err := k.versionOf(u, r, wanted)
	if err != nil {
		return err
	}
	if u.known && version != nil && version.sameMap(u.version) && (version != u.version || idOf(r.Personal) != idOf(u.own)) {
		if err := k.blind.turn(u); err != nil {
			return err
		}
	}
	known, err := k.follower.Follow(&u.Track, r)
	if err != nil {
		return err
	}
	k.counts.Records++
	if known {
		k.counts.Followed++
	}
	u.lost = u.lost || !known
	u.personal = u.personal || known && r.Personal != nil
	if !wanted {
		k.counts.Unwanted++
		u.marked = u.marked[:0]
		return nil
	}
	if err := k.trace(u, known); err != nil {
		return err
	}
	if !u.pending {
		u.window, u.pending, u.release = window, true, -1
	}
	if r.Kind == mechanism.Released && version != nil {
		u.release = k.zones.Of(version.grid().CellAt(r.Release))
	}
	if k.zones == nil {
		return nil // not one record of a model that is given, up to now
	}
	if window < k.closed {
		k.counts.Late++
		u.pending = false
		return nil
	}
	if k.windows[window] == nil {
		k.windows[window] = k.windowAt(window)
	}
	if window <= k.latest {
		return nil
	}
	k.latest = window
	if k.options.Open > 0 {
		return k.close(window - int64(k.options.Open) + 1)
	}
	return nil
}

// Finish closes all windows. It is an error if no record is of a model that is given, or if most of those that are do not follow, and not because
// others are missing.
func (k *Collector) Finish() error {
	if err := k.close(k.latest + 1); err != nil {
		return err
	}
	given := k.counts.Records - k.counts.Foreign
	if given == 0 && k.counts.Records > 0 {
		return k.noneGiven()
	}
	if k.whole > 0 && k.follower.strays > 0 && 2*k.counts.Followed < given {
		return ErrSettings
	}
	return nil
}

// close closes the windows before one.
func (k *Collector) close(before int64) error {
	if before <= k.closed {
		return nil
	}
	var done []int64
	for w := range k.windows {
		if w < before {
			done = append(done, w)
		}
	}
	slices.Sort(done)
	if len(done) > 0 {
		for _, u := range k.order {
			if u.pending && u.window < before {
				if err := k.settle(u); err != nil {
					return err
				}
			}
		}
	}
	k.closed = before
	for _, w := range done {
		window := k.windows[w]
		delete(k.windows, w)
		if err := k.each(window); err != nil {
			return err
		}
	}
	return nil
}

// windowAt returns a new window by its number.
func (k *Collector) windowAt(number int64) *Window {
	length := k.options.WindowSteps * k.stepMS
	w := NewWindow(k.zones)
	w.StartMS, w.EndMS = number*length, (number+1)*length
	return w
}
