package law

import (
	"math/big"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// What lattice.try, gauge and place do, in numbers of any size: for the draw so far out that words
// do not hold it. From the same words it comes to the same place.

var zeroBig = new(big.Int) // never written

// tryFar decides whether a proposal is kept.
func (m *lattice) tryFar(src noise.Source, site convex.Lattice, a, b *big.Int) (grid.Point, bool) {
	norm, support := m.gaugeFar(a, b)
	most := new(big.Int).SetUint64(m.most)
	proposed := new(big.Int).Mul(new(big.Int).Abs(a), new(big.Int).SetUint64(m.width[1]))
	proposed.Add(proposed, new(big.Int).Mul(new(big.Int).Abs(b),
		new(big.Int).SetUint64(m.width[0])))
	excess := new(big.Int).Mul(norm, most)
	excess.Sub(excess, proposed.Mul(proposed, support))
	excess.Mul(excess, new(big.Int).SetUint64(m.num))
	support.Mul(support, most).Mul(support, new(big.Int).SetUint64(m.den))
	if !noise.BernoulliExpBig(src, excess, support) {
		return grid.Point{}, false
	}
	return m.placeFar(site, far(m.base[0], m.base[1], a, b)), true
}

func (m *lattice) gaugeFar(a, b *big.Int) (norm, support *big.Int) {
	norm, support = new(big.Int), big.NewInt(1)
	for _, e := range m.edges {
		n := new(big.Int).Mul(big.NewInt(e.x), b)
		n.Abs(n.Sub(n, new(big.Int).Mul(big.NewInt(e.y), a)))
		s := new(big.Int).SetUint64(e.support)
		if new(big.Int).Mul(norm, s).Cmp(new(big.Int).Mul(n, support)) < 0 {
			norm, support = n, s
		}
	}
	return norm, support
}

// far returns a·p + b·q.
func far(p, q convex.Lattice, a, b *big.Int) [2]*big.Int {
	row := func(x, y int64) *big.Int {
		sum := new(big.Int).Mul(a, big.NewInt(x))
		return sum.Add(sum, new(big.Int).Mul(b, big.NewInt(y)))
	}
	return [2]*big.Int{row(p.X, q.X), row(p.Y, q.Y)}
}

// placeFar is place: the nearest float64 to the same fraction, times the same side.
func (m *lattice) placeFar(site convex.Lattice, shift [2]*big.Int) grid.Point {
	n := int64(m.parts)
	at := func(cell int64, steps *big.Int) float64 {
		half := big.NewInt(cell*n*2 + n)
		half.Add(half, new(big.Int).Lsh(steps, 1))
		nearest, _ := new(big.Rat).SetFrac(half, big.NewInt(2*n)).Float64()
		return nearest * m.hull.scale
	}
	return grid.Point{X: at(site.X, shift[0]), Y: at(site.Y, shift[1])}
}

func signedBig(size noise.Wide, negative bool) *big.Int {
	b := size.Big()
	if negative {
		b.Neg(b)
	}
	return b
}
