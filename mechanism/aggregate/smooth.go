package aggregate

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/parallel"
)

// SmoothOptions say what a Smoothing knows, and how long it waits.
type SmoothOptions struct {
	// Read are the models, the options of release, and what of them the records tell. Its other
	// options have no meaning here.
	Read ReadOptions
	// LagSteps is the lag of mechanism.NewSmoother.
	LagSteps int64
	// Workers is the number of goroutines that smooth users, one if it is less. No result depends
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

// Unsmoothed is why a record keeps the filter's estimate. The zero value is no reason.
type Unsmoothed string

// Reasons.
const (
	// NoModel: the record was made under a model that is not given, or a user's own.
	NoModel Unsmoothed = "model not given"
	// NoRelease: the record, or one before it, does not have its release.
	NoRelease Unsmoothed = "no release in the record"
	// NotFollowed: a record before it is missing, or a report without a record started the filter
	// again. The user can be followed again after a gap that the filter does not bridge.
	NotFollowed Unsmoothed = "cannot be followed"
)

// UnsmoothedReasons returns all of them.
func UnsmoothedReasons() []Unsmoothed { return []Unsmoothed{NoModel, NoRelease, NotFollowed} }

// SmoothCounts say what became of records.
type SmoothCounts struct {
	Records    int64
	Users      int
	Unsmoothed map[Unsmoothed]int64
	// Foreign is a model that records name and that is not given, empty if there is none.
	Foreign string
}

// Smoothing smooths the records of many users (mechanism.Smoother), as they are published. T is
// what the caller keeps beside a record. Its methods belong to one goroutine.
//
// A record comes back when its block closes: those of a user in their order, and those of different
// users in the order of the records that close their blocks. At the end the open blocks close, in
// the order of the users' first records. So the same records give the same result, whatever the
// number of workers.
//
// Memory: the open blocks, and the records that wait in them. With several workers up to 262,144
// records more.
type Smoothing[T any] struct {
	options  SmoothOptions
	each     func(T, *Past) error
	follower *Follower // nil until the settings are complete
	hands    []*smoothHand[T]
	tasks    *parallel.Keyed[smoothTask[T]] // nil with one worker, and until a record has agreed
	waiting  []smoothTask[T]                // until the settings are complete
	users    map[string]*pastUser[T]
	order    []*pastUser[T]
	counts   SmoothCounts
	known    int64  // records that were followed
	given    int64  // records under a model that is given
	foreign  string // a model that is not given
	whole    bool   // some user's first record is here
}

// pastUser is what a Smoothing keeps of a user. It belongs to the goroutine that works on the user.
type pastUser[T any] struct {
	name string
	Track
	block   mechanism.Block
	blank   bool // a release had no place, and the filter has not started again since
	waiting []waitingRecord[T]
}

// waitingRecord is a record of a block that is open.
type waitingRecord[T any] struct {
	kept   T
	moment int64 // of the block
}

// smoothTask is one record, or the end of a user.
type smoothTask[T any] struct {
	published Published
	filter    *filter // of the record's model; nil: it is not given
	user      *pastUser[T]
	kept      T
	end       bool
	out       []smoothedRecord[T]
	known     bool
	err       error
}

// smoothedRecord is a record whose block has closed, or a reason why it has no block.
type smoothedRecord[T any] struct {
	kept   T
	past   Past
	reason Unsmoothed
}

// smoothHand is what one goroutine works with.
type smoothHand[T any] struct {
	follower *Follower
	smoother *mechanism.Smoother
	closed   []Past // of the call at hand, from the last moment back
}

// NewSmoothing returns a Smoothing that calls each for every record, with nil where it is not
// smoothed. An error of each ends the work.
func NewSmoothing[T any](o SmoothOptions, each func(T, *Past) error) (*Smoothing[T], error) {
	if err := o.Read.Models.validate(); err != nil {
		return nil, err
	}
	return &Smoothing[T]{
		options: o, each: each, users: map[string]*pastUser[T]{},
		counts: SmoothCounts{Unsmoothed: map[Unsmoothed]int64{}},
	}, nil
}

// Add takes the next record and what is kept of it. Records of a user come in their order, those of
// different users in any. With several workers the error may be that of an earlier record, which is
// a PlaceError then.
func (s *Smoothing[T]) Add(p Published, kept T) error {
	s.counts.Records++
	p.Place.Number = s.counts.Records
	t := smoothTask[T]{published: p, kept: kept}
	if s.follower == nil {
		s.waiting = append(s.waiting, t)
		if !s.options.Read.learn(p) { // until a release has told ε, what was predicted waits
			return nil
		}
		return s.start()
	}
	return s.submit(t)
}

// start makes the follower, and hands out the records that waited.
func (s *Smoothing[T]) start() error {
	o := &s.options
	err := o.Read.complete()
	if err == nil {
		s.follower, err = NewFollower(o.Read.Models, o.Read.Release)
	}
	if err != nil {
		return err
	}
	s.hands = append(s.hands, s.newHand(s.follower))
	waiting := s.waiting
	s.waiting = nil
	for _, t := range waiting {
		if err := s.submit(t); err != nil {
			return placed(t.published.Place, err)
		}
	}
	return nil
}

// placed names a record in an error that does not name one.
func placed(p Place, err error) error {
	if _, ok := err.(*PlaceError); ok { //nolint:errorlint // one that wraps it names it too
		return err
	}
	return &PlaceError{p, err}
}

func (s *Smoothing[T]) newHand(f *Follower) *smoothHand[T] {
	return &smoothHand[T]{
		follower: f, smoother: mechanism.NewSmoother(f.options, s.options.LagSteps),
	}
}

// submit checks a record and does its task, or has a worker do it.
func (s *Smoothing[T]) submit(t smoothTask[T]) error {
	p := &t.published
	checked := *p
	checked.HasRelease = true // without a release the record is passed on
	if err := s.options.Read.check(checked); err != nil {
		if earlier := s.flush(); earlier != nil {
			return earlier
		}
		return err
	}
	if t.user = s.users[p.User]; t.user == nil {
		t.user = &pastUser[T]{name: p.User}
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
func (s *Smoothing[T]) hand(t smoothTask[T]) error {
	if s.tasks == nil && s.options.Workers > 1 && s.follower.agreed {
		for range s.options.Workers - 1 {
			f, err := s.follower.fork()
			if err != nil {
				return err
			}
			s.hands = append(s.hands, s.newHand(f))
		}
		s.tasks = parallel.NewKeyed(len(s.hands), aheadTasks,
			func(worker int, t *smoothTask[T]) { s.hands[worker].do(t) },
			func(t *smoothTask[T]) error {
				if err := s.use(t); err != nil {
					return placed(t.published.Place, err)
				}
				return nil
			})
	}
	if s.tasks == nil {
		s.hands[0].do(&t)
		return s.use(&t)
	}
	return s.tasks.Add(t.user.name, t)
}

// use hands over the records whose block has closed.
func (s *Smoothing[T]) use(t *smoothTask[T]) error {
	if t.err != nil {
		return t.err
	}
	if t.known {
		s.known++
	}
	for i := range t.out {
		r := &t.out[i]
		past := &r.past
		if r.reason != "" {
			past = nil
			s.counts.Unsmoothed[r.reason]++
		}
		if err := s.each(r.kept, past); err != nil {
			return err
		}
	}
	return nil
}

// flush waits until all records that were taken in are done.
func (s *Smoothing[T]) flush() error {
	if s.tasks == nil {
		return nil
	}
	return s.tasks.Flush()
}

// Close ends the goroutines of a Smoothing that has not finished. It may be called twice.
func (s *Smoothing[T]) Close() {
	if s.tasks != nil {
		s.tasks.Close()
	}
}

// End closes the block of a user who has no further records: the records come back, and their
// memory is free. Finish does so for all users that have not ended.
func (s *Smoothing[T]) End(user string) error {
	if u := s.users[user]; u != nil {
		return s.hand(smoothTask[T]{user: u, end: true})
	}
	return nil
}

// Finish closes all blocks, and the Smoothing. It fails with ErrModel if no record is of a model
// that is given, and with ErrSettings if most records do not follow though none before them is
// missing.
func (s *Smoothing[T]) Finish() (SmoothCounts, error) {
	defer s.Close()
	if s.follower == nil {
		if err := s.start(); err != nil {
			return s.counts, err
		}
	}
	for _, u := range s.order {
		if err := s.hand(smoothTask[T]{user: u, end: true}); err != nil {
			return s.counts, err
		}
	}
	if err := s.flush(); err != nil {
		return s.counts, err
	}
	s.counts.Users, s.counts.Foreign = len(s.order), s.foreign
	if s.given == 0 && s.counts.Records > 0 {
		return s.counts, fmt.Errorf("%w: the records name %.16s, and given is only %s", ErrModel,
			s.foreign, s.options.Read.Models.names())
	}
	strays := 0
	for _, h := range s.hands {
		strays += h.follower.strays
	}
	if s.whole && strays > 0 && 2*s.known < s.given {
		return s.counts, ErrSettings
	}
	return s.counts, nil
}

// do follows a user to a record, and collects the records whose block it closes.
func (h *smoothHand[T]) do(t *smoothTask[T]) {
	u := t.user
	h.closed = h.closed[:0]
	first := u.block.Open()
	reason := Unsmoothed("")
	var moment int64
	if t.end {
		h.smoother.Finish(&u.block, h.close)
	} else if moment, reason, t.err = h.follow(t); t.err != nil {
		return
	}
	if !t.end && reason == "" {
		u.waiting = append(u.waiting, waitingRecord[T]{t.kept, moment})
	}
	done := 0
	for ; done < len(u.waiting) && u.waiting[done].moment < u.block.Open(); done++ {
		w := &u.waiting[done]
		at := len(h.closed) - 1 - int(w.moment-first)
		t.out = append(t.out, smoothedRecord[T]{kept: w.kept, past: h.closed[at]})
	}
	if done > 0 {
		rest := copy(u.waiting, u.waiting[done:])
		clear(u.waiting[rest:])
		u.waiting = u.waiting[:rest]
	}
	if reason != "" {
		t.out = append(t.out, smoothedRecord[T]{kept: t.kept, reason: reason})
	}
}

// follow takes the user's filter and block on to a record. It returns the record's moment, or why
// it has none: then the user's block is closed.
func (h *smoothHand[T]) follow(t *smoothTask[T]) (moment int64, reason Unsmoothed, _ error) {
	u, p, f := t.user, &t.published, h.follower
	known, err := f.take(&u.Track, p, t.filter)
	u.blank = !known && (u.blank || p.blank() && t.filter != nil)
	switch {
	case err != nil:
		return 0, "", err
	case known:
		t.known = true
		seen, of := mechanism.Seen{Step: p.Step, Kind: p.Kind, Release: p.Release}, f.of(t.filter)
		moment = h.smoother.Note(&u.block, of, &f.state, seen, f.linked, h.close)
		return moment, "", nil
	case t.filter == nil:
		reason = NoModel
	case u.blank:
		reason = NoRelease
	default:
		reason = NotFollowed
	}
	h.smoother.Finish(&u.block, h.close)
	return 0, reason, nil
}

// blank says that nobody can follow a record: it is one of a release and does not have it.
func (p *Published) blank() bool { return p.Kind == mechanism.Released && !p.HasRelease }

// take follows a record of a filter, nil if there is none, and whether or not it has its release.
func (f *Follower) take(t *Track, p *Published, v *filter) (known bool, err error) {
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

// close keeps a moment that closes.
func (h *smoothHand[T]) close(m mechanism.Smoothed) {
	h.closed = append(h.closed, pastOf(m))
}

// pastOf takes from a moment what is kept of it.
func pastOf(m mechanism.Smoothed) Past {
	return Past{
		Until: m.Until, Grid: m.Grid, Estimate: m.Estimate, RadiusKM: m.RadiusKM,
		Ellipse: mechanism.EllipseOf(m.Grid, m.Posterior),
	}
}

// names lists the ids of the models, as short as records name them.
func (m Models) names() string {
	ids := make([]string, len(m))
	for i, model := range m {
		ids[i] = model.ID()[:16]
	}
	return strings.Join(ids, ", ")
}
