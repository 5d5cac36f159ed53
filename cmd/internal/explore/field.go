package explore

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Field is a mass, or a likelihood, for each cell of a part of the map: the smallest rectangle that
// holds every cell which has any. Cells are sent as numbers of two bytes, so a field of a million
// cells takes 2.7 MB of text. The page needs no more digits to draw it.
type Field struct {
	// Column and Row are those of the south-west cell; Width and Height count cells.
	Column int `json:"column"`
	Row    int `json:"row"`
	Width  int `json:"width"`
	Height int `json:"height"`
	// Max is the largest value. A cell's value is Max·(q/65535)², where q is its number in Data, 0
	// for cells without any and at least 1 for others.
	Max float64 `json:"max"`
	// Cells is how many cells have a value.
	Cells int `json:"cells"`
	// Data has the numbers q row by row from the south, each from the west: little-endian, in
	// base64.
	Data string `json:"data"`
}

// fieldOf returns the field of ascending cells of a grid and their values.
func fieldOf(g *grid.Grid, cells []grid.Cell, values []float64) *Field {
	return fieldOfRows(g.Width(), cells, values)
}

// fieldOfRows is fieldOf for cells in rows of a width.
func fieldOfRows(wide int, cells []grid.Cell, values []float64) *Field {
	column := func(c grid.Cell) int { return int(c) % wide }
	row := func(c grid.Cell) int { return int(c) / wide }
	f := &Field{Cells: len(cells)}
	if len(cells) == 0 {
		return f
	}
	west, east := wide, 0
	for i, c := range cells {
		f.Max = max(f.Max, values[i])
		west, east = min(west, column(c)), max(east, column(c))
	}
	f.Column, f.Row = west, row(cells[0])
	f.Width, f.Height = east-west+1, row(cells[len(cells)-1])-f.Row+1
	data := make([]byte, 2*f.Width*f.Height)
	for i, c := range cells {
		at := (row(c)-f.Row)*f.Width + column(c) - west
		binary.LittleEndian.PutUint16(data[2*at:], quantized(values[i], f.Max))
	}
	f.Data = base64.StdEncoding.EncodeToString(data)
	return f
}

// quantized returns the number of a value, so that small values keep their digits.
func quantized(value, most float64) uint16 {
	if !(value > 0) {
		return 0
	}
	return uint16(max(1, math.Round(math.MaxUint16*math.Sqrt(value/most))))
}

// fieldOfMass returns the field of a distribution, whose masses sum to 1 in the field.
func fieldOfMass(g *grid.Grid, d *mobility.Distribution) *Field {
	f := fieldOf(g, d.Cells, d.P)
	if total := d.Total(); total > 0 { // short masses sum to 1 on average only
		f.Max /= total
	}
	return f
}

// fieldOfZones returns the field of a number for each zone.
func fieldOfZones(z *aggregate.Zones, values []float64) *Field {
	var zones []grid.Cell
	var some []float64
	for zone, x := range values {
		if x > 0 {
			zones, some = append(zones, grid.Cell(zone)), append(some, x)
		}
	}
	return fieldOfRows(z.Columns(), zones, some)
}

// Votes says for each cell of the map, row by row from the south, for which code point it votes: a
// byte each, in base64.
type Votes struct {
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Data   string `json:"data"`
}

// Place is a place on the map: kilometres east and north of its south-west corner.
type Place struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

func placeOf(p grid.Point) Place { return Place(p) }

// number is a number that may be missing: NaN and infinities are null in JSON.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// mapOfModel returns the map of a model.
func mapOfModel(m *mobility.Model) Map {
	g := m.Grid
	box := g.Box()
	return Map{
		ModelID: m.ID(), Width: g.Width(), Height: g.Height(), CellKM: g.CellKM(),
		StepS: m.Step.Seconds(), South: box.South, West: box.West,
		Popularity: fieldOfMass(g, &m.Initial), Private: m.Provenance.Privacy != nil,
	}
}
