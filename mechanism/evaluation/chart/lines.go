package chart

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Axis is one axis of a panel.
type Axis struct {
	// Label says what is measured, with its unit: "distance, km".
	Label string
	// Log makes the axis logarithmic. What is not above 0 is then drawn at its lower end, which is
	// labelled 0 and lies a gap below all values.
	Log bool
	// At, on a logarithmic axis, are the values that have a label, such as those that were
	// measured; none: as many round ones as there is room for.
	At []float64
	// Zero makes a linear axis begin at 0 where no value is below it.
	Zero bool
	// Min and Max are the axis's ends; both 0 means as the values have it.
	Min, Max float64
}

// Series is one line of a panel, with an optional band around it.
type Series struct {
	// Name is the legend's. Series of one name look the same in all panels of a figure; the legend
	// shows one of them. Empty: not in the legend.
	Name string
	X, Y []float64
	// Low and High, both or none, are the ends of the band at each X; NaN breaks it, and a
	// point between breaks has a bar.
	Low, High []float64
	// Reference draws the line black and dashed without markers: a baseline.
	Reference bool
	// Guide draws a thin grey line of long dashes without markers: nothing that was measured, but
	// what the eye compares it with.
	Guide bool
	// NoMarkers leaves the markers out, for lines of many points.
	NoMarkers bool
	// NoLine draws the markers alone.
	NoLine bool
	// Look above 0 chooses the look with that number, from 1, so that one name looks the same in
	// many figures. 0: by the order of names.
	Look int
}

// Lines is a panel of series over a common axis. NaN breaks a line.
type Lines struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Square gives a unit of x and of y the same length, as on a map.
	Square bool
}

func (s *Series) check() error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("series %q: %d values of x and %d of y", s.Name, len(s.X), len(s.Y))
	}
	if (s.Low != nil || s.High != nil) && (len(s.Low) != len(s.X) || len(s.High) != len(s.X)) {
		return fmt.Errorf(
			"series %q: a band has as many low and high values as the line has points", s.Name,
		)
	}
	return nil
}

// extents are the ranges of the values and of their bands.
func (l *Lines) extents() (x, y extent) {
	x.log, y.log = l.X.Log, l.Y.Log
	var lows [][]float64
	for i := range l.Series {
		s := &l.Series[i]
		x.add(s.X)
		y.add(s.Y)
		y.low(s.Y)
		y.add(s.High)
		lows = append(lows, s.Low)
	}
	y.band(lows)
	return x, y
}

func (l *Lines) prepare(styles *styles, shared *extent) (*plot.Plot, []entry, error) {
	if len(l.Series) == 0 {
		return nil, nil, errors.New("a panel of lines needs a series")
	}
	p := newPlot(l.Title)
	var entries []entry
	var lines []plot.Plotter
	for i := range l.Series {
		s := &l.Series[i]
		if err := s.check(); err != nil {
			return nil, nil, err
		}
		looks := guide
		switch {
		case s.Reference:
			looks = reference
		case !s.Guide:
			looks = lookOf(styles.number(s.Name, s.Look))
		}
		if s.NoLine {
			looks.line.Width = 0
		}
		entries = append(entries, entry{name: s.Name, look: looks, plain: s.NoMarkers})
		// No band lies over another one's line.
		p.Add(&bandPlotter{series: s, look: looks, shade: shadeOf(len(l.Series))})
		lines = append(lines, &seriesPlotter{series: s, look: looks, phase: i})
	}
	p.Add(lines...)
	x, y := l.extents()
	if shared != nil {
		y = *shared
	}
	x.apply(&p.X, l.X)
	y.apply(&p.Y, l.Y)
	y.air(&p.Y, l.Y)
	return p, entries, nil
}

func (l *Lines) describe() (what string, names []string) {
	for i := range l.Series {
		names = append(names, l.Series[i].Name)
	}
	what = l.Y.Label + ", over " + l.X.Label
	if l.Title != "" {
		what = l.Title + ": " + what
	}
	return what, names
}

func (l *Lines) draw(p *plot.Plot, tile draw.Canvas) {
	if l.Square {
		tile = squared(p, tile)
	}
	p.Draw(tile)
}

// squared crops a tile, at its sides or below, so that a unit has the same length on both axes.
func squared(p *plot.Plot, tile draw.Canvas) draw.Canvas {
	data := p.DataCanvas(tile).Size()
	wanted := vg.Length((p.Y.Max - p.Y.Min) / (p.X.Max - p.X.Min))
	if spare := data.X - data.Y/wanted; spare > 0 {
		return draw.Crop(tile, spare/2, -spare/2, 0, 0)
	}
	return draw.Crop(tile, 0, 0, data.Y-data.X*wanted, 0)
}

// newPlot is a plot with our fonts and nothing in it.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = title, panelStyle, 5
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 10, 9
		a.Tick.Length, a.Padding, a.Tick.Marker = 4, 3, linearTicks{}
	}
	pale := draw.LineStyle{Color: color.Gray{Y: 225}, Width: .5}
	p.Add(&plotter.Grid{Vertical: pale, Horizontal: pale})
	return p
}

// seriesPlotter draws a series, without its band, into the data's part of a panel.
type seriesPlotter struct {
	series *Series
	look   look
	// phase is the first point that has a marker where not all have: lines that lie on each other
	// then show each other's markers.
	phase int
}

// seldom is the number of markers from which on only some are drawn.
const seldom = 24

// Plot implements plot.Plotter.
func (s *seriesPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	x, y = held(p.X, x), held(p.Y, y)
	var run []vg.Point
	flush := func() {
		if len(run) > 1 && s.look.line.Width > 0 {
			c.StrokeLines(s.look.line, c.ClipLinesXY(run)...)
		}
		run = nil
	}
	every := 1
	if n := len(s.series.X); n > seldom && !s.series.NoLine {
		every = (n + seldom/2 - 1) / (seldom / 2)
	}
	for i, v := range s.series.Y {
		if !finite(s.series.X[i]) || !finite(v) {
			flush()
			continue
		}
		at := vg.Point{X: x(s.series.X[i]), Y: y(v)}
		run = append(run, at)
		if s.look.glyph.Shape != nil && !s.series.NoMarkers && (i+s.phase)%every == 0 {
			c.DrawGlyph(s.look.glyph, at)
		}
	}
	flush()
}

// bandPlotter draws a series' band.
type bandPlotter struct {
	series *Series
	look   look
	shade  uint8 // 255 for opaque
}

// shadeOf keeps the bands of many series from hiding each other.
func shadeOf(series int) uint8 { return uint8(max(20, 150/(series+1))) }

// edge is how opaque the ends of a band are: where bands lie on each other they tell whose is
// whose.
const edge = 110

// barShade is how opaque a bar is, of which nothing but its line is to be seen.
const barShade = 180

// Plot implements plot.Plotter.
func (s *bandPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	if s.series.Low == nil {
		return
	}
	x, y := p.Transforms(&c)
	x, y = held(p.X, x), held(p.Y, y)
	r, g, b, _ := s.look.line.Color.RGBA()
	shade := func(opaque uint8) color.NRGBA {
		return color.NRGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: opaque}
	}
	ends := draw.LineStyle{Color: shade(edge), Width: .5}
	var lower, upper []vg.Point
	flush := func() {
		if len(lower) == 1 { // between breaks: a bar, since a band would have no width
			bar := draw.LineStyle{Color: shade(barShade), Width: 1.5}
			c.StrokeLines(bar, c.ClipLinesXY([]vg.Point{lower[0], upper[0]})...)
		}
		if len(lower) > 1 {
			c.StrokeLines(ends, c.ClipLinesXY(lower, upper)...)
			for i := len(upper) - 1; i >= 0; i-- {
				lower = append(lower, upper[i])
			}
			c.FillPolygon(shade(s.shade), c.ClipPolygonXY(lower))
		}
		lower, upper = nil, nil
	}
	for i := range s.series.X {
		low, high := s.series.Low[i], s.series.High[i]
		if !finite(s.series.X[i]) || !finite(low) || !finite(high) {
			flush()
			continue
		}
		at := x(s.series.X[i])
		lower, upper = append(lower, vg.Point{X: at, Y: y(low)}), append(
			upper, vg.Point{X: at, Y: y(high)},
		)
	}
	flush()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
