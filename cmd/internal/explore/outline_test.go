package explore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutline reads every geometry that can be drawn, and refuses what cannot.
func TestOutline(t *testing.T) {
	const line = `[[-2.95,53.41],[-2.94,53.42,7]]`
	const one = `{"type":"LineString","coordinates":` + line + `}`
	const two = `"coordinates":[` + line + `,` + line + `]}`
	deep := strings.Repeat(`{"type":"Feature","geometry":`, 12) + `null` + strings.Repeat(`}`, 12)
	for name, c := range map[string]struct {
		text  string
		lines int
		wrong string
	}{
		"line":    {one, 1, ""},
		"lines":   {`{"type":"MultiLineString",` + two, 2, ""},
		"polygon": {`{"type":"Polygon","coordinates":[` + line + `]}`, 1, ""},
		"polygons": {
			`{"type":"MultiPolygon","coordinates":[[` + line + `],[` + line + `]]}`, 2, "",
		},
		"collection": {`{"type":"GeometryCollection","geometries":[` + one + `]}`, 1, ""},
		"features": {`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null},` +
			`{"type":"Feature","properties":{"a":1},"geometry":` + one + `}]}`, 1, ""},
		"point":   {`{"type":"Point","coordinates":[1,2]}`, 0, `"Point" cannot be drawn`},
		"nothing": {`{"type":"FeatureCollection","features":[]}`, 0, "no line"},
		"swapped": {
			`{"type":"LineString","coordinates":[[-2.9,93.4]]}`, 0, "longitude and latitude",
		},
		"text":     {`coast`, 0, "no GeoJSON"},
		"numbers":  {`{"type":"LineString","coordinates":[1,2]}`, 0, "coordinates"},
		"deep":     {deep, 0, "deep"},
		"no place": {`{"type":"LineString"}`, 0, "coordinates"},
	} {
		path := filepath.Join(t.TempDir(), "outline.geojson")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := ReadOutline(path)
		if c.wrong == "" && (err != nil || len(o) != c.lines) {
			t.Errorf("%s: %v, %d lines", name, err, len(o))
		}
		if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) ||
			!strings.Contains(err.Error(), "outline.geojson")) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
	if _, err := parseOutline(make([]byte, maxOutline+1)); err == nil {
		t.Error("a file of any size is read")
	}
	var r outlineReader
	if err := r.check(Outline{make([][2]float64, maxPositions+1)}); err == nil {
		t.Error("any number of positions is read")
	}
}

// TestOutlineOnTheMap: lines are sent in kilometres, and those elsewhere not at all.
func TestOutlineOnTheMap(t *testing.T) {
	truth := sampleTruth(t)
	g := truth.model.Grid
	h := handler(Options{Truth: truth, Logger: quiet(), Outline: Outline{
		{{-2.95, 53.41}, {-2.94, 53.42}}, {{10, 10}, {11, 11}},
	}})
	var found Lines
	ask(t, h, "/api/outline", &found)
	at := g.ToMap(53.41, -2.95)
	if len(found.Lines) != 1 || len(found.Lines[0]) != 4 || found.Lines[0][0]-at.X > .001 ||
		at.Y-found.Lines[0][1] > .001 {
		t.Errorf("the outline is %v, the first place %v", found, at)
	}
	if status, _ := ask(t, sampleHandler(t), "/api/outline", nil); status != 404 {
		t.Errorf("a page without an outline answers %d", status)
	}
}
