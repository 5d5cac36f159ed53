package follow

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Record is what every published record says.
type Record struct {
	User string
	// Model is the id of the model under which the record was made.
	Model string
	Step  int64
	Kind  mechanism.Kind
	// Number is the user's number of releases, this record's included.
	Number int64
	// Where is the record's place in the input, for errors: a file and line, or a partition and
	// offset.
	Where string
	// Release is the released place of a record of Kind Released (see mechanism.Sanitizer.Snap).
	// Estimate is the record's estimate. Both are in kilometres of the model's map, a Reader
	// computes them, and neither is read where the model is not given.
	Release, Estimate grid.Point
}

// Track is what a Follower keeps of a user between records: the posterior, about 5 bytes for each
// cell that has probability. The zero Track is a new user.
type Track struct {
	standing standing
	state    []byte  // encoded; empty unless the user is followed
	filter   *filter // of the last record; nil: its model is not given
	last     int64   // step of the last record
}

// standing is what a reader knows of a user. After a record a user is outside if the record's model
// is not given, followed if one of the ways agrees with the record, and else lost.
type standing uint8

const (
	unseen   standing = iota // no record yet
	followed                 // the posterior is the service's
	lost                     // the posterior is not known, but the map is
	outside                  // the last record's model is not given: not even the map is known
)

// change is how a record's model differs from that of the user's last record.
type change uint8

const (
	sameModel change = iota
	sameMap          // another model of the same map
	otherMap
	fromNowhere // there is no last model: the user is unseen or outside
)

// changeTo returns the change to a model.
func (t *Track) changeTo(v *filter) change {
	switch {
	case t.filter == nil:
		return fromNowhere
	case !t.filter.sameMap(v):
		return otherMap
	case t.filter == v:
		return sameModel
	}
	return sameMap
}

// way is one guess of what the service's filter did between a user's last record and the next one.
// The estimate of the next record tells whether the guess is right.
type way uint8

const (
	// goesOn: the filter goes on from the last record's state. Where the model has changed on the
	// same map, the new one counts from the last record on. If reports without a record went on
	// under the old model, the estimates can differ, and the user is lost.
	goesOn way = iota
	// arrives: the filter comes to another map, or to its own after an erasure. It starts at the
	// map's initial distribution in the last record's step, and goes on from there.
	arrives
	// starts: the filter starts at the model's initial distribution, in the record's own step.
	starts
)

// ways lists the guesses by what is known of the user before the record, in the order in which they
// are tried. The gap between two records is within the longest gap or beyond; an unseen user counts
// as beyond. In a gap beyond the longest one the service starts again, unless reports without a
// record have carried the filter over.
var ways = [...]struct {
	standing       standing
	change         change
	within, beyond []way
}{
	{unseen, fromNowhere, nil, []way{starts}},
	// A user who was erased and has come back arrives on the same map: see mechanism.State.Erase.
	{followed, sameModel, []way{goesOn, arrives}, []way{starts, goesOn}},
	{followed, sameMap, []way{goesOn, arrives}, []way{starts, goesOn}},
	{followed, otherMap, []way{arrives}, []way{starts, arrives}},
	// The service's filter goes on with what this reader does not know, until it starts or arrives.
	{lost, sameModel, nil, []way{starts}},
	{lost, sameMap, nil, []way{starts}},
	{lost, otherMap, []way{arrives}, []way{starts}},
	{outside, fromNowhere, nil, []way{starts}},
}

// waysOf looks the table up.
func waysOf(s standing, c change, beyond bool) []way {
	for i := range ways {
		if row := &ways[i]; row.standing == s && row.change == c {
			if beyond {
				return row.beyond
			}
			return row.within
		}
	}
	panic(fmt.Sprintf("follow: no row for standing %d and change %d", s, c))
}

// Follower runs the filter again from records. It is scratch for one goroutine; users' tracks are
// separate.
//
// It compares every record's estimate with its own, so it notices what it cannot follow: missing
// records, or other options than the service's. Such a user is lost until the rule for gaps starts
// the service's filter again, which any reader can do too.
//
// Where a user's records change to another of the models, the Follower changes the state as the
// service does: on the same map the posterior stays, on another one the filter starts at the new
// model's initial distribution. A record under a model that is not given is not followed.
type Follower struct {
	filters map[string]*filter // by the model's id
	options mechanism.Options
	agreed  bool // some record has agreed
	strays  int  // guesses with the right number of releases and a wrong estimate
	// own are the sanitizers of a fork, by filter; nil: the filters' own.
	own map[*filter]*mechanism.Sanitizer

	before, state mechanism.State // of the last record that agreed: before it and after it
	linked        bool            // state came from before by the record's model alone
	attempt       mechanism.State // scratch
}

// NewFollower returns a Follower for the models and the service's options.
func NewFollower(models Models, o mechanism.Options) (*Follower, error) {
	if err := models.validate(); err != nil {
		return nil, err
	}
	f := &Follower{filters: map[string]*filter{}}
	for _, m := range models {
		v, err := newFilter(m, o)
		if err != nil {
			return nil, err
		}
		f.filters[m.ID()] = v
		f.options = v.sanitizer.Options()
	}
	return f, nil
}

// fork returns a Follower for another goroutine. Tracks of the one are tracks of the other.
func (f *Follower) fork() (*Follower, error) {
	g := &Follower{
		filters: f.filters, options: f.options, agreed: f.agreed,
		own: map[*filter]*mechanism.Sanitizer{},
	}
	for _, v := range f.filters {
		s, err := observer(v.model, f.options)
		if err != nil {
			return nil, err
		}
		g.own[v] = s
	}
	return g, nil
}

// sanitizerOf returns this goroutine's sanitizer under a model.
func (f *Follower) sanitizerOf(v *filter) *mechanism.Sanitizer {
	if f.own == nil {
		return v.sanitizer
	}
	return f.own[v]
}

var (
	// ErrOrder is what Follow returns for a record of a step before the user's last one.
	ErrOrder = errors.New("a record lies before the last one of its user: records " +
		"must come as they were published, each once")
	// ErrModel is what a Reader returns where no record is of a model that is given, and Sums where
	// one that counts is not.
	ErrModel = errors.New("a model is missing")
	// ErrSettings is what Follow returns where not even the first record follows, and Finish where
	// most of them do not.
	ErrSettings = errors.New("the records' estimates do not follow from this model and " +
		"these options: give those of the service's config")
)

// Follow takes the next record of a user and says whether the user's posterior is the service's
// then. Cost: that of the service's own step, and twice that in a gap beyond the longest.
func (f *Follower) Follow(t *Track, r Record) (known bool, err error) {
	before, v := *t, f.filters[r.Model]
	if before.standing != unseen && r.Step < before.last {
		return false, ErrOrder
	}
	t.last, t.filter = r.Step, v
	f.linked = false
	if v == nil {
		t.standing, t.state = outside, t.state[:0]
		return false, nil
	}
	// The difference of two int64 fits uint64 where the first is not smaller.
	gap := uint64(r.Step) - uint64(before.last)
	beyond := before.standing == unseen || gap > v.longest
	for _, w := range waysOf(before.standing, before.changeTo(v), beyond) {
		if err := f.begin(w, &before, v, r); err != nil {
			return false, fmt.Errorf("follow: %w", err)
		}
		agrees, err := f.observe(v, r)
		if err != nil {
			return false, fmt.Errorf("follow: %w", err)
		}
		if agrees {
			f.agreed, f.linked = true, w == goesOn
			t.standing, t.state = followed, f.state.AppendBinary(t.state[:0])
			return true, nil
		}
	}
	t.standing, t.state = lost, t.state[:0]
	if before.standing == unseen && releasesBefore(r) == 0 && !f.agreed {
		return false, ErrSettings
	}
	return false, nil
}

// begin sets f.before to the state from which the filter comes to a record by one of the ways. If
// it does not go on, that is the model's initial distribution: in the record's step if it starts,
// and in the last one's if it arrives.
func (f *Follower) begin(w way, last *Track, v *filter, r Record) error {
	releases := releasesBefore(r)
	if last.standing == followed {
		if err := f.before.DecodeBinary(last.state); err != nil {
			return err
		}
		releases = f.before.Releases
	}
	if w != goesOn {
		f.before.CopyFrom(&mechanism.State{Releases: releases})
	}
	if w == arrives {
		// The state belongs to no map, so the model gives it the initial distribution of its own.
		f.before.Started, f.before.Step = true, last.last
		f.before.StepMS = v.model.Step.Milliseconds()
	}
	if w != starts {
		f.sanitizerOf(v).Migrate(&f.before)
	}
	return nil
}

// observe advances f.before by a record into f.state, and says whether that agrees with the record.
func (f *Follower) observe(v *filter, r Record) (agrees bool, err error) {
	f.attempt.CopyFrom(&f.before)
	if err := f.sanitizerOf(v).Observe(&f.attempt, r.seen()); err != nil {
		return false, err
	}
	if f.attempt.Releases != uint64(r.Number) {
		return false, nil
	}
	if f.attempt.Estimate.Distance(r.Estimate) > v.toleranceKM {
		f.strays++
		return false, nil
	}
	f.state, f.attempt = f.attempt, f.state
	return true, nil
}

// releasesBefore returns the number of releases before a record, as the record tells it.
func releasesBefore(r Record) uint64 {
	if r.Kind == mechanism.Released && r.Number > 0 {
		return uint64(r.Number) - 1
	}
	return uint64(r.Number)
}

// Models are the public models that records may name: the versions of a service's model, in any
// order. The first one's step is that of all.
type Models []*mobility.Model

// validate checks that there is a model, and that all have the step of the first, as the versions
// of one service have.
func (m Models) validate() error {
	if len(m) == 0 {
		return errors.New("no model is given")
	}
	for _, other := range m[1:] {
		if other.Step != m[0].Step {
			return fmt.Errorf("the models %s and %s have steps of %v and %v: versions of one "+
				"service have the same", m[0].ID(), other.ID(), m[0].Step, other.Step)
		}
	}
	return nil
}

// filter is the service's filter under one model, with the scratch memory of one goroutine. A
// user's Track points to the one of the last record.
type filter struct {
	model       *mobility.Model
	sanitizer   *mechanism.Sanitizer
	toleranceKM float64
	longest     uint64 // gap in steps, after which the filter starts again
}

func newFilter(model *mobility.Model, o mechanism.Options) (*filter, error) {
	s, err := observer(model, o)
	if err != nil {
		return nil, err
	}
	// Estimates agree up to the seven decimals of a degree that CSV has, a centimetre. Hidden steps
	// of prediction are rounded and pruned on their own.
	tolerance := .01
	if s.Options().Hides() {
		tolerance = .1
	}
	tolerance = max(tolerance*model.Grid.CellKM(), 1e-4)
	return &filter{
		model: model, sanitizer: s, toleranceKM: tolerance,
		longest: s.Options().LongestGap(model),
	}, nil
}

// observer returns a sanitizer whose key is never used: an observer draws nothing.
func observer(model *mobility.Model, o mechanism.Options) (*mechanism.Sanitizer, error) {
	return mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(0)), o)
}

// grid returns the model's map.
func (v *filter) grid() *grid.Grid { return v.model.Grid }

// sameMap says whether two models have one map.
func (v *filter) sameMap(other *filter) bool { return v.model.Grid.ID() == other.model.Grid.ID() }
