package audit

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// draw is one release as the tests of the law see it. Whatever the location set was,
// radius, sector and their independence have one law, so releases of many sets are pooled.
type draw struct {
	// radius is ε times the gauge of the noise: of the Gamma law of this shape, 2 under a
	// polygon K and 1 along a line.
	radius, shape float64
	// beyond is the probability of a larger radius, sector a share of K's area. Both are
	// uniform and independent.
	beyond, sector float64
	drift          bool
	even           bool // the parity of the true cell's number
	fresh          bool // the user's first release
	step, number   int64
	user           int
}

// ball is the unit ball of the noise's norm.
func ball(g *grid.Grid, o mechanism.Options, cells []grid.Cell) *attack.Span {
	switch o.Mechanism {
	case law.Laplace:
		return attack.DiamondOf(cells, g.Width(), false)
	case law.LaplaceTight:
		return attack.DiamondOf(cells, g.Width(), true)
	}
	return attack.SpanOf(cells, g.Width())
}

// measure fills the coordinates of noise in cells. Where the noise has no direction of its
// own, rng gives one.
func (d *draw) measure(k *attack.Span, epsilon, x, y float64, rng *rand.Rand) {
	d.radius = epsilon * k.Gauge(x, y)
	switch {
	case k.Dim() == 1:
		side := 0.0
		if u := k.Corners()[1]; x*float64(u.X)+y*float64(u.Y) < 0 || x == 0 && y == 0 && rng.IntN(2) == 0 {
			side = 1
		}
		d.shape, d.beyond, d.sector = 1, math.Exp(-d.radius), (side+rng.Float64())/2
	case x == 0 && y == 0:
		d.shape, d.beyond, d.sector = 2, 1, rng.Float64()
	default:
		d.shape, d.beyond, d.sector = 2, (1+d.radius)*math.Exp(-d.radius), k.Cone(x, y)
	}
	if math.IsInf(d.radius, 1) {
		d.beyond = 0
	}
}

// test is one statistical test: the probability, under the stated law, of what was seen or
// worse.
type test struct {
	check *Check
	what  string
	p     float64
}

// tests collects them. How many there are depends on the sizes of the audit alone.
type tests struct{ all []test }

func (t *tests) add(check *Check, p float64, format string, args ...any) {
	t.all = append(t.all, test{check, fmt.Sprintf(format, args...), p})
}

// judge fails what is less probable than its share of the rate of false alarms
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

// leastClass is how many releases a class needs to be tested.
const leastClass = 16

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

// scale tests the sum of the radii, which has a Gamma law. It is the most powerful test of
// another ε.
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
	t.add(check, law.Survival(sum), "the noise of %s lies otherwise in %d×%d shells and sectors than stated: χ² is %.0f",
		pool, side, side, sum)
}

// tails tests how many releases lie beyond shells that get half as probable each time, and
// the farthest of all: a tail that is cut has no release where some must be.
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
		t.add(check, p, "%.0f releases of %s lie in a tail that should hold %.1f", count, pool, n*edge)
	}
	nearer := math.Exp(n * math.Log1p(-least)) // the probability that the farthest is no farther
	farther := -math.Expm1(n * math.Log1p(-least))
	t.add(check, min(1, 2*min(nearer, farther)), "the farthest release of %s is not where it should be", pool)
}

// classes are parts of a pool whose noise could be another one if somebody had looked at
// what they are divided by.
var classes = []struct {
	name string
	in   func(d *draw) bool
}{
	{"cells outside the location set", func(d *draw) bool { return d.drift }},
	{"cells of the location set", func(d *draw) bool { return !d.drift }},
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
			check.Trials -= int64(len(part)) // they are counted already
		}
	}
}

// longestPeriod is up to which n every n-th step is looked at.
const longestPeriod = 64

// byPeriod tests the size of noise in every n-th step and release, at each phase.
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
					class := fmt.Sprintf("every %d%s %s (phase %d)", period, ordinal(period), by.name, phase)
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

// independent tests that noise does not go with that of the steps before, nor with that of
// other users in the same step: the correlation of uniform numbers, times the root of how
// many there are, is normal.
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
		{"another user's of the same step", func(d *draw) place { return place{d.user + 1, d.step} }},
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
				t.add(check, p, "the %s of noise goes with that of %s: correlation %.3f", part.name, pair.name, sum/n)
			}
		}
	}
}
