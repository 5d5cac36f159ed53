// Package aggregate estimates where a whole fleet is, from sanitized records and the public model
// alone. It is for an analyst on the other side of the releases, who has neither
// the fixes nor the key. All of it is post-processing of releases and costs no ε.
//
// A Reader takes records as they are published. It consists of three parts, which can be used
// alone. A Follower runs the filter again from the records, so it has every posterior that the
// service has. A Collector cuts time into windows; a vehicle counts once in a window, where it last
// reported. Window.Estimate turns a window into the expected number of vehicles in each zone, four
// ways:
//
//	naive      the histogram of the releases, each in the zone nearest to it
//	blind      the model alone, as if there were no release
//	posterior  the mean of the vehicles' posteriors, each from the model and its releases
//	fitted     the same under a prior that is fitted to the fleet (Fleet.Fit), with intervals
//
// With a handful of vehicles the estimate is about individual people, however it was made.
package aggregate

import (
	"errors"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Zones are blocks of a grid's cells, numbered row by row from the south-west like cells, or areas
// with names (NewNamedZones). Blocks at the north and east edge may have fewer cells.
type Zones struct {
	grid    *grid.Grid
	block   int // cells along a side
	columns int
	rows    int

	names []string // of areas; nil for blocks, as the next two
	of    []int32  // each cell's area
	cells []int    // how many cells each area has
}

// NewZones makes zones of block×block cells; 1 is the cells themselves.
func NewZones(g *grid.Grid, block int) (*Zones, error) {
	if block < 1 {
		return nil, errors.New("aggregate: a zone needs a cell at least")
	}
	block = min(block, max(g.Width(), g.Height()))
	return &Zones{
		grid: g, block: block,
		columns: (g.Width() + block - 1) / block, rows: (g.Height() + block - 1) / block,
	}, nil
}

// BlockOf returns how many cells a zone's side has that is nearest to a length in kilometres, 1 at
// least.
func BlockOf(g *grid.Grid, km float64) int {
	return int(min(max(1, math.Round(km/g.CellKM())), float64(max(g.Width(), g.Height()))))
}

// Grid returns the map that is divided.
func (z *Zones) Grid() *grid.Grid { return z.grid }

// Count returns the number of zones.
func (z *Zones) Count() int {
	if z.names != nil {
		return len(z.names)
	}
	return z.columns * z.rows
}

// Columns returns the number of blocks from west to east, Rows from south to north. Areas have no
// columns, rows, corners or sides.
func (z *Zones) Columns() int { return z.columns }

// Rows returns the number of zones from south to north.
func (z *Zones) Rows() int { return z.rows }

// SideKM returns the side of a zone that is whole.
func (z *Zones) SideKM() float64 { return float64(z.block) * z.grid.CellKM() }

// Of returns the zone of a cell.
func (z *Zones) Of(c grid.Cell) int32 {
	if z.names != nil {
		return z.of[c]
	}
	width := grid.Cell(z.grid.Width())
	row := c / width
	return row/int32(z.block)*int32(z.columns) + (c-row*width)/int32(z.block)
}

// Corners returns a zone's south-west and north-east corner in map kilometres.
func (z *Zones) Corners(zone int32) (southWest, northEast grid.Point) {
	side, cell := z.SideKM(), z.grid.CellKM()
	column, row := float64(int(zone)%z.columns), float64(int(zone)/z.columns)
	return grid.Point{X: column * side, Y: row * side}, grid.Point{
		X: min((column+1)*side, float64(z.grid.Width())*cell),
		Y: min((row+1)*side, float64(z.grid.Height())*cell),
	}
}

// PerKM2 returns, for each cell of the map, how many vehicles there are to the square kilometre of
// its zone, given the number of vehicles in each zone. A zone without a number has 0.
func (z *Zones) PerKM2(vehicles []float64) []float64 {
	values := make([]float64, z.grid.Cells())
	for c := range values {
		zone := z.Of(int32(c))
		values[c] = vehicles[zone] / z.areaKM2(zone)
		if math.IsNaN(values[c]) {
			values[c] = 0
		}
	}
	return values
}

// areaKM2 returns a zone's area in square kilometres.
func (z *Zones) areaKM2(zone int32) float64 {
	if z.names != nil {
		side := z.grid.CellKM()
		return float64(z.cells[zone]) * float64(side*side)
	}
	low, high := z.Corners(zone)
	return float64((high.X - low.X) * (high.Y - low.Y))
}

// ByZone is a distribution over zones: P[i] is the probability of Zones[i]. Zones ascend.
type ByZone struct {
	Zones []int32
	P     []float64
}

// Gather sets dst to the sums of a distribution over cells by zones, divided by their total.
// scratch has Count numbers, all 0 before and after.
func (z *Zones) Gather(dst *ByZone, d *mobility.Distribution, scratch []float64) {
	dst.Zones, dst.P = dst.Zones[:0], dst.P[:0]
	total := 0.0
	for i, c := range d.Cells {
		scratch[z.Of(c)] += d.P[i]
		total += d.P[i]
	}
	for zone, p := range scratch {
		if p > 0 {
			dst.Zones, dst.P = append(dst.Zones, int32(zone)), append(dst.P, p/total)
			scratch[zone] = 0
		}
	}
}
