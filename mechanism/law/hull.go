package law

import (
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
)

// SensitivityHull is K = Conv{x1 - x2 : x1, x2 ∈ ΔX}, the convex hull of all differences of two
// places of a location set (the paper, definition 4.1), with what the mechanisms need of the set.
// It is public given the releases so far.
//
// A hull keeps its memory between fillings.
type SensitivityHull struct {
	body  convex.Body
	exact []convex.Lattice // K in cells, where the set is one of cells
	scale float64          // kilometres a cell
	grid  *grid.Grid       // of those cells; nil for points without one
	sum   float64          // Δ1+Δ2, kilometres
	ell1  float64          // the greatest ℓ1 distance of two places, kilometres
	hull  []convex.Lattice
	float []convex.Vec
}

// OfCells fills h for a set of at least one cell of g, ascending. K is exact in whole cells.
// O(len(set)), without allocation once h has grown.
func (h *SensitivityHull) OfCells(g *grid.Grid, set []grid.Cell) {
	h.hull = convex.HullOfCells(h.hull, set, g.Width())
	h.exact = convex.Difference(h.exact, h.hull)
	h.scale, h.grid = g.CellKM(), g
	h.body.ResetLattice(h.exact, h.scale)
	dx, dy := convex.Extent(h.hull)
	h.sum = float64(dx+dy) * h.scale
	h.ell1 = float64(convex.Diameter1(h.hull)) * h.scale
}

// OfPoints fills h for places that have no grid, at least one: for its geometry and for inference;
// nothing can be sampled from it. It allocates.
func (h *SensitivityHull) OfPoints(places []grid.Point) {
	h.float = h.float[:0]
	for _, p := range places {
		h.float = append(h.float, convex.Vec(p))
	}
	hull := convex.Hull(nil, h.float)
	h.exact, h.hull, h.scale = h.exact[:0], h.hull[:0], 1
	h.grid = nil
	h.body.Reset(convex.Difference(nil, hull))
	dx, dy := convex.Extent(hull)
	h.sum, h.ell1 = dx+dy, convex.Diameter1(hull)
}

// centre returns the centre of a cell of the set's grid in kilometres.
func (h *SensitivityHull) centre(c grid.Cell) grid.Point { return h.needGrid().Centre(c) }

func (h *SensitivityHull) needGrid() *grid.Grid {
	if h.grid == nil {
		panic("law: Sample needs a hull of cells; this one is of points without a grid")
	}
	return h.grid
}

// Body returns K as a convex body in kilometres: its gauge is ‖·‖_K. It belongs to h.
func (h *SensitivityHull) Body() *convex.Body { return &h.body }

// Extents returns Δ1+Δ2, the sum of the set's extents on both axes in kilometres: the sensitivity
// of the paper's Algorithm 3.
func (h *SensitivityHull) Extents() float64 { return h.sum }

// Diameter1 returns the greatest ℓ1 distance of two places of the set in kilometres: the tight
// sensitivity of Laplace noise.
func (h *SensitivityHull) Diameter1() float64 { return h.ell1 }

// site returns the column and row of a cell of the set's grid.
func (h *SensitivityHull) site(c grid.Cell) convex.Lattice {
	return convex.Lattice{X: int64(h.needGrid().Column(c)), Y: int64(h.grid.Row(c))}
}
