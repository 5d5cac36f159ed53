package aggregate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Elsewhere is the name of the zone that has the cells of no area.
const Elsewhere = "elsewhere"

// Area is a part of the map with a name. A cell belongs to it if its centre does.
type Area struct {
	Name string
	// Polygons are one or several. Each has rings, closed lines of places: its outline, and those
	// of the holes in it. A place is longitude and latitude in degrees. It is inside if a line from
	// it crosses the rings an odd number of times.
	Polygons [][][][2]float64
}

// holds says whether a place is inside.
func (a *Area) holds(lat, lon float64) (inside bool) {
	for _, ring := range slices.Concat(a.Polygons...) {
		for i := 1; i < len(ring); i++ {
			from, to := ring[i-1], ring[i]
			if (from[1] > lat) == (to[1] > lat) {
				continue
			}
			share := (lat - from[1]) / (to[1] - from[1])
			if lon < from[0]+float64(share*(to[0]-from[0])) {
				inside = !inside
			}
		}
	}
	return inside
}

// NewNamedZones makes a zone of each area, and of the rest of the map one more, Elsewhere, the
// last. It fails where areas have no name or the same one, where two hold the same cell, and where
// one holds none. Cost: the areas' corners for each cell.
func NewNamedZones(g *grid.Grid, areas []Area) (*Zones, error) {
	if len(areas) == 0 {
		return nil, errors.New("there is no zone: name a polygon at least")
	}
	z := &Zones{grid: g, block: 1, of: make([]int32, g.Cells()), cells: make([]int, len(areas)+1)}
	known := map[string]bool{Elsewhere: true}
	for i, a := range areas {
		switch {
		case a.Name == "":
			return nil, fmt.Errorf("polygon %d has no name: give it the property \"name\"", i+1)
		case known[a.Name]:
			return nil, fmt.Errorf("two zones are named %q, or it is the name of the rest of the "+
				"map: give each a name of its own", a.Name)
		}
		known[a.Name] = true
		z.names = append(z.names, a.Name)
	}
	z.names = append(z.names, Elsewhere)
	for c := range z.of {
		z.of[c] = int32(len(areas))
		lat, lon := g.ToDegrees(g.Centre(grid.Cell(c)))
		for i := range areas {
			if !areas[i].holds(lat, lon) {
				continue
			}
			if other := z.of[c]; int(other) < len(areas) {
				return nil, fmt.Errorf("the zones %q and %q overlap: both hold the middle of a "+
					"cell. Cut one of them back", areas[other].Name, areas[i].Name)
			}
			z.of[c] = int32(i)
		}
		z.cells[z.of[c]]++
	}
	for i, a := range areas {
		if z.cells[i] == 0 {
			return nil, fmt.Errorf("the zone %q holds no middle of a cell of %.2f km of the map: "+
				"draw it larger, or check that it has longitude before latitude",
				a.Name, g.CellKM())
		}
	}
	return z, nil
}

// Named says whether the zones are areas with names.
func (z *Zones) Named() bool { return z.names != nil }

// Name returns a zone's name, empty for a block of cells.
func (z *Zones) Name(zone int32) string {
	if z.names == nil {
		return ""
	}
	return z.names[zone]
}

// Middle returns the middle of a block, and of an area the mean of its cells' centres, in map
// kilometres. A zone without a cell, which Elsewhere may be, has the middle of the map.
func (z *Zones) Middle(zone int32) grid.Point {
	if z.names == nil || z.cells[zone] == 0 {
		low, high := z.Corners(zone)
		if z.names != nil {
			low, high = grid.Point{}, grid.Point{
				X: float64(z.grid.Width()) * z.grid.CellKM(),
				Y: float64(z.grid.Height()) * z.grid.CellKM(),
			}
		}
		return low.Add(high).Scale(.5)
	}
	sum := grid.Point{}
	for c, of := range z.of {
		if of == zone {
			sum = sum.Add(z.grid.Centre(grid.Cell(c)))
		}
	}
	return sum.Scale(1 / float64(z.cells[zone]))
}
