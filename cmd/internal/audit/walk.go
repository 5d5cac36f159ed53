package audit

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
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

func walkJobs(p *plan) (all []job) {
	for i := range p.sizes.Vehicles {
		all = append(all, job{4 * p.steps(), func() (*result, error) { return vehicle(p, i) }})
	}
	return all
}

// vehicle is one long run: a user who moves as the model says. Every fourth user jumps anywhere, so
// that drift happens. Each record and state is compared with the observer's.
func vehicle(p *plan, number int) (*result, error) {
	rng := p.rng("vehicle", number)
	s := p.settings
	s.Release, s.Publish, s.Input = p.plain, published(s.Publish, number), received(s.Input, number)
	w, err := newWalker(p.start, s, rng)
	if err != nil {
		return nil, err
	}
	var (
		user   = userName("vehicle", number)
		walker = trial.NewWalker(s.Model, rng)
		step   = p.firstStep
		stepMS = s.Model.Step.Milliseconds()
		state  []byte
		kept   []again
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
	return &result{checks: w.checks, walk: w.draws}, w.retries(p.start, kept, rng)
}

// nextStep returns the step of the next fix: now and then the same step, or one after a gap.
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
	if w.settings.coded() {
		return w.examineAnswer(f, cell, user, before, &after)
	}
	step := w.settings.Model.StepAt(f.Timestamp)
	cells, err := w.observer.set(before, step)
	if err != nil {
		return err
	}
	w.draw(cells, cell, &after, user)
	if f.Offset%eachBayes == 0 {
		if err := w.bayes(before, step, &after); err != nil {
			return err
		}
	}
	if f.Offset%eachPlaces == 0 {
		return w.surrogates(f, before, slices.Clone(cells))
	}
	return nil
}

// bayes tests a release. The location set must hold its mass. The release must not distinguish two
// places of the set by more than ε, as it would if it lay beside a line. The posterior must follow
// by Bayes' rule from the cells' surrogates. K is built by brute force.
func (w *walker) bayes(before []byte, step int64, after *mechanism.State) error {
	o, check := w.observer, &w.checks.inference
	cells, err := o.set(before, step)
	if err != nil {
		return err
	}
	g, options, prior := o.settings.Model.Grid, o.settings.Release, o.lookout.Prior()
	check.Trials++
	mass := 0.0
	for _, c := range cells {
		mass += prior.At(c)
	}
	if mass < (1-options.Delta)*prior.Total()-1e-9 {
		check.fail("a location set holds less than 1 - δ of the prior")
	}
	k := ball(g, options, cells)
	exponent := make(map[grid.Cell]float64, len(cells))
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range cells {
		d := after.Release.Sub(g.Centre(c))
		e := -options.Epsilon * k.Gauge(d.X/g.CellKM(), d.Y/g.CellKM())
		exponent[c], low, high = e, min(low, e), max(high, e)
	}
	if k.Dim() > 0 && !(high-low <= options.Epsilon*(1+1e-9)) {
		check.fail("a release tells two places of its location set apart by more than e^ε")
	}
	if options.Inference != mechanism.InferenceSurrogate || k.Dim() == 0 {
		return nil
	}
	total := 0.0
	posterior := make(map[grid.Cell]float64, prior.Len())
	for i, c := range prior.Cells {
		p := prior.P[i] * math.Exp(exponent[attack.NearestMember(g, cells, c)]-high)
		posterior[c] = p
		total += p
	}
	// Pruning drops at most 10⁻⁴ of the mass and float32 rounds by 10⁻⁷.
	for i, c := range after.Posterior.Cells {
		if want, p := posterior[c]/total, after.Posterior.P[i]; math.Abs(p-want) > 1e-3*want {
			check.fail("the posterior is not that of Bayes' rule under the stated law")
			return nil
		}
	}
	return nil
}

// examineAnswer makes the checks of one release from a codebook.
func (w *walker) examineAnswer(f Fix, cell grid.Cell, user int, before []byte,
	after *mechanism.State,
) error {
	code, err := w.observer.code(before, w.settings.Model.StepAt(f.Timestamp))
	if err != nil {
		return err
	}
	j, ok := w.answer(code, cell, after, user)
	if ok && f.Offset%eachBayes == 0 {
		w.bayesOfVotes(code, j, after)
	}
	if f.Offset%eachPlaces == 0 {
		return w.votes(f, before, code)
	}
	return nil
}

// bayesOfVotes tests that a posterior follows from a release by Bayes' rule, with votes by their
// definition.
func (w *walker) bayesOfVotes(code *attack.Codebook, j int, after *mechanism.State) {
	check, prior := &w.checks.inference, w.observer.lookout.Prior()
	check.Trials++
	total, posterior := 0.0, make(map[grid.Cell]float64, prior.Len())
	for i, c := range prior.Cells {
		posterior[c] = prior.P[i] * code.Law(c)[j]
		total += posterior[c]
	}
	// A mass is rounded to one of the two short ones beside it, and to the least one below that.
	const beside = 1 + 1./8 + 1e-6
	for i, c := range after.Posterior.Cells {
		want, p := posterior[c]/total, after.Posterior.P[i]
		if !(p <= want*beside && p >= want/beside) && !(p == mechanism.LeastMass && want < p) {
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

// surrogates tests that two cells with the same surrogate have the same effect, byte for byte: a
// cell outside the location set and its surrogate, or two cells outside it. The fixes are anywhere
// within their cells and have different accuracies. If records carry only the step, times within
// the step must not matter either.
func (w *walker) surrogates(f Fix, before []byte, cells []grid.Cell) error {
	g, check := w.settings.Model.Grid, &w.checks.places
	byMember := map[grid.Cell][]grid.Cell{}
	for range placesEach {
		c := grid.Cell(w.rng.IntN(g.Cells()))
		member := attack.NearestMember(g, cells, c)
		byMember[member] = append(byMember[member], c)
		same := append([]grid.Cell{member}, byMember[member]...)
		base, err := w.feed(placed(f, g, same[0], w.rng), before)
		if err != nil {
			return err
		}
		for _, cell := range same[1:] {
			effect, err := w.feed(w.anyTime(placed(f, g, cell, w.rng)), before)
			if err != nil {
				return err
			}
			check.Trials++
			if what := difference(base, effect); what != "" {
				check.fail("%s depends on more than the surrogate", what)
			}
		}
	}
	return nil
}

// votes tests that two cells of one vote have the same effect, byte for byte; with a near
// factor, two places of one cell. The fixes are anywhere within their cells and have different
// accuracies. If records carry only the step, times within the step must not matter either.
func (w *walker) votes(f Fix, before []byte, code *attack.Codebook) error {
	g, check := w.settings.Model.Grid, &w.checks.places
	for range placesEach {
		cell := grid.Cell(w.rng.IntN(g.Cells()))
		twin, ok := code.Twin(w.rng, cell)
		if !ok {
			twin = cell
		}
		base, err := w.feed(placed(f, g, cell, w.rng), before)
		if err != nil {
			return err
		}
		effect, err := w.feed(w.anyTime(placed(f, g, twin, w.rng)), before)
		if err != nil {
			return err
		}
		check.Trials++
		if what := difference(base, effect); what != "" {
			check.fail("%s depends on more than the cell's vote", what)
		}
	}
	return nil
}

// placesEach is the number of cells that are compared with others at a time.
const placesEach = 3

// anyTime moves the times of a fix within their steps if records do not carry the times.
func (w *walker) anyTime(f Fix) Fix {
	if w.settings.Publish.Timestamp != engine.TimestampStep {
		return f
	}
	stepMS := w.settings.Model.Step.Milliseconds()
	within := w.rng.Int64N(stepMS)
	f.Timestamp += within - f.Timestamp%stepMS
	f.KafkaMS += within - f.KafkaMS%stepMS
	return f
}

// again is a record of a run and its effect, for another instance to repeat.
type again struct {
	fix    Fix
	before []byte
	effect Effect
}

func (w *walker) retries(start Maker, kept []again, rng *rand.Rand) error {
	fresh, err := start(w.settings)
	if err != nil {
		return err
	}
	rng.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] })
	for _, k := range kept {
		effect, err := fresh.Feed(k.fix, k.before)
		if err != nil {
			return err
		}
		w.checks.fed++
		w.checks.retry.Trials++
		if what := difference(k.effect, effect); what != "" {
			w.checks.retry.fail("another instance changes %s", what)
		}
	}
	return nil
}
