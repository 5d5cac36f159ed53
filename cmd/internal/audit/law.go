package audit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// test is one statistical test: the probability, under the stated law, of what was seen or
// worse.
type test struct {
	check *Check
	what  string
	p     float64
}

// tests collects tests. Their number depends on the sizes of the audit alone.
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

// longRuns makes all tests on the releases of the long runs.
func (t *tests) longRuns(law, periods *Check, draws []draw) {
	t.pool(law, "long runs", draws)
	t.independent(law, draws)
	t.byPeriod(periods, draws)
}

// pool makes all tests of the law on one pool of draws and on its classes.
func (t *tests) pool(check *Check, name string, draws []draw) {
	t.looksAt(check, name, draws)
	t.byClass(check, name, draws)
}

// looksAt makes all tests of the law on one pool of draws.
func (t *tests) looksAt(check *Check, pool string, draws []draw) {
	check.Trials += int64(len(draws))
	if len(draws) < leastClass {
		return
	}
	t.scale(check, pool, draws)
	t.shells(check, pool, draws)
	t.tails(check, pool, draws)
}

// scale tests the sum of the radii, which has a Gamma law. It is the
// most powerful test against another ε.
func (t *tests) scale(check *Check, pool string, draws []draw) {
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
}

func (t *tests) byClass(check *Check, pool string, draws []draw) {
	for _, class := range classes {
		var part []draw
		for i := range draws {
			if class.in(&draws[i]) {
				part = append(part, draws[i])
			}
		}
		if len(part) >= leastClass && len(part) < len(draws) {
			t.looksAt(check, class.name+" in "+pool, part)
			check.Trials -= int64(len(part)) // they were counted before
		}
	}
}

// longestPeriod is the largest n for which every n-th step is tested.
const longestPeriod = 64

// byPeriod tests the size of noise in every n-th step, release and user, at each phase.
func (t *tests) byPeriod(check *Check, draws []draw) {
	check.Trials += int64(len(draws))
	for _, by := range []struct {
		name string
		of   func(d *draw) int64
	}{
		{"step", func(d *draw) int64 { return d.step }},
		{"release", func(d *draw) int64 { return d.number }},
		{"user", func(d *draw) int64 { return int64(d.user) }},
	} {
		for period := int64(2); period <= longestPeriod; period++ {
			parts := make([][]draw, period)
			for i := range draws {
				phase := by.of(&draws[i]) % period
				parts[phase] = append(parts[phase], draws[i])
			}
			for phase, part := range parts {
				if len(part) >= leastClass {
					class := fmt.Sprintf("every %d%s %s (phase %d)", period, ordinal(period),
						by.name, phase)
					t.scale(check, class, part)
				}
			}
		}
	}
}

func ordinal(n int64) string {
	switch {
	case n%100/10 == 1:
		return "th"
	case n%10 == 1:
		return "st"
	case n%10 == 2:
		return "nd"
	case n%10 == 3:
		return "rd"
	}
	return "th"
}

// independent tests that noise does not correlate with that of the steps before, nor with that of
// another user in the same step. The correlation of n pairs of uniform numbers, times √n, is
// normal.
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
		for _, part := range []struct {
			name string
			of   func(d *draw) float64
		}{
			{"size", func(d *draw) float64 { return d.beyond }},
			{"direction", func(d *draw) float64 { return d.sector }},
		} {
			sum, n := 0.0, 0.0
			for i := range draws {
				if other := at[pair.other(&draws[i])]; other != nil {
					sum += 12 * (part.of(&draws[i]) - .5) * (part.of(other) - .5)
					n++
				}
			}
			if n >= leastClass {
				p := math.Erfc(math.Abs(sum/math.Sqrt(n)) / math.Sqrt2)
				t.add(check, p, "the %s of noise goes with that of %s: correlation %.3f", part.name,
					pair.name, sum/n)
			}
		}
	}
}

// agreements tests that pairs agree as often as chance has it.
func (t *tests) agreements(check *Check, a agreement) {
	check.Trials += int64(a.pairs)
	if a.pairs == 0 {
		return
	}
	// Where chances differ, their mean gives a law with a larger variance: no more false alarms.
	b := distuv.Binomial{N: a.pairs, P: a.expected / a.pairs}
	p := min(1, 2*min(b.CDF(a.agree), b.CDF(a.pairs)-b.CDF(a.agree-1)))
	t.add(check, p, "two places of one record share their noise: %.0f of %.0f pairs agree, and "+
		"%.0f should", a.agree, a.pairs, a.expected)
}
