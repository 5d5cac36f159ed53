package mechanism

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/ledger"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Sanitizer runs the paper's Algorithm 1 for any number of users under one model and one set of
// options. It is scratch for one goroutine; users' states are separate. After a few steps it does
// not allocate.
type Sanitizer struct {
	model *mobility.Model
	// personal is the model of the user at hand, nil if that is the popular one; modelID is of
	// whichever it is.
	personal  *mobility.Personal
	modelID   ID
	popularID ID
	gridID    ID
	stepMS    int64
	options   Options
	streams   noise.Streams

	predictor  *mobility.Predictor
	prior      mobility.Distribution
	set        locationset.Set
	surrogates locationset.Surrogates
	nearest    []int32
	hull       law.SensitivityHull
	mechanism  law.Mechanism
	places     []convex.Vec
	inference  Inference
	estimator  Estimator
	transcript transcript

	cost     ledger.Billionths // of a release
	window   ledger.Billionths // limit of the window
	lifetime ledger.Billionths // limit of all
	fresh    bool              // the hull is of a release that the last step made
}

// NewSanitizer returns a sanitizer for a valid model. The streams decide whether releases are
// reproducible (noise.NewKeyed) and must belong to this goroutine too. The first sanitizer of a
// model costs a pass over its transitions.
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
	noisy, err := o.NewMechanism()
	if err != nil {
		return nil, err
	}
	if err := o.law().CheckGrid(o.Epsilon, m.Grid); err != nil {
		return nil, err
	}
	s := &Sanitizer{
		model: m, modelID: modelID, popularID: modelID, gridID: gridID, stepMS: int64(m.Step / time.Millisecond), options: o, streams: streams,
		predictor: mobility.NewPredictor(m), mechanism: noisy, estimator: Estimator{Place: o.Estimate},
		cost: ledger.CostOf(o.Epsilon), window: ledger.LimitOf(o.Budget.Epsilon), lifetime: ledger.LimitOf(o.Budget.Lifetime),
	}
	s.transcript.begin(o, gridID, modelID, s.stepMS)
	return s, nil
}

// Options returns the options with every default filled in.
func (s *Sanitizer) Options() Options { return s.options }

// Model returns the popular model.
func (s *Sanitizer) Model() *mobility.Model { return s.model }

// ErrOtherModel is what Step returns for a state that belongs to another model: call Migrate first.
var ErrOtherModel = errors.New("mechanism: the state belongs to another model; migrate it first")

// ErrOtherPopular is what Step returns for a personal model over another popular model than the
// sanitizer's.
var ErrOtherPopular = errors.New("mechanism: the personal model lies over another popular model; make it anew over this one")

// Step handles one report of one user: Algorithm 1 as a function of the state, the report, the
// models, the options and the key alone. It updates the state in place, but not on an error and not
// where the outcome says that nothing changed.
//
// The rules look at steps and at what has been released, never at the place. The first that applies
// decides:
//
//	report                                          option                    outcome      published   ε   posterior
//	before the user's last step                                               Late         nothing     0   stays
//	in that step                                    SameStep drop             Dropped      nothing     0   stays
//	in that step, which has a release               SameStep repeat           Repeated     that one    0   stays
//	no release is wanted (Input.Release is false)                             Predicted    estimate    0   prior
//	fewer than ReleaseInterval steps after the      Between predict           Predicted    estimate    0   prior
//	  user's last release, or the prior's radius    Between skip              Skipped      nothing     0   prior
//	  is at most AdaptiveRadiusKM
//	the window's or the lifetime's budget does      Budget.Spent suppress     Suppressed   nothing     0   prior
//	  not hold one more release                     Budget.Spent repeat       Repeated     last one    0   prior
//	                                                Budget.Spent predict      Predicted    estimate    0   prior
//	else                                                                      Released     z           ε   inferred
//
// "Prior" means that the posterior advances by prediction: to the same state whatever is published.
// It does so once for each step; in a step that has advanced already a withheld report gives what
// the state says, and changes nothing. A release in a step with one (SameStep release) starts at
// that one's posterior.
//
// With Input.Personal that model takes the place of the popular one, throughout: see Migrate for a
// state of the other.
//
// A new user starts at the model's initial distribution. A later step predicts once for each step
// in between; a gap of more than MaxGap starts at the initial distribution again.
//
// Cost: the transitions out of the posterior's support for each predicted step, and a release is
// linear in the prior's support. Where Release is false nothing but prediction and the estimate is
// computed: a second state stepped that way is the blind baseline.
//
// A release of a day whose noise key was destroyed is a noise.DestroyedError. Every other outcome
// needs no key.
func (s *Sanitizer) Step(state *State, in Input) (Outcome, error) {
	s.fresh = false
	if err := s.follow(in.Personal); err != nil {
		return Outcome{}, err
	}
	if err := s.check(state, in); err != nil {
		return Outcome{}, err
	}
	if out, done := s.again(state, in); done {
		return out, nil
	}
	s.predict(state, in.Step)
	if s.prior.Len() == 0 {
		return Outcome{}, fmt.Errorf("%w: its posterior holds no mass", ErrState)
	}
	if kind := s.decide(state, in); kind != Released {
		return s.withhold(state, in.Step, kind), nil
	}
	return s.release(state, in)
}

// follow makes the user's personal model the one in use, or the popular model if it is nil.
func (s *Sanitizer) follow(user *mobility.Personal) error {
	if user == s.personal {
		return nil
	}
	id := s.popularID
	if user != nil {
		if popular := user.Popular(); popular != s.model && popular.ID() != s.model.ID() {
			return ErrOtherPopular
		}
		var err error
		if id, err = ParseID(user.ID()); err != nil {
			return err
		}
	}
	s.personal, s.modelID = user, id
	s.predictor.Use(user)
	s.transcript.follow(id)
	return nil
}

// initial sets dst to the model's initial distribution.
func (s *Sanitizer) initial(dst *mobility.Distribution) {
	if s.personal != nil {
		s.personal.Initial(dst)
		return
	}
	dst.CopyFrom(&s.model.Initial)
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

// predict fills s.prior, pruned and normalized. In a step that was only predicted so far the stored
// posterior is the prior.
func (s *Sanitizer) predict(state *State, step int64) {
	prune := max(s.options.Prune, 0)
	// The difference of two int64 fits uint64 where the first is not smaller.
	gap := uint64(step) - uint64(state.Step)
	if state.Started && gap <= uint64(s.options.MaxGap) {
		s.predictor.PredictPruned(&s.prior, &state.Posterior, state.Step, int(gap), prune)
		return
	}
	s.initial(&s.prior)
	s.prior.Prune(prune)
}

// release draws and charges a release of the prior's step. Where the key has no noise for the
// step's day nothing has changed.
func (s *Sanitizer) release(state *State, in Input) (Outcome, error) {
	s.arrange()
	effective := s.set.Cells[s.surrogates.Nearest(in.Cell)]
	number := state.Releases + 1

	source, err := s.streams.On(dayOf(in.Step, s.stepMS), s.transcript.complete(in.User, in.Step, number, s.set.Cells, effective))
	if err != nil {
		return Outcome{}, err
	}
	s.book(state, in.Step, s.mechanism.Sample(source, effective))

	s.fresh = true
	out := outcome(state, Released)
	out.Changed = true
	out.Epsilon = s.options.Epsilon
	out.SetSize = len(s.set.Cells)
	out.Drift = effective != in.Cell
	return out, nil
}

// dayOf returns the day on which a step begins. It follows from the step alone: no clock decides
// which key a release has.
func dayOf(step, stepMS int64) noise.Day {
	if step > math.MaxInt64/stepMS {
		return noise.LastDay
	}
	return noise.DayAt(max(step, 0) * stepMS)
}

// likelihoods returns the likelihood of every cell of the prior given the release z, up to a common
// factor. Where no cell can emit z, which only the paper's inference knows, all are 0 and the prior
// stays.
func (s *Sanitizer) likelihoods(z grid.Point) []float64 {
	if s.options.Inference == InferencePaper {
		s.places = centres(s.places, s.model.Grid, s.prior.Cells)
		return s.inference.Paper(s.mechanism, z, s.places)
	}
	s.places = centres(s.places, s.model.Grid, s.set.Cells)
	s.nearest = s.surrogates.All(s.nearest, s.prior.Cells)
	return s.inference.Surrogate(s.mechanism, z, s.places, s.nearest)
}

// centres writes the centres of ascending cells into dst, the same numbers as Grid.Centre with one
// division a row.
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
