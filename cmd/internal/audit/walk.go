package audit

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// walker follows one user through a long run.
type walker struct {
	settings Settings
	subject  Subject
	observer *observer
	codec    *schemas.Codec
	rng      *rand.Rand
	checks   *checks
	draws    []draw
}

func newWalker(start Maker, s Settings, rng *rand.Rand) (*walker, error) {
	subject, err := start(s)
	if err != nil {
		return nil, err
	}
	observer, err := newObserver(s)
	if err != nil {
		return nil, err
	}
	codec, err := schemas.NewCodec(s.encoding())
	return &walker{
		settings: s, subject: subject, observer: observer, codec: codec, rng: rng, checks: newChecks(),
	}, err
}

func (w *walker) feed(f Fix, before []byte) (Effect, error) {
	w.checks.fed++
	return w.subject.Feed(f, before)
}

// Every so many records a costlier check is made.
const (
	eachPlaces = 16
	eachBayes  = 16
	eachRetry  = 8
	eachBorder = 8
)

// published are the publish options of long runs: the given ones, and all others.
func published(given pipeline.Publish, run int) pipeline.Publish {
	switch run % 3 {
	case 1:
		return pipeline.Publish{Timestamp: pipeline.TimestampStep, User: pipeline.UserPseudonym, Metric: true}
	case 2:
		return pipeline.Publish{Metric: true}
	}
	return given
}

// received are the input options of long runs: the given ones, and in every other run the
// other way to treat fixes outside the map.
func received(given pipeline.Input, run int) pipeline.Input {
	if run%2 == 1 {
		if given.Outside == pipeline.OutsideClamp {
			given.Outside = pipeline.OutsideDeadLetter
		} else {
			given.Outside = pipeline.OutsideClamp
		}
	}
	return given
}

// vehicle is one long run: a user who moves as the model says, or every fourth one anywhere,
// so that drift is met. Each record and state is held against the observer's.
func (a *auditor) vehicle(number int) (*result, error) {
	rng := a.rng("vehicle", number)
	s := a.settings
	s.Release, s.Publish, s.Input = a.plain, published(s.Publish, number), received(s.Input, number)
	w, err := newWalker(a.start, s, rng)
	if err != nil {
		return nil, err
	}
	var (
		user   = userName("vehicle", number)
		walker = trial.NewWalker(s.Model, rng)
		step   = a.firstStep
		stepMS = s.Model.Step.Milliseconds()
		state  []byte
		kept   []again
		sum    sums
	)
	for i := range a.sizes.Steps {
		f := fix(s.Model.Grid, user, step*stepMS+rng.Int64N(stepMS), walker.Cell, rng)
		f.KafkaMS, f.Offset = f.Timestamp+rng.Int64N(3*stepMS), int64(i)
		effect, err := w.feed(f, state)
		if err != nil {
			return nil, err
		}
		if err := w.examine(f, walker.Cell, number, state, effect); err != nil {
			return nil, err
		}
		if i%eachBorder == 0 {
			if err := w.border(f, state); err != nil {
				return nil, err
			}
		}
		if err := sum.add(w, effect); err != nil {
			return nil, err
		}
		if i%eachRetry == 0 {
			kept = append(kept, again{f, state, effect})
		}
		state = effect.State
		if next := nextStep(rng, step); next > step {
			step = next
			if walker.Move(step); number%4 == 3 {
				walker.Cell = grid.Cell(rng.IntN(s.Model.Grid.Cells()))
			}
		}
	}
	return &result{checks: w.checks, walk: w.draws}, w.retries(a.start, kept, rng)
}

// nextStep is the step of the next fix: now and then the same one again, or a gap.
func nextStep(rng *rand.Rand, step int64) int64 {
	switch n := rng.IntN(40); n {
	case 0:
		return step
	case 1:
		return step + 2
	}
	return step + 1
}

// examine makes the checks of one record.
func (w *walker) examine(f Fix, cell grid.Cell, user int, before []byte, got Effect) error {
	want, err := w.observer.expected(f, before, got)
	if err != nil {
		return err
	}
	w.checks.records.Trials++
	if what := difference(want, got); what != "" {
		w.checks.records.fail("%s is not what the releases say", what)
	}
	if got.Counts.Releases != 1 {
		return nil
	}
	var after mechanism.State
	if err := after.DecodeBinary(got.State); err != nil {
		return err
	}
	step := w.settings.Model.StepAt(f.Timestamp)
	cells, err := w.observer.set(before, step)
	if err != nil {
		return err
	}
	w.draw(cells, cell, &after, user)
	if f.Offset%eachBayes == 0 {
		if err := w.observer.bayes(&w.checks.inference, before, step, &after); err != nil {
			return err
		}
	}
	if f.Offset%eachPlaces == 0 {
		return w.surrogates(f, before, slices.Clone(cells))
	}
	return nil
}

// draw reads the noise of a release off the state.
func (w *walker) draw(cells []grid.Cell, cell grid.Cell, after *mechanism.State, user int) (x, y float64) {
	g := w.settings.Model.Grid
	site := attack.NearestMember(g, cells, cell)
	noise := after.Release.Sub(g.Centre(site))
	x, y = noise.X/g.CellKM(), noise.Y/g.CellKM()
	if w.settings.Release.Mechanism == law.Lattice {
		// Whole steps, but for the rounding of kilometres.
		n := float64(w.settings.Release.Subdivision)
		x, y = math.Round(x*n)/n, math.Round(y*n)/n
	}
	k := ball(g, w.settings.Release, cells)
	if k.Dim() == 0 {
		w.checks.point.Trials++
		if x != 0 || y != 0 {
			w.checks.point.fail("the release of a single cell is not that cell")
		}
		return x, y
	}
	d := draw{
		drift: site != cell, even: cell%2 == 0, fresh: after.Releases == 1,
		step: after.ReleaseStep, number: int64(after.Releases), user: user,
	}
	d.measure(k, w.settings.Release.Epsilon, x, y, w.rng)
	w.draws = append(w.draws, d)
	return x, y
}

// sums holds a user's account together: records, states and counters must tell one sum.
type sums struct {
	records, counters float64
	spent             []cost
}

type cost struct {
	step    int64
	epsilon float64
}

func (s *sums) add(w *walker, effect Effect) error {
	check := &w.checks.account
	check.Trials++
	for _, m := range effect.Records {
		record, err := w.codec.DecodeSanitized(m.Value)
		if err != nil {
			return err
		}
		s.records += record.Epsilon
		if record.Epsilon > 0 {
			s.spent = append(s.spent, cost{record.Step, record.Epsilon})
		}
	}
	s.counters += effect.Counts.Epsilon
	var state mechanism.State
	if err := state.DecodeBinary(effect.State); err != nil {
		return err
	}
	const rounding = 1e-6
	if math.Abs(state.EpsilonSpent-s.records) > rounding {
		check.fail("the state's ε is not the sum of the records'")
	}
	if math.Abs(s.counters-s.records) > rounding {
		check.fail("the counters' ε is not the sum of the records'")
	}
	s.within(check, w.settings.Release.Budget)
	return nil
}

// within tests the window that ends at the last release, and the lifetime.
func (s *sums) within(check *Check, b mechanism.Budget) {
	if len(s.spent) == 0 {
		return
	}
	last, window := s.spent[len(s.spent)-1].step, 0.0
	for _, c := range s.spent {
		if c.step > last-int64(b.WindowSteps) {
			window += c.epsilon
		}
	}
	if b.WindowSteps > 0 && window > b.Epsilon+1e-9 {
		check.fail("a window holds more ε than its budget")
	}
	if b.Lifetime > 0 && s.records > b.Lifetime+1e-9 {
		check.fail("a user has spent more than the lifetime's budget")
	}
}
