package audit

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// Sizes say how much an audit looks at.
type Sizes struct {
	Users     int // of the first forced location set, each with one release
	Shapes    int // users of each of the others
	Vehicles  int // long runs
	Steps     int // records of each of them
	RuleSteps int // records under each set of rules
}

// DefaultSizes take some 15 seconds of one core, whatever the model, unless its location sets
// are of thousands of cells.
var DefaultSizes = Sizes{Users: 1 << 17, Shapes: 2048, Vehicles: 16, Steps: 512, RuleSteps: 64}

// SizesFor returns the sizes that go with so many draws of an attack on the mechanism: the
// default with its default, and in proportion otherwise, between a 64th and 16 times that.
func SizesFor(draws int64) Sizes {
	scale := min(max(float64(draws)/attack.DefaultDraws, 1./64), 16)
	d := DefaultSizes
	of := func(n, least int) int { return max(int(scale*float64(n)), least) }
	return Sizes{
		Users: of(d.Users, 1), Shapes: of(d.Shapes, 256), Vehicles: d.Vehicles,
		Steps: of(d.Steps, 32), RuleSteps: of(d.RuleSteps, 24),
	}
}

// Options say how an audit is made.
type Options struct {
	Sizes Sizes // the zero Sizes mean DefaultSizes
	// Seed makes an audit repeatable. It gives the truths and the keys.
	Seed uint64
	// Confidence is one minus the rate of false alarms; 0 means that of evaluation.
	Confidence float64
	// Workers is the number of goroutines, one at least. The report does not depend on it.
	Workers int
	// Progress, if set, is told how many of the raw records have been fed, roughly, one call
	// at a time. Its error ends the audit.
	Progress func(done, total int64) error
}

// attackShare is the part of the rate of false alarms that the attack has.
const attackShare = .25

// auditor is an audit at work. Its tasks share nothing that changes.
type auditor struct {
	start     Maker
	settings  Settings          // with the rules of release that were given
	plain     mechanism.Options // without
	sizes     Sizes
	seed      uint64
	firstStep int64
}

// result is what one task has found.
type result struct {
	checks *checks
	walk   []draw

	shape    int
	pool     []draw
	shifts   []shift
	guesses  [2]int64 // right, wrong
	settings Settings
	area     float64
}

// Run attacks what start makes under the settings. The key of the settings is not used:
// an audit has keys of its own. An error means that the audit could not be carried out.
//
// False alarms on a service that is as stated: 1 - Confidence in all.
func Run(start Maker, s Settings, o Options) (*Report, error) {
	if o.Sizes == (Sizes{}) {
		o.Sizes = DefaultSizes
	}
	if o.Confidence == 0 {
		o.Confidence = attack.DefaultConfidence
	}
	// Read as a key file would be: records of a key that is known to be a seed's say so.
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
		return nil, errors.New("the audit needs a map of two cells at least; train a model with smaller cells")
	}
	s.Release = given.Options()
	plain, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), PlainRules(s.Release))
	if err != nil {
		return nil, err
	}
	const someDay = 1_700_000_000_000 // any time of our days
	a := &auditor{
		start: start, settings: s, plain: plain.Options(), sizes: o.Sizes, seed: o.Seed,
		firstStep: s.Model.StepAt(someDay),
	}
	all, err := a.do(o)
	if err != nil {
		return nil, err
	}
	return a.report(all, o), nil
}

// rng is the randomness of a task, which depends on the seed and the task alone.
func (a *auditor) rng(kind string, number int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "geodither audit of the service, %s %d", kind, number)
	return rand.New(rand.NewPCG(a.seed, h.Sum64()))
}

// do runs all tasks, each on its own instances.
func (a *auditor) do(o Options) ([]*result, error) {
	var tasks []func() (*result, error)
	work := []int64{}
	add := func(records int, do func() (*result, error)) {
		tasks, work = append(tasks, do), append(work, int64(records))
	}
	for i := range ruleVariants {
		add(60*a.sizes.RuleSteps, func() (*result, error) { return a.rulesOf(i) })
	}
	for i := range a.sizes.Vehicles {
		add(4*a.sizes.Steps, func() (*result, error) { return a.vehicle(i) })
	}
	for _, c := range a.crowds() {
		add(c.users, func() (*result, error) { return a.crowd(c) })
	}
	total := int64(0)
	for _, n := range work {
		total += n
	}
	results := make([]*result, len(tasks))
	pool := parallel.Pool{Workers: o.Workers, Size: func(task int) int64 { return work[task] }}
	if o.Progress != nil {
		pool.Progress = func(done int64) error { return o.Progress(done, total) }
	}
	return results, pool.Each(len(tasks), func(task int) (err error) {
		results[task], err = tasks[task]()
		return err
	})
}

// report puts the results together, in the order of tasks, and makes the tests of the law.
func (a *auditor) report(all []*result, o Options) *Report {
	sum := newChecks()
	var (
		t       tests
		walk    []draw
		pools   = make([][]draw, len(shapes()))
		shifts  []shift
		first   *result
		guesses [2]int64
	)
	for _, r := range all {
		sum.add(r.checks)
		walk = append(walk, r.walk...)
		pools[r.shape] = append(pools[r.shape], r.pool...)
		shifts = append(shifts, r.shifts...)
		guesses[0], guesses[1] = guesses[0]+r.guesses[0], guesses[1]+r.guesses[1]
		if r.shape == 0 && r.area > 0 && first == nil {
			first = r
		}
	}
	t.looksAt(&sum.law, "long runs", walk)
	t.byClass(&sum.law, "long runs", walk)
	t.independent(&sum.law, walk)
	t.byPeriod(&sum.periods, walk)
	for i, s := range shapes() {
		t.looksAt(&sum.law, s.name, pools[i])
		t.byClass(&sum.law, s.name, pools[i])
	}
	if first != nil {
		duplicates(&t, &sum.streams, shifts, first.settings, first.area)
	}
	alpha := 1 - o.Confidence
	t.judge(alpha * (1 - attackShare))
	report := &Report{
		Records: sum.fed, Tests: len(t.all), Confidence: o.Confidence,
		AttackConfidence: 1 - alpha*attackShare, Hits: guesses[0], Misses: guesses[1],
	}
	report.Bound = attack.EpsilonLowerBound(guesses[0], guesses[1], alpha*attackShare)
	sum.attack.Trials = guesses[0] + guesses[1]
	if report.Bound > a.settings.Release.Epsilon {
		sum.attack.fail("two places can be told apart by more than e^ε: the true ε is at least %.4f with confidence %g",
			report.Bound, report.AttackConfidence)
	}
	report.Bound = min(report.Bound, math.MaxFloat64)
	a.powers(sum, len(walk), len(shifts))
	report.Checks, report.Passed = sum.list(), !sum.found()
	return report
}

// powers says in words what the checks would have found.
func (a *auditor) powers(c *checks, walk, users int) {
	same := "any such difference in what was compared"
	c.places.Power, c.border.Power, c.retry.Power = same, same, same
	c.records.Power, c.account.Power = same, same
	c.rules.Power = fmt.Sprintf("any rule that comes to another result in one of these records, under %d sets of rules",
		ruleVariants)
	c.equal.Power = same + "; releases are made equal on a lattice of one step to a cell at ε = 2"
	c.inference.Power = "posteriors that are off by 10⁻³"
	c.point.Power = same
	// A normal quantile of 6 covers the share of one test of thousands, and one of power .9.
	const quantile = 6
	c.law.Power = fmt.Sprintf("another ε in all long runs that is off by %.1f %%, "+
		"and a tail that is cut where %.1g of the releases lie beyond",
		100*quantile/math.Sqrt(2*float64(max(walk, 1))), 18/float64(max(users, 1)))
	c.periods.Power = fmt.Sprintf("another ε in every 16th step that is off by %.0f %%, and nothing slower than every %dth",
		100*quantile/math.Sqrt(float64(max(walk, 1))/8), longestPeriod)
	// 14 collisions are expected, and none has the probability e⁻¹⁴.
	c.streams.Power = fmt.Sprintf("seeds of at most %d bits",
		max(0, int(math.Log2(float64(users)*float64(users)/2/14))))
	c.attack.Power = "what tells the farthest two places of a disc apart"
}
