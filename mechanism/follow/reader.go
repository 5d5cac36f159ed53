package follow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Options say what a Reader knows, and how long it waits.
type Options struct {
	Public Public
	// LagSteps is the lag of mechanism.NewSmoother. Without one a record's posterior is that of the
	// records up to it, and nothing waits.
	LagSteps int64
	// Workers is the number of goroutines that follow users, one if it is less. No result depends
	// on it.
	Workers int
}

// Past is what records up to a later one tell about one record's step.
type Past struct {
	// Until is the step of the last record that is taken in.
	Until    int64
	Grid     *grid.Grid
	Estimate grid.Point // kilometres of the grid
	RadiusKM float64
	Ellipse  mechanism.Ellipse
}

// PastOf is what a Reader that smooths takes from a posterior.
func PastOf(m mechanism.Smoothed) Past {
	return Past{
		Until: m.Until, Grid: m.Grid, Estimate: m.Estimate, RadiusKM: m.RadiusKM,
		Ellipse: mechanism.EllipseOf(m.Grid, m.Posterior),
	}
}

// Unfollowed is why a record has no posterior. The zero value is no reason.
type Unfollowed string

// Reasons.
const (
	// NoModel: the record was made under a model that is not given.
	NoModel Unfollowed = "model not given"
	// NoRelease: the record, or one before it, does not have its release.
	NoRelease Unfollowed = "no release in the record"
	// NotFollowed: a record before it is missing, or reports without a record have started the
	// filter again or carried it on under an earlier model. The user can be followed again after a
	// gap that the filter does not bridge.
	NotFollowed Unfollowed = "cannot be followed"
)

// Reasons returns all of them.
func Reasons() []Unfollowed { return []Unfollowed{NoModel, NoRelease, NotFollowed} }

// Counts say what became of records.
type Counts struct {
	Records    int64
	Users      int
	Unfollowed map[Unfollowed]int64
	// Foreign is a model that records name and that is not given, empty if there is none.
	Foreign string
	// Split is how many users have releases whose numbers go back: each state of a user counts its
	// own, so these users have two. No filter follows both.
	Split int
}

// Reader follows the users of a service from their records, as they are published, and hands over
// what they tell. T is what the caller keeps beside a record, and R what it takes of a posterior.
// Its methods belong to one goroutine.
//
// With a lag a record comes back when its block closes (mechanism.Smoother): those of a user in
// their order, and those of different users in the order of the records that close their blocks. At
// the end the open blocks close, in the order of the users' first records. Without a lag records
// come back in the order in which they were added. So the same records give the same result,
// whatever the number of workers.
//
// Memory: the open blocks, and the records that wait in them; without a lag each user's posterior,
// about 5 bytes for each cell that has probability. With several workers up to 262,144 records more
// with a lag, and 16,384 without.
type Reader[T, R any] struct {
	options  Options
	tell     func(mechanism.Smoothed) R
	each     func(T, *R, Unfollowed) error
	follower *Follower // nil until the settings are complete
	hands    []*hand[T, R]
	tasks    *parallel.Keyed[task[T, R]] // nil with one worker, and until a record has agreed
	waiting  []task[T, R]                // until the settings are complete
	users    map[string]*user[T]
	order    []*user[T]
	counts   Counts
	known    int64  // records that were followed
	given    int64  // records under a model that is given
	foreign  string // a model that is not given
	whole    bool   // some user's first record is here
}

// user is what a Reader keeps of a user. It belongs to the goroutine that works on the user.
type user[T any] struct {
	name string
	Track
	block   mechanism.Block
	blank   bool // a release had no place, and the filter has not started again since
	waiting []waitingRecord[T]
	release release // the last one
	split   bool    // a number came again, for another release
}

// release is a release and its number among its user's.
type release struct {
	number, step        int64
	latitude, longitude float64
}

// waitingRecord is a record of a block that is open.
type waitingRecord[T any] struct {
	kept   T
	moment int64 // of the block
}

// task is one record, or the end of a user.
type task[T, R any] struct {
	published Published
	filter    *filter // of the record's model; nil: it is not given
	user      *user[T]
	kept      T
	end       bool
	out       []toldRecord[T, R]
	known     bool
	err       error
}

// toldRecord is a record with what is told of it, or the reason why nothing is.
type toldRecord[T, R any] struct {
	kept   T
	told   R
	reason Unfollowed
}

// hand is what one goroutine works with.
type hand[T, R any] struct {
	follower *Follower
	smoother *mechanism.Smoother // nil without a lag
	tell     func(mechanism.Smoothed) R
	closed   []R // of the call at hand, from the last moment back
}

// NewReader returns a Reader. It calls tell, on any of its goroutines, for each posterior, which is
// the caller's for the time of the call; and each for every record: with what tell has returned, or
// with nil and the reason. An error of each ends the work.
func NewReader[T, R any](
	o Options, tell func(mechanism.Smoothed) R, each func(T, *R, Unfollowed) error,
) (*Reader[T, R], error) {
	if err := o.Public.Models.validate(); err != nil {
		return nil, err
	}
	return &Reader[T, R]{
		options: o, tell: tell, each: each, users: map[string]*user[T]{},
		counts: Counts{Unfollowed: map[Unfollowed]int64{}},
	}, nil
}

// Add takes the next record and what is kept of it. Records of a user come in their order, those of
// different users in any. The error of a record is a PlaceError; with several workers it may be
// that of an earlier one. After an error there is nothing left to do but Close.
func (s *Reader[T, R]) Add(p Published, kept T) error {
	s.counts.Records++
	t := task[T, R]{published: p, kept: kept}
	if s.follower == nil {
		s.waiting = append(s.waiting, t)
		if !s.options.Public.learn(p) { // until a release has told ε, what was predicted waits
			return nil
		}
		return s.start()
	}
	return s.submit(t)
}

// start makes the follower, and hands out the records that waited.
func (s *Reader[T, R]) start() error {
	o := &s.options.Public
	if err := o.complete(); err != nil {
		return err
	}
	var err error
	if s.follower, err = NewFollower(o.Models, o.Release); err != nil {
		return &OptionsError{err}
	}
	s.hands = append(s.hands, s.newHand(s.follower))
	waiting := s.waiting
	s.waiting = nil
	for _, t := range waiting {
		if err := s.submit(t); err != nil {
			return err
		}
	}
	return nil
}

func (s *Reader[T, R]) newHand(f *Follower) *hand[T, R] {
	h := &hand[T, R]{follower: f, tell: s.tell}
	if s.options.LagSteps != 0 {
		h.smoother = mechanism.NewSmoother(f.options, s.options.LagSteps)
	}
	return h
}

// submit checks a record and does its task, or has a worker do it.
func (s *Reader[T, R]) submit(t task[T, R]) error {
	p := &t.published
	if err := s.options.Public.check(p); err != nil {
		if earlier := s.flush(); earlier != nil {
			return earlier
		}
		return &PlaceError{p.Where, err}
	}
	if t.user = s.users[p.User]; t.user == nil {
		t.user = &user[T]{name: p.User}
		s.users[p.User], s.order = t.user, append(s.order, t.user)
		s.whole = s.whole || releasesBefore(p.Record) == 0
	}
	if t.filter = s.follower.filters[p.Model]; t.filter != nil {
		s.given++
	} else {
		s.foreign = p.Model
	}
	return s.hand(t)
}

// hand does a task, or has a worker do it. Until a record has agreed one goroutine works, because
// whether the settings are wrong depends on which record is the first one that follows.
func (s *Reader[T, R]) hand(t task[T, R]) error {
	if s.tasks == nil && s.options.Workers > 1 && s.follower.agreed {
		if err := s.startWorkers(); err != nil {
			return err
		}
	}
	if s.tasks == nil {
		s.hands[0].do(&t)
		return s.use(&t)
	}
	return s.tasks.Add(t.user.name, t)
}

// How many records are taken in and not done at most. With a lag it is many, because files often
// hold one user after another. Without one each of them may hold what a posterior has told.
const (
	aheadWithLag = 1 << 18
	aheadOfTold  = 1 << 14
)

func (s *Reader[T, R]) startWorkers() error {
	for range s.options.Workers - 1 {
		f, err := s.follower.fork()
		if err != nil {
			return err
		}
		s.hands = append(s.hands, s.newHand(f))
	}
	ahead := aheadWithLag
	if s.options.LagSteps == 0 {
		ahead = aheadOfTold
	}
	s.tasks = parallel.NewKeyed(len(s.hands), ahead,
		func(worker int, t *task[T, R]) { s.hands[worker].do(t) }, s.use)
	return nil
}

// use hands over the records that come back with a task.
func (s *Reader[T, R]) use(t *task[T, R]) error {
	if t.err != nil {
		return &PlaceError{t.published.Where, t.err}
	}
	if t.known {
		s.known++
	}
	for i := range t.out {
		r := &t.out[i]
		told := &r.told
		if r.reason != "" {
			told = nil
			s.counts.Unfollowed[r.reason]++
		}
		if err := s.each(r.kept, told, r.reason); err != nil {
			if t.end {
				return err
			}
			return &PlaceError{t.published.Where, err}
		}
	}
	return nil
}

// flush waits until all records that were taken in are done.
func (s *Reader[T, R]) flush() error {
	if s.tasks == nil {
		return nil
	}
	return s.tasks.Flush()
}

// Close ends the goroutines of a Reader that has not finished. It may be called twice.
func (s *Reader[T, R]) Close() {
	if s.tasks != nil {
		s.tasks.Close()
	}
}

// End closes the block of a user who has no further records: the records come back, and their
// memory is free. Finish does so for all users that have not ended.
func (s *Reader[T, R]) End(user string) error {
	if u := s.users[user]; u != nil {
		return s.hand(task[T, R]{user: u, end: true})
	}
	return nil
}

// Finish closes all blocks, and the Reader. It fails with ErrModel if no record is of a model that
// is given, and with ErrSettings if most records do not follow though none before them is missing.
func (s *Reader[T, R]) Finish() error {
	defer s.Close()
	if s.counts.Records == 0 {
		return errors.New("there is no record in the input")
	}
	if s.follower == nil {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, u := range s.order {
		if err := s.hand(task[T, R]{user: u, end: true}); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	if s.given == 0 {
		return fmt.Errorf("%w: the records name %.16s, and given is only %s", ErrModel,
			s.foreign, s.options.Public.Models.names())
	}
	strays := 0
	for _, h := range s.hands {
		strays += h.follower.strays
	}
	if s.whole && strays > 0 && 2*s.known < s.given {
		return ErrSettings
	}
	return nil
}

// Counts returns what became of the records, after Finish or Close.
func (s *Reader[T, R]) Counts() Counts {
	s.counts.Users, s.counts.Foreign, s.counts.Split = len(s.order), s.foreign, 0
	for _, u := range s.order {
		if u.split {
			s.counts.Split++
		}
	}
	return s.counts
}

// MaxGap returns the number of steps after which a user that was lost can be found again, under
// whichever of the models.
func (s *Reader[T, R]) MaxGap() int {
	longest := uint64(0)
	if s.follower != nil {
		for _, v := range s.follower.filters {
			longest = max(longest, v.longest)
		}
	}
	return int(longest)
}

// do follows a user to a record, and collects the records whose block it closes.
func (h *hand[T, R]) do(t *task[T, R]) {
	u := t.user
	h.closed = h.closed[:0]
	if t.end {
		first := u.block.Open()
		h.finish(u)
		h.collect(t, first)
		return
	}
	u.note(&t.published)
	known, err := h.follower.followRecord(&u.Track, &t.published, t.filter)
	if t.known, t.err = known, err; err != nil {
		return
	}
	u.blank = !known && (u.blank || t.published.blank() && t.filter != nil)
	if known && h.smoother == nil {
		told := h.tell(h.follower.now(t.filter))
		t.out = append(t.out, toldRecord[T, R]{kept: t.kept, told: told})
		return
	}
	first := u.block.Open()
	if known {
		moment := h.smoother.Note(&u.block, h.follower.sanitizerOf(t.filter), &h.follower.state,
			t.published.seen(), h.follower.linked, h.close)
		u.waiting = append(u.waiting, waitingRecord[T]{t.kept, moment})
		h.collect(t, first)
		return
	}
	h.finish(u)
	h.collect(t, first)
	reason := NotFollowed
	switch {
	case t.filter == nil:
		reason = NoModel
	case u.blank:
		reason = NoRelease
	}
	t.out = append(t.out, toldRecord[T, R]{kept: t.kept, reason: reason})
}

// now is the posterior after the record that was followed last, under its model.
func (f *Follower) now(v *filter) mechanism.Smoothed {
	s := &f.state
	return mechanism.Smoothed{
		Step: s.Step, Until: s.Step, Grid: v.grid(),
		Posterior: &s.Posterior, Estimate: s.Estimate, RadiusKM: s.RadiusKM,
	}
}

// finish closes a user's block.
func (h *hand[T, R]) finish(u *user[T]) {
	if h.smoother != nil {
		h.smoother.Finish(&u.block, h.close)
	}
}

// close keeps what a moment that closes tells.
func (h *hand[T, R]) close(m mechanism.Smoothed) { h.closed = append(h.closed, h.tell(m)) }

// collect takes the records of the moments that have closed, from the first one on.
func (h *hand[T, R]) collect(t *task[T, R], first int64) {
	u, done := t.user, 0
	for ; done < len(u.waiting) && u.waiting[done].moment < u.block.Open(); done++ {
		w := &u.waiting[done]
		at := len(h.closed) - 1 - int(w.moment-first)
		t.out = append(t.out, toldRecord[T, R]{kept: w.kept, told: h.closed[at]})
	}
	if done > 0 {
		rest := copy(u.waiting, u.waiting[done:])
		clear(u.waiting[rest:])
		u.waiting = u.waiting[:rest]
	}
}

// note looks at the number of a release.
func (u *user[T]) note(p *Published) {
	if p.Kind != mechanism.Released {
		return
	}
	switch this := (release{p.Number, p.Step, p.ReleaseLatitude, p.ReleaseLongitude}); {
	case p.Number > u.release.number:
		u.release = this
	case this != u.release: // else the record is there twice, as when a file is named twice
		u.split = true
	}
}

// followRecord follows a record of a filter, nil if there is none, and whether or not it has its
// release.
func (f *Follower) followRecord(t *Track, p *Published, v *filter) (known bool, err error) {
	if v != nil {
		v.locate(p)
	}
	switch {
	case !p.blank() || v == nil:
		return f.Follow(t, p.Record)
	case t.standing != unseen && p.Step < t.last:
		return false, ErrOrder
	}
	t.last, t.filter, t.standing, t.state = p.Step, v, lost, t.state[:0]
	return false, nil
}

// names lists the ids of the models, as short as records name them.
func (m Models) names() string {
	ids := make([]string, len(m))
	for i, model := range m {
		ids[i] = model.ID()[:16]
	}
	return strings.Join(ids, ", ")
}

// Published is one record as it is published: in degrees, with what it says about the settings.
type Published struct {
	Record
	// Mechanism is the mechanism's name, without notes.
	Mechanism string
	// Latitude and Longitude are the estimate.
	Latitude, Longitude float64
	// HasRelease says that the record has the release: ReleaseLatitude and ReleaseLongitude.
	HasRelease                        bool
	ReleaseLatitude, ReleaseLongitude float64
	// Epsilon is the cost of a record of Kind Released.
	Epsilon, Delta float64
}

// Public is what the readers of a service's records know of the service.
type Public struct {
	// Models are the versions of the service's model.
	Models Models
	// Release are the service's options of release.
	Release mechanism.Options
	// TellEpsilon, TellDelta and TellMechanism say that Release does not have the value, and that
	// the records tell it.
	TellEpsilon, TellDelta, TellMechanism bool
}

// OptionsError says that the options, completed by the records, cannot be used.
type OptionsError struct{ cause error }

// Error is the cause's.
func (e *OptionsError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *OptionsError) Unwrap() error { return e.cause }

// SettingError says that a record was made under another setting than those before it, or than the
// reader has been told.
type SettingError struct {
	Name string // mechanism, delta or epsilon
	text string
}

// Error says what the record has and what the settings say.
func (e *SettingError) Error() string { return e.text }

// PlaceError is the error of a record.
type PlaceError struct {
	Where string // the record is
	cause error
}

// Error names the place and the cause.
func (e *PlaceError) Error() string { return e.Where + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *PlaceError) Unwrap() error { return e.cause }

// learn takes from a record what is not known, and says whether all is known: records of releases
// alone tell ε.
func (o *Public) learn(p Published) bool {
	if o.TellDelta {
		o.Release.Delta, o.TellDelta = p.Delta, false
	}
	if o.TellMechanism {
		o.Release.Mechanism, o.TellMechanism = p.Mechanism, false
	}
	if o.TellEpsilon && p.Kind == mechanism.Released {
		o.Release.Epsilon, o.TellEpsilon = p.Epsilon, false
	}
	return !o.TellEpsilon
}

// complete ends the learning. What no record has told has a value that can be used.
func (o *Public) complete() error {
	if o.Release.Mechanism == "" {
		o.Release.Mechanism = law.Lattice
	}
	if o.TellEpsilon {
		o.Release.Epsilon, o.TellEpsilon = 1, false // there is no release
	}
	if err := o.Release.Validate(); err != nil {
		return &OptionsError{err}
	}
	return nil
}

// check refuses a record that was not made under the settings.
func (o *Public) check(p *Published) error {
	release := &o.Release
	switch {
	case !p.Kind.Published():
		return errors.New("the record is of a kind that this program does not know: " +
			"run a newer one")
	case p.Mechanism != release.Mechanism:
		return &SettingError{"mechanism", fmt.Sprintf(
			"the record names the mechanism %.16s, and the settings say %s",
			p.Mechanism, release.Mechanism)}
	case p.Delta != release.Delta:
		return &SettingError{"delta", fmt.Sprintf(
			"the record has δ = %g, and the settings say %g", p.Delta, release.Delta)}
	case p.Kind == mechanism.Released && p.Epsilon != release.Epsilon:
		return &SettingError{"epsilon", fmt.Sprintf(
			"the record has ε = %g, and the settings say %g", p.Epsilon, release.Epsilon)}
	case p.Number < 0:
		return errors.New("the record has a negative number of releases")
	}
	return nil
}

// blank says that nobody can follow a record: it is one of a release and does not have it.
func (p *Published) blank() bool { return p.Kind == mechanism.Released && !p.HasRelease }

// locate fills in the release and the estimate of a record in kilometres of the model's map.
func (v *filter) locate(p *Published) {
	g := v.grid()
	if p.Kind == mechanism.Released {
		p.Release = v.sanitizer.Snap(g.ToMap(p.ReleaseLatitude, p.ReleaseLongitude))
	}
	p.Estimate = g.ToMap(p.Latitude, p.Longitude)
}

// seen is what the filter takes of a record. A state that is started goes on over any gap: which
// ways there are over one, the table of ways says.
func (r *Record) seen() mechanism.Seen {
	return mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release, Carried: true}
}
