package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// zoneFeature is a GeoJSON feature as far as zones need it (RFC 7946): a polygon or several, and
// the property "name".
type zoneFeature struct {
	Properties struct {
		Name string `json:"name"`
	} `json:"properties"`
	Geometry struct {
		Type        string          `json:"type"`
		Coordinates json.RawMessage `json:"coordinates"`
	} `json:"geometry"`
}

// Zone is a polygon with a name, or several of one name. Places are longitude and latitude.
type Zone struct {
	Name     string
	Polygons [][][][2]float64
}

// ReadZones reads zones from a GeoJSON file: a feature collection of polygons with names.
//
// github.com/paulmach/orb/geojson would read more than that, but its features also have BSON, which
// puts a MongoDB driver's package into the binary.
func ReadZones(path string) ([]Zone, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("zones: %w", err)
	}
	var file struct {
		Type     string        `json:"type"`
		Features []zoneFeature `json:"features"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Type != "FeatureCollection" {
		return nil, fmt.Errorf("zones %s is no GeoJSON feature collection (outline-form)", path)
	}
	var areas []Zone
	for i, f := range file.Features {
		area := Zone{Name: f.Properties.Name}
		if area.Polygons, err = f.polygons(); err != nil {
			return nil, fmt.Errorf("zones %s: feature %d %w", path, i+1, err)
		}
		areas = append(areas, area)
	}
	return areas, nil
}

// polygons returns a feature's polygons.
func (f *zoneFeature) polygons() (polygons [][][][2]float64, err error) {
	switch f.Geometry.Type {
	case "Polygon":
		polygons = make([][][][2]float64, 1)
		err = json.Unmarshal(f.Geometry.Coordinates, &polygons[0])
	case "MultiPolygon":
		err = json.Unmarshal(f.Geometry.Coordinates, &polygons)
	default:
		return nil, fmt.Errorf("is no polygon but %.20q", f.Geometry.Type)
	}
	if err != nil {
		return nil, errors.New("has coordinates that are no polygon's (outline-form)")
	}
	for _, ring := range slices.Concat(polygons...) {
		if len(ring) < 4 || ring[0] != ring[len(ring)-1] {
			return nil, errors.New("has a ring that is not closed")
		}
	}
	return polygons, nil
}
