package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is one or more panels of lines. In report.md its title stands above it, and its note below.
type Chart struct {
	// Name is the name of the chart's file without an ending: lower-case letters, digits and
	// hyphens.
	Name, Title, Note string
	Panels            []Panel
}

// Panel is lines over a common axis.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Axis is one axis of a panel.
type Axis struct {
	Label string // what is measured, with its unit: "distance, km"
	Log   bool   // logarithmic: values of 0 or less are left out
}

// Series is one line of a panel. Values that are not finite are left out.
type Series struct {
	// Name is the name in the legend. Series of the same name look the same in all panels.
	Name string
	X, Y []float64
	// Low and High are the ends of an interval at each X; nil: none.
	Low, High []float64
	// Points draws points without a line.
	Points bool
}

// Sizes of a panel, and how many there are in a row.
const (
	panelWidth, panelHeight = 4.6 * vg.Inch, 3.1 * vg.Inch
	panelsInRow             = 2
	labelSize               = vg.Length(10)
)

func (c *Chart) markdown(to *bytes.Buffer) {
	title := escape.Replace(c.Title)
	fmt.Fprintf(to, "**%s**\n\n![%s](charts/%s.svg)\n\n%s\n\n", title, title, c.Name,
		escape.Replace(c.Note))
}

func (c *Chart) file() (name string, content []byte, err error) {
	content, err = c.draw()
	return "charts/" + c.Name + ".svg", content, err
}

// draw returns the chart as SVG.
func (c *Chart) draw() ([]byte, error) {
	if len(c.Panels) == 0 {
		return nil, errors.New("a chart needs a panel")
	}
	k := key{looks: map[string]int{}, legend: plot.NewLegend()}
	k.legend.Top, k.legend.Left = true, true
	// The legend has the tile behind the panels. A single panel is as wide as a row, above it.
	columns := min(panelsInRow, len(c.Panels))
	rows := make([][]*plot.Plot, len(c.Panels)/columns+1)
	for i := range rows {
		rows[i] = make([]*plot.Plot, columns)
	}
	for i := range c.Panels {
		p, err := c.Panels[i].plot(&k)
		if err != nil {
			return nil, err
		}
		rows[i/columns][i%columns] = p
	}
	const pad = 4 * vg.Millimeter
	canvas := vgsvg.New(panelsInRow*panelWidth, vg.Length(len(rows))*panelHeight)
	tiles := draw.Tiles{
		Rows: len(rows), Cols: columns, PadX: pad, PadY: pad, PadTop: pad, PadBottom: pad,
		PadLeft: pad, PadRight: pad,
	}
	places := plot.Align(rows, tiles, draw.New(canvas))
	for i := range c.Panels {
		rows[i/columns][i%columns].Draw(places[i/columns][i%columns])
	}
	k.legend.Draw(places[len(rows)-1][len(c.Panels)%columns])
	var svg bytes.Buffer
	_, err := canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

// colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which readers with any
// colour vision can distinguish, without the palest.
var colours = []color.NRGBA{
	{R: 0x00, G: 0x72, B: 0xB2, A: 255},
	{R: 0xD5, G: 0x5E, B: 0x00, A: 255},
	{R: 0x00, G: 0x9E, B: 0x73, A: 255},
	{R: 0xCC, G: 0x79, B: 0xA7, A: 255},
	{R: 0xE6, G: 0x9F, B: 0x00, A: 255},
	{R: 0x56, G: 0xB4, B: 0xE9, A: 255},
}

// key is what a chart has of its series' names, in the order of their first use.
type key struct {
	looks  map[string]int
	legend plot.Legend
}

// plot returns the panel.
func (p *Panel) plot(k *key) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.Title, p.X.Label, p.Y.Label
	out.X.Label.TextStyle.Font.Size, out.Y.Label.TextStyle.Font.Size = labelSize, labelSize
	out.Add(plotter.NewGrid())
	for i := range p.Series {
		s := &p.Series[i]
		if len(s.X) != len(s.Y) || s.Low != nil && len(s.Low) != len(s.X) ||
			len(s.Low) != len(s.High) {
			return nil, fmt.Errorf("series %q has lists of different lengths", s.Name)
		}
		if err := p.draw(s, k, out); err != nil {
			return nil, err
		}
	}
	p.X.scale(&out.X)
	p.Y.scale(&out.Y)
	return out, nil
}

// points are the values of a series that can be drawn, with their distances to the interval's ends.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// draw adds a series to a plot. Its intervals are bars, which become an area where there are many.
func (p *Panel) draw(s *Series, k *key, out *plot.Plot) error {
	var drawn points
	for i, x := range s.X {
		y := s.Y[i]
		if !p.X.shows(x) || !p.Y.shows(y) {
			continue
		}
		low, high := y, y
		if s.Low != nil && p.Y.shows(s.Low[i]) && p.Y.shows(s.High[i]) {
			low, high = s.Low[i], s.High[i]
		}
		drawn.XYs = append(drawn.XYs, plotter.XY{X: x, Y: y})
		drawn.YErrors = append(drawn.YErrors, struct{ Low, High float64 }{y - low, high - y})
	}
	if len(drawn.XYs) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(drawn.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(drawn)
	if err != nil {
		return err
	}
	look, known := k.looks[s.Name]
	if !known {
		look = len(k.looks)
		k.looks[s.Name] = look
	}
	colour := colours[look%len(colours)]
	line.Color, line.Dashes = colour, plotutil.Dashes(look)
	marks.Color, marks.Shape, marks.Radius = colour, plotutil.Shape(look), vg.Points(1.7)
	colour.A = 90
	bars.Color, bars.CapWidth = colour, 0
	out.Add(bars, marks)
	shown := []plot.Thumbnailer{marks}
	if !s.Points {
		out.Add(line)
		shown = append(shown, line)
	}
	if !known {
		k.legend.Add(s.Name, shown...)
	}
	return nil
}

// shows reports whether an axis has a place for a value.
func (a Axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// scale sets the scale of an axis that has all its values: a linear one includes 0.
func (a Axis) scale(to *plot.Axis) {
	switch {
	case to.Min > to.Max: // nothing is drawn
	case !a.Log:
		to.Min, to.Max = min(to.Min, 0), max(to.Max, 0)
		if to.Min == to.Max {
			to.Max = 1 // only zeros
		}
	default:
		if to.Min == to.Max {
			to.Min, to.Max = to.Min/2, to.Max*2
		}
		to.Scale, to.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	}
}

// logTicks labels 1, 2 and 5 times powers of ten, and the powers alone where there are many.
func logTicks(low, high float64) (ticks []plot.Tick) {
	const short, rounding = 300, 1e-9
	digits := []float64{1, 2, 5}
	if high/low > short {
		digits = digits[:1]
	}
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range digits {
			v := digit * math.Pow(10, power)
			if v >= low*(1-rounding) && v <= high*(1+rounding) {
				ticks = append(ticks, plot.Tick{Value: v, Label: Short(v)})
			}
		}
	}
	if len(ticks) < 2 {
		return plot.DefaultTicks{}.Ticks(low, high)
	}
	return ticks
}
