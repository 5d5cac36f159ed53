package report

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// Map is a panel with a grid's values as colours, north up, and a colour bar. On its axes are
// kilometres east and north of the grid's south-west corner, or degrees.
type Map struct {
	Title string
	Grid  *grid.Grid
	// Degrees has longitude and latitude on the axes.
	Degrees bool
	// Values has a value for each cell, row by row from the south-west; NaN leaves a cell grey.
	// Without any values the map is empty, for overlays.
	Values []float64
	// Scale is the colour bar's axis, which is linear: its label with a unit, and its ends (both 0:
	// those of the values).
	Scale Axis
	// Series are tracks and places on a map in kilometres, the last on top.
	Series []Series
	// View, if not empty, has the south-west and north-east corners of what is shown instead of the
	// whole grid.
	View [2]grid.Point
}

// corner is the grid's north-east corner.
func (m *Map) corner() grid.Point {
	side := m.Grid.CellKM()
	return grid.Point{X: float64(m.Grid.Width()) * side, Y: float64(m.Grid.Height()) * side}
}

func (m *Map) frame([]Panel) (*frame, error) {
	switch {
	case m.Grid == nil:
		return nil, errors.New("a map needs a grid")
	case len(m.Values) != 0 && len(m.Values) != m.Grid.Cells():
		return nil, fmt.Errorf("%d values for a grid of %d cells", len(m.Values), m.Grid.Cells())
	}
	view := [2]grid.Point{{}, m.corner()}
	if m.View[1].X > m.View[0].X && m.View[1].Y > m.View[0].Y {
		view = m.View
	}
	east, north := m.place(view[1])
	west, south := m.place(view[0])
	f := &frame{
		title: m.Title, shape: (view[1].Y - view[0].Y) / (view[1].X - view[0].X),
		x: newAxis(Axis{Label: "east, km", Min: west, Max: east}, nil, nil, 0),
		y: newAxis(Axis{Label: "north, km", Min: south, Max: north}, nil, nil, 0),
	}
	if m.Degrees {
		f.x.Label, f.y.Label = "longitude, °", "latitude, °"
	}
	if len(m.Values) > 0 {
		f.field = &field{m, newAxis(m.Scale, m.Values, nil, 0)}
		f.y.Label += "; colours: " + m.Scale.Label
	}
	x, y := m.place(m.corner())
	left, low := m.place(grid.Point{})
	f.add(&Series{
		X: []float64{left, x, x, left, left}, Y: []float64{low, low, y, y, low}, Guide: true,
	})
	for i := range m.Series {
		f.add(&m.Series[i])
	}
	return f, nil
}

// place returns where a point lies on the axes. Degrees grow evenly there: no grid crosses the
// antimeridian, but its last cells may reach over it, so that the first one's are taken.
func (m *Map) place(p grid.Point) (x, y float64) {
	if !m.Degrees {
		return p.X, p.Y
	}
	south, west := m.Grid.ToDegrees(grid.Point{})
	km := m.Grid.CellKM() / 2
	north, east := m.Grid.ToDegrees(grid.Point{X: km, Y: km})
	return west + float64(p.X*(east-west)/km), south + float64(p.Y*(north-south)/km)
}

// viridis is the colour map of that name by Smith and van der Walt. Equal steps of value look
// equal, also without colour vision and on paper.
var viridis = []color.NRGBA{
	{0x44, 0x01, 0x54, 255},
	{0x48, 0x24, 0x75, 255},
	{0x41, 0x44, 0x87, 255},
	{0x35, 0x5f, 0x8d, 255},
	{0x2a, 0x78, 0x8e, 255},
	{0x21, 0x91, 0x8c, 255},
	{0x22, 0xa8, 0x84, 255},
	{0x44, 0xbf, 0x70, 255},
	{0x7a, 0xd1, 0x51, 255},
	{0xbd, 0xdf, 0x26, 255},
	{0xfd, 0xe7, 0x25, 255},
}

// nothing is the colour of a cell without a value.
var nothing = color.NRGBA{R: 236, G: 236, B: 236, A: 255}

// colourOf returns the colour of a share of the bar, between two of the samples.
func colourOf(share float64) color.NRGBA {
	at := min(max(share, 0), 1) * float64(len(viridis)-1)
	i := min(int(at), len(viridis)-2)
	mix := func(a, b uint8) uint8 {
		return uint8(math.Round(float64(a) + (at-float64(i))*(float64(b)-float64(a))))
	}
	a, b := viridis[i], viridis[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// field is a map's colours.
type field struct {
	of    *Map
	scale *axis
}

// image has a dot for each cell, north up.
func (f *field) image() *image.NRGBA {
	columns, rows := f.of.Grid.Width(), f.of.Grid.Height()
	img := image.NewNRGBA(image.Rect(0, 0, columns, rows))
	for cell, v := range f.of.Values {
		colour := nothing
		if finite(v) {
			colour = colourOf(f.scale.share(v))
		}
		img.SetNRGBA(cell%columns, rows-1-cell/columns, colour)
	}
	return img
}

func (f *field) draw(c canvas, on *frame) {
	low, high := on.place(f.of.place(grid.Point{})), on.place(f.of.place(f.of.corner()))
	c.picture(rect{low.x, high.y, high.x, low.y}, f.image())
}

// The colour bar to the right of a map: its room, its distance and its width.
const fieldRoom, barGap, barWidth = 58., 8., 10.

func (f *field) drawBar(c canvas, at rect) {
	const steps = 64
	img := image.NewNRGBA(image.Rect(0, 0, 1, steps))
	for y := range steps {
		img.SetNRGBA(0, y, colourOf(1-(float64(y)+.5)/steps))
	}
	left := at.right + barGap
	c.picture(rect{left, at.top, left + barWidth, at.bottom}, img)
	for _, t := range f.scale.apart(at.height(), upright) {
		y := at.bottom - t.share*at.height()
		c.line([]point{{left + barWidth, y}, {left + barWidth + 3, y}}, thin)
		c.write(point{left + barWidth + 5, y + 3}, words{t.label, tickSize, 0})
	}
}
