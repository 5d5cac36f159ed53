package aggregate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// CollectOptions say what is collected.
type CollectOptions struct {
	// WindowSteps is the length of a window in steps of the model. Windows begin at multiples of it since 1970.
	WindowSteps int64
	// Block is the number of cells along a zone's side; 0 means 1.
	Block int
	// Flows says to count flows between the zones of successive windows.
	Flows bool
	// Open is how many windows are open at once: a record that comes when so many later ones have begun has no part in its window any more, but is
	// followed. 0 keeps all open until the end.
	Open int
}

// Collector gathers records into windows. Memory: for each user the posterior, twice (with releases and without), about 10 bytes a cell that has
// probability, and with flows 8 more; for each vehicle of an open window 12 bytes a zone. Time: a record costs the service's own step, and with flows about twice that;
// a vehicle once a window the prediction of its prior through the window. It is for one goroutine.
type Collector struct {
	follower *Follower
	zones    *Zones
	tracer   *tracer // nil without flows
	options  CollectOptions
	model    *mobility.Model
	each     func(*Window) error

	users   map[string]*user
	order   []*user
	windows map[int64]*Window
	latest  int64 // window
	closed  int64 // windows before are closed
	counts  Counts
	whole   int // users whose first record is here

	state     mechanism.State // scratch
	dense     []float64       // scratch, a number a zone
	posterior share
	blind     blindFilter
}

// Counts say what became of records.
type Counts struct {
	Records  int64 `json:"records"`
	Followed int64 `json:"followed"`  // whose posterior is known
	Late     int64 `json:"late"`      // of windows that were closed
	Users    int   `json:"users"`     // seen
	Lost     int   `json:"lost_ever"` // users with a record that could not be followed
}

type user struct {
	Track
	name    string
	window  int64
	pending bool // the window lacks the user yet
	release int32
	lost    bool

	blind     []byte // encoded
	blindStep int64
	blindFrom int64

	marked     []uint16 // ancestors since the mark; empty: none
	markWindow int64
}

// NewCollector calls each for every window, in order, when it is closed. Its error ends the work.
func NewCollector(model *mobility.Model, o mechanism.Options, c CollectOptions, each func(*Window) error) (*Collector, error) {
	if c.WindowSteps < 1 {
		return nil, errors.New("aggregate: a window needs a step at least")
	}
	follower, err := NewFollower(model, o)
	if err != nil {
		return nil, err
	}
	zones, err := NewZones(model.Grid, max(c.Block, 1))
	if err != nil {
		return nil, err
	}
	k := &Collector{
		follower: follower, zones: zones, options: c, model: model, each: each,
		users: map[string]*user{}, windows: map[int64]*Window{}, latest: -1 << 62, closed: -1 << 62,
		dense: make([]float64, zones.Count()), blind: newBlindFilter(model),
	}
	if c.Flows {
		if k.tracer, err = newTracer(model, zones, follower.sanitizer.Options().Prune); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Zones returns the zones.
func (k *Collector) Zones() *Zones { return k.zones }

// MaxGap returns the number of steps after which a user that was lost can be found again.
func (k *Collector) MaxGap() int { return int(k.follower.maxGap) }

// Snap returns the release that a place written in degrees stands for.
func (k *Collector) Snap(p grid.Point) grid.Point { return k.follower.Snap(p) }

// Counts returns what became of the records so far.
func (k *Collector) Counts() Counts {
	c := k.counts
	c.Users = len(k.order)
	for _, u := range k.order {
		if u.lost {
			c.Lost++
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
	known, err := k.follower.Follow(&u.Track, r)
	if err != nil {
		return err
	}
	k.counts.Records++
	if known {
		k.counts.Followed++
	}
	u.lost = u.lost || !known
	k.trace(u, known)
	if !u.pending {
		u.window, u.pending, u.release = window, true, -1
	}
	if r.Kind == mechanism.Released {
		u.release = k.zones.Of(k.model.Grid.CellAt(r.Release))
	}
	if window < k.closed {
		k.counts.Late++
		u.pending = false
		return nil
	}
	if k.windows[window] == nil {
		k.windows[window] = k.newWindow(window)
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

// trace takes the user's ancestors along.
func (k *Collector) trace(u *user, known bool) {
	switch {
	case k.tracer == nil || len(u.marked) == 0:
	case !known || !k.follower.linked:
		u.marked = u.marked[:0]
	default:
		u.marked = k.tracer.advance(u.marked, u.name, &k.follower.before, &k.follower.state)
	}
}

// Finish closes all windows. It is an error if most records do not follow, and not because others are missing.
func (k *Collector) Finish() error {
	if err := k.close(k.latest + 1); err != nil {
		return err
	}
	if k.whole > 0 && k.follower.strays > 0 && 2*k.counts.Followed < k.counts.Records {
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

// settle books a user into the window of the last record.
func (k *Collector) settle(u *user) error {
	u.pending = false
	w := k.windows[u.window]
	if u.release >= 0 {
		w.naive[u.release]++
		w.Released++
	}
	if !u.known {
		w.Lost++
		u.marked = u.marked[:0]
		return nil
	}
	if err := k.state.DecodeBinary(u.state); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	k.zones.gather(&k.posterior, &k.state.Posterior, k.dense)
	blind, err := k.blind.at(u)
	if err != nil {
		return err
	}
	w.add(k.zones, &k.posterior, blind, k.dense)
	if k.tracer == nil {
		return nil
	}
	if len(u.marked) > 0 && u.markWindow == u.window-1 {
		k.tracer.add(w.flows, u.marked, &k.state.Posterior)
		w.Flowing++
	}
	u.marked, u.markWindow = k.tracer.mark(u.marked, &k.state.Posterior), u.window
	return nil
}
