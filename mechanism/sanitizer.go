package mechanism

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Kind says what a step did.
type Kind uint8

// Kinds of outcomes.
const (
	// Released: a new release was drawn and charged.
	Released Kind = iota + 1
	// Repeated: the step already has a release, which is given again and costs nothing.
	Repeated
	// Predicted: nothing was released; the estimate is the prior's mean and costs nothing.
	Predicted
	// Late: the step lies before the user's last one. Nothing was done and nothing is published.
	Late
)

// String returns the kind in lower case.
func (k Kind) String() string {
	switch k {
	case Released:
		return "released"
	case Repeated:
		return "repeated"
	case Predicted:
		return "predicted"
	case Late:
		return "late"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Input is one report of a user.
type Input struct {
	// User is the user's identifier; the noise depends on it.
	User string
	// Step is floor(timestamp / model step).
	Step int64
	// Cell is the true cell: secret. It is ignored where Release is false.
	Cell grid.Cell
	// Release says whether a release may be drawn; false only predicts.
	Release bool
}

// Format writes [redacted] whatever the verb, since Cell is secret.
func (Input) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "[redacted]") }

// LogValue returns [redacted].
func (Input) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Outcome is what one report leads to. All of it but Drift may be published.
type Outcome struct {
	Kind Kind
	// Release is the released place in map kilometres; where nothing was released it equals Estimate.
	Release grid.Point
	// Estimate is the posterior mean, the place of least expected squared error that the releases allow.
	Estimate grid.Point
	// RadiusKM is a radius around Estimate that holds 95 % of the posterior wherever in its cell a place lies: at least half a cell's
	// diagonal, also where the posterior is one cell.
	RadiusKM float64
	// Epsilon is what this outcome costs: the option's ε for a new release, else 0.
	Epsilon float64
	// SetSize is |ΔX| of a new release, else 0.
	SetSize int
	// Drift says that the true cell lay outside the location set: secret. False where nothing was released.
	Drift bool `json:"-"`
	// Number is the number of the user's releases so far.
	Number uint64
}

// shown is what may be seen of an Outcome.
type shown struct {
	Kind              Kind
	Release, Estimate grid.Point
	RadiusKM, Epsilon float64
	SetSize           int
	Drift             string
	Number            uint64
}

func (o Outcome) show() shown {
	return shown{o.Kind, o.Release, o.Estimate, o.RadiusKM, o.Epsilon, o.SetSize, "[redacted]", o.Number}
}

// Format writes everything but Drift, which is secret.
func (o Outcome) Format(state fmt.State, verb rune) {
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), o.show())
}

// LogValue returns everything but Drift.
func (o Outcome) LogValue() slog.Value { return slog.AnyValue(o.show()) }

// Sanitizer runs the paper's Algorithm 1 for any number of users under one model and one set of options. It is scratch for one
// goroutine; users' states are separate. After a few steps it does not allocate.
type Sanitizer struct {
	model   *mobility.Model
	modelID ID
	gridID  ID
	stepMS  int64
	options Options
	streams noise.Streams

	predictor  *mobility.Predictor
	prior      mobility.Distribution
	set        LocationSet
	surrogates Surrogates
	nearest    []int32
	hull       SensitivityHull
	mechanism  Mechanism
	places     []convex.Vec
	inference  Inference
	estimator  Estimator
	transcript transcript
}

// NewSanitizer returns a sanitizer for a valid model. The streams decide whether releases are reproducible (noise.NewKeyed) and must
// belong to this goroutine too. The first sanitizer of a model costs a pass over its transitions.
func NewSanitizer(m *mobility.Model, streams noise.Streams, o Options) (*Sanitizer, error) {
	if m == nil || streams == nil {
		return nil, errors.New("mechanism: a sanitizer needs a model and a source of noise")
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
	law, err := NewMechanism(o.Mechanism, o.Isotropy)
	if err != nil {
		return nil, err
	}
	s := &Sanitizer{
		model: m, modelID: modelID, gridID: gridID, stepMS: int64(m.Step / time.Millisecond), options: o, streams: streams,
		predictor: mobility.NewPredictor(m), mechanism: law,
	}
	s.transcript.begin(o, gridID, modelID, s.stepMS)
	return s, nil
}

// Options returns the options with every default filled in.
func (s *Sanitizer) Options() Options { return s.options }

// Model returns the model.
func (s *Sanitizer) Model() *mobility.Model { return s.model }

// ErrOtherModel is what Step returns for a state that belongs to another model: call Migrate first.
var ErrOtherModel = errors.New("mechanism: the state belongs to another model; migrate it first")

// Step handles one report of one user: Algorithm 1 as a function of the state, the report, the model, the options and the key alone. It
// updates the state in place, but not on an error and not for a late report.
//
// The rules look at steps, never at the place. A new user starts at the model's initial distribution. A later step predicts once for
// each step in between; a gap of more than MaxGap starts at the initial distribution again. The same step repeats its release; if it
// was only predicted so far, a release may still be drawn in it. An earlier step is late.
//
// Cost: the transitions out of the posterior's support for each predicted step, and a release is linear in the prior's support.
// Where Release is false nothing but prediction and the estimate is computed: a second state stepped that way is the blind baseline.
func (s *Sanitizer) Step(state *State, in Input) (Outcome, error) {
	if err := s.check(state, in); err != nil {
		return Outcome{}, err
	}
	if state.Started {
		switch {
		case in.Step < state.Step:
			return Outcome{Kind: Late, Number: state.Releases}, nil
		case in.Step == state.Step && state.HasRelease && state.ReleaseStep == in.Step:
			return outcome(state, Repeated), nil
		case in.Step == state.Step && !in.Release:
			return outcome(state, Predicted), nil
		}
	}
	s.predict(state, in.Step)
	if s.prior.Len() == 0 {
		return Outcome{}, fmt.Errorf("%w: its posterior holds no mass", ErrState)
	}
	if !in.Release {
		s.advance(state, in.Step, nil)
		return outcome(state, Predicted), nil
	}
	return s.release(state, in), nil
}

// check reports what makes a step impossible, without the cell's value.
func (s *Sanitizer) check(state *State, in Input) error {
	cells := grid.Cell(s.model.Grid.Cells())
	if in.Release && (in.Cell < 0 || in.Cell >= cells) {
		return errors.New("mechanism: the true cell is not a cell of the model's grid; locate fixes with that grid")
	}
	if !state.Started {
		return nil
	}
	if state.Model != s.modelID || state.Grid != s.gridID || state.StepMS != s.stepMS {
		return ErrOtherModel
	}
	if n := state.Posterior.Len(); n == 0 || state.Posterior.Cells[0] < 0 || state.Posterior.Cells[n-1] >= cells {
		return fmt.Errorf("%w: its posterior does not fit the grid", ErrState)
	}
	return nil
}

// predict fills s.prior, pruned and normalized. In a step that was only predicted so far the stored posterior is the prior.
func (s *Sanitizer) predict(state *State, step int64) {
	prune := max(s.options.Prune, 0)
	// The difference of two int64 fits uint64 where the first is not smaller.
	gap := uint64(step) - uint64(state.Step)
	if state.Started && gap <= uint64(s.options.MaxGap) {
		s.predictor.PredictPruned(&s.prior, &state.Posterior, int(gap), prune)
		return
	}
	s.prior.CopyFrom(&s.model.Initial)
	s.prior.Prune(prune)
}

// release draws and charges a release of the prior's step.
func (s *Sanitizer) release(state *State, in Input) Outcome {
	g := s.model.Grid
	s.set.Choose(&s.prior, s.options.Delta)
	s.hull.OfCells(g, s.set.Cells)
	s.surrogates.Reset(g, s.set.Cells)
	effective := s.set.Cells[s.surrogates.Nearest(in.Cell)]
	number := state.Releases + 1

	s.mechanism.Prepare(&s.hull, s.options.Epsilon)
	source := s.streams.Stream(s.transcript.complete(in.User, in.Step, number, s.set.Cells, effective))
	z := s.mechanism.Sample(source, g.Centre(effective))

	s.advance(state, in.Step, s.likelihoods(z))
	state.HasRelease, state.ReleaseStep, state.Release = true, in.Step, z
	state.Releases = number
	state.EpsilonSpent += s.options.Epsilon

	out := outcome(state, Released)
	out.Epsilon = s.options.Epsilon
	out.SetSize = len(s.set.Cells)
	out.Drift = effective != in.Cell
	return out
}

// likelihoods returns the likelihood of every cell of the prior given the release z, up to a common factor. Where no cell can emit z,
// which only the paper's inference knows, all are 0 and the prior stays.
func (s *Sanitizer) likelihoods(z grid.Point) []float64 {
	if s.options.Inference == InferencePaper {
		s.places = centres(s.places, s.model.Grid, s.prior.Cells)
		return s.inference.Paper(s.mechanism, z, s.places)
	}
	s.places = centres(s.places, s.model.Grid, s.set.Cells)
	s.nearest = s.surrogates.All(s.nearest, s.prior.Cells)
	return s.inference.Surrogate(s.mechanism, z, s.places, s.nearest)
}

// centres writes the centres of ascending cells into dst, the same numbers as Grid.Centre with one division a row.
func centres(dst []convex.Vec, g *grid.Grid, cells []grid.Cell) []convex.Vec {
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	width, side := grid.Cell(g.Width()), g.CellKM()
	start, end, y := grid.Cell(0), int64(0), 0.0
	for i, c := range cells {
		if int64(c) >= end {
			row := c / width
			start, end, y = row*width, int64(row+1)*int64(width), (float64(row)+0.5)*side
		}
		dst[i] = convex.Vec{X: (float64(c-start) + 0.5) * side, Y: y}
	}
	return dst
}

// advance makes the prior, times a likelihood if there is one, the state's posterior of a step.
func (s *Sanitizer) advance(state *State, step int64, likelihood []float64) {
	store(&state.Posterior, &s.prior, likelihood, s.options.Prune)
	state.Started, state.Step = true, step
	state.Model, state.Grid, state.StepMS = s.modelID, s.gridID, s.stepMS
	state.Estimate, state.RadiusKM = s.estimator.Estimate(s.model.Grid, &state.Posterior)
}

// outcome returns what the state alone says: an estimate, at no cost.
func outcome(state *State, kind Kind) Outcome {
	out := Outcome{Kind: kind, Release: state.Estimate, Estimate: state.Estimate, RadiusKM: state.RadiusKM, Number: state.Releases}
	if kind != Predicted {
		out.Release = state.Release
	}
	return out
}
