package aggregate

import (
	"errors"
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Record is what one published record tells, in kilometres of its model's map.
type Record struct {
	User string
	// Model is the id of the model under which the record was made: a public one's, or of a user's own model a keyed hash, which nobody outside can
	// tell from the id of a public model that is not given. For a reader who has the user's own model, Personal, it is the id of the one that this lies over.
	Model    string
	Personal *mobility.Personal
	Step     int64
	Kind     mechanism.Kind
	// Release is the released place of a record of Kind Released: see Follower.Snap, Estimate the place that the record gives
	// for the user. Of a model that is not given neither is looked at.
	Release, Estimate grid.Point
	// Number is that of the user's last release so far.
	Number uint64
}

// Track is what is kept of a user between records: the posterior, some 5 bytes a cell that has probability. The zero Track is a new user.
type Track struct {
	state   []byte   // encoded
	version *version // of the last record; nil: its model is not given
	own     *mobility.Personal
	last    int64 // step of the last record
	origin  int64 // step at which the filter started from the model's initial distribution
	seen    bool  // there was a record
	known   bool  // the state is the service's
}

// Follower runs the filter again from records. It is scratch for one goroutine; users' tracks are separate.
//
// It holds every record's estimate against its own, so that it notices what it cannot follow: records that are missing, or other options
// than the service's. Such a user is lost until the rule for gaps starts the service's filter anew, which any reader can do too.
//
// Where a user's records go over to another of the models, the state is brought to that one as the service does it: on the same map what is known of the
// place stays, on another one the filter starts at the new model's initial distribution. A record under a model that is not given is not followed,
// and the user is lost as after a record that is missing.
type Follower struct {
	versions map[string]*version // by the model's id
	options  mechanism.Options
	maxGap   uint64
	hides    bool // reports may leave no record
	followed bool // a record, ever
	strays   int  // records whose estimate is wrong, though none before them is missing

	before, state, attempt mechanism.State
	linked                 bool // state came from before by the model
}

// NewFollower returns one for the models and the service's options.
func NewFollower(models Models, o mechanism.Options) (*Follower, error) {
	if err := models.validate(); err != nil {
		return nil, err
	}
	f := &Follower{versions: map[string]*version{}}
	for _, m := range models {
		v, err := newVersion(m, o)
		if err != nil {
			return nil, err
		}
		f.versions[m.ID()] = v
		f.options = v.sanitizer.Options()
	}
	f.maxGap, f.hides = uint64(f.options.MaxGap), hides(f.options)
	return f, nil
}

// Grid returns the map of a model, nil if the model is not given.
func (f *Follower) Grid(model string) *grid.Grid {
	if v := f.versions[model]; v != nil {
		return v.grid()
	}
	return nil
}

// Snap returns the release that a place written in degrees stands for, on the map of a model that is given.
func (f *Follower) Snap(model string, p grid.Point) grid.Point {
	return f.versions[model].sanitizer.Snap(p)
}

var (
	// ErrOrder is what Follow returns for a record of a step before the user's last one.
	ErrOrder = errors.New("aggregate: a record lies before the last one of its user: records of a user must come in the order in which they were published, each once")
	// ErrSettings is what Follow returns where not even the first record follows, and Finish where most of them do not.
	ErrSettings = errors.New("aggregate: the records' estimates do not follow from this model and these options: give the service's own, " +
		"those that differ from the defaults (min_cells, min_radius, prune, max_gap, inference, subdivision, estimate, interval, budget) as it has them in its config")
)

// Follow takes the next record of a user and says whether the user's posterior is the service's. Cost: that of the service's own step, in a gap
// longer than MaxGap up to twice that, and at a change of model, where reports may leave no record, once and more for each step of the gap.
func (f *Follower) Follow(t *Track, r Record) (known bool, err error) {
	if t.seen && r.Step < t.last {
		return false, ErrOrder
	}
	v, before := f.versions[r.Model], *t
	gap := uint64(r.Step) - uint64(t.last)
	silent, first := !t.seen || gap > f.maxGap, !t.seen && r.Number <= 1
	f.linked = false
	t.seen, t.last, t.version, t.own = true, r.Step, v, r.Personal
	if v == nil {
		t.known, t.state = false, t.state[:0]
		return false, nil
	}
	moved := mechanism.Unchanged
	switch {
	case t.known:
		if err := f.before.DecodeBinary(t.state); err != nil {
			return false, err
		}
		if moved, err = v.sanitizer.MigrateTo(&f.before, r.Personal); err != nil {
			return false, fmt.Errorf("aggregate: %w", err)
		}
	case silent:
		f.before.CopyFrom(&mechanism.State{})
		f.before.Releases = releasesBefore(r)
	case before.version != nil && !before.version.sameMap(v):
		// Whoever comes to another map begins anew there, at the last step.
		f.before.CopyFrom(&mechanism.State{Started: true, Step: before.last, StepMS: v.model.Step.Milliseconds(), Releases: releasesBefore(r)})
		if moved, err = v.sanitizer.MigrateTo(&f.before, r.Personal); err != nil {
			return false, fmt.Errorf("aggregate: %w", err)
		}
	default: // lost, and the service's filter goes on
		return false, nil
	}
	ok, anew, linked := false, silent, !silent && moved != mechanism.StartedAnew
	if moved == mechanism.PosteriorKept && f.hides && !silent {
		ok, linked, err = f.tryTurns(&before, v, r)
	} else {
		ok, err = f.try(v, r, false)
	}
	if !ok && err == nil && t.known && silent {
		// Reports without a record may have carried the filter over the gap.
		ok, err = f.try(v, r, true)
		anew, linked = false, moved != mechanism.StartedAnew
	}
	if err != nil {
		return false, err
	}
	if !ok && first && !f.followed {
		return false, ErrSettings
	}
	f.followed = f.followed || ok
	f.linked = ok && linked
	switch {
	case ok && anew:
		t.origin = r.Step
	case ok && moved == mechanism.StartedAnew:
		t.origin = before.last
	}
	t.known = ok
	t.state = t.state[:0]
	if ok {
		t.state = f.state.AppendBinary(t.state)
	}
	return ok, nil
}

// releasesBefore returns the number of releases before a record.
func releasesBefore(r Record) uint64 {
	if r.Kind == mechanism.Released && r.Number > 0 {
		return r.Number - 1
	}
	return r.Number
}

// tryTurns is try where reports without a record may have gone on under the old model, of the same map, before the new one took over. Up to which step,
// only the estimate tells: of all steps of the gap the one counts under which it agrees best. linked says whether that is the user's last record's.
func (f *Follower) tryTurns(old *Track, v *version, r Record) (ok, linked bool, err error) {
	last := f.before.Step
	best, least := int64(-1), math.Inf(1)
	for step := last; step == last || step < r.Step; step++ {
		if ok, err = f.tryTurn(old, v, r, step); err != nil {
			return false, false, err
		}
		if d := f.state.Estimate.Distance(r.Estimate); ok && d < least {
			best, least = step, d
		}
	}
	if math.IsInf(least, 1) {
		return false, false, nil
	}
	ok, err = f.tryTurn(old, v, r, best)
	return ok, best == last, err
}

// tryTurn is try if the old model has counted up to a step.
func (f *Follower) tryTurn(old *Track, v *version, r Record, step int64) (bool, error) {
	if err := f.before.DecodeBinary(old.state); err != nil {
		return false, err
	}
	if step > f.before.Step {
		seen := mechanism.Seen{Step: step, Kind: mechanism.Predicted, Personal: old.own}
		if err := old.version.sanitizer.Observe(&f.before, seen); err != nil {
			return false, fmt.Errorf("aggregate: %w", err)
		}
	}
	if _, err := v.sanitizer.MigrateTo(&f.before, r.Personal); err != nil {
		return false, fmt.Errorf("aggregate: %w", err)
	}
	return f.try(v, r, false)
}

// try observes the record from f.before into f.state and says whether the estimates agree.
func (f *Follower) try(v *version, r Record, carried bool) (bool, error) {
	f.attempt.CopyFrom(&f.before)
	err := v.sanitizer.Observe(&f.attempt, mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release, Carried: carried, Personal: r.Personal})
	if err != nil {
		return false, fmt.Errorf("aggregate: %w", err)
	}
	if f.attempt.Releases != r.Number {
		return false, nil
	}
	if f.attempt.Estimate.Distance(r.Estimate) > v.toleranceKM {
		f.strays++
		return false, nil
	}
	f.state, f.attempt = f.attempt, f.state
	return true, nil
}
