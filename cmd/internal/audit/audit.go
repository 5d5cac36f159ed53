package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Options configure an audit.
type Options struct {
	Sizes Sizes // the zero Sizes mean DefaultSizes
	// Seed determines the truths and the keys, so that an audit can be repeated.
	Seed uint64
	// Confidence is one minus the rate of false alarms; 0 means that of evaluation.
	Confidence float64
	// Workers is the number of goroutines, one at least. The report does not depend on it.
	Workers int
	// Progress, if set, receives roughly how many of the raw records were fed, one call at a time.
	// Its error ends the audit.
	Progress func(done, total int64) error
}

// attackShare is the share of the attack in the rate of false alarms.
const attackShare = .25

// Run attacks the instances that start makes under the settings. It does not use the key of the
// settings: an audit has keys of its own. An error means that the audit could not run.
//
// On a service that does what it states, the rate of false alarms is 1 - Confidence in all.
func Run(start Maker, s Settings, o Options) (*Report, error) {
	if o.Sizes == (Sizes{}) {
		o.Sizes = DefaultSizes
	}
	if o.Confidence == 0 {
		o.Confidence = attack.DefaultConfidence
	}
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
		return nil, errors.New("the audit needs a map of two cells at least; train a model with " +
			"smaller cells")
	}
	s.Release = given.Options()
	plain, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), PlainRules(s.Release))
	if err != nil {
		return nil, err
	}
	const someDay = 1_700_000_000_000 // an arbitrary recent time
	p := &plan{
		start: start, settings: s, plain: plain.Options(), sizes: o.Sizes, seed: o.Seed,
		firstStep: s.Model.StepAt(someDay),
	}
	all, err := p.do(o)
	if err != nil {
		return nil, err
	}
	return p.report(all, o), nil
}

// do runs all jobs.
func (p *plan) do(o Options) ([]*result, error) {
	jobs := slices.Concat(ruleJobs(p), walkJobs(p), shapeJobs(p))
	total := int64(0)
	for _, j := range jobs {
		total += int64(j.records)
	}
	results := make([]*result, len(jobs))
	pool := parallel.Pool{
		Workers: o.Workers, Size: func(n int) int64 { return int64(jobs[n].records) },
	}
	if o.Progress != nil {
		pool.Progress = func(done int64) error { return o.Progress(done, total) }
	}
	return results, pool.Each(len(jobs), func(n int) (err error) {
		results[n], err = jobs[n].do()
		return err
	})
}

// report combines the results, in the order of the jobs, and makes the tests of the law.
func (p *plan) report(all []*result, o Options) *Report {
	sum := newChecks(p.settings)
	var (
		t       tests
		walk    []draw
		pools   = make([][]draw, len(shapes()))
		shifts  []shift
		first   *result
		guesses [2]int64
		agreed  agreement
	)
	for _, r := range all {
		sum.add(r.checks)
		walk = append(walk, r.walk...)
		pools[r.shape] = append(pools[r.shape], r.pool...)
		shifts = append(shifts, r.shifts...)
		guesses[0], guesses[1] = guesses[0]+r.guesses[0], guesses[1]+r.guesses[1]
		agreed.agree, agreed.pairs = agreed.agree+r.agreed.agree, agreed.pairs+r.agreed.pairs
		agreed.expected += r.agreed.expected
		if r.shape == 0 && r.area > 0 && first == nil {
			first = r
		}
	}
	t.longRuns(&sum.law, &sum.periods, walk)
	for i, s := range shapes() {
		t.pool(&sum.law, s.name, pools[i])
	}
	if first != nil {
		duplicates(&t, &sum.streams, shifts, first.settings, first.area)
	}
	t.agreements(&sum.streams, agreed)
	alpha := 1 - o.Confidence
	t.judge(alpha * (1 - attackShare))
	report := &Report{
		Records: sum.fed, Tests: len(t.all), Confidence: o.Confidence,
		AttackConfidence: 1 - alpha*attackShare, Hits: guesses[0], Misses: guesses[1],
		Settings: p.settings.Facts(),
	}
	report.Bound = attack.EpsilonLowerBound(guesses[0], guesses[1], alpha*attackShare)
	sum.attack.Trials = guesses[0] + guesses[1]
	if report.Bound > p.settings.Release.Epsilon {
		sum.attack.fail("two places can be told apart by more than e^ε: the true ε is at least "+
			"%.4f with confidence %g",
			report.Bound, report.AttackConfidence)
	}
	report.Bound = min(report.Bound, math.MaxFloat64)
	p.powers(sum, len(walk), len(shifts))
	if p.settings.coded() {
		powersOfAnswers(sum, walk)
	}
	report.Checks = sum.list()
	report.Passed = !slices.ContainsFunc(report.Checks,
		func(c *Check) bool { return c.Failures > 0 })
	return report
}

// powers describes what the checks would have found.
func (p *plan) powers(c *checks, walk, users int) {
	same := "any such difference in what was compared"
	c.places.Power, c.border.Power, c.retry.Power = same, same, same
	c.records.Power, c.account.Power = same, same
	c.rules.Power = fmt.Sprintf(
		"any rule that comes to another result in one of these records, under %d sets of rules",
		ruleVariants)
	c.equal.Power = same + "; releases are made equal on a lattice of one step to a cell at ε = 2"
	c.inference.Power = "posteriors that are off by 10⁻³"
	c.point.Power = same
	// A normal quantile of 6 covers both the share of one test among thousands and a power of .9.
	const quantile = 6
	c.law.Power = fmt.Sprintf("another ε in all long runs that is off by %.1f %%, "+
		"and a tail that is cut where %.1g of the releases lie beyond",
		100*quantile/math.Sqrt(2*float64(max(walk, 1))), 18/float64(max(users, 1)))
	c.periods.Power = fmt.Sprintf(
		"another ε in every 16th step that is off by %.0f %%, and nothing slower than every %dth",
		100*quantile/math.Sqrt(float64(max(walk, 1))/8), longestPeriod)
	// If 14 collisions are expected, the probability of none is e⁻¹⁴.
	c.streams.Power = fmt.Sprintf("seeds of at most %d bits",
		max(0, int(math.Log2(float64(users)*float64(users)/2/14))))
	c.attack.Power = "what tells the farthest two places of a disc apart"
}

// powersOfAnswers describes what the checks of a codebook's answers would have found, where that is
// not what the checks of noise would have.
func powersOfAnswers(c *checks, walk []draw) {
	c.equal.Power = "any such difference in what was compared; releases are made equal at ε = 2"
	// As in powers, a normal quantile covers the share of one test and its power.
	const quantile = 6
	moved := 0.0
	for i := range walk {
		moved += walk[i].moves
	}
	n := float64(len(walk))
	off := 100 * quantile * math.Sqrt(n) / math.Max(moved, 1e-9)
	c.law.Power = fmt.Sprintf("another ε in all long runs that is off by %.1f %%, and far code "+
		"points that are left out where %.1g of the releases should be", off, 18/math.Max(n, 1))
	c.periods.Power = fmt.Sprintf("another ε in every 16th step that is off by %.0f %%, and "+
		"nothing slower than every %dth", 4*off, longestPeriod)
	c.streams.Power = "words that two places of one record share; equal words of different " +
		"users or steps are looked for in long runs only, by the check law"
	c.attack.Power = "what tells two places with far code points apart"
}
