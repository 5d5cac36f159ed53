package aggregate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// CollectOptions say what is collected.
type CollectOptions struct {
	// WindowSteps is the length of a window in steps of the model. Windows start at multiples of it
	// since 1970.
	WindowSteps int64
	// Block is the number of cells along a zone's side; 0 means 1. ZoneKM, if positive, gives the
	// side instead: the whole number of cells nearest to it.
	Block  int
	ZoneKM float64
	// Flows says to count flows between the zones of successive windows. Users under models of
	// their own have no part in them.
	Flows bool
	// Open is how many windows are open at once, 0 for all until the end. The record of a window
	// that is closed is followed, but has no part in the window.
	Open int
	// FromMS and BeforeMS bound the windows that are wanted: those that start at FromMS or later
	// and end at BeforeMS or earlier, milliseconds since 1970; 0 is no bound. Records of other
	// windows are followed and no more, on whatever map they are.
	FromMS, BeforeMS int64
}

// Collector gathers records into windows. It is for one goroutine.
//
// Memory: for each user the posterior, twice (with releases and without), about 10 bytes a cell
// that has probability, and with flows 8 more; for each vehicle of an open window 12 bytes a zone.
// Time: a record costs the service's own step, with flows about twice that; a vehicle costs once a
// window the prediction of its prior through the window.
type Collector struct {
	follower *Follower
	zones    *Zones // nil before the first record that is wanted
	tracers  map[*filter]*tracer
	options  CollectOptions
	stepMS   int64
	each     func(*Window) error

	users   map[string]*user
	order   []*user
	windows map[int64]*Window // open ones, by number
	latest  int64             // number of the latest window
	closed  int64             // windows before this one are closed
	counts  Counts
	whole   int                // users whose first record is here
	foreign map[string]foreign // models that are not given

	state     mechanism.State // scratch
	dense     []float64       // scratch, a number a zone
	posterior ByZone          // scratch
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
	Own      int   `json:"own"`       // users alone with a record under a model that is not given
	Lost     int   `json:"lost_ever"` // other users with a record that could not be followed
	Personal int   `json:"personal"`  // users followed under models of their own
	Models   int   `json:"models"`    // that are given and that records name
	// Wanted counts the records of windows that are wanted alone.
	Wanted struct{ Records, Followed, Foreign int64 } `json:"wanted"`
}

// user is what a Collector keeps of a user. The window that waits is that of the user's last
// record: a vehicle counts where it last reported, so it is added when a later record comes or the
// window is closed.
type user struct {
	Track
	name    string
	waits   bool   // a window waits for the user
	window  int64  // its number
	release int32  // zone of the last release in it, -1 for none
	ever    ever   // what has happened to the user at any time
	foreign string // model of the last record whose model is not given

	alone     []byte // encoded: where the model alone has the user, as of aloneStep
	aloneStep int64
	aloneFrom int64  // the Track's origin at that time
	turns     string // from one model to another since aloneFrom, and when

	marked     []uint16 // ancestors since the mark; empty: none
	markWindow int64
}

// ever is what has happened to a user at any time.
type ever struct{ lost, personal bool }

var errWindow = errors.New("aggregate: a window needs at least one step")

// NewCollector returns a Collector that calls each for every window, in order, when the window is
// closed. An error of each ends the work.
func NewCollector(models Models, o mechanism.Options, c CollectOptions,
	each func(*Window) error,
) (*Collector, error) {
	if c.WindowSteps < 1 {
		return nil, errWindow
	}
	follower, err := NewFollower(models, o)
	if err != nil {
		return nil, err
	}
	return &Collector{
		follower: follower, options: c, stepMS: models[0].Step.Milliseconds(), each: each,
		tracers: map[*filter]*tracer{}, foreign: map[string]foreign{},
		users: map[string]*user{}, windows: map[int64]*Window{}, latest: -1 << 62, closed: -1 << 62,
		blind: newBlindFilter(),
	}, nil
}

// Zones returns the zones of the map of the first record that is wanted, nil before it.
func (k *Collector) Zones() *Zones { return k.zones }

// MaxGap returns the number of steps after which a user that was lost can be found again, under
// whichever of the models.
func (k *Collector) MaxGap() int {
	longest := uint64(0)
	for _, v := range k.follower.filters {
		longest = max(longest, v.longest)
	}
	return int(longest)
}

// last returns where a user stands.
func (k *Collector) last(name string) mobility.LastStep {
	u := k.users[name]
	if u == nil || u.filter == nil {
		return mobility.LastStep{}
	}
	return mobility.LastStep{Known: true, Step: u.last, GridID: u.filter.grid().ID()}
}

// Counts returns what became of the records so far.
func (k *Collector) Counts() Counts {
	c := k.counts
	c.Users = len(k.order)
	for _, u := range k.order {
		if u.ever.personal {
			c.Personal++
		}
		switch {
		case u.foreign != "" && !k.foreign[u.foreign].shared:
			c.Own++
		case u.ever.lost:
			c.Lost++
		}
	}
	for _, v := range k.follower.filters {
		if v.seen {
			c.Models++
		}
	}
	return c
}

// Add takes the next record. Records of a user come in their order; those of different users in
// any, as far as Open allows.
func (k *Collector) Add(r Record) error {
	window := mobility.StepOf(r.Step, k.options.WindowSteps)
	u := k.userOf(r)
	if u.waits && window > u.window {
		if err := k.count(u); err != nil {
			return err
		}
	}
	wanted := k.wanted(window)
	filter, err := k.filterOf(u, r, wanted)
	if err != nil {
		return err
	}
	if err := k.follow(u, filter, r, wanted); err != nil {
		return err
	}
	if !wanted {
		k.counts.Unwanted++
		u.marked = u.marked[:0]
		return nil
	}
	if err := k.trace(u); err != nil {
		return err
	}
	if !u.waits {
		u.window, u.waits, u.release = window, true, -1
	}
	if r.Kind == mechanism.Released && filter != nil {
		u.release = k.zones.Of(filter.grid().CellAt(r.Release))
	}
	if window < k.closed {
		k.counts.Late++
		u.waits = false
		return nil
	}
	return k.open(window)
}

// userOf returns the user of a record, a new one with the first record.
func (k *Collector) userOf(r Record) *user {
	u := k.users[r.User]
	if u == nil {
		u = &user{name: r.User}
		k.users[r.User] = u
		k.order = append(k.order, u)
		if r.Number <= 1 {
			k.whole++
		}
	}
	return u
}

// follow takes the user's filter on to a record.
func (k *Collector) follow(u *user, v *filter, r Record, wanted bool) error {
	if v != nil && u.known() && u.changeTo(v, r.Personal) == sameMap {
		if err := k.blind.turn(u); err != nil {
			return err
		}
	}
	if v != nil && u.known() && r.Step > u.last {
		if err := k.blind.bridge(u, v, r.Personal, r.Step); err != nil {
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
		u.ever.personal = u.ever.personal || r.Personal != nil
	} else {
		u.ever.lost = true
	}
	if !wanted {
		return nil
	}
	k.counts.Wanted.Records++
	if known {
		k.counts.Wanted.Followed++
	}
	if v == nil {
		k.counts.Wanted.Foreign++
	}
	return nil
}

// open makes a window unless it is there, without zones before the first record of a model that is
// given. A later one than all before closes those that were open longest.
func (k *Collector) open(window int64) error {
	if k.windows[window] == nil {
		length := k.options.WindowSteps * k.stepMS
		w := &Window{flows: map[pair]*flow{}}
		w.StartMS, w.EndMS = window*length, (window+1)*length
		if k.zones != nil {
			w.divide(k.zones)
		}
		k.windows[window] = w
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

// count adds a user to the window that waits for the user.
func (k *Collector) count(u *user) error {
	u.waits = false
	w := k.windows[u.window]
	if w == nil {
		return nil // it was closed
	}
	if u.release >= 0 {
		w.AddRelease(u.release)
	}
	if !u.known() {
		w.Lost++
		u.marked = u.marked[:0]
		return nil
	}
	if err := k.state.DecodeBinary(u.state); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	k.zones.Gather(&k.posterior, &k.state.Posterior, k.dense)
	blind, err := k.blind.at(u)
	if err != nil {
		return err
	}
	w.AddVehicle(u.name, &k.posterior, blind, k.dense)
	if !k.options.Flows || u.own != nil {
		return nil // ancestors are drawn by the public model's rows
	}
	t, err := k.tracer(u.filter)
	if err != nil {
		return err
	}
	if len(u.marked) > 0 && u.markWindow == u.window-1 {
		t.add(w.flows, u.marked, &k.state.Posterior)
		w.Flowing++
	}
	u.marked, u.markWindow = t.mark(u.marked, &k.state.Posterior), u.window
	return nil
}

// trace takes the user's ancestors along with the filter's last step.
func (k *Collector) trace(u *user) error {
	if len(u.marked) == 0 {
		return nil
	}
	if !k.follower.linked || u.own != nil {
		u.marked = u.marked[:0]
		return nil
	}
	t, err := k.tracer(u.filter)
	if err != nil {
		return err
	}
	before, after := &k.follower.before, &k.follower.state
	if after.Step > before.Step+1 && u.filter.byLaw {
		u.marked = t.bridge(u.marked, u.name, before, after)
		return nil
	}
	u.marked = t.advance(u.marked, u.name, before, after)
	return nil
}

// tracer returns the tracer of a model of the zones' map.
func (k *Collector) tracer(v *filter) (*tracer, error) {
	t := k.tracers[v]
	if t == nil {
		var err error
		if t, err = newTracer(v.model, k.zones, k.follower.options.Prune); err != nil {
			return nil, err
		}
		k.tracers[v] = t
	}
	return t, nil
}

// Finish closes all windows. It fails with ErrModel if no record is of a model that is given, and
// with ErrSettings if most of those that are do not follow though no record before them is missing.
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
			if u.waits && u.window < before {
				if err := k.count(u); err != nil {
					return err
				}
			}
		}
	}
	k.closed = before
	for _, w := range done {
		window := k.windows[w]
		delete(k.windows, w)
		if window.zones == nil {
			continue // no record of a model that is given
		}
		if err := k.each(window); err != nil {
			return err
		}
	}
	return nil
}
