package chart

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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
	// Scale is the colour bar's axis: its label with a unit, its ends (both 0: those of the
	// values), and whether the colours are logarithmic, in which case values of 0 or less are
	// grey.
	Scale Axis
	// Overlays are drawn over the colours, the last on top.
	Overlays []Overlay
	// View, if not empty, has the south-west and north-east corners of what is shown instead of the
	// whole grid. The grid has an outline.
	View [2]grid.Point
}

// Overlay is a track or a set of places on a map.
type Overlay struct {
	// Name is the name in the legend; see Series.
	Name   string
	Points []grid.Point
	// Line joins the points in their order; Markers marks each of them.
	Line, Markers bool
	// Reference draws in black, Look above 0 in the look of that number.
	Reference bool
	Look      int
}

// finest is roughly the number of dots along the longer side of a map: enough for the sides of
// cells to be sharp.
const finest = 1200

// image draws the cells that are shown, and returns the corners of the image.
func (m *Map) image(c *colouring) (img *image.NRGBA, low, high grid.Point) {
	width, height, side := m.Grid.Width(), m.Grid.Height(), m.Grid.CellKM()
	low, high = m.shown()
	k := max(1, int(finest*side/max(high.X-low.X, high.Y-low.Y)))
	dots := func(km float64, cells int) int {
		return min(max(int(math.Round(km/side*float64(k))), 0), k*cells)
	}
	left, right := dots(low.X, width), dots(high.X, width)
	bottom, top := dots(low.Y, height), dots(high.Y, height)
	img = image.NewNRGBA(image.Rect(0, 0, right-left, top-bottom))
	for row := bottom / k; row*k < top; row++ {
		for column := left / k; column*k < right; column++ {
			r, g, b, _ := c.of(m.Values[row*width+column]).RGBA()
			dot := color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
			for y := max(row*k, bottom); y < min((row+1)*k, top); y++ {
				for x := max(column*k, left); x < min((column+1)*k, right); x++ {
					img.SetNRGBA(x-left, top-1-y, dot)
				}
			}
		}
	}
	km := side / float64(k)
	return img, grid.Point{
		X: float64(left) * km, Y: float64(bottom) * km,
	}, grid.Point{X: float64(right) * km, Y: float64(top) * km}
}

// shown returns the corners of the view, or of the grid if there is none.
func (m *Map) shown() (low, high grid.Point) {
	if m.View[1].X > m.View[0].X && m.View[1].Y > m.View[0].Y {
		return m.View[0], m.View[1]
	}
	return grid.Point{}, grid.Point{
		X: float64(m.Grid.Width()) * m.Grid.CellKM(), Y: float64(m.Grid.Height()) * m.Grid.CellKM(),
	}
}

func (m *Map) prepare(styles *styles, _ *extent) (*plot.Plot, []entry, error) {
	if m.Grid == nil {
		return nil, nil, errors.New("a map needs a grid")
	}
	if len(m.Values) != 0 && len(m.Values) != m.Grid.Cells() {
		return nil, nil, fmt.Errorf("%d values for a grid of %d cells",
			len(m.Values), m.Grid.Cells())
	}
	p := newPlot(m.Title)
	side := m.Grid.CellKM()
	east, north := float64(m.Grid.Width())*side, float64(m.Grid.Height())*side
	if len(m.Values) > 0 {
		colours, err := m.colouring()
		if err != nil {
			return nil, nil, err
		}
		if img, low, high := m.image(colours); !img.Rect.Empty() {
			p.Add(plotter.NewImage(img, low.X, low.Y, high.X, high.Y))
		}
	}
	p.Add(
		outline{{X: 0, Y: 0}, {X: east, Y: 0}, {X: east, Y: north}, {X: 0, Y: north}, {X: 0, Y: 0}})
	var entries []entry
	for i := range m.Overlays {
		o := &m.Overlays[i]
		looks := reference
		if !o.Reference {
			looks = lookOf(styles.number(o.Name, o.Look))
		} else {
			looks.line.Dashes = nil
			looks.glyph = draw.GlyphStyle{Color: black, Radius: 2.2, Shape: draw.CircleGlyph{}}
		}
		if !o.Line {
			looks.line.Width = 0
		}
		if len(o.Points) > crowd {
			looks.glyph.Radius *= .6
		}
		entries = append(entries, entry{name: o.Name, look: looks, plain: !o.Markers})
		s := &Series{NoMarkers: !o.Markers, NoLine: !o.Line}
		for _, at := range o.Points {
			s.X, s.Y = append(s.X, at.X), append(s.Y, at.Y)
		}
		p.Add(&seriesPlotter{series: s, look: looks})
	}
	p.X.Label.Text, p.Y.Label.Text = "east, km", "north, km"
	if m.Degrees {
		p.X.Label.Text, p.Y.Label.Text = "longitude, °", "latitude, °"
		p.X.Tick.Marker, p.Y.Tick.Marker = degreesOf(m.Grid)
	}
	low, high := m.shown()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low.X, high.X, low.Y, high.Y
	return p, entries, nil
}

// outline is the border of a grid.
type outline []grid.Point

// Plot implements plot.Plotter.
func (o outline) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var line []vg.Point
	for _, at := range o {
		line = append(line, vg.Point{X: x(at.X), Y: y(at.Y)})
	}
	c.StrokeLines(draw.LineStyle{Color: color.Gray{Y: 120}, Width: .8}, c.ClipLinesXY(line)...)
}

// crowd is the number of places above which markers are small.
const crowd = 150

const (
	barRoom  = vg.Length(58) // for the bar, its numbers and its label
	barWidth = vg.Length(10)
	barGap   = vg.Length(8)
)

// filled returns how much of a panel the map and its bar fill.
func (m *Map) filled(p *plot.Plot, width, height vg.Length) (w, h vg.Length) {
	var room vg.Length
	if len(m.Values) > 0 {
		room = barRoom
	}
	tile := squared(
		p, draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: width - room, Y: height}}},
	)
	return tile.Size().X + room, tile.Size().Y
}

func (m *Map) describe() (what string, names []string) {
	what = "map"
	if m.Title != "" {
		what += ": " + m.Title
	}
	if len(m.Values) > 0 {
		what += " (" + m.Scale.Label + ", as colours)"
	}
	for i := range m.Overlays {
		names = append(names, m.Overlays[i].Name)
	}
	return what, names
}

func (m *Map) draw(p *plot.Plot, tile draw.Canvas) {
	bar := len(m.Values) > 0
	if bar {
		tile = draw.Crop(tile, 0, -barRoom, 0, 0)
	}
	tile = squared(p, tile)
	p.Draw(tile)
	if bar {
		m.drawBar(p.DataCanvas(tile))
	}
}

// drawBar draws the colour bar to the right of the map.
func (m *Map) drawBar(at draw.Canvas) {
	colours, err := m.colouring()
	if err != nil {
		return // prepare has returned it
	}
	const steps = 256
	img := image.NewNRGBA(image.Rect(0, 0, 8, steps))
	for y := range steps {
		for x := range 8 {
			img.Set(x, y, colours.at(1-(float64(y)+.5)/steps))
		}
	}
	left := at.Max.X + barGap
	right := left + barWidth
	at.DrawImage(
		vg.Rectangle{Min: vg.Point{X: left, Y: at.Min.Y}, Max: vg.Point{X: right, Y: at.Max.Y}},
		img)
	var marker plot.Ticker = linearTicks{}
	low, high := colours.low, colours.high
	if colours.log {
		marker, low, high = logTicks{}, math.Log10(low), math.Log10(high)
	}
	numbers := textStyle(9, draw.XLeft, draw.YCenter)
	descent := numbers.FontExtents().Descent
	var widest vg.Length
	for _, t := range marker.Ticks(low, high) {
		share := (t.Value - low) / (high - low)
		if t.Label == "" || share < -1e-9 || share > 1+1e-9 {
			continue
		}
		y := at.Min.Y + vg.Length(share)*(at.Max.Y-at.Min.Y)
		at.StrokeLine2(draw.LineStyle{Color: black, Width: .5}, right, y, right+3, y)
		at.FillText(numbers, vg.Point{X: right + 5, Y: y + descent}, t.Label)
		widest = max(widest, numbers.Width(t.Label))
	}
	label := textStyle(10, draw.XCenter, draw.YTop)
	label.Rotation = math.Pi / 2
	at.FillText(label, vg.Point{X: right + 7 + widest, Y: (at.Min.Y + at.Max.Y) / 2}, m.Scale.Label)
}

// viridis is the colour map of that name by Smith and van der Walt. Equal steps of value look
// equal, also without colour vision and on paper. Between these samples luminance grows evenly.
var viridis = []color.Color{
	color.NRGBA{0x44, 0x01, 0x54, 255},
	color.NRGBA{0x48, 0x24, 0x75, 255},
	color.NRGBA{0x41, 0x44, 0x87, 255},
	color.NRGBA{0x35, 0x5f, 0x8d, 255},
	color.NRGBA{0x2a, 0x78, 0x8e, 255},
	color.NRGBA{0x21, 0x91, 0x8c, 255},
	color.NRGBA{0x22, 0xa8, 0x84, 255},
	color.NRGBA{0x44, 0xbf, 0x70, 255},
	color.NRGBA{0x7a, 0xd1, 0x51, 255},
	color.NRGBA{0xbd, 0xdf, 0x26, 255},
	color.NRGBA{0xfd, 0xe7, 0x25, 255},
}

// nothing is the colour of a cell without a value.
var nothing = color.NRGBA{R: 236, G: 236, B: 236, A: 255}

// colouring turns values into colours.
type colouring struct {
	colours   palette.ColorMap
	low, high float64
	log       bool
}

func (m *Map) colouring() (*colouring, error) {
	colours, err := moreland.NewLuminance(viridis)
	if err != nil {
		return nil, err
	}
	e := extent{log: m.Scale.Log}
	e.add(m.Values)
	if !e.any {
		e.min, e.max = 1, 2
	}
	c := &colouring{colours: colours, low: e.min, high: e.max, log: m.Scale.Log}
	if m.Scale.Min != 0 || m.Scale.Max != 0 {
		c.low, c.high = m.Scale.Min, m.Scale.Max
	}
	if m.Scale.Zero && !c.log {
		c.low = min(c.low, 0)
	}
	if c.log && c.low <= 0 {
		return nil, errors.New("a map whose colours go by the logarithm needs ends above 0")
	}
	if !(c.high > c.low) {
		c.high = c.low + max(math.Abs(c.low), 1)
	}
	colours.SetMin(0)
	colours.SetMax(1)
	return c, nil
}

// share returns where a value is between the ends, from 0 to 1.
func (c *colouring) share(v float64) float64 {
	if c.log {
		return math.Log(v/c.low) / math.Log(c.high/c.low)
	}
	return (v - c.low) / (c.high - c.low)
}

func (c *colouring) at(share float64) color.Color {
	got, err := c.colours.At(min(max(share, 0), 1))
	if err != nil {
		return nothing
	}
	return got
}

func (c *colouring) of(v float64) color.Color {
	if !finite(v) || c.log && v <= 0 {
		return nothing
	}
	return c.at(c.share(v))
}
