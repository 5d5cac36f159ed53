package audit

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// Situation is what everybody knows before a release: a state, which is a function of earlier
// releases, and the location set that follows.
type Situation struct {
	name  string
	grid  *grid.Grid
	cells []grid.Cell // ΔX, ascending
	hull  law.SensitivityHull
	k     []convex.Lattice // K in cells, by brute force: see Span
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

func (s *Situation) report() SituationReport {
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
