package audit

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

// test is one statistical test: the probability, under the stated law, of what was seen or
// worse.
type test struct {
	check *Check
	what  string
	p     float64
}

// tests collects tests. Their number depends on the sizes of the probe alone.
type tests struct{ all []test }

func (t *tests) add(check *Check, p float64, format string, args ...any) {
	t.all = append(t.all, test{check, fmt.Sprintf(format, args...), p})
}

// judge fails the tests whose result is less probable than their share of the rate of false alarms
// (Bonferroni). Checks have equal shares, however many tests they make.
func (t *tests) judge(alpha float64) {
	count := map[*Check]int{}
	for _, one := range t.all {
		count[one.check]++
	}
	for _, one := range t.all {
		if share := alpha / float64(len(count)*count[one.check]); !(one.p >= share) {
			one.check.fail("%s (p = %.1g)", one.what, one.p)
		}
	}
}

// leastClass is the least number of releases of a class that is tested.
const leastClass = 16

// pool makes all tests of the law on one pool of draws and on its classes.
func (t *tests) pool(check *Check, name string, draws []draw) {
	t.looksAt(check, name, draws)
	for _, class := range classes {
		var part []draw
		for i := range draws {
			if class.in(&draws[i]) {
				part = append(part, draws[i])
			}
		}
		if len(part) < len(draws) {
			t.looksAt(check, class.name+" in "+name, part)
		}
	}
}

// looksAt makes all tests of the law on one pool of draws.
func (t *tests) looksAt(check *Check, pool string, draws []draw) {
	if len(draws) >= leastClass {
		t.scale(check, pool, draws)
		t.shells(check, pool, draws)
		t.tails(check, pool, draws)
	}
}

// scale tests the sum of the radii, which has a Gamma law. It is the
// most powerful test against another ε.
func (t *tests) scale(check *Check, pool string, draws []draw) {
	if len(draws) < leastClass {
		return
	}
	sum, shape := 0.0, 0.0
	for i := range draws {
		sum += draws[i].radius
		shape += draws[i].shape
	}
	law := distuv.Gamma{Alpha: shape, Beta: 1}
	t.add(check, min(1, 2*min(law.CDF(sum), law.Survival(sum))),
		"the noise of %s is %.3g times as large as stated", pool, sum/shape)
}

// shells is χ² of shells times sectors of equal probability.
func (t *tests) shells(check *Check, pool string, draws []draw) {
	side := 16
	for side > 2 && len(draws) < 25*side*side {
		side /= 2
	}
	counts, expected := make([]float64, side*side), float64(len(draws))/float64(side*side)
	if expected < leastClass {
		return
	}
	for i := range draws {
		shell := min(int(float64(side)*draws[i].beyond), side-1)
		counts[shell*side+min(int(float64(side)*draws[i].sector), side-1)]++
	}
	sum := 0.0
	for _, n := range counts {
		sum += (n - expected) * (n - expected) / expected
	}
	law := distuv.ChiSquared{K: float64(side*side - 1)}
	t.add(check, law.Survival(sum),
		"the noise of %s lies otherwise in %d×%d shells and sectors than stated: χ² is %.0f",
		pool, side, side, sum)
}

// tails tests how many releases lie beyond shells of ever smaller probability, and where the
// farthest release is: a truncated tail has no release where there must be some.
func (t *tests) tails(check *Check, pool string, draws []draw) {
	n, least := float64(len(draws)), 1.0
	for i := range draws {
		least = min(least, draws[i].beyond)
	}
	for level := 4; n*math.Ldexp(1, -level) >= 8; level += 2 {
		edge, count := math.Ldexp(1, -level), 0.0
		for i := range draws {
			if draws[i].beyond < edge {
				count++
			}
		}
		law := distuv.Binomial{N: n, P: edge}
		p := min(1, 2*min(law.CDF(count), law.CDF(n)-law.CDF(count-1)))
		t.add(check, p, "%.0f releases of %s lie in a tail that should hold %.1f", count,
			pool, n*edge)
	}
	nearer := math.Exp(n * math.Log1p(-least)) // the probability that the farthest is no farther
	farther := -math.Expm1(n * math.Log1p(-least))
	t.add(check, min(1, 2*min(nearer, farther)),
		"the farthest release of %s is not where it should be", pool)
}

// classes are parts of a pool whose noise would differ if it depended on what divides them.
var classes = []struct {
	name string
	in   func(d *draw) bool
}{
	{"cells outside the location set or prior", func(d *draw) bool { return d.drift }},
	{"cells of the location set or prior", func(d *draw) bool { return !d.drift }},
	{"cells of even number", func(d *draw) bool { return d.even }},
	{"cells of odd number", func(d *draw) bool { return !d.even }},
	{"first releases", func(d *draw) bool { return d.fresh }},
	{"later releases", func(d *draw) bool { return !d.fresh }},
	{"lines", func(d *draw) bool { return d.shape == 1 }},
	{"one of two far cells", func(d *draw) bool { return d.place == 1 }},
	{"the other of two far cells", func(d *draw) bool { return d.place == 2 }},
	{"releases after gaps", func(d *draw) bool { return d.gap > 1 }},
	{"releases after gaps of more than four steps", func(d *draw) bool { return d.gap > 4 }},
}

// longestPeriod is the largest n for which every n-th step is tested.
const longestPeriod = 64

// by tests the size of noise in each part of a pool, by what divides it.
func (t *tests) by(check *Check, draws []draw, name string, of func(d *draw) int64) {
	parts := map[int64][]draw{}
	for i := range draws {
		part := of(&draws[i])
		parts[part] = append(parts[part], draws[i])
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.scale(check, fmt.Sprintf(name, part), parts[part])
	}
}

// byPeriod tests the size of noise in every n-th step, release and user, at each phase.
func (t *tests) byPeriod(check *Check, draws []draw) {
	for period := int64(2); period <= longestPeriod; period++ {
		name := fmt.Sprintf("each %%s that is %%%%d modulo %d", period)
		t.by(check, draws, fmt.Sprintf(name, "step"), func(d *draw) int64 {
			return d.step % period
		})
		t.by(check, draws, fmt.Sprintf(name, "release"), func(d *draw) int64 {
			return d.number % period
		})
		t.by(check, draws, fmt.Sprintf(name, "user"), func(d *draw) int64 {
			return int64(d.user) % period
		})
	}
}

// byHour tests the size of noise in each hour of the day.
func (t *tests) byHour(check *Check, pool string, draws []draw) {
	t.by(check, draws, pool+" in hour %d UTC", func(d *draw) int64 { return int64(d.hour) })
}

// independent tests that noise does not go with that of the steps before, nor with that of
// another user in the same step.
func (t *tests) independent(check *Check, draws []draw) {
	type place struct {
		user int
		step int64
	}
	at := map[place]*draw{}
	for i := range draws {
		at[place{draws[i].user, draws[i].step}] = &draws[i]
	}
	for _, pair := range []struct {
		name  string
		other func(d *draw) place
	}{
		{"one step before", func(d *draw) place { return place{d.user, d.step - 1} }},
		{"two steps before", func(d *draw) place { return place{d.user, d.step - 2} }},
		{
			"another user's of the same step",
			func(d *draw) place { return place{d.user + 1, d.step} },
		},
	} {
		var pairs [][2]draw
		for i := range draws {
			if other := at[pair.other(&draws[i])]; other != nil {
				pairs = append(pairs, [2]draw{draws[i], *other})
			}
		}
		t.together(check, pairs, "noise goes with that of %s", pair.name)
	}
}

// together tests whether the releases before and after a change of one fact have noise in common:
// the correlation of n pairs of uniform numbers, times √n, is normal.
func (t *tests) together(check *Check, pairs [][2]draw, format string, args ...any) {
	if len(pairs) < leastClass {
		return
	}
	for _, of := range []func(d *draw) float64{
		func(d *draw) float64 { return d.beyond }, func(d *draw) float64 { return d.sector },
	} {
		sum, n := 0.0, float64(len(pairs))
		for i := range pairs {
			sum += 12 * (of(&pairs[i][0]) - .5) * (of(&pairs[i][1]) - .5)
		}
		t.add(check, math.Erfc(math.Abs(sum/math.Sqrt(n))/math.Sqrt2), format, args...)
	}
}

// duplicates tests how many pairs of releases have the very same noise. With the density p of noise
// a pair has the probability ∫p², which is ε²/(8·area) divided by the lattice points of a cell.
func (t *tests) duplicates(check *Check, all []grid.Point, epsilon, area, points float64) {
	seen := map[grid.Point]int64{}
	pairs := int64(0)
	for _, s := range all {
		pairs += seen[s]
		seen[s]++
	}
	n, p := float64(len(all)), 1.0
	expected := n * (n - 1) / 2 * epsilon * epsilon / (8 * area * points)
	if pairs > 0 {
		// 1 - CDF(pairs - 1), without the rounding of 1 - CDF
		p = mathext.GammaIncReg(float64(pairs), expected)
	}
	t.add(check, p, "%d pairs of releases share their noise; %.2g are expected", pairs, expected)
}

// area returns the area of K in cells.
func (k *hull) area() float64 {
	sum := int64(0)
	for i, c := range k.corners {
		sum += convex.Cross(c, k.corner(i+1))
	}
	return float64(sum) / 2
}

// attackShare is the share of the attack in the rate of false alarms.
const attackShare = .25

// judge combines the results, in the order of the jobs, and makes the statistical tests.
func judge(p *plan, r *probed, all []*result, alpha float64) {
	sum := newProbeChecks()
	var (
		t       tests
		walk    []draw
		shifts  []grid.Point
		pools   = make([][]draw, len(p.situations))
		guesses = make([][2]int64, len(p.situations))
	)
	for _, one := range all {
		sum.add(one.checks)
		walk, shifts = append(walk, one.walk...), append(shifts, one.shifts...)
		pools[one.situation] = append(pools[one.situation], one.pool...)
		for right, n := range one.guesses {
			guesses[one.situation][right] += n
		}
		if one.changed != "" {
			sum.streams.Trials += int64(len(one.pairs))
			if len(one.pairs) < leastClass {
				r.untested = append(r.untested, one.changed)
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
	attack(r, sum, guesses, alpha*attackShare)
	if telling(p) == nil {
		r.untested = []string{"every fact"}
	}
	r.records, r.tests, r.checks = sum.fed, len(t.all), sum.list()
}

// attack bounds the true ε from below: by the guesses in all situations together, and in each.
func attack(r *probed, sum *probeChecks, guesses [][2]int64, alpha float64) {
	var pooled [2]int64
	each := alpha / float64(len(guesses)+1)
	for _, g := range guesses {
		pooled[0], pooled[1] = pooled[0]+g[0], pooled[1]+g[1]
	}
	for _, g := range append(guesses, pooled) {
		r.bound = max(r.bound, epsilonLowerBound(g[0], g[1], each))
	}
	if sum.attack.Trials = pooled[0] + pooled[1]; r.bound > r.epsilon {
		sum.attack.fail("two places can be told apart by more than e^ε: the true ε is at least "+
			"%.4f", r.bound)
	}
}
