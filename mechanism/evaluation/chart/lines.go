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
	// Log makes the axis logarithmic. Values of 0 or less are then drawn at its lower end, which is
	// labelled 0 and lies below all other values, with a gap.
	Log bool
	// At are the values that have a label on a logarithmic axis, such as the measured ones. Without
	// any, as many round values as there is room for have one.
	At []float64
	// Zero makes a linear axis begin at 0 if no value is below 0.
	Zero bool
	// Min and Max are the ends of the axis; both 0 means the ends of the values.
	Min, Max float64
}

// Series is one line of a panel, with an optional band around it.
type Series struct {
	// Name is the name in the legend. Series with the same name look the same in all panels of a
	// figure and have one entry in the legend. A series without a name has none.
	Name string
	X, Y []float64
	// Low and High are the ends of the band at each X; give both or neither. NaN breaks the band,
	// and a single point between two breaks has a bar.
	Low, High []float64
	// Reference draws the line black and dashed without markers: a baseline.
	Reference bool
	// Guide draws a thin grey line of long dashes without markers: not a measurement, but a line to
	// compare measurements with.
	Guide bool
	// NoMarkers leaves the markers out, for lines of many points.
	NoMarkers bool
	// NoLine draws only the markers.
	NoLine bool
	// Look chooses the look with that number, from 1, so that a name looks the same in several
	// figures. 0 means by the order of names.
	Look int
}

// Lines is a panel of series over a common axis. NaN breaks a line.
type Lines struct {
	Title  string
	X, Y   Axis
	Series []Series
}

func (s *Series) check() error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("series %q: %d values of x and %d of y", s.Name, len(s.X), len(s.Y))
	}
	if (s.Low != nil || s.High != nil) && (len(s.Low) != len(s.X) || len(s.High) != len(s.X)) {
		return fmt.Errorf(
			"series %q: a band has as many low and high values as the line has points", s.Name)
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
		// All bands are drawn before all lines, so no band covers a line.
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

func (l *Lines) draw(p *plot.Plot, tile draw.Canvas) { p.Draw(tile) }

// squared crops a tile, at its sides or below, so that a unit has the same length on both axes.
func squared(p *plot.Plot, tile draw.Canvas) draw.Canvas {
	data := p.DataCanvas(tile).Size()
	wanted := vg.Length((p.Y.Max - p.Y.Min) / (p.X.Max - p.X.Min))
	if spare := data.X - data.Y/wanted; spare > 0 {
		return draw.Crop(tile, spare/2, -spare/2, 0, 0)
	}
	return draw.Crop(tile, 0, 0, data.Y-data.X*wanted, 0)
}

// newPlot returns an empty plot with our fonts.
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

// seriesPlotter draws a series without its band.
type seriesPlotter struct {
	series *Series
	look   look
	// phase is the first point with a marker if not all points have one. It differs between series,
	// so that the markers of equal lines do not cover each other.
	phase int
}

// seldom is the number of markers above which only some are drawn.
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

// edge is how opaque the ends of a band are. They distinguish bands that overlap.
const edge = 110

// barShade is how opaque a bar is. A bar is only a line, so it needs more than a band.
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
		lower, upper = append(lower, vg.Point{X: at, Y: y(low)}),
			append(upper, vg.Point{X: at, Y: y(high)})
	}
	flush()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// extent is the range of the values that are drawn.
type extent struct {
	log      bool
	min, max float64
	any      bool
	zeros    bool // on a logarithmic axis: some values are 0 or less
}

// low notes whether some of the values are 0 or less, which a logarithmic axis has no place for.
func (e *extent) low(values []float64) {
	for _, v := range values {
		e.zeros = e.zeros || e.log && v <= 0
	}
}

// bandReach bounds how far a band may extend a logarithmic axis below all values, so that the band
// does not squeeze them.
const bandReach = 10

// band adds the lower ends of the bands. All values must have been added before.
func (e *extent) band(bands [][]float64) {
	floor := math.Inf(-1)
	if e.log && e.any {
		floor = e.min / bandReach
	}
	for _, values := range bands {
		e.low(values)
		for _, v := range values {
			if v > 0 || !e.log && !math.IsNaN(v) {
				e.add([]float64{max(v, floor)})
			}
		}
	}
}

// join widens the extent so that it includes another one.
func (e *extent) join(other extent) {
	e.log, e.zeros = e.log || other.log, e.zeros || other.zeros
	if other.any {
		e.add([]float64{other.min, other.max})
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

// room is the part of an axis beyond its values.
const room = .03

// air keeps lines away from the ends of an axis, unless the caller has set its ends.
func (e *extent) air(axis *plot.Axis, a Axis) {
	if a.Min != 0 || a.Max != 0 {
		return
	}
	free := room * (axis.Max - axis.Min)
	axis.Max += free
	if ticks, log := axis.Tick.Marker.(logTicks); log && !ticks.zero || !log && axis.Min != 0 {
		axis.Min -= free
	}
}

// zeroGap is the part of a logarithmic axis between 0 and the least value above it.
const zeroGap = .1

// apply gives an axis its label, its ends and its scale.
func (e *extent) apply(axis *plot.Axis, a Axis) {
	axis.Label.Text = a.Label
	low, high := e.min, e.max
	switch {
	case !e.any && e.zeros:
		low, high = 0, 1 // only zeros, which have no logarithm
	case !e.any:
		low, high = 1, 10
	}
	if a.Min != 0 || a.Max != 0 {
		low, high = a.Min, a.Max
	}
	if a.Log && low > 0 {
		if low == high {
			low, high = low/2, high*2
		}
		// The plot's own axis is linear in the decimal logarithm: its logarithmic scale misplaces
		// the label.
		low, high = math.Log10(low), math.Log10(high)
		ticks := logTicks{zero: e.zeros && a.Min == 0, floor: low, at: a.At}
		if ticks.zero {
			low -= (high - low) * zeroGap / (1 - zeroGap)
		}
		axis.Tick.Marker = ticks
	} else {
		if a.Zero {
			low = min(low, 0)
		}
		switch {
		case low == high && a.Zero && low == 0:
			high = 1 // only zeros: an axis that goes below 0 would suggest negative values
		case low == high:
			low, high = low-.5, high+.5
		}
		axis.Tick.Marker = linearTicks{}
	}
	axis.Min, axis.Max = low, high
}

// held returns the place of a value on an axis. A logarithmic axis shows values that it has no
// place for at its lower end.
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
