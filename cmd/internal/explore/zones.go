package explore

import (
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
)

// zones divide a map.
type zones struct {
	*counts.Zones
	on      *grid.Grid // the map
	squares *grid.Grid // whose cells are the zones, and elsewhere one more; nil: areas are
	cells   []int32    // the zone of each cell of the map
}

// squaresOf divides a map into squares of so many cells along a side.
func squaresOf(g *grid.Grid, block int) (*zones, error) {
	squares, err := g.Coarser(float64(block) * g.CellKM())
	if err != nil {
		return nil, err
	}
	z, err := counts.Squares(squares)
	if err != nil {
		return nil, err
	}
	return newZones(z, g, squares), nil
}

// newZones divides a map; squares are nil where areas are the zones.
func newZones(z *counts.Zones, on, squares *grid.Grid) *zones {
	cells := make([]int32, on.Cells())
	for c := range cells {
		cells[c] = z.Of(on.ToDegrees(on.Centre(grid.Cell(c))))
	}
	return &zones{Zones: z, on: on, squares: squares, cells: cells}
}

// sideKM is the side of a square; areas consist of cells.
func (z *zones) sideKM() float64 {
	if z.squares != nil {
		return z.squares.CellKM()
	}
	return z.on.CellKM()
}
