package audit

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/trial"
)

// Expensive checks are made once in so many records.
const (
	eachPlaces = 16
	eachBayes  = 16
	eachRetry  = 8
	eachBorder = 8
)

// published returns the publish options of a long run: the given ones, or others.
func published(given engine.Publish, run int) engine.Publish {
	switch run % 3 {
	case 1:
		return engine.Publish{Timestamp: engine.TimestampStep, User: engine.UserPseudonym}
	case 2:
		return engine.Publish{}
	}
	return given
}

// received returns the input options of a long run. Every other run treats fixes outside the map
// the other way.
func received(given engine.Input, run int) engine.Input {
	if run%2 == 1 {
		if given.Outside == engine.OutsideClamp {
			given.Outside = engine.OutsideDeadLetter
		} else {
			given.Outside = engine.OutsideClamp
		}
	}
	return given
}

// walkJobs are long runs with a release in every step, and a quarter as many under the given
// intervals, hours and budgets.
func walkJobs(p *plan) (all []job) {
	for i := range p.sizes.Vehicles {
		all = append(all, func() (*result, error) { return vehicle(p, i, p.plain) })
	}
	for i := range (p.sizes.Vehicles + 3) / 4 {
		number := p.sizes.Vehicles + i
		all = append(all, func() (*result, error) {
			return vehicle(p, number, p.settings.Release)
		})
	}
	return all
}

// walker feeds an instance and checks what it does.
type walker struct {
	settings Settings
	subject  Subject
	observer *observer
	rng      *rand.Rand
	checks   *probeChecks
	draws    []draw
}

func newWalker(start Maker, s Settings, rng *rand.Rand) (*walker, error) {
	subject, err := start(s)
	if err != nil {
		return nil, err
	}
	observer, err := newObserver(s)
	return &walker{
		settings: s, subject: subject, observer: observer, rng: rng, checks: newProbeChecks(),
	}, err
}

func (w *walker) feed(f Fix, before []byte) (Effect, error) {
	w.checks.fed++
	return w.subject.Feed(f, before)
}

// read takes down a release for the tests of the law. It says whether there was one to read.
func (w *walker) read(law *stated, cell grid.Cell, before []byte, got Effect, user int) (
	after mechanism.State, ok bool, err error,
) {
	if err := after.DecodeBinary(got.State); err != nil || got.Counts.Releases != 1 {
		return after, false, err
	}
	d, wrong := law.read(cell, after.Release, w.rng)
	w.checks.point.Trials++
	if wrong != "" {
		w.checks.point.fail("%s", wrong)
	}
	if d.shape == 0 {
		return after, false, nil
	}
	var was mechanism.State
	if err := was.DecodeBinary(before); err != nil {
		return after, false, err
	}
	if was.Started {
		d.gap = after.Step - was.Step
	}
	stepMS := w.settings.Model.Step.Milliseconds()
	d.fresh, d.step, d.number = after.Releases == 1, after.ReleaseStep, int64(after.Releases)
	d.user, d.hour = user, time.UnixMilli(after.ReleaseStep*stepMS).UTC().Hour()
	w.draws = append(w.draws, d)
	return after, true, nil
}

// vehicle is one long run: a user who moves as the model says. Every fourth user jumps anywhere, so
// that drift happens. Each record and state is compared with the observer's. Runs start at all
// hours of the day, two of them together.
func vehicle(p *plan, number int, rules mechanism.Options) (*result, error) {
	rng := p.rng("vehicle", number)
	s := p.settings
	s.Release, s.Publish, s.Input = rules, published(s.Publish, number), received(s.Input, number)
	w, err := newWalker(p.start, s, rng)
	if err != nil {
		return nil, err
	}
	fresh, err := p.start(s)
	if err != nil {
		return nil, err
	}
	var (
		user   = userName("vehicle", number)
		walker = trial.NewWalker(s.Model, rng)
		step   = p.moments(number / 2).next()
		stepMS = s.Model.Step.Milliseconds()
		state  []byte
		sum    sums
	)
	for i := range p.steps() {
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
			if err := w.retry(fresh, f, state, effect); err != nil {
				return nil, err
			}
		}
		state = effect.State
		step = moved(p, rng, &walker, step, number%4 == 3)
	}
	return &result{checks: w.checks, walk: w.draws}, nil
}

// moved moves a user on, or anywhere if the user jumps, and returns the step of the next fix.
func moved(p *plan, rng *rand.Rand, walker *trial.Walker, step int64, jumps bool) int64 {
	next := nextStep(p, rng, step)
	if next <= step {
		return step
	}
	if walker.Move(next); jumps {
		walker.Cell = grid.Cell(rng.IntN(p.settings.Model.Grid.Cells()))
	}
	return next
}

// nextStep returns the step of the next fix: now and then the same step, or one after a gap, which
// may be longer than a filter lasts.
func nextStep(p *plan, rng *rand.Rand, step int64) int64 {
	switch n := rng.IntN(40); {
	case n == 0:
		return step
	case n < 3:
		step += 1 + rng.Int64N(4)
	case n < 6:
		step += 4 + rng.Int64N(int64(p.plain.MaxGap)/4+8)
	case n == 6:
		step += int64(p.plain.MaxGap) + rng.Int64N(4)
	}
	return p.open(step + 1)
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
	law, err := w.observer.law(before, w.settings.Model.StepAt(f.Timestamp))
	if err != nil {
		return err
	}
	after, ok, err := w.read(law, cell, before, got, user)
	if err != nil {
		return err
	}
	if ok && f.Offset%eachBayes == 0 {
		w.bayes(law, &after)
	}
	if f.Offset%eachPlaces == 0 {
		return w.places(f, before, law)
	}
	return nil
}

// bayes tests a release. The location set must hold its mass. The release must not distinguish two
// places of the set by more than ε, as it would if it lay beside a line. The posterior must follow
// by Bayes' rule from the stated law.
func (w *walker) bayes(law *stated, after *mechanism.State) {
	check, options := &w.checks.inference, law.options
	check.Trials++
	mass, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, c := range law.cells {
		e := law.exponent(c, after.Release)
		mass, low, high = mass+law.prior.At(c), min(low, e), max(high, e)
	}
	if law.code == nil && mass < (1-options.Delta)*law.prior.Total()-1e-9 {
		check.fail("a location set holds less than 1 - δ of the prior")
	}
	if !(high-low <= options.Epsilon*(1+1e-9)) {
		check.fail("a release tells two places of its location set apart by more than e^ε")
	}
	total, posterior := 0.0, make(map[grid.Cell]float64, law.prior.Len())
	for i, c := range law.prior.Cells {
		posterior[c] = law.prior.P[i] * math.Exp(law.exponent(c, after.Release)-high)
		total += posterior[c]
	}
	// Pruning drops at most 10⁻⁴ of the mass and float32 rounds by 10⁻⁷. Under the codebook
	// mechanism a mass is rounded to one of the two short ones beside it, and below the least to
	// that, or to twice as much.
	beside := 1 + 1e-3
	if after.Short {
		beside = 1 + 1./8 + 1e-6
	}
	for i, c := range after.Posterior.Cells {
		want, p := posterior[c]/total, after.Posterior.P[i]
		least := after.Short && want < mechanism.LeastMass &&
			(p == mechanism.LeastMass || p == 2*mechanism.LeastMass)
		if !(p <= want*beside && p >= want/beside) && !least {
			check.fail("the posterior is not that of Bayes' rule under the stated law")
			return
		}
	}
}

// sums adds up a user's account: records, states and counters must have the same sum.
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
		record, err := w.observer.codec.DecodeSanitized(m.Value)
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
	s.within(check, w.settings.Release.Budget, w.settings.Model.Step.Milliseconds())
	return nil
}

// within tests what counts in the step of the last release, and the lifetime.
func (s *sums) within(check *Check, b mechanism.Budget, stepMS int64) {
	if len(s.spent) == 0 {
		return
	}
	since, window := b.Since(s.spent[len(s.spent)-1].step, stepMS), 0.0
	for _, c := range s.spent {
		if (c.step+1)*stepMS > since {
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

// outsideKM is the distance of an outside fix from the map's border.
const outsideKM = 50

// border tests the effect of a fix far outside the map. With "outside: clamp" it must be that of a
// fix in the nearest cell. With dead_letter it must be a dead letter and nothing else, the same for
// any place outside: that the fix was outside is then public, but its place is secret.
func (w *walker) border(f Fix, before []byte) error {
	g := w.settings.Model.Grid
	far, near := w.beyond(f, max(outsideKM, 4*g.CellKM())), w.beyond(f, 2*g.CellKM())
	if g.Beyond(near.Latitude, near.Longitude) <= g.CellKM() {
		return nil // the map ends where the Earth does
	}
	clamped := g.Locate(far.Latitude, far.Longitude)
	got, err := w.feed(far, before)
	if err != nil {
		return err
	}
	check := &w.checks.border
	check.Trials++
	if w.settings.Input.Outside == engine.OutsideClamp {
		want, err := w.feed(placed(f, g, clamped, w.rng), before)
		if err != nil {
			return err
		}
		if what := difference(want, got); what != "" {
			check.fail("%s of a fix outside the map is not that of the cell it is clamped to", what)
		}
		return nil
	}
	other, err := w.feed(near, before)
	if err != nil {
		return err
	}
	switch {
	case len(got.Records) > 0:
		check.fail("a fix outside the map leaves a record")
	case string(got.State) != string(before):
		check.fail("a fix outside the map changes the state")
	case len(got.DeadLetters) != 1:
		check.fail("a fix outside the map leaves no dead letter")
	default:
		if what := difference(other, got); what != "" {
			check.fail("%s says how far outside the map a fix was", what)
		}
	}
	return nil
}

// beyond returns f from a place at a distance beyond one of the four borders.
func (w *walker) beyond(f Fix, km float64) Fix {
	g := w.settings.Model.Grid
	width, height := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
	at := grid.Point{X: w.rng.Float64() * width, Y: w.rng.Float64() * height}
	switch w.rng.IntN(4) {
	case 0:
		at.X = -km
	case 1:
		at.X = width + km
	case 2:
		at.Y = -km
	default:
		at.Y = height + km
	}
	f.Latitude, f.Longitude = g.ToDegrees(at)
	f.Latitude = math.Max(-90, math.Min(90, f.Latitude))
	f.Longitude = math.Max(-180, math.Min(180, f.Longitude))
	return f
}

// places tests that two cells with the same surrogate or the same vote have the same effect, byte
// for byte. The fixes are anywhere within their cells and have different accuracies. If records
// carry only the step, times within the step must not matter either.
func (w *walker) places(f Fix, before []byte, law *stated) error {
	g, check, what := w.settings.Model.Grid, &w.checks.places, "surrogate"
	if law.code != nil {
		what = "cell's vote"
	}
	for range placesEach {
		cell := grid.Cell(w.rng.IntN(g.Cells()))
		base, err := w.feed(placed(f, g, cell, w.rng), before)
		if err != nil {
			return err
		}
		twin := placed(f, g, law.twin(w.rng, cell), w.rng)
		effect, err := w.feed(anyTime(w.settings, twin, w.rng), before)
		if err != nil {
			return err
		}
		check.Trials++
		if part := difference(base, effect); part != "" {
			check.fail("%s depends on more than the %s", part, what)
		}
	}
	return nil
}

// placesEach is the number of cells that are compared with others at a time.
const placesEach = 4

// retry tests that another instance, which knows nothing of the records in between, gives the same
// bytes.
func (w *walker) retry(fresh Subject, f Fix, before []byte, want Effect) error {
	got, err := fresh.Feed(f, before)
	w.checks.fed++
	w.checks.retry.Trials++
	if what := difference(want, got); what != "" {
		w.checks.retry.fail("another instance changes %s", what)
	}
	return err
}
