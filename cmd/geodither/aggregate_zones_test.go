package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestAggregateZones: with zones of one's own every row has the name of a polygon or "elsewhere",
// the sum over a window is all of the fleet, and what cannot be a zone is refused before anything
// is read.
func TestAggregateZones(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	sanitized := filepath.Join(dir, "sanitized.csv")
	succeed(t, sanitizeArgs(traces, model, "--seed", "3", "--out", sanitized)...)
	town, err := mobility.ReadModelFile(model)
	if err != nil {
		t.Fatal(err)
	}
	g := town.Grid
	polygon := func(name string, west, south, east, north float64) string {
		var corners []string
		for _, p := range [][2]float64{
			{west, south}, {east, south}, {east, north}, {west, north}, {west, south},
		} {
			lat, lon := g.ToDegrees(grid.Point{X: p[0] * g.CellKM(), Y: p[1] * g.CellKM()})
			corners = append(corners, fmt.Sprintf("[%v,%v]", lon, lat))
		}
		return `{"type":"Feature","properties":{"name":"` + name + `"},"geometry":{"type":` +
			`"Polygon","coordinates":[[` + strings.Join(corners, ",") + `]]}}`
	}
	zonesOf := func(name string, polygons ...string) string {
		return write(t, dir, name, `{"type":"FeatureCollection","features":[`+
			strings.Join(polygons, ",")+"]}")
	}
	args := []string{"aggregate", "--model", model, "--window", "10m", "--in", sanitized}
	good := zonesOf("good.geojson", polygon("centre", 1, 1, 3, 3), polygon("west", 0, 0, 1, 3))
	got := succeed(t, append(args, "--zone", good)...)
	header, rows := zoneRows(t, got.out)
	zone := slices.Index(header, "zone")
	for i, row := range rows {
		if want := []string{"centre", "west", "elsewhere"}[i%3]; row[zone] != want {
			t.Errorf("row %d is of the zone %q, want %q", i, row[zone], want)
		}
	}
	for window, sum := range sumOfColumn(t, got.out, "posterior") {
		if sum < 5.99 || sum > 6.01 {
			t.Errorf("%g vehicles in the window from %s", sum, window)
		}
	}
	none := call(t, append(args, "--to", "2001-01-01T00:00:00Z")...)
	requireMessage(t, none, cli.ExitFailed, "every record is of a window that ends after")
	partly := succeed(t, append(args, "--zone", zonesOf("partly.geojson",
		polygon("far", 90, 90, 95, 95), polygon("centre", 1, 1, 3, 3),
		polygon("west", 0, 0, 1, 3)))...)
	if !strings.Contains(partly.err, "1 polygon of --zone without the middle of a cell") ||
		strings.Contains(got.err, "without the middle") {
		t.Errorf("a polygon off the map: %s", partly.err)
	}
	features := filepath.Join(dir, "density.geojson")
	succeed(t, append(args, "--zone", good, "--out", features)...)
	if text := read(t, features); !strings.Contains(text, `"zone":"centre"`) {
		t.Errorf("no zone in the GeoJSON:\n%.300s", text)
	}
	for text, flags := range map[string][]string{
		"overlap": {"--zone", zonesOf("overlap.geojson",
			polygon("a", 0, 0, 2, 2), polygon("b", 1, 1, 3, 3))},
		"no polygon holds the middle": {"--zone", zonesOf("small.geojson",
			polygon("a", .6, .6, .9, .9))},
		"no GeoJSON": {"--zone", traces},
		"longitude before latitude": {"--zone", zonesOf("off.geojson",
			polygon("far", 90, 90, 95, 95))},
		"or name a GeoJSON file": {"--zone", "missing.geojson"},
	} {
		requireMessage(t, call(t, append(args, flags...)...), cli.ExitUsage, text)
	}
}
