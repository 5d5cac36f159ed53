package mechanism

import (
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Sanitizer runs the paper's Algorithm 1 for any number of users under one model and one set of
// options. It is scratch for one goroutine; users' states are separate. After a few steps it does
// not allocate.
type Sanitizer struct {
	model   *mobility.Model
	modelID ID
	gridID  ID
	stepMS  int64
	options Options
	hours   *hours.Hours
	byLaw   bool   // the model's law of gaps counts
	longest uint64 // see Options.LongestGap
	streams noise.Streams

	predictor *mobility.Predictor
	// prior is a piece of memory of its own, so that an outcome that is kept does not keep all of
	// the sanitizer.
	prior      *mobility.Distribution
	foreseen   bool                  // of an observer: prior is that of the last record
	withheld   mobility.Distribution // posterior of a step in a gap
	emission   *Emission
	estimator  Estimator
	transcript transcript

	cost     ledger.Billionths // of a release
	window   ledger.Billionths // limit of the window
	lifetime ledger.Billionths // limit of all
}

// NewSanitizer returns a sanitizer for a valid model. The streams decide whether releases are
// reproducible (noise.NewKeyed) and must belong to this goroutine too. The first sanitizer of a
// model costs a pass over its transitions.
func NewSanitizer(m *mobility.Model, streams noise.Streams, o Options) (*Sanitizer, error) {
	if m == nil || streams == nil {
		return nil, errors.New("mechanism: a sanitizer needs a model and noise")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	modelID, err := ParseID(m.ID())
	if err != nil {
		return nil, err
	}
	gridID, err := ParseID(m.Grid.ID())
	if err != nil {
		return nil, err
	}
	emission, err := NewEmission(m.Grid, o)
	if err != nil {
		return nil, err
	}
	s := &Sanitizer{
		model: m, modelID: modelID, gridID: gridID,
		stepMS: int64(m.Step / time.Millisecond), options: o, streams: streams,
		byLaw: o.LearnedGaps(m), longest: o.LongestGap(m),
		predictor: mobility.NewPredictor(m), prior: new(mobility.Distribution), emission: emission,
		estimator: Estimator{Place: o.Estimate},
		cost:      ledger.CostOf(o.Epsilon),
		window:    ledger.LimitOf(o.Budget.Epsilon),
		lifetime:  ledger.LimitOf(o.Budget.Lifetime),
	}
	if s.hours, err = hours.New(o.Hours); err != nil {
		return nil, err
	}
	s.transcript.begin(o, gridID, modelID, s.stepMS)
	return s, nil
}

// Options returns the options with every default filled in.
func (s *Sanitizer) Options() Options { return s.options }

// Model returns the model.
func (s *Sanitizer) Model() *mobility.Model { return s.model }

// ErrOtherModel is what Step returns for a state that belongs to another model: call Migrate first.
var ErrOtherModel = errors.New("mechanism: the state is another model's: migrate it")

// check reports what makes a step impossible, without the cell's value.
func (s *Sanitizer) check(state *State, in Input) error {
	cells := grid.Cell(s.model.Grid.Cells())
	if in.Release && (in.Cell < 0 || in.Cell >= cells) {
		return errors.New("mechanism: the true cell is none of the grid")
	}
	if !state.Started {
		return nil
	}
	if state.Model != s.modelID || state.Grid != s.gridID || state.StepMS != s.stepMS {
		return ErrOtherModel
	}
	n := state.Posterior.Len()
	if n == 0 || state.Posterior.Cells[0] < 0 || state.Posterior.Cells[n-1] >= cells {
		return fmt.Errorf("%w: its posterior does not fit the grid", ErrState)
	}
	return nil
}
