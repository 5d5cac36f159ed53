package audit

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism/grid"
)

// draw is one release as the tests of the law see it. Radius and sector have the same law, and are
// independent, for every location set, so the tests pool the releases of many sets.
type draw struct {
	// radius is ε times the gauge of the noise. It has the Gamma law of this shape: 2 under a
	// polygon K and 1 along a line. So has that of an answer from a codebook, see rank.
	radius, shape float64
	// moves is by how much the radius of an answer from a codebook grows with the logarithm of ε.
	moves float64
	// beyond is the probability of a larger radius, sector a share of K's area. Both are
	// uniform and independent.
	beyond, sector float64
	noise          grid.Point // in cells
	drift          bool       // the true cell is none of the location set, or of a codebook's prior
	even           bool       // the parity of the true cell's number
	fresh          bool       // the user's first release
	step, number   int64
	gap            int64 // steps since the user's last record; 0: none
	hour           int   // of the day in UTC, when the step begins
	user           int
	place          int // of a crowd's pairs of cells, counted from 1; 0: another one
}

// measure fills in the coordinates of noise in cells. If the noise has no direction, rng gives one.
func (d *draw) measure(k *hull, epsilon, x, y float64, rng *rand.Rand) {
	d.radius = epsilon * k.gauge(x, y)
	switch {
	case k.dim() == 1:
		side := 0.0
		if u := k.corners[1]; x*float64(u.X)+y*float64(u.Y) < 0 ||
			x == 0 && y == 0 && rng.IntN(2) == 0 {
			side = 1
		}
		d.shape, d.beyond, d.sector = 1, math.Exp(-d.radius), (side+rng.Float64())/2
	case x == 0 && y == 0:
		d.shape, d.beyond, d.sector = 2, 1, rng.Float64()
	default:
		d.shape, d.beyond, d.sector = 2, (1+d.radius)*math.Exp(-d.radius), k.cone(x, y)
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
	{"one of two near cells", func(d *draw) bool { return d.place == 3 }},
	{"the other of two near cells", func(d *draw) bool { return d.place == 4 }},
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
