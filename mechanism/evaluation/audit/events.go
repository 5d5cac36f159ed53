package audit

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/locationset"
)

// pair is two cells that the attack tells apart, and how.
type pair struct {
	at     *Situation
	kind   string
	cells  [2]grid.Cell // what is reported
	places [2]grid.Cell // where noise must be added: their surrogates
	events []event
	norm   func(z grid.Point, place convex.Vec) float64
	own    [2]grid.Point // the cells' own code points, under the codebook mechanism
	reach  float64       // ε of the two places in the law that is stated, which no event can exceed
	near   bool          // the near factor is promised for the two places
}

// event is a set of releases that speak for the first place. Its mirror image speaks for the
// second. Under the codebook mechanism it is the own code point. Else, with a = z - x1 and
// b = z - x2, it asks for a in a cone, far enough away, and where the other cone is set for b in
// that.
type event struct {
	name         string
	cone, second *cone
	beyond       float64 // least norm of a
}

// cone is the directions from one vector counter-clockwise to another by at most half a turn, in
// cells.
type cone struct{ from, to convex.Lattice }

// offset is a vector from a place to a release: whole steps where the release lies on the lattice,
// else kilometres.
type offset struct {
	whole bool
	steps convex.Lattice
	km    convex.Vec
}

func (o offset) mirrored() offset { return offset{o.whole, o.steps.Neg(), o.km.Neg()} }

// holds decides whether an offset lies in a cone, its edges included: without error in whole
// numbers. In kilometres an offset within a rounding error of an edge counts on either side. That
// costs nothing: each decision defines an event, and a bound holds for any.
func (c *cone) holds(o offset) bool {
	if o.whole {
		return turn(c.from, o.steps) >= 0 && turn(o.steps, c.to) >= 0
	}
	return convex.Cross(vec(c.from), o.km) >= 0 && convex.Cross(o.km, vec(c.to)) >= 0
}

func vec(p convex.Lattice) convex.Vec { return convex.Vec{X: float64(p.X), Y: float64(p.Y)} }

// turn returns the sign of a × b.
func turn(a, b convex.Lattice) int {
	const small = 1 << 31
	if max(a.X, -a.X, a.Y, -a.Y, b.X, -b.X, b.Y, -b.Y) < small {
		return sign(convex.Cross(a, b))
	}
	left := new(big.Int).Mul(big.NewInt(a.X), big.NewInt(b.Y))
	return left.Cmp(new(big.Int).Mul(big.NewInt(a.Y), big.NewInt(b.X)))
}

func sign(x int64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// far is the norm of offsets of the tail, in units of 1/ε: the mean of K-norm noise.
const far = 2

// pairsOf returns what to attack in a situation.
func pairsOf(s *Situation, o mechanism.Options) []*pair {
	if s.code != nil {
		return codePairs(s)
	}
	if o.Mechanism == law.Laplace || o.Mechanism == law.LaplaceTight {
		return withOutside(s, laplacePair(s, o))
	}
	widest, _ := s.widestCone()
	all := withOutside(s, vertexPair(s, widest, o))
	for _, i := range s.steepest() {
		if i != widest {
			all = append(all, vertexPair(s, i, o))
		}
	}
	return all
}

// vertexPair attacks two places that are a vertex v of K apart. The event of PRIVACY's attack,
// ‖z-x2‖ - ‖z-x1‖ = 1, is that z - x1 lies in the two triangles at v: there an edge with
// the support 1 at v gives the norm of a = z - x1, so that of b = a + v is ‖a‖ + 1; and where
// the norm is ‖a‖ + 1, the edge that gives it has both. On it the ratio of K-norm noise is e^ε
// exactly.
//
// The events of the edges ask for a before and b behind an edge's end: the ratio is below e^ε
// there, except for a sampler that gives the edges another weight than their triangles' areas.
func vertexPair(s *Situation, i int, o mechanism.Options) *pair {
	v := s.vertex(i)
	p := &pair{at: s, kind: "members", reach: o.Epsilon, norm: func(
		z grid.Point, place convex.Vec,
	) float64 {
		return s.hull.Body().GaugeFrom(convex.Vec(z), place)
	}}
	p.find(v)
	main := &cone{s.vertex(i - 1), s.vertex(i + 1)}
	if len(s.k) == 2 {
		main = &cone{convex.Lattice{X: v.Y, Y: -v.X}, convex.Lattice{X: -v.Y, Y: v.X}}
	}
	p.events = []event{
		{name: "vertex", cone: main}, {name: "vertex, tail", cone: main, beyond: far / o.Epsilon},
	}
	if len(s.k) > 2 {
		before, behind := &cone{s.vertex(i - 1), v}, &cone{v, s.vertex(i + 1)}
		p.events = append(p.events,
			event{
				name: "edge before", cone: &cone{s.vertex(i - 2), s.vertex(i - 1)}, second: before,
			},
			event{
				name: "edge behind", cone: &cone{s.vertex(i + 1), s.vertex(i + 2)}, second: behind,
			})
	}
	return p
}

// laplacePair attacks the two places of the greatest ℓ1 distance v: where both coordinates of z -
// x1 point the way of v's, the ratio is e^{ε‖v‖₁/S}.
func laplacePair(s *Situation, o mechanism.Options) *pair {
	v, most := convex.Lattice{}, int64(0)
	for _, w := range s.k {
		if d := max(w.X, -w.X) + max(w.Y, -w.Y); d > most {
			v, most = w, d
		}
	}
	sensitivity := s.hull.Extents()
	if o.Mechanism == law.LaplaceTight {
		sensitivity = s.hull.Diameter1()
	}
	p := &pair{
		at: s, kind: "members", reach: o.Epsilon * float64(most) * s.grid.CellKM() / sensitivity,
		norm: func(z grid.Point, place convex.Vec) float64 {
			return (math.Abs(z.X-place.X) + math.Abs(z.Y-place.Y)) / sensitivity
		},
	}
	p.find(v)
	x, y := convex.Lattice{X: int64(sign(v.X))}, convex.Lattice{Y: int64(sign(v.Y))}
	c := &cone{x, y}
	switch {
	case v.X == 0: // half the plane
		c = &cone{convex.Lattice{X: y.Y}, convex.Lattice{X: -y.Y}}
	case v.Y == 0:
		c = &cone{convex.Lattice{Y: -x.X}, convex.Lattice{Y: x.X}}
	case x.X*y.Y < 0:
		c = &cone{y, x}
	}
	p.events = []event{
		{name: "corner", cone: c}, {name: "corner, tail", cone: c, beyond: far / o.Epsilon},
	}
	return p
}

// find sets the places to two members that differ by a vertex of K: there are two, since K is the
// hull of all differences.
func (p *pair) find(v convex.Lattice) {
	for _, second := range p.at.cells {
		if first, ok := p.at.member(p.at.site(second).Add(v)); ok {
			p.places = [2]grid.Cell{first, second}
			p.cells = p.places
			return
		}
	}
	panic(fmt.Sprintf("audit: a vertex of K is no difference of two of %d cells", len(p.at.cells)))
}

// withOutside adds the same attack on two cells outside the set that have these surrogates, each as
// far from its surrogate as the map has one.
func withOutside(s *Situation, p *pair) []*pair {
	var nearest locationset.Surrogates
	nearest.Reset(s.grid, s.cells)
	outside := *p
	outside.kind = "outside"
	var most [2]int64
	for c := range grid.Cell(s.grid.Cells()) {
		member := s.cells[nearest.Nearest(c)]
		for i, place := range p.places {
			if member != place {
				continue
			}
			d := s.site(c).Sub(s.site(place))
			if square := convex.Dot(d, d); square > most[i] {
				outside.cells[i], most[i] = c, square
			}
		}
	}
	if slices.Max(most[:]) == 0 {
		return []*pair{p}
	}
	return []*pair{p, &outside}
}

// codePairs returns what to attack under the codebook mechanism: pairs of cells that vote
// otherwise. An answer for the vote of one speaks for it, without a near factor by e^ε exactly. So
// it is for any such pair; but a draw that leaves out answers far from the own one, say, shows only
// where code points are far apart.
func codePairs(s *Situation) []*pair {
	var all []*pair
	add := func(kind, name string, cells [2]grid.Cell, own [2]int) {
		p := &pair{
			at: s, kind: kind, cells: cells, places: cells,
			events: []event{{name: name}},
		}
		first, second := s.code.Law(cells[0]), s.code.Law(cells[1])
		for side, j := range own {
			p.own[side] = s.code.Place(j)
			p.reach = max(p.reach, math.Abs(math.Log(first[j]/second[j])))
		}
		all = append(all, p)
	}
	votes := func(cells [2]grid.Cell) [2]int {
		return [2]int{s.code.Vote(cells[0]), s.code.Vote(cells[1])}
	}
	const own = "own code point"
	border := s.code.Border()
	add("neighbours", own, border, votes(border))
	if pair, ok := s.code.Farthest(s.cells); ok {
		add("members", own, pair, votes(pair))
	}
	add("corners", own, s.code.corners(), votes(s.code.corners()))
	if s.code.Blurred() {
		cells, best := s.worstNear(border)
		add("near", "best code point", cells, best)
		all[0].near, all[len(all)-1].near = true, true
	}
	return all
}
