package explore

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Field is a mass, or a likelihood, for each block of cells of a part of the map: the smallest
// rectangle that holds every cell which has any. A block is a square of cells, one cell where the
// map is small or the page looks closely. Blocks are sent as numbers of two bytes. The page needs
// no more digits to draw them.
type Field struct {
	// Column and Row are those of the south-west block; Width and Height count blocks.
	Column int `json:"column"`
	Row    int `json:"row"`
	Width  int `json:"width"`
	Height int `json:"height"`
	// Block is the side of a block in cells.
	Block int `json:"block"`
	// Max is the largest value of this field, and of those that it is compared with. A block's
	// value is Max·(q/65535)², where q is its number in Data, 0 for blocks without any and at
	// least 1 for others.
	Max float64 `json:"max"`
	// Blocks is how many blocks have a value.
	Blocks int `json:"blocks"`
	// Data has the numbers q row by row from the south, each from the west: little-endian, in
	// base64.
	Data string `json:"data"`
}

// join says what a block has whose cells have values: their sum if they are masses, and the largest
// one if they are likelihoods.
type join func(a, b float64) float64

func sum(a, b float64) float64 { return a + b }

// fieldOf returns the field of some cells and their values, as far as a view has them, with a Max
// of at least most: so several fields have one scale.
func fieldOf(v view, cells []grid.Cell, values []float64, j join, most float64) *Field {
	f := &Field{Block: v.block, Max: most}
	wide := v.blocksWide()
	all := make([]float64, wide*v.blocksHigh())
	west, east, south, north := wide, -1, v.blocksHigh(), -1
	for i, c := range cells {
		column, row, ok := v.of(c)
		if !ok || !(values[i] > 0) {
			continue
		}
		at := row*wide + column
		if all[at] == 0 {
			f.Blocks++
			west, east = min(west, column), max(east, column)
			south, north = min(south, row), max(north, row)
			all[at] = values[i]
		} else {
			all[at] = j(all[at], values[i])
		}
		f.Max = max(f.Max, all[at])
	}
	if f.Blocks == 0 {
		return f
	}
	f.Column, f.Row = v.column/v.block+west, v.row/v.block+south
	f.Width, f.Height = east-west+1, north-south+1
	data := make([]byte, 0, 2*f.Width*f.Height)
	for row := south; row <= north; row++ {
		for _, x := range all[row*wide+west : row*wide+east+1] {
			data = binary.LittleEndian.AppendUint16(data, quantized(x, f.Max))
		}
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
func fieldOfMass(v view, d *mobility.Distribution) *Field {
	f := fieldOf(v, d.Cells, d.P, sum, 0)
	if total := d.Total(); total > 0 { // short masses sum to 1 on average only
		f.Max /= total
	}
	return f
}

// fieldOfZones returns the field of a number for each zone. Its blocks are zones, and where these
// are areas, cells: each has the number of its zone.
func fieldOfZones(z *zones, values []float64, most float64) *Field {
	v, numbers := area(nil).of(z.on), make([]float64, len(z.cells))
	if z.squares != nil {
		v = wholeView(z.squares.Width(), z.squares.Height())
		numbers = values[:z.squares.Cells()]
	} else {
		for i, zone := range z.cells {
			numbers[i] = values[zone]
		}
	}
	cells := make([]grid.Cell, len(numbers))
	for i := range cells {
		cells[i] = grid.Cell(i)
	}
	return fieldOf(v, cells, numbers, math.Max, most)
}

// Votes says for which code point each block of a part of the map votes, row by row from the south:
// a byte each, in base64. A block votes as the cell in its middle.
type Votes struct {
	Column int    `json:"column"` // as in Field
	Row    int    `json:"row"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Block  int    `json:"block"`
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
