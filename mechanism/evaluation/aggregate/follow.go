package aggregate

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Record is what one published record tells, in map kilometres.
type Record struct {
	User string
	Step int64
	Kind mechanism.Kind
	// Release is the released place of a record of Kind Released: see mechanism.Sanitizer.Snap, Estimate the place that the record gives
	// for the user.
	Release, Estimate grid.Point
	// Number is that of the user's last release so far.
	Number uint64
}

// Track is what is kept of a user between records: the posterior, some 5 bytes a cell that has probability. The zero Track is a new user.
type Track struct {
	state  []byte // encoded
	last   int64  // step of the last record
	origin int64  // step at which the filter started from the model's initial distribution
	seen   bool   // there was a record
	known  bool   // the state is the service's
}

// Follower runs the filter again from records. It is scratch for one goroutine; users' tracks are separate.
//
// It holds every record's estimate against its own, so that it notices what it cannot follow: records that are missing, other options
// than the service's, a change of model. Such a user is lost until the rule for gaps starts the service's filter anew, which any
// reader can do too.
type Follower struct {
	sanitizer   *mechanism.Sanitizer
	maxGap      uint64
	toleranceKM float64
	followed    bool // a record, ever
	strays      int  // records whose estimate is wrong, though none before them is missing

	before, state, attempt mechanism.State
	linked                 bool // state came from before by the model
}

// NewFollower returns one for a model and the service's options.
func NewFollower(model *mobility.Model, o mechanism.Options) (*Follower, error) {
	// The key is never used: an observer draws nothing.
	s, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(0)), o)
	if err != nil {
		return nil, err
	}
	o = s.Options()
	// Estimates agree up to the seven decimals of a degree that CSV has, a centimetre; hidden steps of prediction are rounded and pruned on their own.
	tolerance := .01
	if o.Between == mechanism.BetweenSkip || o.Budget.Spent == mechanism.SpentSuppress && (o.Budget.Lifetime > 0 || o.Budget.WindowSteps > 0) {
		tolerance = .1
	}
	return &Follower{
		sanitizer: s, maxGap: uint64(o.MaxGap),
		toleranceKM: max(tolerance*model.Grid.CellKM(), 1e-4),
	}, nil
}

// Snap returns the release that a place written in degrees stands for.
func (f *Follower) Snap(p grid.Point) grid.Point { return f.sanitizer.Snap(p) }

var (
	// ErrOrder is what Follow returns for a record of a step before the user's last one.
	ErrOrder = errors.New("aggregate: a record lies before the last one of its user: records of a user must come in the order in which they were published, each once")
	// ErrSettings is what Follow returns where not even the first record follows, and Finish where most of them do not.
	ErrSettings = errors.New("aggregate: the records' estimates do not follow from this model and these options: give the service's own, " +
		"those that differ from the defaults (min_cells, min_radius, prune, max_gap, inference, subdivision, estimate, interval, budget) as it has them in its config")
)

// Follow takes the next record of a user and says whether the user's posterior is the service's. Cost: that of the service's own step, and in a gap
// longer than MaxGap up to twice that.
func (f *Follower) Follow(t *Track, r Record) (known bool, err error) {
	if t.seen && r.Step < t.last {
		return false, ErrOrder
	}
	gap := uint64(r.Step) - uint64(t.last)
	silent := !t.seen || gap > f.maxGap
	f.linked = false
	switch {
	case t.known:
		if err := f.before.DecodeBinary(t.state); err != nil {
			return false, err
		}
	case silent:
		f.before.CopyFrom(&mechanism.State{})
		f.before.Releases = r.Number
		if r.Kind == mechanism.Released && r.Number > 0 {
			f.before.Releases--
		}
	default: // lost, and the service's filter goes on
		t.last = r.Step
		return false, nil
	}
	first := !t.seen && r.Number <= 1
	t.seen, t.last = true, r.Step
	ok, err := f.try(r, false)
	if ok {
		f.linked = !silent
		if silent {
			t.origin = r.Step
		}
	} else if err == nil && t.known && silent {
		// Reports without a record may have carried the filter over the gap.
		ok, err = f.try(r, true)
		f.linked = ok
	}
	if err != nil {
		return false, err
	}
	if !ok && first && !f.followed {
		return false, ErrSettings
	}
	f.followed = f.followed || ok
	t.known = ok
	t.state = t.state[:0]
	if ok {
		t.state = f.state.AppendBinary(t.state)
	}
	return ok, nil
}

// try observes the record from f.before into f.state and says whether the estimates agree.
func (f *Follower) try(r Record, carried bool) (bool, error) {
	f.attempt.CopyFrom(&f.before)
	err := f.sanitizer.Observe(&f.attempt, mechanism.Seen{Step: r.Step, Kind: r.Kind, Release: r.Release, Carried: carried})
	if err != nil {
		return false, fmt.Errorf("aggregate: %w", err)
	}
	if f.attempt.Releases != r.Number {
		return false, nil
	}
	if f.attempt.Estimate.Distance(r.Estimate) > f.toleranceKM {
		f.strays++
		return false, nil
	}
	f.state, f.attempt = f.attempt, f.state
	return true, nil
}
