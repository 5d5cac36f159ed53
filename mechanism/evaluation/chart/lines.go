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
	// Log makes the axis logarithmic. What is not above 0 is then drawn on its lower edge.
	Log bool
	// Zero makes a linear axis begin at 0 where no value is below it.
	Zero bool
	// Min and Max are the axis's ends; both 0 means as the values have it.
	Min, Max float64
}

// Series is one line of a panel, with an optional band around it.
type Series struct {
	// Name is the legend's. Series of one name look the same in all panels of a figure; the legend shows one of them. Empty: not in the legend.
	Name string
	X, Y []float64
	// Low and High, both or none, are the ends of the band at each X.
	Low, High []float64
	// Reference draws the line black and dashed without markers: a baseline.
	Reference bool
	// NoMarkers leaves the markers out, for lines of many points.
	NoMarkers bool
	// NoLine draws the markers alone.
	NoLine bool
	// Look above 0 chooses the look with that number, from 1, so that one name looks the same in many figures. 0: by the order of names.
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
		return fmt.Errorf("series %q: a band has as many low and high values as the line has points", s.Name)
	}
	return nil
}

func (l *Lines) prepare(styles *styles) (*plot.Plot, []entry, error) {
	if len(l.Series) == 0 {
		return nil, nil, errors.New("a panel of lines needs a series")
	}
	p := newPlot(l.Title)
	var x, y extent
	x.log, y.log = l.X.Log, l.Y.Log
	var entries []entry
	var lows [][]float64
	for i := range l.Series {
		s := &l.Series[i]
		if err := s.check(); err != nil {
			return nil, nil, err
		}
		x.add(s.X)
		y.add(s.Y)
		y.low(s.Y)
		y.add(s.High)
		lows = append(lows, s.Low)
		looks := reference
		if !s.Reference {
			looks = lookOf(styles.number(s.Name, s.Look))
		}
		if s.NoLine {
			looks.line.Width = 0
		}
		entries = append(entries, entry{name: s.Name, look: looks, plain: s.NoMarkers})
		p.Add(&seriesPlotter{series: s, look: looks, shade: shadeOf(len(l.Series))})
	}
	y.band(lows)
	x.apply(&p.X, l.X)
	y.apply(&p.Y, l.Y)
	return p, entries, nil
}

func (l *Lines) draw(p *plot.Plot, tile draw.Canvas) {
	if l.Square {
		tile = squared(p, tile)
	}
	p.Draw(tile)
}

// squared crops a tile so that a unit has the same length on both axes.
func squared(p *plot.Plot, tile draw.Canvas) draw.Canvas {
	data := p.DataCanvas(tile).Size()
	wanted := vg.Length((p.Y.Max - p.Y.Min) / (p.X.Max - p.X.Min))
	if spare := data.X - data.Y/wanted; spare > 0 {
		return draw.Crop(tile, spare/2, -spare/2, 0, 0)
	}
	spare := data.Y - data.X*wanted
	return draw.Crop(tile, 0, 0, spare/2, -spare/2)
}

// newPlot is a plot with our fonts and nothing in it.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = title, panelStyle, 5
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 9.5, 8.5
		a.Tick.Length, a.Padding, a.Tick.Marker = 4, 3, linearTicks{}
	}
	pale := draw.LineStyle{Color: color.Gray{Y: 225}, Width: .5}
	p.Add(&plotter.Grid{Vertical: pale, Horizontal: pale})
	return p
}

// extent is the range of values that are drawn.
type extent struct {
	log      bool
	min, max float64
	any      bool
	zeros    bool // on a logarithmic axis: values that have no place there
}

// low remembers that some of the values have no place on a logarithmic axis.
func (e *extent) low(values []float64) {
	for _, v := range values {
		e.zeros = e.zeros || e.log && v <= 0
	}
}

// bandReach is how far below all values a band may extend a logarithmic axis: the rest of it would squeeze them.
const bandReach = 10

// band adds the lower ends of the bands, after all values.
func (e *extent) band(bands [][]float64) {
	floor := math.Inf(-1)
	if e.log && e.any {
		floor = e.min / bandReach
	}
	for _, values := range bands {
		for _, v := range values {
			if !math.IsNaN(v) {
				e.add([]float64{max(v, floor)})
			}
		}
	}
}

func (e *extent) add(values []float64) {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || e.log && v <= 0 {
			continue
		}
		if !e.any {
			e.min, e.max, e.any = v, v, true
		}
		e.min, e.max = min(e.min, v), max(e.max, v)
	}
}

// apply gives an axis its label, its ends and its scale.
func (e *extent) apply(axis *plot.Axis, a Axis) {
	axis.Label.Text = a.Label
	if !e.any {
		e.min, e.max = 1, 10
	}
	low, high := e.min, e.max
	if a.Min != 0 || a.Max != 0 {
		low, high = a.Min, a.Max
	}
	if a.Log && low > 0 {
		if low == high {
			low, high = low/2, high*2
		}
		if e.zeros && a.Min == 0 {
			low /= 1.5 // so that the edge, where they are drawn, is no value's
		}
		// The plot's own axis is linear in the decimal logarithm: its logarithmic scale misplaces the label.
		low, high = math.Log10(low), math.Log10(high)
		axis.Tick.Marker = logTicks{}
	} else {
		if a.Zero {
			low = min(low, 0)
		}
		switch {
		case low == high && a.Zero && low == 0:
			high = 1 // nothing but zeros: an axis below them would ask what is negative
		case low == high:
			low, high = low-.5, high+.5
		}
		axis.Tick.Marker = linearTicks{}
	}
	axis.Min, axis.Max = low, high
}

// seriesPlotter draws a series into the data's part of a panel.
type seriesPlotter struct {
	series *Series
	look   look
	shade  uint8 // of the band, 255 for opaque
}

// shadeOf keeps the bands of many series from hiding each other.
func shadeOf(series int) uint8 { return uint8(max(20, 150/(series+1))) }

// seldom is the number of markers from which on only some are drawn.
const seldom = 24

// Plot implements plot.Plotter.
func (s *seriesPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	x, y = held(p.X, x), held(p.Y, y)
	s.band(c, x, y)
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
		if s.look.glyph.Shape != nil && !s.series.NoMarkers && i%every == 0 {
			c.DrawGlyph(s.look.glyph, at)
		}
	}
	flush()
}

func (s *seriesPlotter) band(c draw.Canvas, x, y func(float64) vg.Length) {
	if s.series.Low == nil {
		return
	}
	r, g, b, _ := s.look.line.Color.RGBA()
	shade := color.NRGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: s.shade}
	var lower, upper []vg.Point
	flush := func() {
		if len(lower) > 1 {
			for i := len(upper) - 1; i >= 0; i-- {
				lower = append(lower, upper[i])
			}
			c.FillPolygon(shade, c.ClipPolygonXY(lower))
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
		lower, upper = append(lower, vg.Point{X: at, Y: y(low)}), append(upper, vg.Point{X: at, Y: y(high)})
	}
	flush()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// held returns the place of a value on an axis; a logarithmic one holds what it has no place for at its lower end.
func held(a plot.Axis, to func(float64) vg.Length) func(float64) vg.Length {
	if _, log := a.Tick.Marker.(logTicks); !log {
		return to
	}
	return func(v float64) vg.Length {
		if !(v > 0) {
			return to(a.Min)
		}
		return to(max(math.Log10(v), a.Min))
	}
}
