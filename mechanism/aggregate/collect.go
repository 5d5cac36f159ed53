package aggregate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
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
	// Areas, if there are any, are the zones instead of blocks, and the rest of the map one more.
	Areas []Area
	// LagSteps, if it is not 0, is the lag of mechanism.NewSmoother: a vehicle counts where all its
	// records up to its first release at or after that many steps have it. Records more than the
	// lag and one release interval after the vehicle's last one in the window do not count.
	LagSteps int64
	// Open is how many windows are open at once, 0 for all until the end, and more with LagSteps.
	// The record of a window that is closed is followed, but has no part in the window. A vehicle
	// whose release has not come when the window closes counts by the records that have.
	Open int
	// FromMS and BeforeMS bound the windows that are wanted: those that start at FromMS or later
	// and end at BeforeMS or earlier, milliseconds since 1970; 0 is no bound. Records of other
	// windows are followed and no more, on whatever map they are.
	FromMS, BeforeMS int64
	// Workers is the number of goroutines that follow users, one if it is less. No result depends
	// on it. With several of them Add also returns errors of earlier records, as a PlaceError.
	Workers int
}

// Collector gathers records into windows. Its methods belong to one goroutine.
//
// Memory: for each user the posterior that the service keeps, about 5 bytes a cell that has
// probability; two distributions that are not pruned, with releases and
// without, about 10 bytes together for each cell within the user's reach, soon the whole map; and
// half a kilobyte. The length of a user's history adds nothing. For each vehicle of an open window
// 12 bytes a zone. With LagSteps for each that waits 24 bytes a cell, and for each of its releases
// since then, up to mechanism.MaxBlock, 8 bytes a cell of the map: a bit under Codebook. With
// several workers up to 262,144 records more, 250 bytes each.
//
// Time: a record costs the service's own step and a prediction; a vehicle costs once a window the
// prediction of its prior through the window. With LagSteps each step behind a window that waits
// costs a prediction of the whole map, also the steps of a gap between reports.
type Collector struct {
	follower *Follower
	zones    *Zones // nil before the first record that is wanted
	options  CollectOptions
	stepMS   int64
	each     func(*Window) error
	prepare  func(*Window) // before each, several windows side by side; nil: nothing

	hands []*hand
	tasks *parallel.Keyed[task] // nil with one worker, and until a record has agreed
	do    func(worker int, t *task)
	taken int64 // number of the last record that is done, with all before it

	users   map[string]*user
	order   []*user
	windows map[int64]*Window // open ones, by number
	latest  int64             // number of the latest window
	closed  int64             // windows before this one are closed
	counts  Counts
	whole   int    // users whose first record is here
	foreign string // a model that is not given
}

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
	k := &Collector{
		follower: follower, options: c, stepMS: models[0].Step.Milliseconds(), each: each,
		users: map[string]*user{}, windows: map[int64]*Window{},
		latest: -1 << 62, closed: -1 << 62,
	}
	if c.Open > 0 && c.LagSteps != 0 {
		k.options.Open = c.openWith(follower.options.ReleaseInterval)
	}
	k.hands = []*hand{newHand(follower, newExactFilter(), &c)}
	k.do = func(worker int, t *task) { k.hands[worker].do(t) }
	return k, nil
}

// openWith returns how many windows are open while vehicles wait for a release, which an interval
// of steps separates.
func (c *CollectOptions) openWith(interval int) int {
	if c.LagSteps < 0 {
		return 0
	}
	return c.Open + int((c.wait(interval)+c.WindowSteps-1)/c.WindowSteps)
}

// wait returns for how many steps a vehicle waits for later records after its last one in a window.
func (c *CollectOptions) wait(interval int) int64 {
	if c.LagSteps < 0 {
		return math.MaxInt64
	}
	return c.LagSteps + int64(max(interval, 1))
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

// Counts returns what became of the records so far; with several workers, after Finish or Close.
func (k *Collector) Counts() Counts {
	c := k.counts
	for _, h := range k.hands {
		c.Records += h.counts.Records
		c.Followed += h.counts.Followed
		c.Wanted.Records += h.counts.Wanted.Records
		c.Wanted.Followed += h.counts.Wanted.Followed
	}
	c.Users = len(k.order)
	for _, u := range k.order {
		if u.lostEver {
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
// any, as far as Open allows. After an error there is nothing left to do but Close.
func (k *Collector) Add(r Record) error {
	window := mobility.StepOf(r.Step, k.options.WindowSteps)
	u := k.userOf(r)
	t := task{record: r, user: u, wanted: k.wanted(window)}
	if u.waits != nil && window > u.window {
		t.before, u.waits = u.waits, nil
	}
	var err error
	if t.filter, err = k.filterOf(r, t.wanted); err != nil {
		return k.after(err)
	}
	if !t.wanted {
		k.counts.Unwanted++
		return k.submit(t)
	}
	t.first = u.waits == nil
	if window < k.closed {
		k.counts.Late++
		u.waits = nil
		return k.submit(t)
	}
	u.waits, u.window = k.windowOf(window), window
	if err := k.submit(t); err != nil {
		return err
	}
	return k.advance(window)
}

// userOf returns the user of a record, a new one with the first record.
func (k *Collector) userOf(r Record) *user {
	u := k.users[r.User]
	if u == nil {
		u = &user{name: r.User}
		k.users[r.User] = u
		k.order = append(k.order, u)
		if releasesBefore(r) == 0 {
			k.whole++
		}
	}
	return u
}

// windowOf returns a window, a new one with its first record: without zones before the first record
// of a model that is given.
func (k *Collector) windowOf(number int64) *Window {
	w := k.windows[number]
	if w == nil {
		length := k.options.WindowSteps * k.stepMS
		w = &Window{}
		w.StartMS, w.EndMS = number*length, (number+1)*length
		if k.zones != nil {
			w.divide(k.zones)
		}
		k.windows[number] = w
	}
	return w
}

// advance closes the windows that were open longest, if this one is later than all before.
func (k *Collector) advance(window int64) error {
	if window <= k.latest {
		return nil
	}
	k.latest = window
	if k.options.Open > 0 {
		return k.close(window - int64(k.options.Open) + 1)
	}
	return nil
}

// submit does a task, or has a worker do it. Until a record has agreed one goroutine works, because
// whether the settings are wrong depends on which record is the first one that follows.
func (k *Collector) submit(t task) error {
	if k.tasks == nil && k.options.Workers > 1 && k.follower.agreed {
		if err := k.start(); err != nil {
			return err
		}
	}
	if k.tasks == nil {
		k.do(0, &t)
		k.taken = t.record.Place.Number
		return t.err
	}
	return k.tasks.Add(t.user.name, t)
}

// start starts the workers.
func (k *Collector) start() error {
	for range k.options.Workers - 1 {
		follower, err := k.follower.fork()
		if err != nil {
			return err
		}
		h := newHand(follower, k.hands[0].exact.fork(), &k.options)
		h.zones = k.zones
		k.hands = append(k.hands, h)
	}
	k.tasks = parallel.NewKeyed(len(k.hands), aheadTasks, k.do, func(t *task) error {
		k.taken = t.record.Place.Number
		if t.err != nil {
			return &PlaceError{t.record.Place, t.err}
		}
		return nil
	})
	return nil
}

// flush waits until all records that were taken in are done.
func (k *Collector) flush() error {
	if k.tasks == nil {
		return nil
	}
	return k.tasks.Flush()
}

// after returns an error of this goroutine's, unless a record that was taken in before has one.
func (k *Collector) after(err error) error {
	if earlier := k.flush(); earlier != nil {
		return earlier
	}
	return err
}

// Close ends the workers. It may be called twice.
func (k *Collector) Close() {
	if k.tasks != nil {
		k.tasks.Close()
	}
}

// countAll counts the users for whom a window before one waits, or who wait for later records in
// one. All records are done.
func (k *Collector) countAll(before int64) error {
	var waiting []*user
	for _, u := range k.order {
		if u.waits != nil && u.window < before || k.waitsIn(u, before) > 0 {
			waiting = append(waiting, u)
		}
	}
	return parallel.Pool{Workers: len(k.hands)}.Do(len(waiting),
		func(worker int) func(*parallel.Task) error {
			h := k.hands[worker]
			return func(t *parallel.Task) error {
				u := waiting[t.Number]
				if w := u.waits; w != nil && u.window < before {
					u.waits = nil
					if err := h.count(u, w); err != nil {
						return err
					}
				}
				h.finishUntil(u, k.waitsIn(u, before))
				return nil
			}
		})
}

// waitsIn returns in how many windows before one a user waits for later records.
func (k *Collector) waitsIn(u *user, before int64) (n int) {
	start := before * k.options.WindowSteps * k.stepMS
	for n < len(u.smoothed) && u.smoothed[n].window.StartMS < start {
		n++
	}
	return n
}

// Finish closes all windows, and the Collector. It fails with ErrModel if no record is of a model
// that is given, and with ErrSettings if most of those that are do not follow though no record
// before them is missing.
func (k *Collector) Finish() error {
	defer k.Close()
	if err := k.flush(); err != nil {
		return err
	}
	if err := k.close(k.latest + 1); err != nil {
		return err
	}
	counts := k.Counts()
	given := counts.Records - counts.Foreign
	if given == 0 && counts.Records > 0 {
		return fmt.Errorf("%w: no record was made under a model that is given; others name %.16s",
			ErrModel, k.foreign)
	}
	strays := 0
	for _, h := range k.hands {
		strays += h.follower.strays
	}
	if k.whole > 0 && strays > 0 && 2*counts.Followed < given {
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
		if err := k.flush(); err != nil {
			return err
		}
		if err := k.countAll(before); err != nil {
			return err
		}
	}
	k.closed = before
	var closed []*Window
	for _, number := range done {
		if w := k.windows[number]; w.zones != nil { // it has a record of a model that is given
			closed = append(closed, w)
		}
		delete(k.windows, number)
	}
	return parallel.Ordered(k.prepared(closed), k.each)
}

// prepared yields windows, each with the task that prepares it.
func (k *Collector) prepared(windows []*Window) iter.Seq2[func() (*Window, error), error] {
	return func(yield func(func() (*Window, error), error) bool) {
		for _, w := range windows {
			prepare := func() (*Window, error) {
				if k.prepare != nil {
					k.prepare(w)
				}
				return w, nil
			}
			if !yield(prepare, nil) {
				return
			}
		}
	}
}

var (
	// ErrModel is what Add returns for a public model that is not given, and Finish where no record
	// is of one that is.
	ErrModel = errors.New("a model is missing")
	// ErrMaps is what Add returns where records of windows that are wanted lie on two maps: zones
	// are parts of one.
	ErrMaps = errors.New("aggregate: the records lie on more than one map")
)

// wanted says whether a window is.
func (k *Collector) wanted(window int64) bool {
	length := k.options.WindowSteps * k.stepMS
	return (k.options.FromMS == 0 || window*length >= k.options.FromMS) &&
		(k.options.BeforeMS == 0 || (window+1)*length <= k.options.BeforeMS)
}

// filterOf returns the filter of a record's model, nil if the model is not given. To leave its
// users out would make the fleet another one without a word, so a window that is wanted must not
// have them.
func (k *Collector) filterOf(r Record, wanted bool) (*filter, error) {
	v := k.follower.filters[r.Model]
	if v == nil {
		k.counts.Foreign++
		k.foreign = r.Model
		if wanted {
			return nil, fmt.Errorf("%w: records were made under the model %.16s, which is not "+
				"among those given", ErrModel, r.Model)
		}
		return nil, nil //nolint:nilnil // such a record is left out, which is no error
	}
	v.seen = true
	if !wanted {
		return v, nil
	}
	if k.zones == nil {
		if err := k.flush(); err != nil {
			return nil, err
		}
		return v, k.divide(v)
	}
	if v.grid().ID() != k.zones.grid.ID() {
		return nil, fmt.Errorf("%w: that of the model %.16s, in the window from %s, is not that "+
			"of the records before", ErrMaps, r.Model, k.startOf(r.Step))
	}
	return v, nil
}

// startOf writes when a step's window starts.
func (k *Collector) startOf(step int64) string {
	length := k.options.WindowSteps * k.stepMS
	ms := step * k.stepMS
	return time.UnixMilli(ms - ((ms%length)+length)%length).UTC().Format(time.RFC3339)
}

// divide makes the zones of a model's map.
func (k *Collector) divide(v *filter) error {
	block := max(k.options.Block, 1)
	if k.options.ZoneKM > 0 {
		block = BlockOf(v.grid(), k.options.ZoneKM)
	}
	var err error
	if len(k.options.Areas) > 0 {
		k.zones, err = NewNamedZones(v.grid(), k.options.Areas)
	} else {
		k.zones, err = NewZones(v.grid(), block)
	}
	if err != nil {
		return err
	}
	for _, w := range k.windows {
		w.divide(k.zones)
	}
	for _, h := range k.hands {
		h.zones = k.zones
	}
	return err
}
