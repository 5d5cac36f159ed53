package follow

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// This file bounds what all records of a user tell about one moment, however many there are.
//
// ε bounds one release, and Σε bounds all of them together. A place that people leave is not told
// by all of them: what a release tells fades with its distance in time, as fast as the public model
// forgets. The bounds are theorem 15 of mechanism/PROOFS.md, which has their assumptions. Every
// number that is rounded here is rounded so that a bound grows.

// MaxMomentCells is the largest map for which bounds are computed. They take four matrices of so
// many rows and columns, 200 MB, and minutes of time.
const MaxMomentCells = 2500

// parts is into how many parts the time between two releases is divided. A moment within a part
// counts as at its end nearer to a release, on both sides.
const parts = 4

// Forgetting is how a model forgets between two releases that lie an interval apart or more.
type Forgetting struct {
	// after[j] bounds all that can happen in j/parts of the interval; after[0] is nothing.
	after [parts + 1]*Contraction
}

// hardly is a total variation of rows from which on a kernel counts as one that forgets nothing.
const hardly = .99

// NewForgetting computes how a model forgets in so many steps. It fails if the map has more than
// MaxMomentCells cells, and ends with the error of stop once that has one; nil: nothing stops it.
// stop is called from several goroutines. Cost: 20·n³ to 100·n³ operations for n cells and each
// class of the calendar, on all processors: a second for 280 cells.
func NewForgetting(m *mobility.Model, interval int, stop func() error) (*Forgetting, error) {
	if n := m.Grid.Cells(); n > MaxMomentCells {
		return nil, fmt.Errorf(
			"a bound for one moment takes at most %d cells, not %d", MaxMomentCells, n)
	}
	runs := newRuns(m)
	steps := [parts + 1]int{}
	for j := range steps {
		steps[j] = runs.least(interval * j / parts)
	}
	pool := workers{parallel.Pool{Workers: runtime.GOMAXPROCS(0)}, stop}
	f := &Forgetting{}
	for class := range m.Matrices {
		a := rows(m, class)
		exponents := steps[:]
		if whole := powers(a, exponents[parts:], pool)[0]; whole.Variation() >= hardly {
			exponents = make([]int, parts+1) // parts of it tell no more
		}
		for j, k := range powers(a, exponents, pool) {
			if f.after[j] == nil {
				f.after[j] = k
			} else {
				f.after[j] = worst(f.after[j], k)
			}
		}
	}
	return f, pool.stopped()
}

// powers returns the contractions of powers of a matrix, which ascend.
func powers(a *dense, exponents []int, pool workers) []*Contraction {
	list := make([]*Contraction, len(exponents))
	raised := map[int]*dense{} // by the difference of two exponents
	var at *dense
	for j, k := range exponents {
		before := 0
		if at != nil {
			before = at.power
		}
		switch k {
		case 0:
			list[j] = none()
			continue
		case before:
			list[j] = list[j-1]
			continue
		}
		step := raised[k-before]
		if step == nil {
			step = a.raised(k-before, pool)
			raised[k-before] = step
		}
		if at == nil {
			at = step
		} else {
			at = at.times(step, pool)
		}
		list[j] = contract(at, pool)
	}
	return list
}

// none is the contraction of the kernel that leaves everybody where they are: there is none.
func none() *Contraction {
	return &Contraction{
		profile: slices.Repeat([]float64{1}, len(lambdas)), diameter: math.Inf(1),
	}
}

// runs knows the classes of the steps of a week.
type runs struct{ classes []int }

func newRuns(m *mobility.Model) *runs {
	r := &runs{}
	if len(m.Matrices) > 1 {
		const week = 7 * 24 * 3600 * 1000
		for step := range 2 * week / m.Step.Milliseconds() {
			r.classes = append(r.classes, m.ClassAt(step))
		}
	}
	return r
}

// least returns how many steps in a row have one class, at least, among any so many steps. What
// happens in the other steps can only make a kernel forget more. A week need not be whole steps, so
// that a run may be one step shorter than in the first week.
func (r *runs) least(steps int) int {
	if len(r.classes) == 0 || steps == 0 {
		return steps
	}
	week := len(r.classes) / 2
	steps = min(steps, week)
	least := steps
	for start := range week {
		longest, run := 0, 0
		for i := start; i < start+steps; i++ {
			if i > start && r.classes[i] != r.classes[i-1] {
				run = 0
			}
			run++
			longest = max(longest, run)
		}
		least = min(least, longest)
	}
	return max(least-1, 0)
}

// Interval returns the contraction of a whole interval.
func (f *Forgetting) Interval() *Contraction { return f.after[parts] }

// Told bounds what all records tell about one moment: the ln of the largest ratio between two cells
// of P(cell | all records) / P(cell). Infinite: nothing but Σε bounds it.
type Told struct {
	At      float64 // a moment of a release
	Between float64 // any moment
}

// Most returns what any number of releases of ε tell, of which no two are closer than the interval.
func (f *Forgetting) Most(epsilon float64) Told {
	k := f.Interval()
	if k.Variation() == 1 {
		return Told{At: math.Inf(1), Between: math.Inf(1)}
	}
	later := fixedPoint(func(s float64) float64 { return k.Later(epsilon + s) })
	earlier := fixedPoint(func(s float64) float64 { return k.Earlier(epsilon + s) })
	t := Told{At: up(earlier + epsilon + later)}
	t.Between = t.At
	for j := range parts {
		// A moment after j parts and before j+1: what is left is parts-j-1 whole ones.
		told := f.after[j].Earlier(earlier+epsilon) + f.after[parts-1-j].Later(epsilon+later)
		t.Between = max(t.Between, up(told))
	}
	return t
}

const (
	// manyTurns are the turns after which a fixed point counts as infinite.
	manyTurns = 4096
	// largeSpan is a ln ratio that promises nothing.
	largeSpan = 300
)

// fixedPoint returns a number s, as small as may be, with 0 ≤ s and f(s) ≤ s for a function that
// does not decrease. So 0, f(0), f(f(0)) … all stay below it. It returns infinity if it finds none.
func fixedPoint(f func(float64) float64) float64 {
	s := 0.0
	for range manyTurns {
		next := f(s)
		if next <= s {
			return s
		}
		if next > largeSpan {
			break
		}
		s = float64(next*(1+0x1p-20)) + 0x1p-20 // a little more, so that it ends
	}
	return math.Inf(1)
}

// Contraction bounds what a kernel, which takes a user from one time to a later one, lets through
// of the span of a function: of the ln of its largest value over its smallest.
//
// What it keeps of a kernel A is its profile and its diameter. The profile is the largest
// hockey-stick divergence of two rows, which does not increase in λ and is convex:
//
//	E(λ) = max over rows i, j of Σ_c (A_i(c) - λ·A_j(c))⁺
//
// E(1) is the largest total variation of two rows. The diameter is the largest ln of
// A_i(c)·A_j(d) / (A_j(c)·A_i(d)) over rows i, j and cells c, d. Contractions do not change, and
// serve any number of goroutines.
type Contraction struct {
	profile  []float64 // at lambdas
	diameter float64   // may be infinite
}

// lambdas are where a profile is computed: close together where a profile bends most.
var lambdas = [...]float64{
	1, 1.05, 1.1, 1.2, 1.35, 1.55, 1.8, 2.2, 2.7, 3.7, 5.5, 9, 20, 55, 90, 150, 400,
}

// up rounds a computed logarithm up. Its relative error is some units of the last place.
func up(v float64) float64 { return float64(v*(1+0x1p-40)) + 0x1p-40 }

// Later bounds the span at the earlier time of what a function of span s at the later time is
// expected to be: φ_A(s), the largest ln of (1 + (e^s-1)·A_i(S)) / (1 + (e^s-1)·A_j(S)) over rows
// i, j and sets S. It is at most s, and it grows with s.
//
// (1 + c·A_i(S)) ≤ λ·(1 + c·A_j(S)) for all S is E(λ) ≤ (λ-1)/c, so φ_A(s) is ln of the λ where the
// two sides meet. Between two λ the chord lies above the profile.
func (k *Contraction) Later(s float64) float64 {
	if !(s > 0) {
		return 0
	}
	bound := min(s, k.Earlier(s))
	c := math.Expm1(s)
	for i, e := range k.profile {
		right := lambdas[i]
		if i == 0 || e > (right-1)/c {
			continue
		}
		left := lambdas[i-1]
		slope := (e - k.profile[i-1]) / (right - left)
		lambda := (k.profile[i-1] - float64(slope*left) + 1/c) / (1/c - slope)
		return min(bound, up(math.Log(min(max(lambda, 1), right))))
	}
	return bound
}

// Earlier bounds the span at the later time of what a function of span s at the earlier time was
// expected to be, whatever the distribution at the earlier time is:
//
//	2·ln(cosh((Δ+s)/4) / cosh((Δ-s)/4))
//
// for the diameter Δ. That is at most Birkhoff's tanh(Δ/4)·s, at most s and at most Δ.
func (k *Contraction) Earlier(s float64) float64 {
	if !(s > 0) {
		return 0
	}
	if math.IsInf(k.diameter, 1) || math.IsInf(s, 1) {
		return min(s, k.diameter)
	}
	// ln cosh x = |x| + ln(1+e^(-2|x|)) - ln 2
	lnCosh := func(x float64) float64 {
		return math.Abs(x) + math.Log1p(portable.Exp(-2*math.Abs(x)))
	}
	return min(s, k.diameter, up(2*(lnCosh((k.diameter+s)/4)-lnCosh((k.diameter-s)/4))))
}

// Variation returns the largest total variation of two rows, rounded up.
func (k *Contraction) Variation() float64 { return k.profile[0] }

// worst returns a contraction that bounds what either of two kernels lets through.
func worst(a, b *Contraction) *Contraction {
	k := &Contraction{diameter: max(a.diameter, b.diameter)}
	for i := range a.profile {
		k.profile = append(k.profile, max(a.profile[i], b.profile[i]))
	}
	return k
}

// contract computes a kernel's contraction.
//
// Most pairs of rows are left out of the profile: with c and d as rows near i and j,
// E(A_i‖A_j) ≤ E(A_c‖A_d) + TV(A_i, A_c) + λ·TV(A_j, A_d) for each λ. The profile may come out too
// high by the share coarse. Cost: for n cells about 2·n³ operations, and where rows are far apart
// and E still is not near 1 up to 15·n³.
func contract(a *dense, pool workers) *Contraction {
	k := &Contraction{profile: make([]float64, len(lambdas)), diameter: a.diameter(pool)}
	near := a.group(pool)
	for i, lambda := range lambdas {
		e := float64(a.divergence(near, lambda, pool)*(1+coarse)) + float64((1+lambda)*a.slack)
		if i > 0 {
			e = min(e, k.profile[i-1])
		}
		k.profile[i] = min(e, 1)
	}
	return k
}

const (
	// coarse is the share by which a divergence may come out too high.
	coarse = 1. / 128
	// rowsPerGroup is about how many rows one stands for.
	rowsPerGroup = 10
)

// groups are rows that one of them each, the centre, stands for.
type groups struct {
	centres []int
	rows    [][]int   // of each group
	radius  []float64 // the largest distance in each group
	far     []float64 // of each row: its total variation from its centre, rounded up
}

// group chooses as centres the rows that lie farthest from those chosen before. Cost:
// n³/rowsPerGroup.
func (a *dense) group(pool workers) *groups {
	g, of := &groups{far: make([]float64, a.n)}, make([]int, a.n)
	for i := range g.far {
		g.far[i] = 2
	}
	for next := 0; len(g.centres)*rowsPerGroup < a.n && g.far[next] > 0; {
		this := len(g.centres)
		g.centres = append(g.centres, next)
		centre := a.row(next)
		_ = pool.Each(a.n, func(i int) error { // it fails once it is stopped
			if d := hockey(a.row(i), centre, 1) + float64(2*a.slack); d < g.far[i] {
				g.far[i], of[i] = d, this
			}
			return nil
		})
		g.far[next], of[next] = 0, this
		for i, d := range g.far {
			if d > g.far[next] {
				next = i
			}
		}
	}
	g.rows, g.radius = make([][]int, len(g.centres)), make([]float64, len(g.centres))
	for i, at := range of {
		g.rows[at] = append(g.rows[at], i)
		g.radius[at] = max(g.radius[at], g.far[i])
	}
	return g
}

// divergence returns the largest hockey-stick divergence of two rows, or up to a share coarse less.
func (a *dense) divergence(g *groups, lambda float64, pool workers) float64 {
	n := len(g.centres)
	between, most := make([]float64, n*n), make([]float64, n)
	_ = pool.Each(n, func(i int) error {
		for j, centre := range g.centres {
			e := hockey(a.row(g.centres[i]), a.row(centre), lambda)
			between[i*n+j] = e
			most[i] = max(most[i], e)
		}
		return nil
	})
	// The tasks below do not share what they find: that would depend on their speed.
	found := slices.Max(most)
	_ = pool.Each(n, func(i int) error {
		most[i] = found
		for j := range n {
			a.search(g, i, j, between[i*n+j], lambda, &most[i])
		}
		return nil
	})
	return slices.Max(most)
}

// search looks for a larger divergence than best between rows of two groups.
func (a *dense) search(g *groups, one, other int, between, lambda float64, best *float64) {
	// No divergence is above 1. What is computed may be above what bounds it by the slack.
	enough := func() float64 {
		return float64(*best*(1+coarse)) - float64(2*(1+lambda)*a.slack)
	}
	reach := float64(lambda * g.radius[other])
	if enough() >= 1 || between+g.radius[one]+reach <= enough() {
		return
	}
	for _, i := range g.rows[one] {
		if between+g.far[i]+reach <= enough() {
			continue
		}
		e := hockey(a.row(i), a.row(g.centres[other]), lambda)
		if e+reach <= enough() {
			continue
		}
		for _, j := range g.rows[other] {
			if e+float64(lambda*g.far[j]) > enough() {
				*best = max(*best, hockey(a.row(i), a.row(j), lambda))
			}
		}
	}
}

// hockey returns Σ_c (p(c) - λ·q(c))⁺ of two rows: half of Σ|p - λq| + Σp - Σλq, where both rows
// sum to 1. Four sums side by side take a third of the time of one.
func hockey(p, q []float64, lambda float64) float64 {
	var a, b, c, d float64
	q = q[:len(p)]
	i := 0
	for ; i+4 <= len(p); i += 4 {
		u, v := p[i:i+4:i+4], q[i:i+4:i+4]
		a += math.Abs(u[0] - float64(lambda*v[0]))
		b += math.Abs(u[1] - float64(lambda*v[1]))
		c += math.Abs(u[2] - float64(lambda*v[2]))
		d += math.Abs(u[3] - float64(lambda*v[3]))
	}
	for ; i < len(p); i++ {
		a += math.Abs(p[i] - float64(lambda*q[i]))
	}
	return max(float64(((a+b)+(c+d)+(1-lambda))/2), 0)
}

// dense is a power of a stochastic matrix, row by row. Its values are positive or 0, and each is
// off by a share of slack/2 at most, so a divergence of two rows is off by (1+λ)·slack at most.
type dense struct {
	n     int
	p     []float64
	power int
	slack float64
}

// newDense makes an empty matrix for a power. A value of the first power is rounded by n sums and a
// division, one of a product by n products and sums, and the errors of factors add: 2·power·(n+8)
// roundings of 2⁻⁵³. There is as much again for the products of errors and for sums over rows.
func newDense(n, power int) *dense {
	return &dense{
		n: n, p: make([]float64, n*n), power: power,
		slack: float64(4*(power+1)) * float64(n+8) * 0x1p-53,
	}
}

func (a *dense) row(i int) []float64 { return a.p[i*a.n : (i+1)*a.n] }

// rows returns the transitions of a class of the model, each row divided by its sum.
func rows(m *mobility.Model, class int) *dense {
	a := newDense(m.Grid.Cells(), 1)
	var d mobility.Distribution
	for i := range a.n {
		m.Row(&d, class, grid.Cell(i))
		d.Normalize()
		row := a.row(i)
		for j, c := range d.Cells {
			row[c] += d.P[j]
		}
	}
	return a
}

// times returns a·b.
func (a *dense) times(b *dense, pool workers) *dense {
	c := newDense(a.n, a.power+b.power)
	_ = pool.Each(a.n, func(i int) error { // it fails once it is stopped
		to := c.row(i)
		for k, v := range a.row(i) {
			if v == 0 {
				continue
			}
			from := b.row(k)
			from = from[:len(to)]
			for j := range to {
				to[j] += float64(v * from[j])
			}
		}
		return nil
	})
	return c
}

// raised returns a to the power k ≥ 1, by squares.
func (a *dense) raised(k int, pool workers) *dense {
	var result *dense
	for square := a; ; square = square.times(square, pool) {
		if k&1 == 1 {
			if result == nil {
				result = square
			} else {
				result = result.times(square, pool)
			}
		}
		if k >>= 1; k == 0 {
			return result
		}
	}
}

// leastValue is the smallest value whose share of error is that of slack: products below it lose
// digits.
const leastValue = 0x1p-900

// diameter returns the projective diameter, rounded up: infinite if a value is 0 or nearly so.
func (a *dense) diameter(pool workers) float64 {
	logs, most := make([]float64, len(a.p)), make([]float64, a.n)
	for i, v := range a.p {
		if v < leastValue {
			return math.Inf(1)
		}
		logs[i] = math.Log(v)
	}
	_ = pool.Each(a.n, func(i int) error {
		p := logs[i*a.n : (i+1)*a.n]
		for j := range i {
			q := logs[j*a.n : (j+1)*a.n]
			q = q[:len(p)]
			high, low := math.Inf(-1), math.Inf(1)
			for c, v := range p {
				d := v - q[c]
				if d > high {
					high = d
				}
				if d < low {
					low = d
				}
			}
			most[i] = max(most[i], high-low)
		}
		return nil
	})
	largest := 0.0
	for _, d := range most {
		largest = max(largest, d)
	}
	return largest + 4*a.slack + 0x1p-40
}
