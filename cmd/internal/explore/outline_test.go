package explore

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/law"
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
		"point": {`{"type":"Point","coordinates":[1,2]}`, 0, `"Point" cannot be drawn`},
		"name": {`{"type":"Feature","properties":{"name":"Pier"},"geometry":{"type":"Point",` +
			`"coordinates":[-2.95,53.41]}}`, 1, ""},
		"no position": {`{"type":"Feature","properties":{"name":"Pier"},"geometry":` +
			`{"type":"Point"}}`, 0, "coordinates"},
		"nothing": {`{"type":"FeatureCollection","features":[]}`, 0, "no line"},
		"swapped": {
			`{"type":"LineString","coordinates":[[-2.9,93.4]]}`, 0, "(outline-form)",
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
	if err := r.take(make([][2]float64, maxPositions+1)); err == nil {
		t.Error("any number of positions is read")
	}
}

// TestOutlineAreas: whichever way a file turns them, areas turn counterclockwise and holes
// clockwise, and the largest area of a feature has its name, while lines have none.
func TestOutlineAreas(t *testing.T) {
	const wide = `[[0,0],[0,9],[9,9],[9,0],[0,0]]`       // clockwise
	const hole = `[[1,1],[2,1],[2,2],[1,2],[1,1]]`       // counterclockwise
	const small = `[[20,0],[21,0],[21,1],[20,1],[20,0]]` // counterclockwise
	named := func(kind, coordinates string) string {
		return `{"type":"Feature","properties":{"name":"Isles"},"geometry":{"type":"` + kind +
			`","coordinates":` + coordinates + `}}`
	}
	o, err := parseOutline([]byte(`{"type":"FeatureCollection","features":[` +
		named("MultiPolygon", `[[`+small+`],[`+wide+`,`+hole+`]]`) + `,` +
		named("Polygon", `[`+wide+`]`) + `,` + named("LineString", wide) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	name := [...]string{"", "Isles", "", "Isles", ""}
	second := [...][2]float64{{21, 0}, {9, 0}, {1, 2}, {9, 0}, {9, 0}}
	if len(o) != len(name) {
		t.Fatalf("%d shapes: %v", len(o), o)
	}
	for i, s := range o {
		if s.name != name[i] || s.line[1] != second[i] {
			t.Errorf("shape %d is %v, want the name %q and %v next", i, s, name[i], second[i])
		}
	}
}

// TestOutlineOnTheMap: lines and names are sent in kilometres, and those elsewhere not at all.
func TestOutlineOnTheMap(t *testing.T) {
	truth := sampleTruth(t)
	g := truth.model.Grid
	h := handler(Options{Truth: truth, Logger: quiet(), Outline: Outline{
		{line: [][2]float64{{-2.95, 53.41}, {-2.94, 53.42}}},
		{line: [][2]float64{{10, 10}, {11, 11}}},
		{name: "Pier", line: [][2]float64{{-2.95, 53.41}}},
	}})
	var found []Line
	ask(t, h, "/api/outline", &found)
	at := g.ToMap(53.41, -2.95)
	if len(found) != 2 || len(found[0].Places) != 4 || found[1].Name != "Pier" {
		t.Fatalf("the outline is %v", found)
	}
	for _, line := range found {
		if math.Abs(line.Places[0]-at.X) > .001 || math.Abs(line.Places[1]-at.Y) > .001 {
			t.Errorf("%q begins at %v, not %v", line.Name, line.Places, at)
		}
	}
}

// TestStreets: the ways of the shipped buses are the streets of their map, on the secret side
// alone, and other traces are not drawn.
func TestStreets(t *testing.T) {
	var found []Line
	ask(t, sampleHandler(t), "/api/outline", &found)
	names, positions := 0, 0
	for _, line := range found {
		positions += len(line.Places) / 2
		names += min(1, len(line.Name))
	}
	if names < 6 || positions < 1500 {
		t.Errorf("the sample has %d names, and lines of %d positions", names, positions)
	}
	truth := newTruth(sampleTruth(t).model)
	truth.users = sampleTruth(t).users
	ask(t, handler(Options{Truth: truth, Logger: quiet()}), "/api/outline", &found)
	if len(found) != 0 {
		t.Errorf("other traces are drawn: %d lines", len(found))
	}
	public, err := NewPublic(PublicOptions{
		Window: time.Minute, Known: follow.Public{
			Models:  follow.Models{truth.model},
			Release: mechanism.Options{Mechanism: law.Codebook, Epsilon: 1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	both := Options{Truth: sampleTruth(t), Public: public, Logger: quiet()}
	ask(t, handler(both), "/api/live/outline", &found)
	if len(found) != 0 {
		t.Errorf("the public side draws %d true ways", len(found))
	}
}
