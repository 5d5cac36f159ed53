package audit

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// codebook is what everybody knows of a release under the codebook mechanism: the code points, the
// vote of every cell, and the stated law. The code points are law.Quantizer's, which may put them
// anywhere. Votes and law follow from their definitions, by code that the mechanism does not share.
type codebook struct {
	grid   *grid.Grid
	points []convex.Lattice // as Quantizer.Points
	places []grid.Point     // of the same points, in map kilometres
	other  float64          // e^-ε
	shifts []shift          // of votes, with their weights; none without a near factor
	total  uint64           // of their weights
}

// shift is a displacement of votes, with its weight.
type shift struct {
	columns, rows int
	weight        uint64
}

// newCodebook returns the codebook of a quantizer that was prepared for maps of this grid and ε.
// With a near factor the weights of the shifts are the quantizer's too.
func newCodebook(g *grid.Grid, epsilon float64, q *law.Quantizer) *codebook {
	c := &codebook{grid: g, points: slices.Clone(q.Points()), other: math.Exp(-epsilon)}
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

// size returns the number of code points.
func (c *codebook) size() int { return len(c.points) }

// find returns the index of the code point whose very bits a release has.
func (c *codebook) find(z grid.Point) (j int, ok bool) {
	j = slices.Index(c.places, z)
	return j, j >= 0
}

// blurred says that there is a near factor, so that every cell has a law of its own.
func (c *codebook) blurred() bool { return len(c.shifts) > 0 }

// vote returns the index of the code point that is nearest to a cell's centre, the first among
// equals. O(points).
func (c *codebook) vote(x grid.Cell) int { return c.voteAt(c.grid.Column(x), c.grid.Row(x)) }

// voteAt is vote for a column and a row, on the map or off it.
func (c *codebook) voteAt(column, row int) int {
	at := convex.Lattice{X: law.CodeSteps * int64(column), Y: law.CodeSteps * int64(row)}
	best, least := 0, int64(math.MaxInt64)
	for j, p := range c.points {
		if d := p.Sub(at); convex.Dot(d, d) < least {
			best, least = j, convex.Dot(d, d)
		}
	}
	return best
}

// tallies returns for every code point the weight of the shifts with which a cell votes for it.
// O(shifts·points).
func (c *codebook) tallies(x grid.Cell) []uint64 {
	all := make([]uint64, c.size())
	if !c.blurred() {
		all[c.vote(x)] = 1
		return all
	}
	for _, s := range c.shifts {
		all[c.voteAt(c.grid.Column(x)+s.columns, c.grid.Row(x)+s.rows)] += s.weight
	}
	return all
}

// law returns the stated probabilities of all code points for a cell.
func (c *codebook) law(x grid.Cell) []float64 {
	p, total := make([]float64, c.size()), float64(max(c.total, 1))
	all := 1 + float64(c.size()-1)*c.other
	for j, n := range c.tallies(x) {
		p[j] = (c.other + (1-c.other)*(float64(n)/total)) / all
	}
	return p
}

// slopes returns by how much each of law grows with ε.
func (c *codebook) slopes(x grid.Cell) []float64 {
	slopes, total := make([]float64, c.size()), float64(max(c.total, 1))
	others := float64(c.size() - 1)
	all := 1 + others*c.other
	for j, n := range c.tallies(x) {
		q := float64(n) / total
		slopes[j] = c.other * (others*(c.other+(1-c.other)*q) - (1-q)*all) / (all * all)
	}
	return slopes
}

// ranks returns all code points by their distance from the own one, which comes first.
func (c *codebook) ranks(own int) []int {
	away := func(j int) int64 {
		d := c.points[j].Sub(c.points[own])
		return convex.Dot(d, d)
	}
	all := make([]int, c.size())
	for j := range all {
		all[j] = j
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(away(a), away(b)), cmp.Compare(a, b))
	})
	return all
}

// border returns two cells that touch and vote otherwise, which no codebook of two points or more
// lacks: the votes of the four corners of the map are not all the same, because a code point's
// votes are convex, and every code point lies between the corners.
func (c *codebook) border() [2]grid.Cell {
	ends := c.corners()
	for {
		dx := c.grid.Column(ends[1]) - c.grid.Column(ends[0])
		dy := c.grid.Row(ends[1]) - c.grid.Row(ends[0])
		if max(dx, -dx, dy, -dy) <= 1 {
			return ends
		}
		middle := grid.Cell((c.grid.Row(ends[0])+dy/2)*c.grid.Width() +
			c.grid.Column(ends[0]) + dx/2)
		if c.vote(middle) != c.vote(ends[0]) {
			ends[1] = middle
		} else {
			ends[0] = middle
		}
	}
}

// corners returns the two corners of the map whose code points lie furthest apart.
func (c *codebook) corners() [2]grid.Cell {
	last := grid.Cell(c.grid.Cells() - 1)
	row := grid.Cell(c.grid.Width() - 1)
	pair, _ := c.farthest([]grid.Cell{0, row, last - row, last})
	return pair
}

// farthest returns two of the cells whose code points lie furthest apart; ok is false if all have
// one vote. O(cells·points + points²).
func (c *codebook) farthest(cells []grid.Cell) (pair [2]grid.Cell, ok bool) {
	of := make([]grid.Cell, c.size())
	var votes []int
	for _, x := range cells {
		if j := c.vote(x); !slices.Contains(votes, j) {
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
