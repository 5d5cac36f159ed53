package experiment

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

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
