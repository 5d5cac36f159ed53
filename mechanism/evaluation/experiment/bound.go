package experiment

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/geodither/geodither/mechanism/grid"
)

// These files compute how much error ε-differential privacy forces: a lower bound on the expected
// squared error after one release that holds for every ε-DP mechanism, whatever it releases, and a
// mechanism that comes within about 1 % of the bound.
//
//	bound.go         the theorem, the search, the linear program over the known posteriors
//	bound_prior.go   the prior in normal form, and one posterior
//	bound_sweep.go   the exact search for the posterior that breaks prices worst; certified prices
//
// # What is computed
//
// The true place is x_i with probability p_i; the mean of the prior is the origin. A release turns
// the prior p into a posterior q, and the posteriors average to the prior: E q = p. The posterior
// mean is m(q) = Σ q_i·x_i, and its expected squared error is
//
//	Σ p_i·|x_i|² - E|m(q)|²,
//
// so the best mechanism has the largest gain E|m(q)|². ε-DP between any two places says exactly
// that every posterior lies in
//
//	Q = {q : q_i/p_i ≤ e^ε·q_j/p_j for all i, j}.
//
// Bound: let ρ_i be prices with |m(q)|² ≤ Σ ρ_i·q_i for all q in Q. Then the gain of every
// ε-DP mechanism is at most E Σ ρ_i·q_i = Σ ρ_i·p_i. This is weak duality. It needs nothing
// else: not finitely many outputs, and not that the prices are the best ones.
//
// Only corners of Q count, because |m(q)|² is convex and the other side is linear. A corner takes
// two values of q_i/p_i: with t = e^-ε there is a set S of places, and
//
//	q_i = p_i·(t + (1-t)·[i ∈ S])/D,    D = t + (1-t)·Σ_{i∈S} p_i.
//
// (Kairouz, Oh and Viswanath show it for every utility that is sublinear in the likelihoods: an
// optimal mechanism is a staircase.) The best mechanism and the best prices are therefore a linear
// program and its dual, with one column for each of the 2ⁿ sets:
//
//	maximize Σ_S w_S·|m(q_S)|²  subject to  Σ_S w_S·q_S = p, w ≥ 0.
//
// Column generation solves it. It starts with the sets of one place, which are randomized response,
// and adds the sets that the prices of the smaller program value too low, until there is none.
//
// # Which set is valued too low
//
// Since |m|² = max_a (2a·m - |a|²), attained at a = m, the excess |m(q)|² - Σ ρ_i·q_i is the
// largest over points a of the plane of
//
//	Σ q_i·f_i(a),    f_i(a) = 2a·x_i - |a|² - ρ_i = |x_i|² - ρ_i - |x_i - a|².
//
// For a given a the sum's sign is that of Σ p_i·(t + (1-t)·[i ∈ S])·f_i(a), which is largest
// for S(a) = {i : f_i(a) > 0} = {i : |x_i - a|² < |x_i|² - ρ_i}. So some corner has a positive
// excess if and only if one of the S(a) has. They are the faces of an arrangement of n circles,
// fewer than n² of them, and a walk along each circle meets them all: the search is exact, not a
// heuristic. Adding the largest excess to every price raises the bound by as much, and a second
// walk confirms that no excess is left.
//
// # Sources
//
// P. Kairouz, S. Oh and P. Viswanath, "Extremal Mechanisms for Local Differential Privacy", Journal
// of Machine Learning Research 17(17), 2016 (staircase mechanisms, and the best of them by a linear
// program). S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method", SIAM
// Journal on Optimization 2(4), 1992. J. Gondzio, P. González-Brevis and P. Munari, "New
// developments in the primal-dual column generation technique", European Journal of Operational
// Research, 2013 (prices from the interior).

// leastError is what leastSquaredError finds. Errors are expected squared distances between the
// true place and the posterior mean after one release, in the square of the places' unit (km² for
// map kilometres).
type leastError struct {
	Variance float64 // of the prior: the error without a release
	Bound    float64 // no ε-DP mechanism has a smaller error
	Reached  float64 // the error of Mechanism, at least Bound
	// Mechanism[k][i] is the probability of output k at place i. Entries of a row differ by a
	// factor of at most e^ε, and each column sums to 1 up to 10⁻⁹. Each row has two values,
	// except for the last, which collects improbable outputs. There are some thousands of rows for
	// 100 places, because the search ends in the interior of a set of mechanisms that are equally
	// good.
	Mechanism [][]float64
}

const (
	// The search ends when the limit on the gain exceeds the gain that is reached by no more than
	// these shares of the gain and of the error. Comparing mechanisms needs a hundredth; the
	// first share is smaller because a small ε gains little.
	gainShare  = 1e-3
	errorShare = 1e-2
	// leastGap ends the search too: variances that rounding in the linear program may cost.
	leastGap = 1e-9
	// merged is the probability of the outputs that a mechanism's last row collects.
	merged = 1e-5
	// maxRounds bounds the search. 225 places took up to 210 rounds.
	maxRounds = 500
	// A round solves the linear program until its gap is this share of the gap of the whole. A
	// vertex would be found late, and its prices are far from those of the full program: random
	// priors of 120 places took half as many rounds as with .1, and with 1 some did not end.
	roundShare = .5
	// A round looks for columns at prices that lie this far on the way to the best ones so far,
	// which damps their swings. With 0 the search took twice as long, with .9 it did not end.
	damping = .7
)

// leastSquaredError returns the least expected squared error after one release that any ε-DP
// mechanism can have, as a lower bound and as a mechanism. Reached exceeds Bound by about 10⁻³ of
// the gain, Variance - Reached, at most, and by about 1 % of Reached. The bound holds up to
// rounding, about 10⁻¹² of Variance.
//
// places are distinct points of the plane in any unit, as the cells of a filter's prior are. mass
// holds the prior probability of each, above 0 and up to a common factor. Below ε = .001 the gain
// is lost in rounding, and above 20 the error. An error says that the search did not converge.
//
// It takes .01 s for 30 places, .1 s for 60, 2 s for 120 and 13 s for 200 if most masses are equal;
// .03 s, .4 s and 30 s for 30, 60 and 120 if they span six orders of magnitude; and minutes for
// 225 places on a square lattice. For a prior of more places, choose a set A of them: the bound for
// the prior given A, times the probability of A, is a bound too, because to tell whether the place
// is in A can only help. The result is the same in every run on one architecture.
func leastSquaredError(places []grid.Point, mass []float64, epsilon float64) (leastError, error) {
	p := newNormalPrior(places, mass, epsilon)
	if p.variance == 0 {
		return leastError{Mechanism: [][]float64{{1}}}, nil
	}
	m, limit, err := searchBound(p)
	if err != nil {
		return leastError{}, err
	}
	r := leastError{
		Variance: p.variance, Bound: p.variance * (1 - limit), Mechanism: m.mechanism(merged),
	}
	r.Reached = expectedError(places, mass, r.Mechanism)
	return r, nil
}

// searchBound generates columns. It returns the program at the end, which has a mechanism's
// weights, and a limit that no mechanism's gain exceeds.
func searchBound(p *normalPrior) (m *master, limit float64, err error) {
	m = newMaster(p)
	best, limit := p.simplePrices(gainShare)
	gain := 0.
	for range maxRounds {
		enough := max(leastGap, min(gainShare*gain, errorShare*(1-gain)))
		if gain, err = m.solve(best, max(enough/4, roundShare*(limit-gain))); err != nil {
			return nil, 0, err
		}
		for i, v := range best {
			m.price[i] += damping * (v - m.price[i])
		}
		sets, excess := p.sweep(m.price)
		mean := p.mean(m.price)
		if mean+excess < limit {
			excess = p.certify(m.price, excess, enough/10)
		}
		if mean+excess < limit {
			limit = mean + excess
			for i, v := range m.price {
				best[i] = v + excess
			}
		}
		if limit-gain <= max(leastGap, min(gainShare*gain, errorShare*(1-gain))) {
			return m, limit, nil
		}
		for _, s := range sets {
			m.columns = append(m.columns, newColumn(p, s))
		}
	}
	return nil, 0, errNotFound
}

// expectedError returns the expected squared distance between the true place and the posterior mean
// after one release of a mechanism with finitely many outputs: mechanism[k][i] is the probability
// of output k at place i. Places, mass and the unit are those of leastSquaredError. It panics if a
// row's length is not that of places. It takes O(outputs · places).
func expectedError(places []grid.Point, mass []float64, mechanism [][]float64) float64 {
	var total, sum float64
	for _, v := range mass {
		total += v
	}
	for _, row := range mechanism {
		if len(row) != len(places) {
			panic("experiment: a row of the mechanism has not one entry for each place")
		}
		var weight float64
		var mean grid.Point
		for i, x := range places {
			q := row[i] * mass[i]
			weight += q
			mean.X += q * x.X
			mean.Y += q * x.Y
		}
		if weight == 0 {
			continue
		}
		mean.X /= weight
		mean.Y /= weight
		for i, x := range places {
			dx, dy := x.X-mean.X, x.Y-mean.Y
			sum += row[i] * mass[i] * (dx*dx + dy*dy)
		}
	}
	return sum / total
}

// column is a corner q of Q as a column of the linear program, and its share of a solution.
//
// For a small ε all corners are nearly p, and the program nearly singular. The program therefore
// holds p + (q-p)/(1-t) instead of q: an average is p for both or for neither. Its prices are
// scaled to match; solve converts them.
type column struct {
	places  []int   // S, ascending
	gain    float64 // |m(q)|²
	in, out float64 // the column over p, at places in S and at others
	weight  float64 // w: the probability of the posterior q
	slack   float64 // s = Σ ρ_i·q_i - |m(q)|²
	// A step of the interior-point method: w·ds + s·dw = right.
	right, dWeight, dSlack float64
}

const (
	// maxIterations bounds one solution, which takes about 12.
	maxIterations = 100
	// maxMissing is how much the weights may miss p by, in total over the places.
	maxMissing = 1e-10
)

var errNotFound = errors.New("experiment: the search did not converge")

func newColumn(p *normalPrior, places []int) *column {
	var t tally
	zero := make([]float64, len(p.at))
	for _, i := range places {
		t.add(p, zero, i, 1)
	}
	d := p.outside + p.inside*t.mass
	return &column{places: places, gain: t.excess(p, 0), in: 1 + (1-t.mass)/d, out: 1 - t.mass/d}
}

// dot returns the scalar product of the column and v, where mean is Σ p_i·v_i.
func (c *column) dot(p *normalPrior, v []float64, mean float64) float64 {
	sum := 0.
	for _, i := range c.places {
		sum += p.mass[i] * v[i]
	}
	return c.out*mean + (c.in-c.out)*sum
}

// master is the linear program over the corners that are known. An interior-point method solves
// it: a simplex method takes tens of thousands of steps for 60 places, nearly all degenerate,
// because every row has the same right side and many corners share each optimum. The method stops
// short of a vertex, where prices are least arbitrary, so that fewer rounds are needed.
type master struct {
	*normalPrior
	columns []*column
	price   []float64 // ρ
}

// newMaster returns the program of the n sets of one place: randomized response.
func newMaster(p *normalPrior) *master {
	m := &master{normalPrior: p, price: make([]float64, len(p.at))}
	for i := range p.at {
		m.columns = append(m.columns, newColumn(p, []int{i}))
	}
	return m
}

// solve finds weights with Σ w·q = p and prices that leave no known corner an excess, whose
// values differ by at most gap, and returns the former. It starts at prices that are feasible for
// all corners. It is Mehrotra's predictor and corrector. One iteration takes O(columns·n² + n³).
func (m *master) solve(feasible []float64, gap float64) (gain float64, err error) {
	m.start(feasible, gap)
	for range maxIterations {
		miss := m.miss()
		var between, missing float64
		gain = 0
		for _, c := range m.columns {
			gain += c.weight * c.gain
			between += c.weight * c.slack
		}
		for _, v := range miss {
			missing += math.Abs(v)
		}
		if between <= gap && missing <= maxMissing {
			mean := m.mean(m.price)
			for i, v := range m.price {
				m.price[i] = mean + (v-mean)/m.inside
			}
			return gain, nil
		}
		if err := m.iterate(miss, between, gap); err != nil {
			return 0, err
		}
	}
	return 0, errNotFound
}

// start sets prices with a slack of at least gap, and weights that balance it.
func (m *master) start(feasible []float64, gap float64) {
	mean := m.mean(feasible)
	for i, v := range feasible {
		m.price[i] = mean + m.inside*(v-mean) + gap
	}
	total := 0.
	for _, c := range m.columns {
		c.slack = max(c.dot(m.normalPrior, m.price, mean+gap)-c.gain, gap)
		c.weight = 1 / c.slack
		total += c.weight
	}
	for _, c := range m.columns {
		c.weight /= total
	}
}

// iterate takes one step. It aims at products w·s that leave half of gap: with less, slacks and
// weights would reach 0 before the weights average to p.
func (m *master) iterate(miss []float64, between, gap float64) error {
	var factor mat.Cholesky
	if !factor.Factorize(m.normal()) {
		return errNotFound
	}
	for _, c := range m.columns {
		c.right = -c.weight * c.slack
	}
	if _, err := m.step(&factor, miss); err != nil {
		return err
	}
	primal, dual := m.room(1)
	ahead := 0.
	for _, c := range m.columns {
		ahead += (c.weight + primal*c.dWeight) * (c.slack + dual*c.dSlack)
	}
	left := ahead / between
	target := max(between*left*left*left, gap/2) / float64(len(m.columns))
	for _, c := range m.columns {
		c.right = target - c.weight*c.slack - c.dWeight*c.dSlack
	}
	step, err := m.step(&factor, miss)
	if err != nil {
		return err
	}
	primal, dual = m.room(.995) // the rest keeps them positive
	for _, c := range m.columns {
		c.weight += primal * c.dWeight
		c.slack += dual * c.dSlack
	}
	for i, v := range step {
		m.price[i] += dual * v
	}
	return nil
}

// miss returns what the columns' average lacks of p, over p.
func (m *master) miss() []float64 {
	v := make([]float64, len(m.at))
	all := 1.
	for _, c := range m.columns {
		all -= c.weight * c.out
		for _, i := range c.places {
			v[i] -= c.weight * (c.in - c.out)
		}
	}
	for i := range v {
		v[i] += all
	}
	return v
}

// normal returns Σ w/s·v·vᵀ over the columns v, over p. Only its upper triangle is set.
func (m *master) normal() *mat.SymDense {
	n := len(m.at)
	a := mat.NewSymDense(n, nil)
	raw := a.RawSymmetric()
	all := 0.
	row := make([]float64, n)
	for _, c := range m.columns {
		d := c.weight / c.slack
		all += d * c.out * c.out
		cross := d * c.out * (c.in - c.out)
		both := d * (c.in - c.out) * (c.in - c.out)
		for k, i := range c.places {
			row[i] += cross
			to := raw.Data[i*raw.Stride : i*raw.Stride+n]
			for _, j := range c.places[k:] {
				to[j] += both
			}
		}
	}
	for i := range n {
		to := raw.Data[i*raw.Stride : i*raw.Stride+n]
		for j := i; j < n; j++ {
			to[j] += all + row[i] + row[j]
		}
	}
	return a
}

// step solves w·ds + s·dw = right, ds = Σ dρ_i·v_i and Σ dw·v = miss for all columns v. It
// returns dρ.
func (m *master) step(factor *mat.Cholesky, miss []float64) ([]float64, error) {
	n := len(m.at)
	right := make([]float64, n)
	all := 0.
	for _, c := range m.columns {
		v := c.right / c.slack
		all += v * c.out
		for _, i := range c.places {
			right[i] += v * (c.in - c.out)
		}
	}
	for i := range right {
		right[i] += all - miss[i]
	}
	var x mat.VecDense
	if err := factor.SolveVecTo(&x, mat.NewVecDense(n, right)); err != nil {
		// An ill-conditioned step is still a step: what it misses, the next one sees.
		if _, ill := errors.AsType[mat.Condition](err); !ill {
			return nil, err
		}
	}
	step := make([]float64, n)
	mean := 0.
	for i := range step {
		mean += x.AtVec(i)
		step[i] = x.AtVec(i) / m.mass[i]
	}
	for _, c := range m.columns {
		c.dSlack = c.dot(m.normalPrior, step, mean)
		c.dWeight = (c.right - c.weight*c.dSlack) / c.slack
	}
	return step, nil
}

// room returns how far the weights and the slacks can go, as shares of the step.
func (m *master) room(share float64) (primal, dual float64) {
	primal, dual = 1, 1
	for _, c := range m.columns {
		if c.dWeight < 0 {
			primal = min(primal, -share*c.weight/c.dWeight)
		}
		if c.dSlack < 0 {
			dual = min(dual, -share*c.slack/c.dSlack)
		}
	}
	return primal, dual
}

// mechanism returns the likelihood of each output at each place. The least probable
// outputs, up to the probability merged, are one row: together they stay ε-DP, and gain little.
func (m *master) mechanism(merged float64) [][]float64 {
	slices.SortStableFunc(m.columns, func(a, b *column) int {
		return cmp.Compare(b.weight, a.weight)
	})
	var rows [][]float64
	left := 1.
	for _, c := range m.columns {
		if left > merged || len(rows) == 0 {
			rows = append(rows, make([]float64, len(m.at)))
		}
		left -= c.weight
		row := rows[len(rows)-1]
		inside := c.weight * (c.in - c.out) // w/D
		for i, k := 0, 0; i < len(row); i++ {
			if k < len(c.places) && c.places[k] == i {
				row[i] += inside
				k++
			} else {
				row[i] += inside * m.outside
			}
		}
	}
	return rows
}
