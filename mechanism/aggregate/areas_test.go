package aggregate

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// areaOf is a rectangle of a map, from one corner in cells to another.
func areaOf(g *grid.Grid, name string, west, south, east, north float64) Area {
	var ring [][2]float64
	for _, p := range [][2]float64{{west, south}, {east, south}, {east, north}, {west, north}} {
		lat, lon := g.ToDegrees(grid.Point{X: p[0] * g.CellKM(), Y: p[1] * g.CellKM()})
		ring = append(ring, [2]float64{lon, lat})
	}
	return Area{Name: name, Polygons: [][][][2]float64{{append(ring, ring[0])}}}
}

// TestNamedZones: each cell belongs to the area that holds its centre, also around a hole, and else
// to the rest of the map.
func TestNamedZones(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 8, 6, .5)
	centre, ring := areaOf(g, "centre", 3, 2, 5, 4), areaOf(g, "ring", 1.6, .6, 6.4, 5.4)
	ring.Polygons[0] = append(ring.Polygons[0], centre.Polygons[0]...) // a hole
	z, err := NewNamedZones(g, []Area{centre, ring})
	if err != nil {
		t.Fatal(err)
	}
	const want = `
22222222
22111122
22100122
22100122
22111122
22222222`
	got := ""
	for row := g.Height() - 1; row >= 0; row-- {
		got += "\n"
		for column := range g.Width() {
			got += string('0' + rune(z.Of(grid.Cell(row*g.Width()+column))))
		}
	}
	if got != want || z.Count() != 3 || z.Name(0) != "centre" || z.Name(2) != Elsewhere {
		t.Errorf("%d zones:%s\nwant%s", z.Count(), got, want)
	}
	if m := z.Middle(0); m.Distance(grid.Point{X: 2, Y: 1.5}) > 1e-9 {
		t.Errorf("the middle of the centre is %v", m)
	}
	// Four vehicles on four cells of half a kilometre.
	if v := z.PerKM2([]float64{4, 0, 0})[2*g.Width()+3]; v != 4 {
		t.Errorf("%g vehicles to the square kilometre, want 4", v)
	}
	for text, areas := range map[string][]Area{
		"overlap":      {areaOf(g, "a", 0, 0, 3, 3), areaOf(g, "b", 2, 2, 5, 5)},
		"no middle":    {areaOf(g, "a", 1.6, 1.6, 2.4, 2.4)},
		"has no name":  {areaOf(g, "", 0, 0, 3, 3)},
		"no zone":      nil,
		"two zones":    {areaOf(g, "a", 0, 0, 1, 1), areaOf(g, "a", 2, 2, 3, 3)},
		"rest of the ": {areaOf(g, Elsewhere, 0, 0, 1, 1)},
	} {
		_, err := NewNamedZones(g, areas)
		if err == nil || !strings.Contains(err.Error(), text) ||
			len(strings.Fields(err.Error())) > 30 {
			t.Errorf("%s: %v", text, err)
		}
	}
}
