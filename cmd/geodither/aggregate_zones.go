package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
)

// zoneOf is the side of the square zones that --zone names, kilometres, unless it names a file.
func zoneOf(text string) (sideKM float64, file bool, err error) {
	sideKM, err = cli.Kilometres("--zone", text)
	if err == nil {
		return sideKM, false, nil
	}
	if _, missing := os.Stat(text); missing != nil {
		return 0, false, cli.Usage(fmt.Errorf("%w, or name a GeoJSON file that is there", err))
	}
	return 0, true, nil
}

// aggregateZones are squares of a map, or areas.
type aggregateZones struct {
	*counts.Zones
	squares *grid.Grid
	areas   []counts.Area
	without int // areas that hold the middle of no cell
}

// zonesOn reads the zones of --zone on the map of a model.
func zonesOn(g *grid.Grid, text string) (z aggregateZones, err error) {
	side, file, err := zoneOf(text)
	if err != nil {
		return z, err
	}
	if !file {
		if z.squares, err = g.Coarser(side); err == nil {
			z.Zones, err = counts.Squares(z.squares)
		}
		return z, err
	}
	if z.Zones, z.areas, err = config.Polygons("--zone", text); err != nil {
		return z, err
	}
	held := make([]bool, z.Count())
	for c := range grid.Cell(g.Cells()) {
		held[z.Of(g.ToDegrees(g.Centre(c)))] = true
	}
	for i := range z.areas {
		if !held[i] {
			z.without++
		}
	}
	if z.without == len(z.areas) {
		return z, fmt.Errorf("--zone %s: no polygon holds the middle of a cell of %.2f km: "+
			"longitude comes first", text, g.CellKM())
	}
	return z, nil
}

// polygons returns the polygons of a zone, none for elsewhere.
func (z aggregateZones) polygons(zone int32) [][][][2]float64 {
	g := z.squares
	switch {
	case int(zone) == z.Count()-1:
		return nil
	case g == nil:
		return z.areas[zone].Polygons
	}
	middle, half := g.Centre(zone), g.CellKM()/2
	var ring [][2]float64 // counter-clockwise, and the first corner again
	for _, sign := range [][2]float64{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}, {-1, -1}} {
		lat, lon := g.ToDegrees(middle.Add(grid.Point{X: sign[0] * half, Y: sign[1] * half}))
		ring = append(ring, [2]float64{toCentimetre(lon), toCentimetre(lat)})
	}
	return [][][][2]float64{{ring}}
}

// toCentimetre keeps seven decimals of a degree.
func toCentimetre(x float64) float64 {
	v, _ := strconv.ParseFloat(files.Degrees(x), 64)
	return v
}
