package moment

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

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
