package mechanism

import (
	"errors"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// Seen is what a published record tells an observer of one report.
type Seen struct {
	// Step is the report's step.
	Step int64
	// Kind is Released, Repeated or Predicted.
	Kind Kind
	// Release is the released place in map kilometres, where Kind is Released; see Sanitizer.Snap.
	Release grid.Point
	// Carried says that reports without a record kept the user's filter going since the last
	// record, so that a gap longer than MaxGap does not start it again. It says nothing where a law
	// of gaps counts: there every report leaves a record.
	Carried bool
}

// ErrUnseen is what Observe returns for what no Step can have published.
var ErrUnseen = errors.New("mechanism: the record cannot follow the user's last")

// Observe is Step for an observer: it advances a state of the observer's own by what was published
// of a report, with the code by which Step advances the sanitizer's. It needs the model and the
// options and no secret: the streams of this sanitizer are not used.
//
// Where every report of the user leaves a record and Release has the very bits of Outcome.Release,
// the observer's posterior, estimate and radius are the sanitizer's, bit for bit. BetweenSkip and
// SpentSuppress leave records out. The observer takes a report without a record together with the
// next one, as one prediction over both steps. Posteriors then differ by the rounding to float32
// and the pruning that the sanitizer did in between. Only under Codebook, whose code points a
// rounding can move, a prediction over a gap rounds and prunes in each step, whether or not there
// was a report. There the states are the same bytes again after the next record.
//
// The exception is a report without a record that started the filter again, as the first of all or
// after more than MaxGap steps. Of that step the observer knows nothing. No record says either that
// the user was erased (State.Erase): the filter then starts over in the last record's step.
//
// State.Releases must be the number of releases before those that are shown to Observe. Cost: that
// of Step.
func (s *Sanitizer) Observe(state *State, seen Seen) error {
	if !seen.Kind.Published() || state.Started && seen.Step < state.Step {
		return ErrUnseen
	}
	if err := s.check(state, Input{Step: seen.Step}); err != nil {
		return err
	}
	s.foreseen = seen.Kind == Released || !state.Started || seen.Step > state.Step
	if seen.Kind != Released {
		if s.foreseen {
			s.foresee(state, seen)
			s.advance(state, seen.Step, nil)
		}
		return nil
	}
	if x := seen.Release.X + seen.Release.Y; math.IsNaN(x) || math.IsInf(x, 0) {
		return ErrUnseen
	}
	s.foresee(state, seen)
	s.emission.Prepare(s.prior)
	z := seen.Release
	if q := s.emission.codebook; q != nil {
		z = q.Place(q.Nearest(z))
	}
	s.book(state, seen.Step, z)
	return nil
}

// Emission returns the law of the release that Observe or Step took last, as it follows from the
// rounded prior of that step. It stays valid until the next call of either.
func (s *Sanitizer) Emission() *Emission { return s.emission }

// foresee fills s.prior for an observer.
func (s *Sanitizer) foresee(state *State, seen Seen) {
	if !seen.Carried || !state.Started || s.byLaw {
		s.predict(state, seen.Step)
		return
	}
	s.bridge(state, min(uint64(seen.Step)-uint64(state.Step), MaxMaxGap))
}

// Snap returns the release that a place stands for after it was written in degrees. Under Lattice
// that is the nearest point of the lattice, with the very bits that were released as long as the
// writing is off by less than half a step. Under the other mechanisms it is the place itself, whose
// last bits are lost; posteriors then differ by as little. Only under Codebook nothing is lost:
// Observe takes a place for the nearest code point.
func (s *Sanitizer) Snap(p grid.Point) grid.Point {
	if s.options.Mechanism != law.Lattice {
		return p
	}
	return law.Snap(p, s.options.Subdivision, s.model.Grid.CellKM())
}
