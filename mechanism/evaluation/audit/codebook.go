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
	"github.com/geodither/geodither/mechanism/mobility"
)

// Codebook is what everybody knows of a release under the codebook mechanism: the code points, the
// vote of every cell, and the stated law. The code points are law.Quantizer's, which may put them
// anywhere. Votes and law follow from their definitions, by code that the mechanism does not share.
type Codebook struct {
	grid   *grid.Grid
	points []convex.Lattice // as Quantizer.Points
	places []grid.Point     // of the same points
	other  float64          // e^-ε
}

// NewCodebook returns the codebook of a quantizer that was prepared for maps of this grid and ε.
func NewCodebook(g *grid.Grid, epsilon float64, q *law.Quantizer) *Codebook {
	c := &Codebook{grid: g, points: slices.Clone(q.Points()), other: math.Exp(-epsilon)}
	for j := range c.points {
		c.places = append(c.places, q.Place(j))
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

// Vote returns the index of the code point that is nearest to a cell's centre, the first among
// equals. O(Len).
func (c *Codebook) Vote(x grid.Cell) int {
	at := convex.Lattice{
		X: law.CodeSteps * int64(c.grid.Column(x)), Y: law.CodeSteps * int64(c.grid.Row(x)),
	}
	best, least := 0, int64(math.MaxInt64)
	for j, p := range c.points {
		if d := p.Sub(at); convex.Dot(d, d) < least {
			best, least = j, convex.Dot(d, d)
		}
	}
	return best
}

// P returns the stated probability of code point j for cells that vote for own.
func (c *Codebook) P(j, own int) float64 {
	all := 1 + float64(c.Len()-1)*c.other
	if j == own {
		return 1 / all
	}
	return c.other / all
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

// Twin returns a random cell of the map that votes as x does, if one is easily found.
func (c *Codebook) Twin(rng *rand.Rand, x grid.Cell) (grid.Cell, bool) {
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
// alike. O(cells·Len + Len²).
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
// unlike it as these or more so, for cells that vote for own. It is that of χ², with far code
// points taken together until leastExpected are expected of each part; and where that leaves the
// own point alone, the two tails of the binomial law.
func (c *Codebook) Fit(counts []int64, own int) float64 {
	n := 0.0
	for _, k := range counts {
		n += float64(k)
	}
	p := c.P(own, own)
	if others := n * (1 - p); others < leastExpected || n*p < leastExpected {
		return tails(n, p, float64(counts[own]))
	}
	d := float64(counts[own]) - n*p
	sum, parts := d*d/(n*p), 1
	seen, expected, left := 0.0, 0.0, n*(1-p)
	for _, j := range c.Ranks(own)[1:] {
		each := n * c.P(j, own)
		seen, expected, left = seen+float64(counts[j]), expected+each, left-each
		// The last part takes what would not be enough for one of its own.
		if expected < leastExpected || left > each/2 && left < leastExpected {
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

// otherWeight returns ⌈2⁶⁴·e^-ε⌉ from 64 halvings and squarings of the exponential series with 600
// bits, of which rounding takes less than 200.
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

// votes checks the law that a quantizer states, in whole numbers: that T is ⌈2⁶⁴·e^-ε⌉, so that no
// two cells differ by more than e^ε at any code point; that every cell of the map votes for the
// code point that is nearest by definition; and that the likelihoods are 1 and T/2⁶⁴.
func (r *RatioReport) votes(s *Situation, q *law.Quantizer, epsilon float64) {
	r.Comparisons++
	r.Worst = max(r.Worst, (64*math.Ln2-math.Log(float64(q.Other())))/epsilon)
	if new(big.Int).SetUint64(q.Other()).Cmp(otherWeight(epsilon)) != 0 {
		r.Failures++
	}
	width := s.grid.Width()
	cells, weight := make([]grid.Cell, width), [2]float64{float64(q.Other()) * 0x1p-64, 1}
	var votes []uint8
	var likelihoods []float64
	for row := range s.grid.Height() {
		for x := range cells {
			cells[x] = grid.Cell(row*width + x)
		}
		answer := row % s.code.Len()
		votes = q.Votes(votes, cells)
		likelihoods = q.Likelihoods(likelihoods, answer, cells)
		for i, c := range cells {
			own, same := s.code.Vote(c), 0
			if own == answer {
				same = 1
			}
			r.Comparisons += int64(s.code.Len())
			if q.Vote(c) != own || int(votes[i]) != own || likelihoods[i] != weight[same] {
				r.Failures++
			}
		}
	}
}

// codeExponents is exponents under the codebook mechanism.
func codeExponents(a *auditor, report *Report) error {
	report.Ratio = &RatioReport{Exact: true}
	for _, s := range a.situations {
		q, err := s.quantizer(a.release.Epsilon)
		if err != nil {
			return err
		}
		report.Ratio.votes(s, q, a.release.Epsilon)
	}
	return nil
}

// quantizer returns a quantizer of a situation's prior.
func (s *Situation) quantizer(epsilon float64) (*law.Quantizer, error) {
	q, err := law.NewQuantizer(s.grid, epsilon)
	if err == nil {
		q.Prepare(s.prior.Cells, s.prior.P)
	}
	return q, err
}

// codeSituation is newSituation under the codebook mechanism.
func codeSituation(
	g *grid.Grid, prior *mobility.Distribution, code *Codebook, step int64,
) *Situation {
	s := &Situation{grid: g, code: code, step: step}
	s.prior.CopyFrom(prior)
	s.cells = s.prior.Cells
	return s
}

// Shapes of codebooks, in the place of those of hulls.
var codeNames = [shapes]string{"one", "two", "few", "many"}

// fewPoints is how many code points at most are few.
const fewPoints = 8

func (c *Codebook) shape() int {
	switch {
	case c.Len() == 1:
		return shapePoint
	case c.Len() == 2:
		return shapeLine
	case c.Len() <= fewPoints:
		return shapeThin
	}
	return shapeFat
}

// codePairs returns what to attack under the codebook mechanism: pairs of cells that vote
// otherwise. An answer for the vote of one speaks for it by a factor of e^ε exactly. So it is for
// any such pair; but a draw that leaves out answers far from the own one, say, shows only where
// code points are far apart.
func codePairs(s *Situation, epsilon float64) []*pair {
	var all []*pair
	add := func(kind string, cells [2]grid.Cell) {
		p := &pair{
			at: s, kind: kind, cells: cells, places: cells, reach: epsilon,
			events: []event{{name: "own code point"}},
		}
		for side, c := range cells {
			p.own[side] = s.code.Place(s.code.Vote(c))
		}
		all = append(all, p)
	}
	add("neighbours", s.code.Border())
	if pair, ok := s.code.Farthest(s.cells); ok {
		add("members", pair)
	}
	add("corners", s.code.corners())
	return all
}
