package audit

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

const (
	// exponentTolerance allows for the rounding of some thirty products.
	exponentTolerance = 1e-9
	// releasesLooked is how many releases of each situation exponents are compared at.
	releasesLooked = 20
	cellsLooked    = 4096
)

// exponentJobs compare the law that the mechanism states with its definition, for all pairs of
// places, in each situation.
func exponentJobs(p *plan) (all []job) {
	for i := range p.situations {
		all = append(all, job{releasesLooked, func() (*result, error) {
			l, err := lawOf(&p.situations[i])
			if err != nil {
				return nil, err
			}
			r := &result{checks: newChecks()}
			exponents(l, &r.checks.exponents, p.rng("exponents", i))
			return r, nil
		}})
	}
	return all
}

// exponents makes all comparisons of one law.
func exponents(l *stated, c *Check, rng *rand.Rand) {
	switch {
	case l.code != nil:
		weights(l, c)
	case l.tells():
		differences(l, c)
	}
	likelihoods(l, c, rng)
}

// differences compares the hull with K, and says in whole numbers that no two members differ by
// more than K: for each edge of K with the normal n and the support h, n·x over the members has a
// range of h at most. That is ‖x1 - x2‖_K ≤ 1 for all pairs, hence a ratio of e^ε at most for every
// release. O(members·edges).
func differences(l *stated, c *Check) {
	c.Trials++
	if !sameHull(l) {
		c.fail("the hull that is drawn from is not that of all differences of two places")
	}
	for i, corner := range l.k.corners {
		edge := l.k.corner(i + 1).Sub(corner)
		support := convex.Cross(corner, edge)
		if len(l.k.corners) == 2 { // along the line only: u·x over |u|²
			edge = convex.Lattice{X: corner.Y, Y: -corner.X}
			support = convex.Dot(corner, corner)
		}
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for _, x := range l.cells {
			n := convex.Cross(column(l, x), edge)
			low, high = min(low, n), max(high, n)
		}
		if c.Trials += int64(len(l.cells)); high-low > support {
			c.fail("two places differ by more than ε")
		}
	}
}

// sameHull says that the hull that the mechanism draws with is K, corner by corner.
func sameHull(l *stated) bool {
	vertices, side := l.emission.Hull().Body().Vertices(), l.grid.CellKM()
	return len(vertices) == len(l.k.corners) &&
		!slices.ContainsFunc(l.k.corners, func(corner convex.Lattice) bool {
			at, size := grid.Point{X: float64(corner.X), Y: float64(corner.Y)}.Scale(side), 0.0
			nearest := math.Inf(1)
			for _, v := range vertices {
				nearest = min(nearest, grid.Point(v).Distance(at))
			}
			size = side + at.Norm()
			return nearest > exponentTolerance*size
		})
}

// column returns the column and row of a cell.
func column(l *stated, c grid.Cell) convex.Lattice {
	return convex.Lattice{X: int64(l.grid.Column(c)), Y: int64(l.grid.Row(c))}
}

// likelihoods compares the likelihoods of inference with the stated law, and says that no two
// differ by more than e^ε. Of a large map it takes some cells.
func likelihoods(l *stated, c *Check, rng *rand.Rand) {
	if !l.tells() {
		return
	}
	cells := slices.Clone(l.cells)
	for range min(l.grid.Cells(), cellsLooked) {
		cells = append(cells, grid.Cell(rng.IntN(l.grid.Cells())))
	}
	slices.Sort(cells)
	cells = slices.Compact(cells)
	for range releasesLooked {
		z, _ := l.emission.Draw(rng, cells[rng.IntN(len(cells))])
		given := l.emission.Likelihoods(z, cells)
		base, low, high := math.Log(given[0])-l.exponent(cells[0], z), math.Inf(1), math.Inf(-1)
		for i, x := range cells {
			e := math.Log(given[i])
			low, high = min(low, e), max(high, e)
			if want := l.exponent(x, z); math.Abs(e-base-want) > exponentTolerance*(1+
				math.Abs(want)) {
				c.fail("a likelihood is not that of the stated law")
			}
		}
		if c.Trials += int64(len(cells)); high-low > l.options.Epsilon*(1+exponentTolerance) {
			c.fail("the likelihoods of two places differ by more than e^ε")
		}
	}
}

// weights checks the law that a quantizer states, in whole numbers: that T is ⌈2⁶⁴·e^-ε⌉, so
// that no two cells differ by more than e^ε at any code point; and that every cell of the map votes
// for the code point that is nearest by definition.
func weights(l *stated, c *Check) {
	q := l.emission.Codebook()
	c.Trials++
	if new(big.Int).SetUint64(q.Other()).Cmp(otherWeight(l.options.Epsilon)) != 0 {
		c.fail("the weight of another code point is not e^-ε, rounded up")
	}
	for x := range grid.Cell(l.grid.Cells()) {
		if c.Trials++; q.Vote(x) != l.code.vote(x) {
			c.fail("a cell votes for a code point that is not the nearest")
		}
	}
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
