// Package grid lays whole square cells over a box of the Earth and converts between degrees, map
// kilometres and cells.
//
// The map is equirectangular: kilometres grow with degrees at two constant rates, those of the WGS
// 84 ellipsoid at the box's middle latitude φ₀,
//
//	X = (lon − west)  · N(φ₀) cos φ₀ · π/180
//	Y = (lat − south) · M(φ₀)        · π/180
//
// with the prime vertical radius N and the meridian radius M,
//
//	N(φ) = a / √(1 − e² sin² φ)
//	M(φ) = a (1 − e²) / (1 − e² sin² φ)^³⁄²
//
// How wrong that is: at latitude φ the Earth's own metric is M(φ)² dφ² + (N(φ) cos φ)²
// dλ², the map's is the same with φ₀. Along any path the two lengths therefore differ by a
// factor between the least and the greatest of M(φ)/M(φ₀) and N(φ) cos φ / (N(φ₀) cos
// φ₀) over the latitudes the path visits. The true distance is at most the true length of the
// map's straight line, and the map distance at most the map's length of the geodesic, so the ratio
// of the distances lies between the same two factors, taken over the box's latitudes and those to
// which a geodesic between its corners bulges. To first order the relative error is tan φ₀ ·
// (north − south)/2 in radians: .09 % for a box .12° high at 40°. [Grid.Distortion] returns the
// bound for a grid.
package grid

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Box is a rectangle of latitudes and longitudes, WGS 84 degrees.
type Box struct{ South, West, North, East float64 }

// Cell is the number of a cell, row-major from the south-west: row*Width + column.
type Cell = int32

// Limits of a grid. A box nearer to a pole, or so high that distances are off by more than a
// quarter, is refused: the equirectangular map would mislead there.
const (
	MaxLatitude   = 85.0
	MaxDistortion = 0.25
	MaxCells      = math.MaxInt32
)

// Grid is an immutable grid of square cells. Two grids with the same [Grid.ID] are the same.
type Grid struct {
	box           Box
	cellM, cellKM float64
	width, height int
	kmPerLat      float64
	kmPerLon      float64
	distortion    float64
	plain         bool
	id            string
}

// New lays cells of side cellM metres over the box, starting in its south-west corner; the last
// column and row may reach beyond the east and north sides, so that whole cells cover the box. It
// refuses boxes that are empty, cross the antimeridian, come within 5° of a pole, or are distorted
// by more than [MaxDistortion], and grids of more than [MaxCells] cells.
func New(box Box, cellM float64) (*Grid, error) {
	if err := box.check(); err != nil {
		return nil, err
	}
	if !(cellM > 0) || math.IsInf(cellM, 1) {
		return nil, errors.New("grid: the cell size must be positive metres, such as 340")
	}
	middle := (box.South + box.North) / 2
	g := &Grid{
		box: box, cellM: cellM, cellKM: cellM / 1000, kmPerLat: perLatitude(middle),
		kmPerLon: perLongitude(middle),
	}
	g.distortion = distortion(box.South, box.North, box.East-box.West)
	if g.distortion > MaxDistortion {
		return nil, fmt.Errorf("grid: distances on this box would be wrong by up to %.0f %%",
			100*g.distortion)
	}
	columns := wholeCells((box.East-box.West)*g.kmPerLon, g.cellKM)
	rows := wholeCells((box.North-box.South)*g.kmPerLat, g.cellKM)
	if !(float64(columns*rows) <= MaxCells) {
		return nil, fmt.Errorf("grid: %.0f × %.0f cells are more than %d: take larger cells",
			columns, rows, MaxCells)
	}
	g.width, g.height = int(columns), int(rows)
	g.id = g.hash("placed", box.South, box.West, box.North, box.East, cellM)
	return g, nil
}

// Coarser lays larger cells over the box of a grid: each has, along its side, the whole number of
// the grid's cells that is nearest to a length in kilometres, one at least.
func (g *Grid) Coarser(sideKM float64) (*Grid, error) {
	most := float64(max(g.width, g.height))
	return New(g.box, min(max(1, math.Round(sideKM/g.cellKM)), most)*g.cellM)
}

// Plain returns a grid that has no place on Earth: a synthetic map of width × height cells of
// cellKM kilometres. Calls in degrees use a fixed nominal box with its south-west corner at 0° N
// 0° E and the rates of the equator.
func Plain(width, height int, cellKM float64) (*Grid, error) {
	if width < 1 || height < 1 || width > MaxCells/height {
		return nil, fmt.Errorf("grid: %d × %d cells: each must be positive, their product at "+
			"most %d", width, height, MaxCells)
	}
	if !(cellKM > 0) || math.IsInf(cellKM, 1) {
		return nil, errors.New("grid: the cell size must be positive kilometres")
	}
	g := &Grid{cellM: cellKM * 1000, cellKM: cellKM, width: width, height: height, plain: true}
	g.kmPerLat, g.kmPerLon = perLatitude(0), perLongitude(0)
	g.box.North, g.box.East = float64(height)*cellKM/g.kmPerLat, float64(width)*cellKM/g.kmPerLon
	if g.box.North > 90 || g.box.East > 180 {
		return nil, errors.New("grid: a plain grid is at most a quarter of the Earth")
	}
	g.id = g.hash("plain", float64(width), float64(height), cellKM)
	return g, nil
}

func (b Box) check() error {
	for _, v := range [...]float64{b.South, b.West, b.North, b.East} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("grid: a side of the box is not finite: want degrees")
		}
	}
	switch {
	case b.West < -180 || b.East > 180:
		return errors.New("grid: west and east must lie in [-180, 180] degrees")
	case b.West > b.East:
		return errors.New("grid: west lies east of east: swap them, or split at the antimeridian")
	case b.South < -MaxLatitude || b.North > MaxLatitude:
		return fmt.Errorf("grid: south and north must lie in [-%[1]g, %[1]g] degrees: the map "+
			"holds no pole", MaxLatitude)
	case b.South >= b.North || b.West == b.East:
		return errors.New("grid: the box is empty: want south < north, west < east")
	}
	return nil
}

// wholeCells returns how many cells cover length. A rest below a millionth of a cell is rounding,
// not a cell.
func wholeCells(lengthKM, cellKM float64) float64 {
	return math.Max(1, math.Ceil(lengthKM/cellKM-1e-6))
}

func (g *Grid) hash(kind string, numbers ...float64) string {
	buf := append([]byte("geodither grid 1 "), kind...)
	for _, v := range numbers {
		// +0: -0 and 0 are one box
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v+0))
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:8])
}

// Width returns the number of columns.
func (g *Grid) Width() int { return g.width }

// Height returns the number of rows.
func (g *Grid) Height() int { return g.height }

// Cells returns the number of cells.
func (g *Grid) Cells() int { return g.width * g.height }

// CellKM returns the side of a cell in kilometres.
func (g *Grid) CellKM() float64 { return g.cellKM }

// CellM returns the side of a cell in metres: for a grid from [New] exactly the number given there.
func (g *Grid) CellM() float64 { return g.cellM }

// Distortion bounds the relative error of map distances within the box: true/map lies in [1-d,
// 1+d]. 0 for a plain grid.
func (g *Grid) Distortion() float64 { return g.distortion }

// Box returns the box that the grid was made for; the cells may reach a little further north and
// east.
func (g *Grid) Box() Box { return g.box }

// IsPlain says whether the grid came from [Plain] and so has no true place on Earth.
func (g *Grid) IsPlain() bool { return g.plain }

// ID returns 16 hex digits that stand for the numbers which define the grid.
func (g *Grid) ID() string { return g.id }

// Contains says whether the place lies in the box, its sides included.
func (g *Grid) Contains(lat, lon float64) bool {
	return g.box.Contains(lat, lon)
}

// Contains says whether a place in degrees lies in the box.
func (b Box) Contains(lat, lon float64) bool {
	return lat >= b.South && lat <= b.North && lon >= b.West && lon <= b.East
}

// Beyond returns how far a place lies outside the cells of the map, in kilometres: the larger of
// the distances along the two axes, and 0 within the cells and on their border.
func (g *Grid) Beyond(lat, lon float64) float64 {
	p := g.ToMap(lat, lon)
	east, north := float64(float64(g.width)*g.cellKM), float64(float64(g.height)*g.cellKM)
	return max(0, -p.X, p.X-east, -p.Y, p.Y-north)
}

// ToMap returns the place's map coordinates, also outside the box. A longitude is taken the shorter
// way round the Earth.
func (g *Grid) ToMap(lat, lon float64) Point {
	east := lon - g.box.West
	if middle := (g.box.East - g.box.West) / 2; east > middle+180 {
		east -= 360
	} else if east < middle-180 {
		east += 360
	}
	return Point{X: float64(east * g.kmPerLon), Y: float64((lat - g.box.South) * g.kmPerLat)}
}

// ToDegrees is the inverse of ToMap. Noise may
// move a point far outside the grid; its latitude is then limited to [-90, 90] and its longitude
// wrapped into [-180, 180].
func (g *Grid) ToDegrees(p Point) (lat, lon float64) {
	lat = min(max(g.box.South+float64(p.Y/g.kmPerLat), -90), 90)
	lon = g.box.West + float64(p.X/g.kmPerLon)
	if lon < -180 || lon > 180 {
		lon -= 360 * math.Round(lon/360) // IEEE: exact product of small integers, nothing to fuse
	}
	return lat, lon
}

// Locate returns the cell nearest to a place, also from outside the box. NaN counts as the
// south-west corner, so check coordinates before.
func (g *Grid) Locate(lat, lon float64) Cell { return g.CellAt(g.ToMap(lat, lon)) }

// CellAt returns the cell nearest to p: the one that holds it, or for a point outside the one at
// the nearest edge. A point on the side between two cells belongs to the one further east or north.
func (g *Grid) CellAt(p Point) Cell {
	return Cell(clampIndex(p.Y/g.cellKM, g.height)*g.width + clampIndex(p.X/g.cellKM, g.width))
}

// clampIndex compares before it converts, since float to int conversion out of range differs
// between architectures.
func clampIndex(v float64, n int) int {
	switch {
	case !(v > 0):
		return 0
	case v >= float64(n):
		return n - 1
	}
	return int(v)
}

// Centre returns the middle of cell c. It panics if c is not a cell of the grid.
func (g *Grid) Centre(c Cell) Point {
	g.checkCell(c)
	return Point{
		X: float64((float64(int(c)%g.width) + 0.5) * g.cellKM),
		Y: float64((float64(int(c)/g.width) + 0.5) * g.cellKM),
	}
}

// Column returns the column of cell c, counted from the west. It panics if c is not a cell of the
// grid.
func (g *Grid) Column(c Cell) int {
	g.checkCell(c)
	return int(c) % g.width
}

// Row returns the row of cell c, counted from the south. It panics if c is not a cell of the grid.
func (g *Grid) Row(c Cell) int {
	g.checkCell(c)
	return int(c) / g.width
}

func (g *Grid) checkCell(c Cell) {
	if c < 0 || int(c) >= g.width*g.height {
		panic("grid: cell number out of range")
	}
}

// Point is a place on the map: kilometres east and north of the south-west corner of the box.
type Point struct{ X, Y float64 }

// Add returns p + q.
func (p Point) Add(q Point) Point { return Point{p.X + q.X, p.Y + q.Y} }

// Sub returns p − q.
func (p Point) Sub(q Point) Point { return Point{p.X - q.X, p.Y - q.Y} }

// Scale returns s·p. The products are rounded before Add or Sub takes them, also where both are
// inlined and the processor could multiply and add in one rounding.
func (p Point) Scale(s float64) Point { return Point{float64(s * p.X), float64(s * p.Y)} }

// Norm returns the length of p in kilometres. The square root of a sum rather than math.Hypot: the
// latter's last bit differs between architectures, and map distances are far from overflow.
func (p Point) Norm() float64 { return math.Sqrt(float64(p.X*p.X) + float64(p.Y*p.Y)) }

// Distance returns the distance between p and q in kilometres.
func (p Point) Distance(q Point) float64 { return p.Sub(q).Norm() }
