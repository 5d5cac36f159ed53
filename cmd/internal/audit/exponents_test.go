package audit

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

const (
	// releasesLooked is how many releases of each situation exponents are compared at.
	releasesLooked = 20
	cellsLooked    = 4096
)

// exponentJobs compare the law that the mechanism states with its definition, for all pairs of
// places, in each situation.
func exponentJobs(p *plan) (all []job) {
	for i := range p.situations {
		all = append(all, func() (*result, error) {
			l, err := lawOf(&p.situations[i])
			if err != nil {
				return nil, err
			}
			r := &result{checks: newProbeChecks()}
			exponents(l, &r.checks.exponents, p.rng("exponents", i))
			return r, nil
		})
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

// differences compares the hull with K, and K with all pairs of places.
func differences(l *stated, c *Check) {
	c.Trials++
	if !sameHull(l) {
		c.fail("the hull that is drawn from is not that of all differences of two places")
	}
	checkHull(c, l.k.corners, members(l.grid, l.cells))
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
			return nearest > rounding*size
		})
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
			if want := l.exponent(x, z); math.Abs(e-base-want) > rounding*(1+
				math.Abs(want)) {
				c.fail("a likelihood is not that of the stated law")
			}
		}
		if c.Trials += int64(len(cells)); high-low > l.options.Epsilon*(1+rounding) {
			c.fail("the likelihoods of two places differ by more than e^ε")
		}
	}
}

// weights checks the law that a quantizer states, in whole numbers: T, and the vote of every cell
// of the map.
func weights(l *stated, c *Check) {
	q := l.emission.Codebook()
	checkOther(c, l.options.Epsilon, q.Other())
	votes := make([]uint8, l.grid.Cells())
	for x := range votes {
		votes[x] = uint8(q.Vote(grid.Cell(x)))
	}
	checkVotes(c, l.grid, l.code.points, votes)
}
