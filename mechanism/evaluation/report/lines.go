package report

import (
	"errors"
	"fmt"
	"image/color"
	"math"
)

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
	// Guide draws a thin grey line without markers: not a measurement, but a line to compare
	// measurements with.
	Guide bool
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

func (l *Lines) frame(row []Panel) (*frame, error) {
	if len(l.Series) == 0 {
		return nil, errors.New("a panel of lines needs a series")
	}
	f := &frame{title: l.Title}
	var x, y, lows []float64
	for _, panel := range row {
		other, ok := panel.(*Lines)
		if !ok || other != l && (l.Y.Label == "" || other.Y.Label != l.Y.Label) {
			continue
		}
		for i := range other.Series {
			s := &other.Series[i]
			y, lows = append(append(y, s.Y...), s.High...), append(lows, s.Low...)
			if other == l {
				if err := s.check(); err != nil {
					return nil, err
				}
				x = append(x, s.X...)
				f.add(s)
			}
		}
	}
	f.x, f.y = newAxis(l.X, x, nil, air), newAxis(l.Y, y, lows, air)
	return f, nil
}

// seldom is the number of points above which a line has no markers, crowd that above which markers
// are small.
const seldom, crowd = 24, 150

// mark is a series with its look.
type mark struct {
	*Series
	stroke
	markers bool
	corners int // of a marker
	radius  float64
}

func (f *frame) add(s *Series) {
	m := &mark{Series: s, corners: 12, radius: 2.4}
	m.markers = s.NoLine || len(s.X) <= seldom && !s.Reference && !s.Guide
	switch {
	case len(s.X) > crowd:
		m.radius = 1.5
	case s.NoLine && len(s.X) == 1: // a place to find among lines
		m.radius = 5
	}
	f.marks = append(f.marks, m)
}

// room is the width of an entry of the legend.
func (m *mark) room() float64 { return legendSample + 5 + width(m.Name, subSize) + legendGap }

// draw draws a marker.
func (m *mark) draw(c canvas, at point) {
	if m.markers {
		c.area(corners(at, m.radius, m.corners, math.Pi/2), m.colour)
	}
}

// corners returns a regular polygon, which turns like the segments of a line.
func corners(middle point, radius float64, n int, turn float64) (points []point) {
	for i := range n {
		angle := turn - 2*math.Pi*float64(i)/float64(n)
		points = append(points,
			point{middle.x + radius*math.Cos(angle), middle.y + radius*math.Sin(angle)})
	}
	return points
}

// colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which readers with any
// colour vision can distinguish. Yellow is missing because it is too pale for a line, and black
// because it is the reference's.
var colours = []color.NRGBA{
	{R: 0x00, G: 0x72, B: 0xB2, A: 255}, // blue
	{R: 0xD5, G: 0x5E, B: 0x00, A: 255}, // vermillion
	{R: 0x00, G: 0x9E, B: 0x73, A: 255}, // bluish green
	{R: 0xCC, G: 0x79, B: 0xA7, A: 255}, // reddish purple
	{R: 0xE6, G: 0x9F, B: 0x00, A: 255}, // orange
	{R: 0x56, G: 0xB4, B: 0xE9, A: 255}, // sky blue
}

// dashes and markers repeat with other periods than the colours, so that a few dozen series differ.
var (
	dashes  = [][]float64{nil, {6, 2}, {2, 2}, {8, 2, 2, 2}, {4, 1.5, 1, 1.5, 1, 1.5}}
	markers = []int{12, 3, 4, 5}

	black = color.NRGBA{A: 255}
	grey  = color.NRGBA{R: 130, G: 130, B: 130, A: 255}
)

func (m *mark) look(number int) {
	switch {
	case m.Guide:
		m.stroke = stroke{grey, 1, []float64{11, 3}}
	case m.Reference:
		m.stroke = stroke{black, 1.3, []float64{3, 2.5}}
	default:
		m.stroke = stroke{colours[number%len(colours)], 1.3, dashes[number%len(dashes)]}
		m.corners = markers[number%len(markers)]
	}
	if m.NoLine {
		m.width = 0
	}
}
