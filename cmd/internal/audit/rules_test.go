package audit

import (
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/trial"
)

// Two truths have equal releases now and then if the lattice is coarse, the location set small and
// ε moderate. From a codebook it takes a moderate ε. Rules and records do not depend on any of
// these.
const (
	coarseEpsilon = 2
	coarseDelta   = .2
)

// coarse returns the options under which a probe looks for equal releases.
func coarse(o mechanism.Options) mechanism.Options {
	scale := coarseEpsilon / o.Epsilon
	if o.Mechanism != law.Codebook {
		o.Subdivision = 1
		o.Delta = max(o.Delta, coarseDelta)
	}
	o.Epsilon = coarseEpsilon
	o.Budget.Epsilon *= scale
	o.Budget.Lifetime *= scale
	return o
}

// plainRules returns the options with a release in every step.
func plainRules(o mechanism.Options) mechanism.Options {
	o.ReleaseInterval, o.Between, o.Budget, o.Hours = 0, "", mechanism.Budget{}, nil
	return o
}

// variants returns the rules that a probe tries, the given ones first.
func variants(given mechanism.Options) []mechanism.Options {
	var all []mechanism.Options
	with := func(change func(o *mechanism.Options)) {
		o := plainRules(coarse(given))
		change(&o)
		all = append(all, o)
	}
	with(func(o *mechanism.Options) { *o = coarse(given) })
	with(func(*mechanism.Options) {})
	for _, between := range []string{mechanism.BetweenPredict, mechanism.BetweenSkip} {
		with(func(o *mechanism.Options) { o.ReleaseInterval, o.Between = 3, between })
	}
	for _, spent := range []string{
		mechanism.SpentSuppress, mechanism.SpentRepeat, mechanism.SpentPredict,
	} {
		with(func(o *mechanism.Options) {
			o.Budget = mechanism.Budget{Epsilon: 3 * coarseEpsilon, WindowSteps: 8, Spent: spent}
		})
	}
	with(func(o *mechanism.Options) { o.Budget = mechanism.Budget{Lifetime: 9 * coarseEpsilon} })
	with(func(o *mechanism.Options) {
		o.ReleaseInterval, o.Between = 2, mechanism.BetweenSkip
		o.Budget = mechanism.Budget{
			Epsilon: 4 * coarseEpsilon, WindowSteps: 12, Spent: mechanism.SpentRepeat,
		}
	})
	return all
}

// ruleVariants is the number of variants.
const ruleVariants = 9

// truths are two instances with two truths and one public history.
type truths struct {
	*walker         // the first instance; its observer serves both
	other   Subject // the second instance
	streams [2]*seeded
	seed    uint64
}

func newTruths(p *plan, o mechanism.Options, rng *rand.Rand) (*truths, error) {
	d := &truths{streams: [2]*seeded{{}, {}}}
	s := p.settings
	s.Release, s.Streams = o, d.streams[0]
	var err error
	if d.walker, err = newWalker(p.start, s, rng); err != nil {
		return nil, err
	}
	s.Streams = d.streams[1]
	d.other, err = p.start(s)
	return d, err
}

func ruleJobs(p *plan) (all []job) {
	for i := range ruleVariants {
		all = append(all, func() (*result, error) { return rulesOf(p, i) })
	}
	return all
}

// rulesOf walks two truths through one public history under one set of rules. All public facts of
// both are equal: the user, the times and every release so far. So if the next releases are equal,
// everything else about the next record must be equal too.
func rulesOf(p *plan, variant int) (*result, error) {
	rng := p.rng("rules", variant)
	d, err := newTruths(p, variants(p.settings.Release)[variant], rng)
	if err != nil {
		return nil, err
	}
	model, user := p.settings.Model, userName("rules", variant)
	step, stepMS := closing(p), model.Step.Milliseconds()
	anywhere := func() grid.Cell { return grid.Cell(rng.IntN(model.Grid.Cells())) }
	first := trial.NewWalker(model, rng)
	second := trial.WalkerAt(model, rng, anywhere())
	var state []byte
	var sum sums
	for i := range p.sizes.RuleSteps {
		at := publicSchedule(rng, &step, p.plain.MaxGap)
		f := fix(model.Grid, user, at*stepMS+rng.Int64N(stepMS), first.Cell, rng)
		f.KafkaMS, f.Offset = f.Timestamp+rng.Int64N(stepMS), int64(i)
		effect, err := d.record([2]Fix{f, placed(f, model.Grid, second.Cell, rng)}, state)
		if err != nil {
			return nil, err
		}
		if err := sum.add(d.walker, effect); err != nil {
			return nil, err
		}
		state = effect.State
		first.Move(step)
		if second.Move(step); rng.IntN(3) == 0 {
			second.Cell = anywhere()
		}
	}
	return &result{checks: d.checks}, nil
}

// closing returns the step at which rule walks start: half of them before release.hours close, so
// that the rules meet steps inside and outside of the hours.
func closing(p *plan) int64 {
	step := p.firstStep
	for p.hours != nil && p.hours.Open(step*p.settings.Model.Step.Milliseconds()) &&
		step < p.firstStep+mostMoments {
		step++
	}
	return step - int64(p.sizes.RuleSteps/2)
}

// record feeds one fix to both instances, and returns the effect from which the history continues.
func (d *truths) record(fixes [2]Fix, before []byte) (Effect, error) {
	var effects [2]Effect
	for side := range effects {
		var err error
		if effects[side], err = d.feedSide(side, fixes[side], before); err != nil {
			return Effect{}, err
		}
	}
	want, err := d.observer.expected(fixes[0], before, effects[0])
	if err != nil {
		return Effect{}, err
	}
	d.checks.rules.Trials++
	if what := difference(want, effects[0]); what != "" {
		d.checks.rules.fail("%s is not what public facts say", what)
	}
	if effects[0].Counts.Releases == 0 || effects[1].Counts.Releases == 0 {
		if what := difference(effects[0], effects[1]); what != "" {
			d.checks.rules.fail("%s depends on the truth without a release", what)
		}
		return effects[0], nil
	}
	return d.force(fixes, before, effects)
}

// mostDraws bounds the releases that each truth may try until both have one in common.
const mostDraws = 160

// force draws until both truths have had the same release, and compares everything else. If that
// never happens it compares nothing.
func (d *truths) force(fixes [2]Fix, before []byte, effects [2]Effect) (Effect, error) {
	var known [2]map[grid.Point]Effect
	for side := range known {
		known[side] = map[grid.Point]Effect{}
	}
	for range mostDraws {
		for side := range effects {
			z, err := released(effects[side])
			if err != nil {
				return Effect{}, err
			}
			known[side][z] = effects[side]
			if other, ok := known[1-side][z]; ok {
				d.checks.equal.Trials++
				if what := difference(other, effects[side]); what != "" {
					d.checks.equal.fail("%s depends on the truth beside equal releases", what)
				}
				return other, nil
			}
			if effects[side], err = d.feedSide(side, fixes[side], before); err != nil {
				return Effect{}, err
			}
		}
	}
	return effects[0], nil
}

func (d *truths) feedSide(side int, f Fix, before []byte) (Effect, error) {
	d.seed++
	d.streams[side].seed = d.seed
	if side == 0 {
		return d.feed(f, before)
	}
	d.checks.fed++
	return d.other.Feed(f, before)
}

func released(e Effect) (grid.Point, error) {
	var state mechanism.State
	err := state.DecodeBinary(e.State)
	return state.Release, err
}
