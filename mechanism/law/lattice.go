package law

import (
	"math"
	"math/big"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// lattice is K-norm noise on a lattice, drawn exactly:
//
//	P(z|x) = e^{-ε‖z-x‖_K}/Z  for the points z of x + Λ.
//
// Λ is all whole multiples of the pitch on both axes, and the pitch is a whole part of a cell's
// side. Λ holds the differences of all cells' centres, so x + Λ is the same for every x.
//
// Guarantee: for x1, x2 in the set and every z, P(z|x1) ≤ e^ε P(z|x2), because Z does not depend
// on x. This is a statement on the very numbers that are published, given independent uniform
// words. PROOFS.md has the proof, and says what a key instead of such words means.
//
// From the true cell to z there are whole numbers only; a fixed function (place) turns z into
// kilometres. How many words a draw takes depends on K, ε, the pitch and the words, but not on x,
// which is added at the end. Nor does it show λ = z - x, and with z x itself: the proposal that is
// kept takes a whole block of words (lattice_words.go).
//
// With K in cells and n steps of the lattice in a cell, the exponent of a displacement of λ steps
// is ε‖λ‖_K/n. Take coordinates (a, b) of the lattice in which K is not thin (convex.Reduce),
// K's half-widths w1 and w2 in them, and M, the greatest |a|·w2 + |b|·w1 on K. By the choice of M
//
//	(|a|·w2 + |b|·w1)/M ≤ ‖λ‖_K,
//
// so two independent discrete Laplace draws make a proposal that is kept with the probability
//
//	exp(-ε(‖λ‖_K - (|a|·w2 + |b|·w1)/M)/n),
//
// the exponential of a rational. It is kept in area(K)·w1·w2/(2M²) of all cases, which is 1/4 or
// more, up to a factor near 1 (PROOFS.md).
type lattice struct {
	normLaw  // K and ε as floats, for inference
	parts    uint64
	num, den uint64 // ε/n as a rational

	step   convex.Lattice    // of a line: the least step of the lattice along it
	base   [2]convex.Lattice // of a polygon: λ = a·base[0] + b·base[1]
	width  [2]uint64         // w1, w2
	most   uint64            // M
	edges  []latticeEdge
	scale  [2][2]uint64 // of the proposals, numerator and denominator; of a line the first only
	limit  [2]uint64    // greatest |a| and |b| for which words suffice
	block  uint64       // words of the proposal that is kept
	words  noise.Meter
	summed bool
	mass   float64 // Z
	square float64 // E|λ|², steps²
}

// latticeEdge is one edge of K in the coordinates (a, b). The gauge is the greatest value of
// |x·b - y·a|/support over the edges.
type latticeEdge struct {
	x, y    int64
	support uint64
}

// Name implements Mechanism.
func (*lattice) Name() string { return Lattice }

// Prepare implements Mechanism. It takes ε for the number that its shortest decimal text stands
// for. It panics where Options.CheckEpsilon or Options.CheckGrid would refuse. A hull of points
// without a grid is good for Exponents only. O(h), with a few passes more where K is thin; without
// allocation once m has grown.
func (m *lattice) Prepare(h *SensitivityHull, epsilon float64) {
	if epsilon != m.epsilon {
		p, q, err := exactEpsilon(epsilon)
		if err != nil {
			panic("law: " + err.Error())
		}
		m.num, m.den = reduced(p, q*m.parts)
	}
	m.hull, m.epsilon, m.summed = h, epsilon, false
	switch {
	case h.grid == nil:
	case h.body.Dim() == 2:
		m.preparePolygon(h.exact)
	case h.body.Dim() == 1:
		m.prepareLine(h.exact[1])
	}
}

// prepareLine prepares for the segment from -u to u. With u = g·e the lattice along the segment is
// the multiples of e, each of the gauge 1/(n·g).
func (m *lattice) prepareLine(u convex.Lattice) {
	g := gcd(absolute(u.X), absolute(u.Y))
	m.step = convex.Lattice{X: u.X / int64(g), Y: u.Y / int64(g)}
	m.scale[0] = m.proposal(g, 1)
	m.block = wordBlock(m.scale[0])
	m.limit = [2]uint64{furthest / max(absolute(m.step.X), absolute(m.step.Y)), 0}
}

// preparePolygon prepares for K with vertices v. Everything is whole: widths and vertices are at
// most 2³¹, M and the supports at most area(K) ≤ 4·cells ≤ 2³³. For M ≤ 2·w1·w2 ≤
// area(K) (convex.Reduce), and a support is twice the area of a triangle of K.
func (m *lattice) preparePolygon(v []convex.Lattice) {
	d, e := convex.Reduce(v)
	sign := convex.Cross(d, e) // the determinant, 1 or -1: the inverse is whole
	m.base = [2]convex.Lattice{{X: sign * e.Y, Y: -sign * e.X}, {X: -sign * d.Y, Y: sign * d.X}}
	half := len(v) / 2
	m.width, m.most, m.edges = [2]uint64{}, 0, m.edges[:0]
	for _, corner := range v[:half] {
		m.width[0] = max(m.width[0], absolute(convex.Dot(d, corner)))
		m.width[1] = max(m.width[1], absolute(convex.Dot(e, corner)))
	}
	for i, corner := range v[:half] {
		from := convex.Lattice{X: convex.Dot(d, corner), Y: convex.Dot(e, corner)}
		to := convex.Lattice{X: convex.Dot(d, v[i+1]), Y: convex.Dot(e, v[i+1])}
		along := to.Sub(from)
		support := absolute(convex.Cross(from, along))
		m.edges = append(m.edges, latticeEdge{along.X, along.Y, support})
		m.most = max(m.most, absolute(from.X)*m.width[1]+absolute(from.Y)*m.width[0])
	}
	for i := range m.scale {
		m.scale[i] = m.proposal(m.most, m.width[1-i])
		// |x·b - y·a| and |a|·w2 + |b|·w1 stay below 2⁶², their products with M below
		// 2⁸⁶, and λ below 2⁵¹: see try and place.
		m.limit[i] = min(1<<60/m.width[1-i]/(m.most>>24+1),
			furthest/max(absolute(m.base[i].X), absolute(m.base[i].Y)))
	}
	m.block = wordBlock(m.scale[0], m.scale[1])
}

// proposal returns the scale of a discrete Laplace draw with the exponent ε/n·weight/over per
// step.
func (m *lattice) proposal(over, weight uint64) [2]uint64 {
	over, weight = reduced(over, weight)
	a, weight := reduced(m.den, weight)
	over, b := reduced(over, m.num)
	num, den := noise.Product(a, over), noise.Product(b, weight)
	if num.Hi|den.Hi != 0 {
		panic("law: ε, the subdivision and the hull exceed the lattice mechanism's bounds; a " +
			"sanitizer checks them against its grid")
	}
	return [2]uint64{num.Lo, den.Lo}
}

// Sample implements Mechanism. A single place takes no words. Otherwise the draw comes first: a
// line's needs about nine words, a polygon's some 20 to 40. What is missing from a whole block for
// the proposal that was kept is then taken and thrown away.
func (m *lattice) Sample(src noise.Source, x grid.Cell) grid.Point {
	site := m.hull.site(x)
	if m.hull.body.Dim() == 0 {
		return m.place(site, convex.Lattice{})
	}
	m.words.Start(src, m.block)
	for {
		if z, ok := m.propose(&m.words, site); ok {
			m.words.Keep()
			return z
		}
		m.words.Reject()
	}
}

// propose makes one proposal and decides whether to keep it. A line's is always kept.
func (m *lattice) propose(src noise.Source, site convex.Lattice) (grid.Point, bool) {
	if m.hull.body.Dim() == 1 {
		return m.onLine(src, site), true
	}
	return m.try(src, site)
}

func (m *lattice) onLine(src noise.Source, site convex.Lattice) grid.Point {
	size, negative := noise.DiscreteLaplace(src, m.scale[0][0], m.scale[0][1])
	if size.Hi != 0 || size.Lo > m.limit[0] {
		return m.placeFar(site, far(m.step, convex.Lattice{}, signedBig(size, negative), zeroBig))
	}
	k := signed(size.Lo, negative)
	return m.place(site, convex.Lattice{X: k * m.step.X, Y: k * m.step.Y})
}

// try makes one proposal and decides whether to keep it. site, the place's column and row, is only
// added to what is kept.
//
// Bounds: with N = |x·b - y·a| and S the greatest gauge's two parts, N < 2⁶² and N·M <
// 2⁸⁶ by limit, ε/n = num/den has num < 2⁴⁰ and den ≤ 2⁴⁶ (MaxSubdivision,
// MaxDecimals), S and M at most 2³³: both parts of the exponent stay below 2¹²⁸. Beyond
// limit, under the default subdivision on 1000×1000 cells 2,000 scales away even for ε =
// 10⁻⁶, tryFar takes over with numbers of any size.
func (m *lattice) try(src noise.Source, site convex.Lattice) (grid.Point, bool) {
	sizeA, negativeA := noise.DiscreteLaplace(src, m.scale[0][0], m.scale[0][1])
	sizeB, negativeB := noise.DiscreteLaplace(src, m.scale[1][0], m.scale[1][1])
	if sizeA.Hi|sizeB.Hi != 0 || sizeA.Lo > m.limit[0] || sizeB.Lo > m.limit[1] {
		return m.tryFar(src, site, signedBig(sizeA, negativeA), signedBig(sizeB, negativeB))
	}
	a, b := signed(sizeA.Lo, negativeA), signed(sizeB.Lo, negativeB)
	norm, support := m.gauge(a, b)
	proposed := sizeA.Lo*m.width[1] + sizeB.Lo*m.width[0]
	excess := noise.Product(norm, m.most).Minus(noise.Product(proposed, support))
	if !noise.BernoulliExpWide(src, excess.Times(m.num),
		noise.Product(m.most, support).Times(m.den)) {
		return grid.Point{}, false
	}
	shift := convex.Lattice{
		X: a*m.base[0].X + b*m.base[1].X,
		Y: a*m.base[0].Y + b*m.base[1].Y,
	}
	return m.place(site, shift), true
}

// gauge returns ‖λ‖_K, K in cells and λ in steps, as a fraction: the greatest over the edges,
// compared by cross products.
func (m *lattice) gauge(a, b int64) (norm, support uint64) {
	support = 1
	for _, e := range m.edges {
		n := absolute(e.x*b - e.y*a)
		if noise.Product(norm, e.support).Less(noise.Product(n, support)) {
			norm, support = n, e.support
		}
	}
	return norm, support
}

// furthest bounds λ, in steps, where words suffice: a cell's own coordinates are at most
// 2³¹·2¹⁶ steps, so 2z+1 cells stay below 2⁵³.
const furthest = 1 << 50

// place is the one function from the lattice to the map: the place shift steps from the centre of a
// cell, in kilometres. The number of half steps from the map's corner is whole and below 2⁵³, so
// it is divided with one rounding and multiplied with one, and the centre of a cell (shift 0) has
// the very bits of grid.Grid.Centre. What it rounds is public: it is a function of z alone.
func (m *lattice) place(site, shift convex.Lattice) grid.Point {
	n := int64(m.parts)
	return grid.Point{
		X: onLattice(site.X*n+shift.X, n, m.hull.scale),
		Y: onLattice(site.Y*n+shift.Y, n, m.hull.scale),
	}
}

// onLattice returns the coordinate that lies so many steps from the middle of the first cell, n
// steps to a cell of a side in kilometres.
func onLattice(steps, n int64, sideKM float64) float64 {
	return float64(float64(2*steps+n) / float64(2*n) * sideKM)
}

// Snap returns the point of the lattice that is nearest to a place, both in kilometres. Of a
// release that was written down with an error of less than half a step it returns the very bits. A
// place so far away that no release can be there is returned as it is.
func Snap(p grid.Point, subdivision int, cellKM float64) grid.Point {
	n := int64(subdivision)
	at := func(x float64) float64 {
		steps := math.Round(float64(x/cellKM*float64(n)) - float64(n)/2)
		if !(math.Abs(steps) < furthest) {
			return x
		}
		return onLattice(int64(steps), n, cellKM)
	}
	return grid.Point{X: at(p.X), Y: at(p.Y)}
}

func absolute(x int64) uint64 { return uint64(max(x, -x)) }

func signed(size uint64, negative bool) int64 {
	if negative {
		return -int64(size)
	}
	return int64(size)
}

// LogPeak implements Mechanism: the probability of the place itself over the area, or on a line the
// length, that a step stands for, to compare it with densities. -ln Z is the same for every x, so
// inference does without it; O(area of K in cells).
func (m *lattice) LogPeak() float64 {
	m.sum()
	pitch := m.hull.scale / float64(m.parts)
	switch m.hull.body.Dim() {
	case 2:
		return -math.Log(m.mass) - 2*math.Log(pitch)
	case 1:
		return -math.Log(m.mass) - math.Log(pitch*math.Sqrt(squareOf(m.step)))
	}
	return 0
}

// SquaredError implements Mechanism, up to rounding; O(area of K in cells). It falls short of
// K-norm noise's 12·tr(Σ_K)/ε² (6 on a line) by (ε/n)²/12 of it at most for ε < n, 10⁻⁶
// at ε = 1 under the default subdivision: proved on a line, tested for polygons.
func (m *lattice) SquaredError() float64 {
	m.sum()
	pitch := m.hull.scale / float64(m.parts)
	return m.square * pitch * pitch
}

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
