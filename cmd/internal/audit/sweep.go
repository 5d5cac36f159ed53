package audit

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// sweep checks the law of the next release for all cells of the map. It is exact: what decides is
// in whole numbers, and nothing is left to chance.
//
//   - Under the codebook mechanism: T is ⌈2⁶⁴·e^-ε⌉, every cell votes for the code point that is
//     nearest to it, and every code point weighs 2⁶⁴ for the cells that vote for it and T for the
//     others. So two cells weigh any code point by a ratio of 1 or 2⁶⁴/T, which is at most e^ε.
//   - Under the lattice: each cell has a surrogate in the location set, no two members of which
//     differ by more than K, and the likelihoods of a release differ by e^ε at most over all cells.
func sweep(c *Check, e *mechanism.Emission, all []grid.Cell, rng *rand.Rand) {
	q := e.Codebook()
	if q == nil {
		sweepSet(c, e, all, rng)
		return
	}
	checkOther(c, e.Options().Epsilon, q.Other())
	votes := make([]uint8, len(all))
	for i, x := range all {
		votes[i] = uint8(q.Vote(x))
	}
	checkVotes(c, e.Grid(), q.Points(), votes)
	if !slices.Equal(votes, q.Votes(nil, all)) {
		c.fail("the votes of all cells at a time are not the votes of each")
	}
	for j := range q.Points() {
		checkWeights(c, votes, j, e.Likelihoods(q.Place(j), all), q.Other())
	}
}

// checkOther checks that T is ⌈2⁶⁴·e^-ε⌉.
func checkOther(c *Check, epsilon float64, other uint64) {
	c.Trials++
	if new(big.Int).SetUint64(other).Cmp(otherWeight(epsilon)) != 0 {
		c.fail("the weight of another code point is not 2⁶⁴·e^-ε, rounded up")
	}
}

// checkVotes checks that each cell of the map votes for the code point that is nearest to its
// centre, the first among equals.
func checkVotes(c *Check, g *grid.Grid, points []convex.Lattice, votes []uint8) {
	c.Trials += int64(len(votes))
	for x, vote := range votes {
		if int(vote) != nearestPoint(g, points, grid.Cell(x)) {
			c.fail("a cell votes for a code point that is not the nearest")
			return
		}
	}
}

// checkWeights checks the likelihoods of code point j: 1 for the cells that vote for it, and T/2⁶⁴,
// which is the nearest float64, for the others.
func checkWeights(c *Check, votes []uint8, j int, likelihoods []float64, other uint64) {
	c.Trials += int64(len(votes))
	for x, vote := range votes {
		want := float64(other) * 0x1p-64
		if int(vote) == j {
			want = 1
		}
		if likelihoods[x] != want {
			c.fail("the weight of a code point is not that of the cell's vote")
			return
		}
	}
}

// sweepSet is the sweep under a mechanism with location sets.
func sweepSet(c *Check, e *mechanism.Emission, all []grid.Cell, rng *rand.Rand) {
	g, set := e.Grid(), e.Set()
	checkHull(c, corners(e), members(g, set))
	c.Trials += int64(len(all))
	for _, x := range all {
		if _, ok := slices.BinarySearch(set, e.Surrogate(x)); !ok {
			c.fail("a cell is released as a cell outside of the location set")
			break
		}
	}
	if len(set) > 1 {
		z, _ := e.Draw(rng, set[rng.IntN(len(set))])
		checkLikelihoods(c, e.Likelihoods(z, all), e.Options().Epsilon)
	}
}

// corners returns the corners of the hull that noise is drawn from, in cells. They are whole.
func corners(e *mechanism.Emission) []convex.Lattice {
	var list []convex.Lattice
	for _, v := range e.Hull().Body().Vertices() {
		side := e.Grid().CellKM()
		list = append(list, convex.Lattice{
			X: int64(math.Round(v.X / side)), Y: int64(math.Round(v.Y / side)),
		})
	}
	return list
}

// members returns the columns and rows of a location set.
func members(g *grid.Grid, set []grid.Cell) []convex.Lattice {
	list := make([]convex.Lattice, len(set))
	for i, x := range set {
		list[i] = convex.Lattice{X: int64(g.Column(x)), Y: int64(g.Row(x))}
	}
	return list
}

// checkHull checks in whole numbers that no two members of a location set differ by more than the
// hull: for each of its edges with the normal n and the support h, the range of n·x over the
// members is h at most. So ‖x1 - x2‖_K ≤ 1 for all pairs, and noise of density e^(-ε‖·‖_K) tells
// them apart by e^ε at most.
func checkHull(c *Check, corners, members []convex.Lattice) {
	if len(corners) < 2 {
		if c.Trials++; len(members) > 1 {
			c.fail("the hull of several places is a point")
		}
		return
	}
	for i := range corners {
		normal, support := edge(corners, i)
		low, high := extremes(members, normal)
		c.Trials += int64(len(members))
		if convex.Dot(normal, members[high])-convex.Dot(normal, members[low]) > support {
			c.fail("two places of the location set differ by more than ε")
			return
		}
	}
	if len(corners) == 2 { // beside the line there is no noise, so nothing may lie there
		normal := convex.Lattice{X: -corners[0].Y, Y: corners[0].X}
		low, high := extremes(members, normal)
		if convex.Dot(normal, members[low]) != convex.Dot(normal, members[high]) {
			c.fail("a place of the location set lies beside its line")
		}
	}
}

// edge returns a normal of an edge of a hull, and its support: n·x of the edge's points. A hull of
// two corners is a line, whose edges are its ends.
func edge(corners []convex.Lattice, i int) (normal convex.Lattice, support int64) {
	corner := corners[i]
	if len(corners) == 2 {
		return corner, convex.Dot(corner, corner)
	}
	along := corners[(i+1)%len(corners)].Sub(corner)
	normal = convex.Lattice{X: along.Y, Y: -along.X}
	return normal, convex.Dot(normal, corner)
}

// extremes returns the indices of the members with the least and the greatest n·x.
func extremes(members []convex.Lattice, normal convex.Lattice) (low, high int) {
	for i, x := range members {
		switch at := convex.Dot(normal, x); {
		case at < convex.Dot(normal, members[low]):
			low = i
		case at > convex.Dot(normal, members[high]):
			high = i
		}
	}
	return low, high
}

// rounding allows for the rounding of some thirty products.
const rounding = 1e-9

// checkLikelihoods checks that the likelihoods of one release differ by e^ε at most.
func checkLikelihoods(c *Check, likelihoods []float64, epsilon float64) {
	c.Trials += int64(len(likelihoods))
	ratio := math.Log(slices.Max(likelihoods) / slices.Min(likelihoods))
	if !(ratio <= epsilon*(1+rounding)) {
		c.fail("the likelihoods of two cells differ by more than e^ε")
	}
}

// nearestPoint returns the index of the code point that is nearest to a cell's centre, the first
// among equals. O(points).
func nearestPoint(g *grid.Grid, points []convex.Lattice, x grid.Cell) int {
	at := convex.Lattice{
		X: law.CodeSteps * int64(g.Column(x)), Y: law.CodeSteps * int64(g.Row(x)),
	}
	best, least := 0, int64(math.MaxInt64)
	for j, p := range points {
		if d := p.Sub(at); convex.Dot(d, d) < least {
			best, least = j, convex.Dot(d, d)
		}
	}
	return best
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
