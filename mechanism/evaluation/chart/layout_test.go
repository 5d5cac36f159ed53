package chart

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// TestZeros: a logarithmic axis has a 0 below its least value if there is one to show, of a line or
// of a band, and is none if there is nothing else.
func TestZeros(t *testing.T) {
	for _, c := range []struct {
		name   string
		series Series
		want   bool
		log    bool
	}{
		{"a line's", Series{Y: []float64{0, .1, .2}}, true, true},
		{
			"a band's",
			Series{
				Y: []float64{.1, .1, .2}, Low: []float64{0, .1, .2}, High: []float64{.2, .2, .2},
			},
			true, true,
		},
		{"none", Series{Y: []float64{.1, .1, .2}}, false, true},
		{"nothing else", Series{Y: []float64{0, 0, 0}}, false, false},
	} {
		c.series.X = []float64{1, 2, 3}
		p, _, err := (&Lines{
			Y: Axis{Log: true, Zero: true}, Series: []Series{c.series},
		}).prepare(&styles{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ticks, log := p.Y.Tick.Marker.(logTicks)
		if ticks.zero != c.want || log != c.log {
			t.Errorf("%s: a zero %v on a logarithmic axis %v, want %v, %v",
				c.name, ticks.zero, log, c.want, c.log)
		}
		if c.want && !(p.Y.Min < math.Log10(.1)-zeroGap*(p.Y.Max-p.Y.Min)/2) {
			t.Errorf("%s: the axis begins at %g, without a gap", c.name, p.Y.Min)
		}
	}
}

// TestSameY: rows have one scale if asked to, each its own.
func TestSameY(t *testing.T) {
	panel := func(y ...float64) *Lines {
		return &Lines{Series: []Series{{X: []float64{1, 2}, Y: y}}}
	}
	f := &Figure{Columns: 2, Panels: []Panel{panel(1, 2), panel(5, 9), panel(100, 200)}}
	for _, same := range []bool{false, true} {
		f.SameY = same
		l, err := f.layout()
		if err != nil {
			t.Fatal(err)
		}
		left, right, below := &l.plots[0][0].Y, &l.plots[0][1].Y, &l.plots[1][0].Y
		if got := left.Min == right.Min && left.Max == right.Max; got != same {
			t.Errorf("one scale is %v, want %v", got, same)
		}
		if below.Min < 90 {
			t.Errorf("the second row begins at %g", below.Min)
		}
	}
}

// TestBandBelowLines: another series' band does not tint a line.
func TestBandBelowLines(t *testing.T) {
	x := []float64{1, 2}
	f := &Figure{Panels: []Panel{&Lines{Series: []Series{
		{X: x, Y: []float64{2, 2}, NoMarkers: true}, {
			X: x, Y: []float64{3, 3}, Low: []float64{1, 1}, High: []float64{4, 4}, NoMarkers: true,
		},
	}}}}
	img, err := png.Decode(bytes.NewReader(drawn(t, f, PNG)))
	if err != nil {
		t.Fatal(err)
	}
	pure := 0
	for y := range img.Bounds().Dy() {
		if r, g, b, _ := img.At(img.Bounds().Dx()/2, y).RGBA(); near(r>>8, uint32(colours[0].R)) &&
			near(g>>8, uint32(colours[0].G)) && near(b>>8, uint32(colours[0].B)) {
			pure++
		}
	}
	if pure == 0 {
		t.Error("the line has another colour than in the legend")
	}
}

// TestMapFills: a figure of maps is as wide as they are.
func TestMapFills(t *testing.T) {
	g, err := grid.Plain(2, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &Figure{Panels: []Panel{&Map{Grid: g}, &Map{Grid: g}}, PanelWidth: 6, PanelHeight: 3}
	l, err := f.layout()
	if err != nil {
		t.Fatal(err)
	}
	if l.columns[0] > 2*72 || l.row < 2.9*72 {
		t.Errorf("a map four times as high as wide has %g by %g points",
			float64(l.columns[0]), float64(l.row))
	}
}

// TestWrap: lines are no wider than they may be, and no number stands apart from its percent sign.
func TestWrap(t *testing.T) {
	text := "Bands hold 80 % of the fleets of a size at δ = 0.01 and more"
	for width := noteStyle.Width("Bands hold"); width < noteStyle.Width(text); width += 3 {
		lines := wrap(noteStyle, text, width)
		for _, line := range lines {
			if noteStyle.Width(line) > width || strings.HasPrefix(line, "%") ||
				strings.HasPrefix(line, "=") || strings.HasSuffix(line, "=") {
				t.Errorf("at %g points: %q", float64(width), lines)
			}
		}
		if strings.ReplaceAll(strings.Join(lines, " "), "\u00a0", " ") != text {
			t.Errorf("at %g points something is lost: %q", float64(width), lines)
		}
	}
}

func TestDescribe(t *testing.T) {
	got := testFigure(t).Describe()
	want := "Distance & drift. Panels: first: distance, km, over ε; map: second (cars, as " +
		"colours). Shown: PIM; LM; blind; track."
	if got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}
