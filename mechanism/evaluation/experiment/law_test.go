package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/trial"
)

// simulated is what many traces give that follow the model they are filtered with.
type simulated struct {
	n        int
	squares  float64 // Σ‖z-x*‖², km², where there is no drift
	expected float64 // Σ of the mechanism's closed form
	variance float64 // Σ of the squared differences of the two
	drifts   float64
	outside  float64 // Σ of the prior's mass outside ΔX
	lost     float64 // of the trace at hand: how often it drifted, less that mass
	spread   float64 // Σ lost² of the traces
}

// simulate walks traces of a model. δ of the sanitizer may differ from the one that the
// expectation is computed for: a planted fault.
func simulate(
	t *testing.T, model *mobility.Model, v Variant, released, stated Setting,
) (s simulated) {
	t.Helper()
	d := &Data{Grid: model.Grid, Step: model.Step}
	o := d.Release(v, released.Epsilon, released.Delta)
	sanitizer, err := mechanism.NewSanitizer(model, Keyed(1, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	noisy, err := o.NewMechanism()
	if err != nil {
		t.Fatal(err)
	}
	var (
		bits         = rand.New(rand.NewPCG(5, 6))
		predictor    = mobility.NewPredictor(model)
		prior        mobility.Distribution
		ours, theirs locationset.Set
		hull         law.SensitivityHull
	)
	for user := range 160 {
		// Users of one name would share noise where they share everything else.
		walker := trial.NewWalker(model, bits)
		trace := &Trace{
			User: fmt.Sprint(user), Steps: []int64{0}, Cells: []grid.Cell{walker.Cell},
		}
		for i := int64(1); i < 24; i++ {
			walker.Move(i - 1)
			trace.Steps, trace.Cells = append(trace.Steps, i), append(trace.Cells, walker.Cell)
		}
		prior.CopyFrom(&model.Initial)
		prior.Prune(mechanism.DefaultPrune)
		err := Releasing(sanitizer, trace.Track(model.Grid, nil),
			func(r *trial.Result) error {
				out := r.Outcome
				ours.Choose(&prior, stated.Delta)
				theirs.Choose(&prior, released.Delta)
				if len(theirs.Cells) != out.SetSize {
					t.Fatalf("|ΔX| is %d, computed beside it %d", out.SetSize, len(theirs.Cells))
				}
				hull.OfCells(model.Grid, ours.Cells)
				noisy.Prepare(&hull, stated.Epsilon)
				s.add(model.Grid, r.Cell, out, noisy.SquaredError(), outside(&prior, ours.Cells))
				predictor.PredictPruned(&prior, &r.State.Posterior, r.Step, 1,
					mechanism.DefaultPrune)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		s.spread += s.lost * s.lost
		s.lost = 0
	}
	return s
}

func (s *simulated) add(
	g *grid.Grid, cell grid.Cell, out mechanism.Outcome, expected, outside float64,
) {
	s.outside += outside
	s.lost -= outside
	if out.Drift {
		s.drifts++
		s.lost++
		return
	}
	distance := out.Release.Distance(g.Centre(cell))
	s.n++
	s.squares += distance * distance
	s.expected += expected
	s.variance += (distance*distance - expected) * (distance*distance - expected)
}

func outside(prior *mobility.Distribution, set []grid.Cell) (mass float64) {
	for i, c := range prior.Cells {
		if _, in := slices.BinarySearch(set, c); !in {
			mass += prior.P[i]
		}
	}
	return mass
}

// errorScore and driftScore are about standard normal for a right mechanism: sums of differences
// from what is expected, over the root of the sum of their squares. For the error a difference is a
// release's: each is expected to be 0 given all before. For the drift it is a trace's, since who is
// lost stays lost for a while.
func (s *simulated) errorScore() float64 { return (s.squares - s.expected) / math.Sqrt(s.variance) }
func (s *simulated) driftScore() float64 { return (s.drifts - s.outside) / math.Sqrt(s.spread) }

// alarm is where a score counts as a fault. A normal number lies further out once in 10⁶; squares
// of distances have longer tails than it, which their number here, some 3,000, tames to about one
// in 10⁵.
const alarm = 4.9

// TestSimulatedTruth: on traces that follow the model the measured error of releases is the closed
// form's, the drift is the prior's mass outside ΔX and so a little below δ, and PIM's raw error
// is .43 to .97 of LM's, as the shapes of hulls allow. With planted faults, noise of twice the ε
// or sets of three times the δ, the scores alarm.
func TestSimulatedTruth(t *testing.T) {
	model, _, err := wandering(t, wanderGrid(t),
		train.Options{KernelRadius: 3}, 7, 400).Finish()
	if err != nil {
		t.Fatal(err)
	}
	at := Setting{Epsilon: 1, Delta: .1}
	got := map[Variant]simulated{}
	for _, v := range []Variant{
		LM, PIM,
		{Mechanism: law.LaplaceTight, Inference: mechanism.InferenceSurrogate},
		{Mechanism: law.Lattice, Inference: mechanism.InferenceSurrogate},
	} {
		s := simulate(t, model, v, at, at)
		got[v] = s
		if score := s.errorScore(); math.Abs(score) > alarm {
			t.Errorf("%s: rms %.3f km, closed form %.3f: score %.1f", v.Label(),
				math.Sqrt(s.squares/float64(s.n)), math.Sqrt(s.expected/float64(s.n)), score)
		}
		if score := s.driftScore(); math.Abs(score) > alarm {
			t.Errorf("%s: drift %.0f, expected %.1f: score %.1f",
				v.Label(), s.drifts, s.outside, score)
		}
		if mean := s.outside / float64(s.n+int(s.drifts)); mean > at.Delta || mean < at.Delta/2 {
			t.Errorf("%s: %.4f of the prior is outside ΔX on average, want a little below δ = %g",
				v.Label(), mean, at.Delta)
		}
	}
	lm, pim := got[LM], got[PIM]
	if ratio := math.Sqrt(
		pim.squares / float64(pim.n) / (lm.squares / float64(lm.n)),
	); ratio < .43 || ratio > .97 {
		t.Errorf("PIM's error is %.3f of LM's, want .43 to .97", ratio)
	}
	loud := simulate(t, model, PIM, Setting{Epsilon: 2, Delta: .1}, at)
	if score := loud.errorScore(); math.Abs(score) < alarm {
		t.Errorf("half the noise goes unnoticed: score %.1f", score)
	}
	wide := simulate(t, model, PIM, Setting{Epsilon: 1, Delta: .3}, at)
	if score := wide.driftScore(); math.Abs(score) < alarm {
		t.Errorf("three times the drift goes unnoticed: score %.1f", score)
	}
}
