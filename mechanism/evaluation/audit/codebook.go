package audit

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// Codebook is what everybody knows of a release under the codebook mechanism: the code points, the
// vote of every cell, and the stated law. The code points are law.Quantizer's, which may put them
// anywhere. Votes and law follow from their definitions, by code that the mechanism does not share.
type Codebook struct {
	grid   *grid.Grid
	points []convex.Lattice // as Quantizer.Points
	places []grid.Point     // of the same points
	other  float64          // e^-ε
	shifts []shift          // none without a near factor
	total  uint64           // of their weights
}

// shift is a displacement of votes, with its weight.
type shift struct {
	columns, rows int
	weight        uint64
}

// NewCodebook returns the codebook of a quantizer that was prepared for maps of this grid and ε.
// With a near factor the weights of the shifts are the quantizer's too.
func NewCodebook(g *grid.Grid, epsilon float64, q *law.Quantizer) *Codebook {
	c := &Codebook{grid: g, points: slices.Clone(q.Points()), other: math.Exp(-epsilon)}
	for j := range c.points {
		c.places = append(c.places, q.Place(j))
	}
	reach := q.Reach()
	for rows := -reach; rows <= reach && reach > 0; rows++ {
		for columns := -reach; columns <= reach; columns++ {
			if w := q.ShiftWeight(columns, rows); w > 0 {
				c.shifts, c.total = append(c.shifts, shift{columns, rows, w}), c.total+w
			}
		}
	}
	return c
}

// Len returns the number of code points.
func (c *Codebook) Len() int { return len(c.points) }

// Place returns code point j in map kilometres.
func (c *Codebook) Place(j int) grid.Point { return c.places[j] }

// Find returns the index of the code point whose very bits a release has.
func (c *Codebook) Find(z grid.Point) (j int, ok bool) {
	j = slices.Index(c.places, z)
	return j, j >= 0
}

// Blurred says that there is a near factor, so that every cell has a law of its own.
func (c *Codebook) Blurred() bool { return len(c.shifts) > 0 }

// Vote returns the index of the code point that is nearest to a cell's centre, the first among
// equals. O(Len).
func (c *Codebook) Vote(x grid.Cell) int { return c.voteAt(c.grid.Column(x), c.grid.Row(x)) }

// voteAt is Vote for a column and a row, on the map or off it.
func (c *Codebook) voteAt(column, row int) int {
	at := convex.Lattice{X: law.CodeSteps * int64(column), Y: law.CodeSteps * int64(row)}
	best, least := 0, int64(math.MaxInt64)
	for j, p := range c.points {
		if d := p.Sub(at); convex.Dot(d, d) < least {
			best, least = j, convex.Dot(d, d)
		}
	}
	return best
}

// Tallies returns for every code point the weight of the shifts with which a cell votes for it.
// O(shifts·Len).
func (c *Codebook) Tallies(x grid.Cell) []uint64 {
	all := make([]uint64, c.Len())
	if !c.Blurred() {
		all[c.Vote(x)] = 1
		return all
	}
	for _, s := range c.shifts {
		all[c.voteAt(c.grid.Column(x)+s.columns, c.grid.Row(x)+s.rows)] += s.weight
	}
	return all
}

// Law returns the stated probabilities of all code points for a cell.
func (c *Codebook) Law(x grid.Cell) []float64 {
	p, total := make([]float64, c.Len()), float64(max(c.total, 1))
	all := 1 + float64(c.Len()-1)*c.other
	for j, n := range c.Tallies(x) {
		p[j] = (c.other + (1-c.other)*(float64(n)/total)) / all
	}
	return p
}

// Slopes returns by how much each of Law grows with ε.
func (c *Codebook) Slopes(x grid.Cell) []float64 {
	slopes, total := make([]float64, c.Len()), float64(max(c.total, 1))
	others := float64(c.Len() - 1)
	all := 1 + others*c.other
	for j, n := range c.Tallies(x) {
		q := float64(n) / total
		slopes[j] = c.other * (others*(c.other+(1-c.other)*q) - (1-q)*all) / (all * all)
	}
	return slopes
}

// Ranks returns all code points by their distance from the own one, which comes first.
func (c *Codebook) Ranks(own int) []int {
	away := func(j int) int64 {
		d := c.points[j].Sub(c.points[own])
		return convex.Dot(d, d)
	}
	all := make([]int, c.Len())
	for j := range all {
		all[j] = j
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(away(a), away(b)), cmp.Compare(a, b))
	})
	return all
}

// Twin returns a random cell of the map that votes as x does, if one is easily found. With a near
// factor there is none but x, which is not one.
func (c *Codebook) Twin(rng *rand.Rand, x grid.Cell) (grid.Cell, bool) {
	if c.Blurred() {
		return 0, false
	}
	own := c.Vote(x)
	for range 200 {
		y := grid.Cell(rng.IntN(c.grid.Cells()))
		if y != x && c.Vote(y) == own {
			return y, true
		}
	}
	return 0, false
}

// Border returns two cells that touch and vote otherwise, which no codebook of two points or more
// lacks: the votes of the four corners of the map are not all the same, because a code point's
// votes are convex, and every code point lies between the corners.
func (c *Codebook) Border() [2]grid.Cell {
	ends := c.corners()
	for {
		dx := c.grid.Column(ends[1]) - c.grid.Column(ends[0])
		dy := c.grid.Row(ends[1]) - c.grid.Row(ends[0])
		if max(dx, -dx, dy, -dy) <= 1 {
			return ends
		}
		middle := grid.Cell((c.grid.Row(ends[0])+dy/2)*c.grid.Width() +
			c.grid.Column(ends[0]) + dx/2)
		if c.Vote(middle) != c.Vote(ends[0]) {
			ends[1] = middle
		} else {
			ends[0] = middle
		}
	}
}

// corners returns the two corners of the map whose code points lie furthest apart.
func (c *Codebook) corners() [2]grid.Cell {
	last := grid.Cell(c.grid.Cells() - 1)
	row := grid.Cell(c.grid.Width() - 1)
	pair, _ := c.Farthest([]grid.Cell{0, row, last - row, last})
	return pair
}

// Farthest returns two of the cells whose code points lie furthest apart; ok is false if all vote
// the same. O(cells·Len + Len²).
func (c *Codebook) Farthest(cells []grid.Cell) (pair [2]grid.Cell, ok bool) {
	of := make([]grid.Cell, c.Len())
	var votes []int
	for _, x := range cells {
		if j := c.Vote(x); !slices.Contains(votes, j) {
			votes, of[j] = append(votes, j), x
		}
	}
	most := int64(0)
	for _, a := range votes {
		for _, b := range votes {
			d := c.points[a].Sub(c.points[b])
			if square := convex.Dot(d, d); square > most {
				pair, most = [2]grid.Cell{of[a], of[b]}, square
			}
		}
	}
	return pair, most > 0
}

// leastExpected is the least number that χ² is computed from.
const leastExpected = 16

// Fit returns the probability, under the stated law, of counts of the code points that are as
// unlike it as these or more so, for a cell. It is that of χ², with far code points taken
// together until leastExpected are expected of each part; and where that leaves the own point
// alone, the two tails of the binomial law.
func (c *Codebook) Fit(counts []int64, x grid.Cell) float64 {
	n := 0.0
	for _, k := range counts {
		n += float64(k)
	}
	law, own := c.Law(x), c.Vote(x)
	p := law[own]
	if others := n * (1 - p); others < leastExpected || n*p < leastExpected {
		return tails(n, p, float64(counts[own]))
	}
	d := float64(counts[own]) - n*p
	sum, parts := d*d/(n*p), 1
	seen, expected, left := 0.0, 0.0, n*(1-p)
	for _, j := range c.Ranks(own)[1:] {
		each := n * law[j]
		seen, expected, left = seen+float64(counts[j]), expected+each, left-each
		// The last part takes what would not be enough for one of its own.
		if expected < leastExpected || left > n*1e-9 && left < leastExpected {
			continue
		}
		sum += (seen - expected) * (seen - expected) / expected
		seen, expected = 0, 0
		parts++
	}
	return distuv.ChiSquared{K: float64(parts - 1)}.Survival(sum)
}

// tails returns the probability that a binomial number is as far out as k or farther, on either
// side.
func tails(n, p, k float64) float64 {
	b := distuv.Binomial{N: n, P: p}
	return min(1, 2*min(b.CDF(k), b.CDF(n)-b.CDF(k-1)))
}

// otherWeight returns ⌈2⁶⁴·e^-ε⌉ from 64 halvings and squarings of the exponential series
// with 600 bits, of which rounding takes less than 200.
func otherWeight(epsilon float64) *big.Int {
	const halvings, precision = 64, 600
	number := func() *big.Float { return new(big.Float).SetPrec(precision) }
	// ε is the number that its shortest text stands for.
	x, _ := number().SetString(strconv.FormatFloat(epsilon, 'f', -1, 64))
	x.Neg(x).SetMantExp(x, -halvings)
	sum, term := number().SetInt64(1), number().SetInt64(1)
	for k := int64(1); k < 20; k++ { // the last term is below 2^-1000
		term.Mul(term, x).Quo(term, number().SetInt64(k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	t, exact := sum.SetMantExp(sum, 64).Int(nil)
	if exact != big.Exact {
		t.Add(t, big.NewInt(1))
	}
	return t
}
