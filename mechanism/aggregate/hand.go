package aggregate

import (
	"slices"

	"github.com/geodither/geodither/mechanism"
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
