package explore

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/geodither/geodither/mechanism/grid"
)

// maxBlocks is how many blocks of cells an answer has at most: 800 kB a field.
const maxBlocks = 300_000

// area is the part of the map that a page shows, in map kilometres; nil is all of it.
type area []float64 // west, south, east, north

// parseArea reads parameter "view" of a request: WEST,SOUTH,EAST,NORTH.
func parseArea(query url.Values) (area, error) {
	text := query.Get("view")
	if text == "" {
		return nil, nil
	}
	const wrong = errOther("view is not WEST,SOUTH,EAST,NORTH in kilometres on the map")
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return nil, wrong
	}
	var a area
	for _, part := range parts {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, wrong
		}
		a = append(a, x)
	}
	if a[0] >= a[2] || a[1] >= a[3] {
		return nil, wrong
	}
	return a, nil
}

// of returns the view of an area of a grid, in the smallest blocks of which it has no more than
// maxBlocks. An area beside the map is its nearest cell.
func (a area) of(g *grid.Grid) view {
	v := wholeView(g.Width(), g.Height())
	if a != nil {
		cell := func(km float64, cells int) int {
			return int(min(max(math.Floor(km/g.CellKM()), 0), float64(cells-1)))
		}
		v.column, v.row = cell(a[0], v.wide), cell(a[1], v.high)
		v.width = cell(a[2], v.wide) + 1 - v.column
		v.height = cell(a[3], v.high) + 1 - v.row
	}
	for v.blocksWide()*v.blocksHigh() > maxBlocks {
		v = v.coarser()
	}
	return v
}

// view is a part of a map in blocks of cells. It begins with a whole block, counted from the map's
// south-west corner.
type view struct {
	wide, high    int // of the map, in cells
	column, row   int // the south-west cell
	width, height int // cells
	block         int // side of a block in cells, a power of two
}

// wholeView is all of a map, cell by cell.
func wholeView(wide, high int) view {
	return view{wide: wide, high: high, width: wide, height: high, block: 1}
}

// coarser returns the view in whole blocks of twice the side.
func (v view) coarser() view {
	v.block *= 2
	column, row := v.column/v.block*v.block, v.row/v.block*v.block
	east := min((v.column+v.width+v.block-1)/v.block*v.block, v.wide)
	north := min((v.row+v.height+v.block-1)/v.block*v.block, v.high)
	v.column, v.row, v.width, v.height = column, row, east-column, north-row
	return v
}

func (v view) blocksWide() int { return (v.width + v.block - 1) / v.block }
func (v view) blocksHigh() int { return (v.height + v.block - 1) / v.block }

// of returns the block of a cell, counted from the view's corner, if the view has it.
func (v view) of(c grid.Cell) (column, row int, ok bool) {
	x, y := int(c)%v.wide-v.column, int(c)/v.wide-v.row
	if x < 0 || y < 0 || x >= v.width || y >= v.height {
		return 0, 0, false
	}
	return x / v.block, y / v.block, true
}
