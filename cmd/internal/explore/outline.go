package explore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
)

const (
	// maxOutline is how many bytes a file with an outline has at most, and maxPositions how many
	// positions: 16 MB of memory.
	maxOutline   = 32 << 20
	maxPositions = 1_000_000
	maxDepth     = 8 // of collections in collections
	// routePauseMS is after how long without a report the line of a bus is broken off.
	routePauseMS = 90_000
)

// Outline has lines for orientation, such as coasts and streets, and names of places. It is drawn
// below everything else. Its areas that have names are the zones of the fleet.
type Outline []shape

// shape is a line, or a place with a name, which is a line of one position.
type shape struct {
	name string
	line [][2]float64     // degrees, longitude first
	area [][][][2]float64 // all polygons of an area
}

// geoJSON is any object of GeoJSON (RFC 7946), as far as an outline needs it.
type geoJSON struct {
	Type        string          `json:"type"`
	Features    []geoJSON       `json:"features"`
	Geometry    *geoJSON        `json:"geometry"`
	Geometries  []geoJSON       `json:"geometries"`
	Coordinates json.RawMessage `json:"coordinates"`
	Properties  map[string]any  `json:"properties"`
}

// ReadOutline reads the lines, polygons and named points of a file of GeoJSON.
func ReadOutline(path string) (Outline, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxOutline+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o, err := parseOutline(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

func parseOutline(text []byte) (Outline, error) {
	if len(text) > maxOutline {
		return nil, fmt.Errorf("an outline has at most %d MB (outline-form)", maxOutline>>20)
	}
	var all geoJSON
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("this is no GeoJSON: %w", err)
	}
	r := outlineReader{}
	if err := r.add(&all, "", 0); err != nil {
		return nil, err
	}
	if len(r.lines) == 0 {
		return nil, errors.New("no line, polygon or named point in it")
	}
	return r.lines, nil
}

// outlineReader gathers lines.
type outlineReader struct {
	lines     Outline
	positions int
}

func (r *outlineReader) add(o *geoJSON, name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("collections lie more than %d deep", maxDepth)
	}
	areas := [][][][2]float64{{{{}}}} // of rings of positions; a line or point is one ring
	var err error
	switch o.Type {
	case "FeatureCollection", "GeometryCollection":
		for _, part := range slices.Concat(o.Features, o.Geometries) {
			if err := r.add(&part, name, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "Feature":
		if o.Geometry == nil { // which the format allows
			return nil
		}
		name, _ := o.Properties["name"].(string)
		return r.add(o.Geometry, name, depth+1)
	case "LineString":
		err = json.Unmarshal(o.Coordinates, &areas[0][0])
	case "MultiLineString", "Polygon":
		err = json.Unmarshal(o.Coordinates, &areas[0])
	case "MultiPolygon":
		err = json.Unmarshal(o.Coordinates, &areas)
	default:
		if o.Type != "Point" || name == "" {
			return fmt.Errorf("geometry %.40q cannot be drawn (outline-form)", o.Type)
		}
		err = json.Unmarshal(o.Coordinates, &areas[0][0][0])
	}
	if err != nil {
		return fmt.Errorf("the coordinates of a %s are wrong: %w", o.Type, err)
	}
	return r.draw(o.Type, name, areas)
}

// draw takes lines, rings or a point; what ends where it begins is an area.
func (r *outlineReader) draw(kind, name string, areas [][][][2]float64) (err error) {
	solid := kind == "Polygon" || kind == "MultiPolygon"
	named, largest := len(r.lines), 0. // of a feature's areas the largest one has its name
	for _, rings := range areas {
		for i, ring := range rings {
			if size := wind(ring, solid && i > 0); solid && i == 0 && size > largest {
				named, largest = len(r.lines), size
			}
			err = cmp.Or(err, r.take(ring))
		}
	}
	if (solid || kind == "Point") && named < len(r.lines) {
		r.lines[named].name = name
		if solid {
			r.lines[named].area = areas
		}
	}
	return err
}

// areas are those with names that touch the map.
func (o Outline) areas(g *grid.Grid) (areas []counts.Area) {
	for _, s := range o {
		if s.name != "" && s.area != nil && len(Outline{s}.on(g)) > 0 {
			areas = append(areas, counts.Area{Name: s.name, Polygons: s.area})
		}
	}
	return areas
}

// wind lets a ring turn counterclockwise, one of a hole clockwise, and returns twice its area.
func wind(ring [][2]float64, hole bool) float64 {
	area := 0.
	for i := 1; i < len(ring); i++ {
		a, b := ring[i-1], ring[i]
		area += (a[0]-ring[0][0])*(b[1]-ring[0][1]) - (b[0]-ring[0][0])*(a[1]-ring[0][1])
	}
	if area != 0 && area < 0 != hole {
		slices.Reverse(ring)
	}
	return math.Abs(area)
}

// take takes a line whose positions can be.
func (r *outlineReader) take(line [][2]float64) error {
	if r.positions += len(line); r.positions > maxPositions {
		return fmt.Errorf("an outline has at most %d positions (outline-form)", maxPositions)
	}
	for _, p := range line {
		if !(math.Abs(p[0]) <= 180 && math.Abs(p[1]) <= 90) {
			return errors.New("a position lies beyond 180 degrees of longitude or 90 of latitude " +
				"(outline-form)")
		}
	}
	r.lines = append(r.lines, shape{line: line})
	return nil
}

// Line is a line on a map, or a place with a name, which has one position.
type Line struct {
	Name   string    `json:"name"`
	Places []float64 `json:"places"` // kilometres east and north of each position, to metres
}

// check fails where all lines lie beside all of the maps, as those of a file with the latitude
// first do.
func (o Outline) check(maps ...*grid.Grid) error {
	touches := func(g *grid.Grid) bool { return len(o.on(g)) > 0 }
	if o == nil || len(maps) == 0 || slices.ContainsFunc(maps, touches) {
		return nil
	}
	g := maps[0]
	side := g.CellKM()
	south, west := g.ToDegrees(grid.Point{})
	north, east := g.ToDegrees(grid.Point{
		X: float64(g.Width()) * side, Y: float64(g.Height()) * side,
	})
	return fmt.Errorf("nothing of the outline touches the map, from %.3f, %.3f to %.3f, %.3f "+
		"(outline-form)", south, west, north, east)
}

// on returns what lies on a map.
func (o Outline) on(g *grid.Grid) []Line {
	east, north := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
	shown := []Line{}
	for _, s := range o {
		low := grid.Point{X: math.Inf(1), Y: math.Inf(1)}
		high := grid.Point{X: math.Inf(-1), Y: math.Inf(-1)}
		places := make([]float64, 0, 2*len(s.line))
		for _, p := range s.line {
			at := g.ToMap(p[1], p[0])
			low = grid.Point{X: min(low.X, at.X), Y: min(low.Y, at.Y)}
			high = grid.Point{X: max(high.X, at.X), Y: max(high.Y, at.Y)}
			places = append(places, math.Round(at.X*1000)/1000, math.Round(at.Y*1000)/1000)
		}
		if high.X >= 0 && high.Y >= 0 && low.X <= east && low.Y <= north {
			shown = append(shown, Line{s.name, places})
		}
	}
	return shown
}

// routesOf are the ways of the shipped buses, which are the streets of their map, and the names of
// districts, to about 300 m.
func routesOf(buses []User) Outline {
	o := Outline{
		{name: "Kirkdale", line: [][2]float64{{-2.980, 53.433}}},
		{name: "Kensington", line: [][2]float64{{-2.948, 53.412}}},
		{name: "Tuebrook", line: [][2]float64{{-2.933, 53.424}}},
		{name: "West Derby", line: [][2]float64{{-2.908, 53.434}}},
		{name: "Lime Street", line: [][2]float64{{-2.978, 53.407}}},
		{name: "Everton", line: [][2]float64{{-2.963, 53.426}}},
		{name: "Anfield", line: [][2]float64{{-2.961, 53.431}}},
		{name: "Walton", line: [][2]float64{{-2.967, 53.457}}},
		{name: "Norris Green", line: [][2]float64{{-2.93, 53.443}}},
		{name: "Fazakerley", line: [][2]float64{{-2.937, 53.469}}},
	}
	for i := range buses {
		var way [][2]float64
		for k, fix := range buses[i].Fixes {
			if k > 0 && fix.Timestamp-buses[i].Fixes[k-1].Timestamp > routePauseMS {
				o, way = append(o, shape{line: way}), nil
			}
			way = append(way, [2]float64{fix.Longitude, fix.Latitude})
		}
		o = append(o, shape{line: way})
	}
	return o
}
