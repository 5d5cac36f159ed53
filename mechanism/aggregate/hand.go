package aggregate

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// PlaceError is the error of a record that was taken in earlier.
type PlaceError struct {
	Place Place
	cause error
}

// Error is the cause's: the caller that shows it names the place too.
func (e *PlaceError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *PlaceError) Unwrap() error { return e.cause }

// task is what is left to do for a record once it is known what that means for windows and for
// other users: work on its user alone. Those of one user are done in their order.
type task struct {
	record Record
	user   *user
	filter *filter // of the record's model; nil: it is not given
	wanted bool
	first  bool // no window waits for the user before this record
	// before is the window in which the user counts before this record; nil: none.
	before *Window
	err    error
}

// aheadTasks bounds how many records are taken in and not done. It is many because files often hold
// one user after another.
const aheadTasks = 1 << 18

// Counts say what became of records.
type Counts struct {
	Records  int64 `json:"records"`
	Followed int64 `json:"followed"`  // whose posterior is known
	Late     int64 `json:"late"`      // of windows that were closed
	Unwanted int64 `json:"unwanted"`  // of windows that are not wanted
	Foreign  int64 `json:"foreign"`   // under models that are not given
	Users    int   `json:"users"`     // seen
	Lost     int   `json:"lost_ever"` // users with a record that could not be followed
	Models   int   `json:"models"`    // that are given and that records name
	// Wanted counts the records of windows that are wanted alone.
	Wanted struct{ Records, Followed int64 } `json:"wanted"`
}

// hand is what one goroutine takes users on with.
type hand struct {
	follower *Follower
	exact    exactFilter
	zones    *Zones // nil before the first record that is wanted
	counts   Counts // of its records

	smoother *mechanism.Smoother // nil: vehicles count where they were by the records up to then
	wait     int64               // CollectOptions.wait

	dense     []float64 // scratch, a number a zone
	posterior ByZone    // scratch
}

// newHand returns a hand that smooths if there is a lag.
func newHand(follower *Follower, exact exactFilter, c *CollectOptions) *hand {
	h := &hand{follower: follower, exact: exact}
	if c.LagSteps != 0 {
		h.smoother = mechanism.NewExactSmoother(follower.options, c.LagSteps)
		h.wait = c.wait(follower.options.ReleaseInterval)
	}
	return h
}

// do does a task.
func (h *hand) do(t *task) {
	if t.before != nil {
		if t.err = h.count(t.user, t.before); t.err != nil {
			return
		}
	}
	u := t.user
	if t.err = h.follow(u, t.filter, t.record, t.wanted); t.err != nil {
		return
	}
	if !t.wanted {
		return
	}
	if t.first {
		u.release = -1
	}
	if t.record.Kind == mechanism.Released && t.filter != nil {
		u.release = h.zones.Of(t.filter.grid().CellAt(t.record.Release))
	}
}

// follow takes the user's filter on to a record.
func (h *hand) follow(u *user, v *filter, r Record, wanted bool) error {
	if v != nil && u.known() {
		if err := h.exact.leave(u, v, r); err != nil {
			return err
		}
	}
	starts := u.starts
	known, err := h.follower.Follow(&u.Track, r)
	if err != nil {
		return err
	}
	h.counts.Records++
	if known {
		h.counts.Followed++
		if u.starts != starts {
			h.exact.arrive(u)
		}
		h.expire(u, r.Step)
		if len(u.smoothed) > 0 {
			seen := mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release}
			f := h.follower
			h.smoother.Note(&u.block, f.of(v), &f.state, seen, f.linked, h.place(u))
		}
		if r.Kind == mechanism.Released {
			if err := h.exact.learn(u, h.follower.of(v).Emission(), r.Release); err != nil {
				return err
			}
		}
	} else {
		u.lostEver = true
		u.told.encoded = nil
		h.finish(u)
	}
	if !wanted {
		return nil
	}
	h.counts.Wanted.Records++
	if known {
		h.counts.Wanted.Followed++
	}
	return nil
}

// count adds a user to a window that waits for the user.
func (h *hand) count(u *user, w *Window) error {
	if u.release >= 0 || !u.known() {
		w.mu.Lock()
		if u.release >= 0 {
			w.AddRelease(u.release)
		}
		if !u.known() {
			w.Lost++
		}
		w.mu.Unlock()
	}
	if !u.known() {
		return nil
	}
	told, err := h.exact.told(u)
	if err != nil {
		return err
	}
	blind, err := h.exact.alone(u)
	if err != nil {
		return err
	}
	if h.smoother != nil {
		moment := u.block.Ask(u.filter.model, u.last, told)
		u.smoothed = append(u.smoothed, smoothedCount{w, blind, moment, u.last})
		return nil
	}
	h.add(w, u, told, blind)
	return nil
}

// place returns what counts a user's vehicle where a moment that closes has it.
func (h *hand) place(u *user) func(mechanism.Smoothed) {
	return func(m mechanism.Smoothed) {
		i := slices.IndexFunc(u.smoothed,
			func(c smoothedCount) bool { return c.moment == m.Number })
		c := u.smoothed[i]
		u.smoothed = slices.Delete(u.smoothed, i, i+1)
		h.add(c.window, u, m.Posterior, c.blind)
	}
}

// finish counts a user's vehicle in all windows that wait for later records.
func (h *hand) finish(u *user) { h.finishUntil(u, len(u.smoothed)) }

// finishUntil counts it in the first n of them.
func (h *hand) finishUntil(u *user, n int) {
	if n > 0 {
		h.smoother.FinishBefore(&u.block, u.smoothed[n-1].moment+1, h.place(u))
	}
}

// expire counts a user's vehicle in the windows for which a record of a step comes too late.
func (h *hand) expire(u *user, step int64) {
	n := 0
	// The difference of two int64 fits uint64 where the first is not smaller.
	for n < len(u.smoothed) && uint64(step)-uint64(u.smoothed[n].step) > uint64(h.wait) {
		n++
	}
	h.finishUntil(u, n)
}

// add adds a vehicle to a window, among the other goroutines' ones.
func (h *hand) add(w *Window, u *user, told, blind *mobility.Distribution) {
	if len(h.dense) != h.zones.Count() {
		h.dense = make([]float64, h.zones.Count())
	}
	h.zones.Gather(&h.posterior, told, h.dense)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.AddVehicle(u.name, &h.posterior, blind, h.dense)
}

// exactFilter computes where the model alone has a user, from the step at which the user's filter
// started, and where the model and all releases since then have the user. Neither is pruned, and
// both are rounded to float32 alone.
//
// The service's own posterior cannot be used for evidence. Under Codebook its masses are rounded to
// short ones, by a hash of step, mass and cell. Vehicles with the same history share every
// rounding, and a cell that the model hardly expects gains many times its mass by it. A fit to many
// vehicles would take that for the testimony of all of them. The rounded posterior only says which
// code points, or which location set, each release was drawn from (mechanism.Emission); the
// likelihoods of the release under that law are the evidence.
type exactFilter struct {
	predictors map[*filter]*mobility.Predictor
	known      *blindCache
	now, after mobility.Distribution // scratch
}

// blindCache has the distributions of users who started and reported together. Several filters use
// it.
type blindCache struct {
	mu    sync.Mutex
	known map[blindKey]*mobility.Distribution
}

// of returns a distribution, nil if it is not known. Nobody changes it.
func (c *blindCache) of(key blindKey) *mobility.Distribution {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[key]
}

func (c *blindCache) add(key blindKey, d *mobility.Distribution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxBlind {
		clear(c.known)
	}
	c.known[key] = d
}

// blindKey is all that such a distribution depends on.
type blindKey struct {
	from, step int64
	filter     *filter
	turns      turnsHash
}

// turnsHash stands for all the turns that a user's distributions have taken since they started: the
// first half of SHA-256 over the hash before and the new turn. It is zero before the first turn. A
// list of the turns themselves would grow with each gap.
type turnsHash [16]byte

func (h *turnsHash) add(turn string) {
	all := sha256.Sum256(append(h[:], turn...))
	copy(h[:], all[:])
}

// maxBlind bounds how many distributions are kept.
const maxBlind = 64

func newExactFilter() exactFilter {
	return exactFilter{
		predictors: map[*filter]*mobility.Predictor{},
		known:      &blindCache{known: map[blindKey]*mobility.Distribution{}},
	}
}

// fork returns a filter for another goroutine, which shares what is known.
func (b *exactFilter) fork() exactFilter {
	return exactFilter{predictors: map[*filter]*mobility.Predictor{}, known: b.known}
}

// carried is a distribution that is taken along with a user's filter. The zero one starts at the
// initial distribution of the user's model, in the step in which the filter did.
type carried struct {
	encoded []byte
	step    int64
	start   int // the Track's number of starts when it was carried
}

// user is what a Collector keeps of a user. The window that waits is that of the user's last
// record: a vehicle counts where it last reported, so it is added when a later record comes or the
// window is closed.
type user struct {
	name string
	// What the Collector's goroutine knows of the records that it has taken in, those included that
	// are not followed yet.
	waits  *Window // for the user; nil: none
	window int64   // its number

	// What is known after the records that were followed. It belongs to the goroutine that follows
	// the next one.
	Track
	release  int32 // zone of the last release in the window that waits, -1 for none
	lostEver bool  // at any time

	alone carried   // where the model alone has the user
	told  carried   // where the model and the releases have the user
	turns turnsHash // of both, one for each change of the model and each gap by a law

	block    mechanism.Block // of the moments that smoothed waits for
	smoothed []smoothedCount // in windows that wait for later records
}

// smoothedCount is a vehicle that counts in a window when its block closes.
type smoothedCount struct {
	window *Window
	blind  *mobility.Distribution // at the moment
	moment int64
	step   int64 // of the moment
}

// goesOn says whether the user's filter has not started again since.
func (c *carried) goesOn(t *Track) bool {
	return len(c.encoded) > 0 && c.start == t.starts && c.step <= t.last
}

// keep keeps a distribution of the user's last step, to go on from.
func (c *carried) keep(t *Track, d *mobility.Distribution) {
	if !c.goesOn(t) || c.step != t.last {
		c.set(t, d)
	}
}

func (c *carried) set(t *Track, d *mobility.Distribution) {
	c.encoded, c.step, c.start = d.AppendBinary(c.encoded[:0]), t.last, t.starts
}

// alone returns where the model alone has the user at the last record, valid until the next call
// but one.
func (b *exactFilter) alone(u *user) (*mobility.Distribution, error) {
	if !u.alone.goesOn(&u.Track) {
		u.turns = turnsHash{}
	}
	key := blindKey{u.origin, u.last, u.filter, u.turns}
	d := b.known.of(key)
	if d == nil {
		d = new(mobility.Distribution)
		if err := b.carry(d, u, &u.alone); err != nil {
			return nil, err
		}
		b.known.add(key, d)
	}
	u.alone.keep(&u.Track, d)
	return d, nil
}

// told returns where the model and the user's releases have the user at the last record, valid
// until the next call.
func (b *exactFilter) told(u *user) (*mobility.Distribution, error) {
	if err := b.carry(&b.now, u, &u.told); err != nil {
		return nil, err
	}
	u.told.keep(&u.Track, &b.now)
	return &b.now, nil
}

// learn takes a release of the user's last step in, by its own likelihoods.
func (b *exactFilter) learn(u *user, e *mechanism.Emission, z grid.Point) error {
	d, err := b.told(u)
	if err != nil {
		return err
	}
	mobility.Update(d, d, e.Likelihoods(z, d.Cells))
	d.Round()
	u.told.set(&u.Track, d)
	return nil
}

// carry sets d to a carried distribution, taken on to the user's last record. Rounded in each step,
// it does not depend on the steps at which it was asked for before, so not on the order of users'
// records.
func (b *exactFilter) carry(d *mobility.Distribution, u *user, c *carried) error {
	step := c.step
	if !c.goesOn(&u.Track) {
		d.CopyFrom(&u.filter.model.Initial)
		d.Round()
		step = u.origin
	} else if _, err := d.DecodeBinary(c.encoded); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	predictor := b.predictor(u.filter)
	for ; step < u.last; step++ {
		predictor.Predict(d, d, step, 1)
		d.Round()
	}
	return nil
}

// leave takes the distributions of a user who is followed on towards the next record, as the
// service's filter goes on if it does not start again.
func (b *exactFilter) leave(u *user, v *filter, r Record) error {
	if u.changeTo(v) == sameMap {
		if err := b.turn(u); err != nil {
			return err
		}
	}
	if r.Step <= u.last {
		return nil // Follow has an error for an earlier one
	}
	return b.bridge(u, v, r.Step)
}

// turn takes the user's distributions up to the last record, from where they go on under another
// model of the same map. Steps of reports without a record count under the new model.
func (b *exactFilter) turn(u *user) error {
	if _, err := b.alone(u); err != nil {
		return err
	}
	if _, err := b.told(u); err != nil {
		return err
	}
	u.turns.add(fmt.Sprintf("%s %d", u.filter.model.ID(), u.last))
	return nil
}

// bridge takes the user's distributions over the gap before a record, by the law of gaps under
// which the service's filter does it too. Without a law the steps of the gap are those of the
// chain.
func (b *exactFilter) bridge(u *user, v *filter, step int64) error {
	gap := uint64(step) - uint64(u.last)
	if !v.bridges(gap) || !u.filter.sameMap(v) {
		return nil
	}
	alone, err := b.alone(u)
	if err != nil {
		return err
	}
	told, err := b.told(u)
	if err != nil {
		return err
	}
	predictor := b.predictor(v)
	over := func(c *carried, d *mobility.Distribution) {
		predictor.PredictGap(&b.after, d, u.last, gap, 0)
		b.after.Round()
		c.encoded, c.step = b.after.AppendBinary(c.encoded[:0]), step
	}
	over(&u.alone, alone)
	over(&u.told, told)
	u.turns.add(fmt.Sprintf("%d to %d", u.last, step))
	return nil
}

// arrive starts the distributions of a user whose filter has arrived: it started in the step of the
// record before, and went on to the last one by the law of gaps. Without a law, carry does what the
// chain does.
func (b *exactFilter) arrive(u *user) {
	gap := uint64(u.last) - uint64(u.origin)
	if !u.filter.bridges(gap) {
		return
	}
	b.now.CopyFrom(&u.filter.model.Initial)
	b.now.Round()
	predictor := b.predictor(u.filter)
	predictor.PredictGap(&b.after, &b.now, u.origin, gap, 0)
	b.after.Round()
	u.alone.set(&u.Track, &b.after)
	u.told.set(&u.Track, &b.after)
	u.turns = turnsHash{}
	u.turns.add(fmt.Sprintf("%d to %d", u.origin, u.last))
}

// predictor returns the predictor of a model.
func (b *exactFilter) predictor(v *filter) *mobility.Predictor {
	p := b.predictors[v]
	if p == nil {
		p = mobility.NewPredictor(v.model)
		b.predictors[v] = p
	}
	return p
}
