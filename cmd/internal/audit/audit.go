package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// DefaultSizes take some 40 seconds of one core for most models.
var DefaultSizes = Sizes{
	Users: DefaultDraws, Shapes: 2048, Streams: 2 * DefaultDraws, Facts: 1024, Vehicles: 16,
	Steps: 512, RuleSteps: 64, Visits: 2000,
}

// DefaultDraws is the default of Options.Draws, and leastDraws what tells anything.
const (
	DefaultDraws = 1 << 17
	leastDraws   = 1000
)

// DefaultConfidence is one minus the rate of false alarms of a whole audit.
const DefaultConfidence = .999

// SizesFor returns the sizes that go with a number of draws from the first location set: the
// default sizes for its default, and in proportion for others, from a 64th to 16 times the default.
func SizesFor(draws int64) Sizes {
	scale := min(max(float64(draws)/DefaultDraws, 1./64), 16)
	d := DefaultSizes
	of := func(n, least int) int { return max(int(scale*float64(n)), least) }
	return Sizes{
		Users: of(d.Users, 1), Shapes: of(d.Shapes, 256), Streams: of(d.Streams, 1),
		Facts: of(d.Facts, 256), Vehicles: d.Vehicles, Steps: of(d.Steps, 32),
		RuleSteps: of(d.RuleSteps, 24), Visits: d.Visits,
	}
}

// Options configure an audit.
type Options struct {
	Sizes Sizes // the zero Sizes mean DefaultSizes
	// Seed determines the truths and the keys, so that an audit can be repeated.
	Seed uint64
	// Confidence is one minus the rate of false alarms; 0 means DefaultConfidence.
	Confidence float64
	// Traces are followed for location sets; nil: vehicles are simulated that move by the model.
	Traces *traces.Reader
	// Workers is the number of goroutines, one at least. The report does not depend on it.
	Workers int
	// Progress, if set, receives roughly how many of the raw records were fed, one call at a time.
	// Its error ends the audit.
	Progress func(done, total int64) error
}

// ValidateDraws reports a number of draws that tells nothing.
func ValidateDraws(draws float64) error {
	if draws != math.Trunc(draws) || math.Abs(draws) > 1e15 {
		return fmt.Errorf("--draws %g is not a number of draws: write 1e6 or 1000000", draws)
	}
	if draws < leastDraws {
		return fmt.Errorf("%g draws tell nothing: an audit needs --draws %d at least, and a bound "+
			"near ε a hundred thousand", draws, leastDraws)
	}
	return nil
}

// Run attacks the instances that start makes under the settings. It does not use the key of the
// settings: an audit has keys of its own. An error means that the audit could not run.
//
// On a service that does what it states, the rate of false alarms is 1 - Confidence in all.
func Run(ctx context.Context, start Maker, s Settings, o Options) (*Report, error) {
	if o.Sizes == (Sizes{}) {
		o.Sizes = DefaultSizes
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	p, err := newPlan(start, s, o)
	if err != nil {
		return nil, err
	}
	report := newReport(p, o)
	if err := meet(ctx, p, o, report); err != nil {
		return nil, err
	}
	all, err := do(ctx, p, o)
	if err != nil {
		return nil, err
	}
	judge(p, report, all, 1-o.Confidence)
	return report, nil
}

func newReport(p *plan, o Options) *Report {
	r := &Report{
		Mechanism: p.settings.Release.Mechanism, Epsilon: p.settings.Release.Epsilon,
		Delta: p.settings.Release.Delta, ModelID: p.settings.Model.ID(),
		Settings: p.settings.Facts(), Seed: o.Seed, Confidence: o.Confidence,
	}
	if near := p.settings.Release.Near; near != (law.Near{}) {
		r.Near, r.NearLimit = new(Bound), math.Log(near.Factor)
	}
	return r
}

func newPlan(start Maker, s Settings, o Options) (*plan, error) {
	// The key is parsed as from a key file: under a key that is known to be a seed's, records say
	// that they are not private.
	key, err := noise.ParseKey(noise.KeyFromSeed(o.Seed).Reveal())
	if err != nil {
		return nil, err
	}
	s.Key, s.Streams = key, nil
	given, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), s.Release)
	if err != nil {
		return nil, err
	}
	if s.Model.Grid.Cells() < 2 {
		return nil, errors.New("the map has no more than one place: train a model with smaller " +
			"cells; one place is all that --delta and the codebook leave of it")
	}
	s.Release = given.Options()
	if r := s.Release; r.Mechanism != law.Lattice && !s.coded() ||
		r.Inference != mechanism.InferenceSurrogate {
		return nil, fmt.Errorf("%s with %s inference has no proof to contradict: audit codebook "+
			"or lattice", r.Mechanism, r.Inference)
	}
	plain, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), PlainRules(s.Release))
	if err != nil {
		return nil, err
	}
	const someDay = 1_700_000_000_000 // an arbitrary recent time
	p := &plan{
		start: start, settings: s, plain: plain.Options(), sizes: o.Sizes, seed: o.Seed,
	}
	p.hours, err = hours.New(s.Release.Hours)
	p.firstStep = p.open(s.Model.StepAt(someDay))
	return p, err
}

// meet finds the situations: those of forced shapes, and those that users meet who move.
func meet(ctx context.Context, p *plan, o Options, r *Report) error {
	scout, err := newScout(p)
	if err != nil {
		return err
	}
	if o.Traces != nil {
		err = scout.follow(ctx, o.Traces)
	} else {
		err = scout.simulate(ctx)
	}
	if err != nil {
		return err
	}
	r.Met, r.Visits, r.Simulated = len(scout.seen), scout.visits, o.Traces == nil
	if len(scout.kept) == 0 && p.sizes.Visits > 0 {
		return errors.New("no location set or codebook of more than one place was met: give " +
			"longer traces with --in, a larger --epsilon, or a smaller --delta")
	}
	forced, err := forcedSituations(p)
	p.situations = append(forced, scout.kept...)
	return err
}

// do runs all jobs.
func do(ctx context.Context, p *plan, o Options) ([]*result, error) {
	jobs := slices.Concat(ruleJobs(p), walkJobs(p), crowdJobs(p), factJobs(p), exponentJobs(p))
	jobs = append(jobs, job{4 * dayUsers, func() (*result, error) { return days(p) }})
	total := int64(0)
	for _, j := range jobs {
		total += int64(j.records)
	}
	results := make([]*result, len(jobs))
	pool := parallel.Pool{
		Workers: o.Workers, Size: func(n int) int64 { return int64(jobs[n].records) },
		Progress: func(done int64) error {
			if o.Progress == nil {
				return ctx.Err()
			}
			return o.Progress(done, total)
		},
	}
	return results, pool.Each(len(jobs), func(n int) (err error) {
		results[n], err = jobs[n].do()
		return err
	})
}

// attackShare is the share of the attack in the rate of false alarms.
const attackShare = .25

// judge combines the results, in the order of the jobs, and makes the statistical tests.
func judge(p *plan, r *Report, all []*result, alpha float64) {
	sum := newChecks()
	var (
		t       tests
		walk    []draw
		shifts  []grid.Point
		pools   = make([][]draw, len(p.situations))
		guesses = make([][2][2]int64, len(p.situations))
	)
	for _, one := range all {
		sum.add(one.checks)
		walk, shifts = append(walk, one.walk...), append(shifts, one.shifts...)
		pools[one.situation] = append(pools[one.situation], one.pool...)
		for which := range one.guesses {
			for right := range one.guesses[which] {
				guesses[one.situation][which][right] += one.guesses[which][right]
			}
		}
		if one.changed != "" {
			sum.streams.Trials += int64(len(one.pairs))
			if len(one.pairs) < leastClass {
				r.Untested = append(r.Untested, one.changed)
			}
			t.together(&sum.streams, one.pairs, "noise does not depend on the %s", one.changed)
		}
	}
	sum.law.Trials, sum.periods.Trials = int64(len(walk)), int64(len(walk)+len(pools[0]))
	t.pool(&sum.law, "long runs", walk)
	t.independent(&sum.law, walk)
	t.byPeriod(&sum.periods, walk)
	t.byHour(&sum.periods, "long runs", walk)
	for i := range p.situations {
		at := &p.situations[i]
		if at.streams && at.law.k.dim() == 2 {
			sum.streams.Trials += int64(len(shifts))
			n := float64(at.law.options.Subdivision)
			t.duplicates(&sum.streams, shifts, at.law.options.Epsilon, at.law.k.area(), n*n)
		}
		sum.law.Trials += int64(len(pools[i]))
		t.pool(&sum.law, at.name, pools[i])
	}
	t.by(&sum.periods, pools[0], "user %d", func(d *draw) int64 { return int64(d.user) })
	t.byHour(&sum.periods, p.situations[0].name, pools[0])
	t.judge(alpha * (1 - attackShare))
	attack(p, r, sum, guesses, alpha*attackShare)
	if telling(p) == nil {
		r.Untested = []string{"every fact"}
	}
	r.Records, r.Tests = sum.fed, len(t.all)
	powers(p, sum, walk, len(shifts))
	r.Checks = sum.list()
	r.find()
}

// attack bounds the true ε from below: by the guesses in all situations together, and in each.
func attack(p *plan, r *Report, sum *checks, guesses [][2][2]int64, alpha float64) {
	var pooled [2][2]int64
	for _, one := range guesses {
		for which := range one {
			pooled[which][0] += one[which][0]
			pooled[which][1] += one[which][1]
		}
	}
	kinds := 1
	if p.settings.Release.Near.Factor > 0 {
		kinds = 2
	}
	each := alpha / float64(kinds*(len(guesses)+1))
	for i, at := range p.situations {
		bound := bounded(guesses[i][0], each)
		r.Situations = append(r.Situations, at.describe(bound))
		r.Bound.raise(bound, at.name)
		if kinds == 2 {
			r.Near.raise(bounded(guesses[i][1], each), at.name)
		}
	}
	sum.attack.Trials = pooled[0][0] + pooled[0][1] + pooled[1][0] + pooled[1][1]
	r.Bound.raise(bounded(pooled[0], each), "all together")
	if r.Bound.Epsilon > r.Epsilon {
		sum.attack.fail("two places can be told apart by more than e^ε: the true ε is at least "+
			"%.4f (%s)", r.Bound.Epsilon, r.Bound.Situation)
	}
	if kinds == 1 {
		r.Near = nil
		return
	}
	r.Near.raise(bounded(pooled[1], each), "all together")
	if r.Near.Epsilon > r.NearLimit {
		sum.attack.fail("two near places can be told apart by more than the near factor: by "+
			"e^%.4f at least (%s)", r.Near.Epsilon, r.Near.Situation)
	}
}

// bounded returns the lower bound on ε that guesses give.
func bounded(guesses [2]int64, alpha float64) Bound {
	return Bound{
		Epsilon: min(epsilonLowerBound(guesses[0], guesses[1], alpha), math.MaxFloat64),
		Hits:    guesses[0], Misses: guesses[1],
	}
}

// powers describes what the checks would have found.
func powers(p *plan, c *checks, walk []draw, noises int) {
	same := "any such difference in what was compared"
	for _, check := range c.list() {
		check.Power = same
	}
	c.exponents.Power = same + "; exponents that are off by 10⁻⁹"
	c.rules.Power = fmt.Sprintf(
		"any rule that comes to another result in one of these records, under %d sets of rules",
		ruleVariants)
	c.equal.Power = same + "; releases are made equal at ε = 2"
	c.inference.Power = "posteriors that are off by 10⁻³"
	// A normal quantile of 6 covers both the share of one test among thousands and a power of .9.
	const quantile = 6
	moved, n, tails := 0.0, float64(max(len(walk), 1)), "a tail that is cut"
	for i := range walk {
		moved += walk[i].moves
	}
	off := 100 * quantile / math.Sqrt(2*n)
	if p.settings.coded() {
		off, tails = 100*quantile*math.Sqrt(n)/math.Max(moved, 1e-9), "far code points left out"
		c.inference.Power = "posteriors that are off by an eighth, to which masses are rounded"
	}
	c.law.Power = fmt.Sprintf("another ε in all long runs that is off by %.1f %%, and %s where "+
		"%.1g of the releases of the first situation lie", off, tails,
		18/float64(max(p.sizes.Users, 1)))
	c.periods.Power = fmt.Sprintf("another ε in every 16th step that is off by %.0f %%, nothing "+
		"slower than every %dth, and a user's own place in each of %d releases", 4*off,
		longestPeriod, releasesEach)
	// If 14 pairs are expected, the probability of none is e⁻¹⁴.
	c.streams.Power = fmt.Sprintf("noise that ignores a tested fact, and seeds of at most %d bits",
		max(0, int(math.Log2(float64(noises)*float64(noises)/2/14))))
	c.attack.Power = "what tells the farthest two places of a situation apart"
}
