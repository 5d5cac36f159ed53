package aggregate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
)

// feature is a GeoJSON feature as far as zones need it (RFC 7946): a polygon or several, and the
// property "name".
type feature struct {
	Properties struct {
		Name string `json:"name"`
	} `json:"properties"`
	Geometry struct {
		Type        string          `json:"type"`
		Coordinates json.RawMessage `json:"coordinates"`
	} `json:"geometry"`
}

// OnMap returns the areas that lie on a map at least in part, as far as their corners tell, and how
// many do not.
func OnMap(g *grid.Grid, areas []aggregate.Area) (on []aggregate.Area, off int) {
	for _, a := range areas {
		low, high := [2]float64{180, 90}, [2]float64{-180, -90} // longitude first
		for _, ring := range slices.Concat(a.Polygons...) {
			for _, corner := range ring {
				for i, degrees := range corner {
					low[i], high[i] = min(low[i], degrees), max(high[i], degrees)
				}
			}
		}
		if b := g.Box(); low[0] < b.East && high[0] > b.West && low[1] < b.North &&
			high[1] > b.South {
			on = append(on, a)
		}
	}
	return on, len(areas) - len(on)
}

// ReadZones reads zones from a GeoJSON file: a feature collection of polygons with names.
//
// github.com/paulmach/orb/geojson would read more than that, but its features also have BSON, which
// puts a MongoDB driver's package into the binary.
func ReadZones(path string) ([]aggregate.Area, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--zones: %w", err)
	}
	var file struct {
		Type     string    `json:"type"`
		Features []feature `json:"features"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Type != "FeatureCollection" {
		return nil, fmt.Errorf("--zones %s is no GeoJSON feature collection: export the polygons "+
			"as one, each with the property \"name\"", path)
	}
	var areas []aggregate.Area
	for i, f := range file.Features {
		area := aggregate.Area{Name: f.Properties.Name}
		if area.Polygons, err = f.polygons(); err != nil {
			return nil, fmt.Errorf("--zones %s: feature %d %w", path, i+1, err)
		}
		areas = append(areas, area)
	}
	return areas, nil
}

// polygons returns a feature's polygons.
func (f *feature) polygons() (polygons [][][][2]float64, err error) {
	switch f.Geometry.Type {
	case "Polygon":
		polygons = make([][][][2]float64, 1)
		err = json.Unmarshal(f.Geometry.Coordinates, &polygons[0])
	case "MultiPolygon":
		err = json.Unmarshal(f.Geometry.Coordinates, &polygons)
	default:
		return nil, fmt.Errorf("is no polygon but %.20q: leave it out", f.Geometry.Type)
	}
	if err != nil {
		return nil, errors.New("has coordinates that are no polygon's: write lists of " +
			"[longitude, latitude]")
	}
	for _, ring := range slices.Concat(polygons...) {
		if len(ring) < 4 || ring[0] != ring[len(ring)-1] {
			return nil, errors.New("has a ring that is not closed: end it with its first corner")
		}
	}
	return polygons, nil
}
