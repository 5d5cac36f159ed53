package audit

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Situation is what everybody knows before a release: a state, which is a function of earlier
// releases, and the location set that follows. Under the codebook mechanism it is the prior and the
// codebook that follow.
type Situation struct {
	name  string
	grid  *grid.Grid
	cells []grid.Cell // ΔX, ascending; of a codebook's prior all
	hull  law.SensitivityHull
	k     []convex.Lattice // K in cells, by brute force: see Span
	prior mobility.Distribution
	code  *Codebook // nil under the other mechanisms, which have no prior here
	near  law.Near  // of the codebook
	state *mechanism.State
	step  int64
}

// newSituation takes over cells and state.
func newSituation(g *grid.Grid, cells []grid.Cell, state *mechanism.State, step int64) *Situation {
	s := &Situation{grid: g, cells: cells, state: state, step: step}
	s.hull.OfCells(g, cells)
	s.k = SpanOf(cells, g.Width()).Corners()
	return s
}

// Shapes of hulls.
const (
	shapePoint = iota
	shapeLine
	shapeThin
	shapeFat
	shapes
)

var shapeNames = [shapes]string{"point", "line", "thin", "fat"}

// thinness is below which ratio of the axes of its ellipse of inertia a hull counts as thin.
const thinness = 1.0 / 3

func (s *Situation) shape() int {
	if s.code != nil {
		return s.code.shape()
	}
	switch s.hull.Body().Dim() {
	case 0:
		return shapePoint
	case 1:
		return shapeLine
	}
	m := s.hull.Body().Moment()
	// The eigenvalues of the second moment are the squares of the axes.
	mean := m.Trace() / 2
	root := math.Sqrt(max(float64(mean*mean)-m.Determinant, 0))
	if m.Determinant < thinness*thinness*(mean+root)*(mean+root) {
		return shapeThin
	}
	return shapeFat
}

func (s *Situation) shapeName(shape int) string {
	if s.code != nil {
		return codeNames[shape]
	}
	return shapeNames[shape]
}

// like says that another situation has the same releases.
func (s *Situation) like(other *Situation) bool {
	if s.code != nil {
		return slices.Equal(s.code.points, other.code.points)
	}
	return slices.Equal(s.cells, other.cells)
}

// share returns which part of releases the strongest attack guesses by.
func (s *Situation) share() float64 {
	if s.code != nil {
		pair := s.code.Border()
		law, own := s.code.Law(pair[0]), s.code.Vote(pair[0])
		return law[own] + law[s.code.Vote(pair[1])]
	}
	_, share := s.widestCone()
	return share
}

func (s *Situation) report() SituationReport {
	if s.code != nil {
		return SituationReport{Name: s.name, Cells: len(s.cells), Points: s.code.Len()}
	}
	r := SituationReport{
		Name: s.name, Cells: len(s.cells), Vertices: len(s.k), WidthKM: s.hull.WidthKM(),
	}
	if s.hull.Body().Dim() == 2 {
		r.AreaKM2 = s.hull.Body().Measure()
	}
	return r
}

// site returns the column and row of a cell.
func (s *Situation) site(c grid.Cell) convex.Lattice {
	return convex.Lattice{X: int64(s.grid.Column(c)), Y: int64(s.grid.Row(c))}
}

// member returns a member of the set at a column and a row.
func (s *Situation) member(at convex.Lattice) (grid.Cell, bool) {
	if at.X < 0 || at.Y < 0 || at.X >= int64(s.grid.Width()) || at.Y >= int64(s.grid.Height()) {
		return 0, false
	}
	c := grid.Cell(at.Y*int64(s.grid.Width()) + at.X)
	_, ok := slices.BinarySearch(s.cells, c)
	return c, ok
}

// places returns the members' centres.
func (s *Situation) places() []convex.Vec {
	all := make([]convex.Vec, len(s.cells))
	for i, c := range s.cells {
		all[i] = convex.Vec(s.grid.Centre(c))
	}
	return all
}

// surrogate finds the surrogate of a cell by its definition.
func (s *Situation) surrogate(c grid.Cell) grid.Cell { return NearestMember(s.grid, s.cells, c) }

// vertex returns K's vertex i, for any i.
func (s *Situation) vertex(i int) convex.Lattice {
	n := len(s.k)
	return s.k[((i%n)+n)%n]
}

// area2 is twice the area of the triangle (0, vertex i, vertex i+1).
func (s *Situation) area2(i int) int64 { return convex.Cross(s.vertex(i), s.vertex(i+1)) }

// height returns the distance of edge i of K from 0, in cells.
func (s *Situation) height(i int) float64 {
	edge := s.vertex(i + 1).Sub(s.vertex(i))
	return float64(s.area2(i)) / math.Hypot(float64(edge.X), float64(edge.Y))
}

// widestCone returns the vertex of K with the greatest share of K in the two triangles at it: the
// probability of the attack's event. On a line that is one half.
func (s *Situation) widestCone() (vertex int, share float64) {
	if len(s.k) == 2 {
		return 1, .5
	}
	sum, most := int64(0), int64(0)
	for i := range len(s.k) / 2 {
		sum += 2 * s.area2(i)
		if both := s.area2(i-1) + s.area2(i); both > most {
			vertex, most = i, both
		}
	}
	return vertex, float64(most) / float64(sum)
}

// steepest returns the vertices whose edge, before and behind, differs most in its height from the
// edge beyond it. There a sampler that weighs edges wrongly shows.
func (s *Situation) steepest() []int {
	if len(s.k) == 2 {
		return nil
	}
	best, most := [2]int{}, [2]float64{}
	for i := range len(s.k) / 2 {
		if d := math.Log(s.height(i-1) / s.height(i-2)); d > most[0] {
			best[0], most[0] = i, d
		}
		if d := math.Log(s.height(i) / s.height(i+1)); d > most[1] {
			best[1], most[1] = i, d
		}
	}
	if best[0] == best[1] {
		return best[:1]
	}
	return best[:]
}

// extremes returns pairs of members that lie furthest apart along an axis, so that their
// coordinates and the noise between them differ in size, and the first and last member.
func (s *Situation) extremes() [][2]grid.Cell {
	west, east := s.cells[0], s.cells[0]
	for _, c := range s.cells {
		if s.grid.Column(c) < s.grid.Column(west) {
			west = c
		}
		if s.grid.Column(c) > s.grid.Column(east) {
			east = c
		}
	}
	pairs := [][2]grid.Cell{{s.cells[0], s.cells[len(s.cells)-1]}}
	if west != east {
		pairs = append(pairs, [2]grid.Cell{west, east})
	}
	return pairs
}

// neighbours returns the two members, in order, whose numbers have the most leading bits in common:
// cells beside each other in a row, the first of them even, if there are any.
func (s *Situation) neighbours() (first, second grid.Cell) {
	first, second = s.cells[0], s.cells[len(s.cells)-1]
	for i, c := range s.cells[1:] { // the nearest of all are neighbours in the order
		if bits.Len64(uint64(s.cells[i]^c)) < bits.Len64(uint64(first^second)) {
			first, second = s.cells[i], c
		}
	}
	return first, second
}

// twins returns a random cell and another that must be published as it is, if they are easily
// found: a cell outside the set and its surrogate, or two cells of one vote.
func (s *Situation) twins(rng *rand.Rand) (cell, twin grid.Cell, ok bool) {
	if s.code != nil {
		cell = grid.Cell(rng.IntN(s.grid.Cells()))
		if s.code.Blurred() {
			return cell, cell, true
		}
		twin, ok = s.code.Twin(rng, cell)
		return cell, twin, ok
	}
	if cell, ok = s.outside(rng); !ok {
		return cell, cell, false
	}
	return cell, s.surrogate(cell), true
}

// mildEpsilon returns an ε at which two truths often have the same release: 1; for a codebook
// no more than the given one, and more where its prior has one code point at 1.
func (s *Situation) mildEpsilon(given float64) (float64, error) {
	if s.code == nil {
		return 1, nil
	}
	if s.code.Blurred() { // its noise is that of the given one
		return given, nil
	}
	for epsilon := 1.0; epsilon < given; epsilon *= 2 {
		q, err := s.quantizer(epsilon)
		if err != nil {
			return 0, err
		}
		if len(q.Points()) > 1 {
			return epsilon, nil
		}
	}
	return given, nil
}

// outside returns a random cell outside the set, if it is easily found.
func (s *Situation) outside(rng *rand.Rand) (grid.Cell, bool) {
	for range 100 {
		c := grid.Cell(rng.IntN(s.grid.Cells()))
		if _, member := slices.BinarySearch(s.cells, c); !member {
			return c, true
		}
	}
	return 0, false
}

// quantizer returns a quantizer of a situation's prior, with the near factor of the audit if it is
// for the ε of the audit; another ε has none.
func (s *Situation) quantizer(epsilon float64) (*law.Quantizer, error) {
	q, err := law.NewNearQuantizer(s.grid, epsilon, s.near)
	if err == nil {
		q.Prepare(s.prior.Cells, s.prior.P)
	}
	return q, err
}

// codeSituation is newSituation under the codebook mechanism.
func codeSituation(
	g *grid.Grid, prior *mobility.Distribution, code *Codebook, near law.Near, step int64,
) *Situation {
	s := &Situation{grid: g, code: code, near: near, step: step}
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

// worstNear returns the two neighbours around some cells, and the code point for each, whose stated
// probabilities differ most.
func (s *Situation) worstNear(around [2]grid.Cell) (cells [2]grid.Cell, best [2]int) {
	cells, most := around, 0.0
	const far = 3
	for dy := int64(-far); dy <= far; dy++ {
		for dx := int64(-far); dx <= far; dx++ {
			x, ok := s.beside(around[0], convex.Lattice{X: dx, Y: dy})
			if !ok {
				continue
			}
			for _, d := range []convex.Lattice{{X: 1}, {X: -1, Y: 1}, {Y: 1}, {X: 1, Y: 1}} {
				y, ok := s.beside(x, d)
				if !ok {
					continue
				}
				if sides, ln := s.apart(x, y); ln > most {
					cells, best, most = [2]grid.Cell{x, y}, sides, ln
				}
			}
		}
	}
	return cells, best
}

// apart returns the code points that speak most for the one cell and for the other, and the larger
// logarithm of their ratios.
func (s *Situation) apart(x, y grid.Cell) (sides [2]int, most float64) {
	one, other := s.code.Law(x), s.code.Law(y)
	var ln [2]float64
	for j := range one {
		if l := math.Log(one[j] / other[j]); l > ln[0] {
			ln[0], sides[0] = l, j
		} else if -l > ln[1] {
			ln[1], sides[1] = -l, j
		}
	}
	return sides, max(ln[0], ln[1])
}

// beside returns the cell of the map that is so many columns and rows from another.
func (s *Situation) beside(c grid.Cell, d convex.Lattice) (grid.Cell, bool) {
	at := s.site(c).Add(d)
	if at.X < 0 || at.Y < 0 || at.X >= int64(s.grid.Width()) || at.Y >= int64(s.grid.Height()) {
		return 0, false
	}
	return grid.Cell(at.Y*int64(s.grid.Width()) + at.X), true
}

// exceeds says whether for any answer T·G + (2⁶⁴ - T)·N exceeds the near factor times the
// same of other tallies N. Where float64 cannot tell, whole numbers do.
func (s *Situation) exceeds(other uint64, tallies, than []uint64) bool {
	const doubt = 1e-9
	rest := float64(other) / float64(-other) * float64(s.code.total)
	factor, _ := new(big.Rat).SetString(strconv.FormatFloat(s.near.Factor, 'f', -1, 64))
	number := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
	weight := func(n uint64) *big.Rat {
		w := new(big.Int).Mul(number(-other), number(n))
		return new(big.Rat).SetInt(w.Add(w, new(big.Int).Mul(number(other), number(s.code.total))))
	}
	for j, n := range tallies {
		if (rest+float64(n))/(rest+float64(than[j])) > s.near.Factor*(1-doubt) &&
			weight(n).Cmp(new(big.Rat).Mul(factor, weight(than[j]))) > 0 {
			return true
		}
	}
	return false
}
