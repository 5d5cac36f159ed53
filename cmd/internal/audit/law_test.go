package audit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// stated is the law that a release must have, as everybody can compute it before the release. The
// prior, the location set and the code points are those of mechanism.Emission. All that follows
// from them is computed here by its definition: surrogates, K, votes and probabilities.
type stated struct {
	grid     *grid.Grid
	options  mechanism.Options
	emission *mechanism.Emission
	prior    mobility.Distribution
	cells    []grid.Cell // of the location set, ascending; under the codebook mechanism the prior's
	k        *hull       // nil under the codebook mechanism
	code     *codebook   // nil under the others
	answers  map[grid.Cell]*answers
}

// answers is the law of a cell's answers from a codebook.
type answers struct {
	p     []float64
	ranks []int   // the code points by their distance from the own one, which comes first
	moves float64 // see draw
}

// newStated returns the law of a release after a prior. It is valid as long as the emission, which
// it prepares, is left alone.
func newStated(emission *mechanism.Emission, prior *mobility.Distribution) *stated {
	g := emission.Grid()
	l := &stated{
		grid: g, options: emission.Options(), emission: emission,
		answers: map[grid.Cell]*answers{},
	}
	l.prior.CopyFrom(prior)
	emission.Prepare(&l.prior)
	if q := emission.Codebook(); q != nil {
		l.cells, l.code = l.prior.Cells, newCodebook(g, l.options.Epsilon, q)
		return l
	}
	l.cells = emission.Set()
	l.k = hullOf(l.cells, g.Width())
	return l
}

// tells says whether a release distinguishes any two places.
func (l *stated) tells() bool {
	if l.code != nil {
		return l.code.size() > 1
	}
	return l.k.dim() > 0
}

// site returns the cell as which a cell is released: its surrogate.
func (l *stated) site(x grid.Cell) grid.Cell {
	if l.code != nil {
		return x
	}
	return nearestMember(l.grid, l.cells, x)
}

// nearestMember returns the member of a location set that is nearest to a cell, the lower
// index among equals: the surrogate by its definition. Every member is looked at.
func nearestMember(g *grid.Grid, cells []grid.Cell, c grid.Cell) grid.Cell {
	best, least := cells[0], int64(math.MaxInt64)
	for _, member := range cells {
		x, y := int64(g.Column(member)-g.Column(c)), int64(g.Row(member)-g.Row(c))
		if square := x*x + y*y; square < least {
			best, least = member, square
		}
	}
	return best
}

// drifts says that a cell lies outside the location set, or outside a codebook's prior.
func (l *stated) drifts(x grid.Cell) bool {
	if l.code != nil {
		return l.prior.At(x) == 0
	}
	return l.site(x) != x
}

// twin returns a cell that must be released exactly as x is: its surrogate, another cell with that
// surrogate, or another one with the same vote. It is x itself if none is easily found.
func (l *stated) twin(rng *rand.Rand, x grid.Cell) grid.Cell {
	if l.code == nil && l.drifts(x) && rng.IntN(2) == 0 {
		return l.site(x)
	}
	for range 100 {
		if y := grid.Cell(rng.IntN(l.grid.Cells())); y != x && l.together(x, y) {
			return y
		}
	}
	return x
}

// together says that two cells have the same surrogate or the same vote.
func (l *stated) together(x, y grid.Cell) bool {
	if l.code != nil {
		return l.code.vote(x) == l.code.vote(y)
	}
	return l.site(x) == l.site(y)
}

// of returns the law of a cell's answers.
func (l *stated) of(x grid.Cell) *answers {
	a := l.answers[x]
	if a == nil {
		a = &answers{p: l.code.law(x), ranks: l.code.ranks(l.code.vote(x))}
		a.moves = moves(a.p, a.ranks, l.code.slopes(x), l.options.Epsilon)
		l.answers[x] = a
	}
	return a
}

// exponent returns the logarithm of how probable a release is from a cell, up to a term that all
// cells share. The release must be possible.
func (l *stated) exponent(x grid.Cell, z grid.Point) float64 {
	if l.code != nil {
		j, _ := l.code.find(z)
		return math.Log(l.of(x).p[max(j, 0)])
	}
	noise := z.Sub(l.grid.Centre(l.site(x))).Scale(1 / l.grid.CellKM())
	return -l.options.Epsilon * l.k.gauge(noise.X, noise.Y)
}

// read returns a release as the tests of the law see it, and what is wrong with its bits. rng
// decides what the release does not.
func (l *stated) read(x grid.Cell, z grid.Point, rng *rand.Rand) (d draw, wrong string) {
	d = draw{drift: l.drifts(x), even: x%2 == 0}
	if l.code != nil {
		j, ok := l.code.find(z)
		if !ok {
			return d, "a release is none of the code points that public facts give"
		}
		d.rank(l.of(x), j, rng)
		return d, ""
	}
	if l.offLattice(z) {
		wrong = "a release lies beside the lattice that all places share"
	}
	noise := z.Sub(l.grid.Centre(l.site(x))).Scale(1 / l.grid.CellKM())
	n := float64(l.options.Subdivision) // whole steps, up to the rounding of kilometres
	noise.X, noise.Y = math.Round(noise.X*n)/n, math.Round(noise.Y*n)/n
	if l.k.dim() == 0 {
		if noise != (grid.Point{}) {
			wrong = "the release of a single cell is not that cell"
		}
		return d, wrong
	}
	d.noise = noise
	d.measure(l.k, l.options.Epsilon, noise.X, noise.Y, rng)
	return d, wrong
}

// offLattice says that a release is not the very number that stands for a point of the lattice.
// Far away from the map no float64 can tell.
func (l *stated) offLattice(z grid.Point) bool {
	n, side := float64(l.options.Subdivision), l.grid.CellKM()
	for _, km := range []float64{z.X, z.Y} {
		half := math.Round(km / side * (2 * n)) // in half steps
		if math.Abs(half) < 1<<51 &&
			(int64(half)&1 != int64(n)&1 || half/(2*n)*side != km) {
			return true
		}
	}
	return false
}

// pair is two cells that an attacker distinguishes by their releases. Under the codebook mechanism
// own are the code points that speak for the one and for the other.
type pair struct {
	cells [2]grid.Cell
	own   [2]int
}

// farthest returns the two cells of the location set whose difference has the greatest gauge, or
// two cells whose votes lie far apart.
func (l *stated) farthest() pair {
	if l.code != nil {
		cells, ok := l.code.farthest(l.cells)
		if !ok {
			cells = l.code.border()
		}
		return pair{cells, [2]int{l.code.vote(cells[0]), l.code.vote(cells[1])}}
	}
	best, most := pair{cells: [2]grid.Cell{l.cells[0], l.cells[0]}}, 0.0
	for _, a := range l.ends() {
		for _, b := range l.ends() {
			if norm := l.apart([2]grid.Cell{a, b}); norm > most {
				best, most = pair{cells: [2]grid.Cell{a, b}}, norm
			}
		}
	}
	return best
}

// ends returns the cells of the location set that are the first or the last of their row: its
// corners are among them.
func (l *stated) ends() []grid.Cell {
	var ends []grid.Cell
	for _, at := range rowEnds(l.cells, l.grid.Width()) {
		ends = append(ends, grid.Cell(at.Y*int64(l.grid.Width())+at.X))
	}
	return ends
}

// apart returns the gauge of the difference of two cells.
func (l *stated) apart(cells [2]grid.Cell) float64 {
	return l.k.gauge(float64(l.grid.Column(cells[0])-l.grid.Column(cells[1])),
		float64(l.grid.Row(cells[0])-l.grid.Row(cells[1])))
}

// guess is the closed-form attack on a release: the index of the place that it speaks for by the
// whole of ε, or -1. With noise that is where it is nearer to one place than to the other by their
// whole distance.
func (l *stated) guess(d pair, z grid.Point) int {
	if l.code != nil {
		j, _ := l.code.find(z)
		switch {
		case d.own[0] == d.own[1]:
			return -1
		case j == d.own[0]:
			return 0
		case j == d.own[1]:
			return 1
		}
		return -1
	}
	whole := l.apart(d.cells)
	const tolerance = 1e-6
	nearer := (l.exponent(d.cells[0], z) - l.exponent(d.cells[1], z)) / l.options.Epsilon
	switch {
	case whole == 0:
		return -1
	case nearer > whole-tolerance:
		return 0
	case -nearer > whole-tolerance:
		return 1
	}
	return -1
}

// moves returns by how much the mean radius of an answer grows with the logarithm of ε: in size,
// as the law goes from some answers to others by the slopes dP/dε. The beyond u of an answer is
// uniform between the sums a and b of the law over the code points that rank after it, without and
// with its own. There the mean of -ln u is 1 - (b·ln b - a·ln a)/(b - a).
func moves(law []float64, ranks []int, slopes []float64, epsilon float64) float64 {
	power := func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		return x * math.Log(x)
	}
	sum, a := 0.0, 0.0
	for i := len(ranks) - 1; i >= 0; i-- {
		j := ranks[i]
		b := a + law[j]
		sum += slopes[j] * (1 - (power(b)-power(a))/law[j])
		a = b
	}
	return math.Abs(epsilon * sum)
}

// rank fills in the coordinates of an answer. The code points are ordered by their distance from
// the own one, and where in its own part of the law an answer lies is left to rng. That makes
// beyond uniform, and the radius exponential, for every codebook: so the tests pool the releases of
// all of them. Another ε shows in how often the own point is drawn, a tail that is cut in the last
// ones. An answer has no direction.
func (d *draw) rank(a *answers, j int, rng *rand.Rand) {
	d.beyond = a.p[j] * (1 - rng.Float64())
	for i := len(a.ranks) - 1; a.ranks[i] != j; i-- {
		d.beyond += a.p[a.ranks[i]]
	}
	d.shape, d.radius, d.sector, d.moves = 1, -math.Log(d.beyond), rng.Float64(), a.moves
}

// codebook is what everybody knows of a release under the codebook mechanism: the code points, the
// vote of every cell, and the stated law. The code points are law.Quantizer's, which may put them
// anywhere. Votes and law follow from their definitions, by code that the mechanism does not share.
type codebook struct {
	grid   *grid.Grid
	points []convex.Lattice // as Quantizer.Points
	places []grid.Point     // of the same points, in map kilometres
	other  float64          // e^-ε
}

// newCodebook returns the codebook of a quantizer that was prepared for maps of this grid and ε.
func newCodebook(g *grid.Grid, epsilon float64, q *law.Quantizer) *codebook {
	c := &codebook{grid: g, points: slices.Clone(q.Points()), other: math.Exp(-epsilon)}
	for j := range c.points {
		c.places = append(c.places, q.Place(j))
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

// vote returns the index of the code point that a cell votes for.
func (c *codebook) vote(x grid.Cell) int { return nearestPoint(c.grid, c.points, x) }

// law returns the stated probabilities of all code points for a cell.
func (c *codebook) law(x grid.Cell) []float64 {
	p, all := make([]float64, c.size()), 1+float64(c.size()-1)*c.other
	for j := range p {
		p[j] = c.other / all
	}
	p[c.vote(x)] = 1 / all
	return p
}

// slopes returns by how much each of law grows with ε.
func (c *codebook) slopes(x grid.Cell) []float64 {
	slopes, others := make([]float64, c.size()), float64(c.size()-1)
	all := 1 + others*c.other
	for j := range slopes {
		slopes[j] = -c.other / (all * all)
	}
	slopes[c.vote(x)] = others * c.other / (all * all)
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

// draw is one release as the tests of the law see it. Radius and sector have the same law, and are
// independent, for every location set, so the tests pool the releases of many sets.
type draw struct {
	// radius is ε times the gauge of the noise. It has the Gamma law of this shape: 2 under a
	// polygon K and 1 along a line. So has that of an answer from a codebook, see rank.
	radius, shape float64
	// moves is by how much the radius of an answer from a codebook grows with the logarithm of ε.
	moves float64
	// beyond is the probability of a larger radius, sector a share of K's area. Both are
	// uniform and independent.
	beyond, sector float64
	noise          grid.Point // in cells
	drift          bool       // the true cell is none of the location set, or of a codebook's prior
	even           bool       // the parity of the true cell's number
	fresh          bool       // the user's first release
	step, number   int64
	gap            int64 // steps since the user's last record; 0: none
	hour           int   // of the day in UTC, when the step begins
	user           int
	place          int // of a crowd's pairs of cells, counted from 1; 0: another one
}

// measure fills in the coordinates of noise in cells. If the noise has no direction, rng gives one.
func (d *draw) measure(k *hull, epsilon, x, y float64, rng *rand.Rand) {
	d.radius = epsilon * k.gauge(x, y)
	switch {
	case k.dim() == 1:
		side := 0.0
		if u := k.corners[1]; x*float64(u.X)+y*float64(u.Y) < 0 ||
			x == 0 && y == 0 && rng.IntN(2) == 0 {
			side = 1
		}
		d.shape, d.beyond, d.sector = 1, math.Exp(-d.radius), (side+rng.Float64())/2
	case x == 0 && y == 0:
		d.shape, d.beyond, d.sector = 2, 1, rng.Float64()
	default:
		d.shape, d.beyond, d.sector = 2, (1+d.radius)*math.Exp(-d.radius), k.cone(x, y)
	}
	if math.IsInf(d.radius, 1) {
		d.beyond = 0
	}
}
