package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/geodither/geodither/mechanism/grid"
)

func testFigure(t *testing.T) *Figure {
	t.Helper()
	g, err := grid.Plain(4, 3, .5)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float64, g.Cells())
	for i := range values {
		values[i] = float64(i)
	}
	values[5] = math.NaN()
	return &Figure{
		Title: "Distance & drift", Note: "Bands: none.",
		Panels: []Panel{
			&Lines{
				Title: "first", X: Axis{Label: "ε", Log: true}, Y: Axis{
					Label: "distance, km", Zero: true,
				},
				Series: []Series{
					{
						Name: "PIM", X: []float64{.1, 1, 2}, Y: []float64{3, 2, 1},
						Low: []float64{2.5, 1.5, .5}, High: []float64{3.5, 2.5, 1.5},
					},
					{Name: "LM", X: []float64{.1, 1, 2}, Y: []float64{5, math.NaN(), 3}},
					{Name: "blind", X: []float64{.1, 2}, Y: []float64{4, 4}, Reference: true},
				},
			},
			&Map{
				Title: "second", Grid: g, Values: values, Scale: Axis{Label: "cars"},
				Overlays: []Overlay{
					{
						Name: "track", Points: []grid.Point{{X: .2, Y: .2}, {X: 1.8, Y: 1.2}},
						Line: true, Markers: true,
					},
				},
			},
		},
	}
}

func drawn(t *testing.T, f *Figure, format Format) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := f.Write(&buf, format); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSameBytes(t *testing.T) {
	for _, format := range []Format{PNG, SVG} {
		first := drawn(t, testFigure(t), format)
		for range 3 {
			if !bytes.Equal(first, drawn(t, testFigure(t), format)) {
				t.Fatalf("%s: the same figure gives other bytes", format)
			}
		}
	}
}

func TestSVG(t *testing.T) {
	svg := drawn(t, testFigure(t), SVG)
	texts := map[string]bool{}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		if data, ok := token.(xml.CharData); ok {
			texts[strings.TrimSpace(string(data))] = true
		}
	}
	for _, want := range []string{
		"Distance & drift", "Bands: none.", "first", "second", "ε", "distance, km", "cars", "PIM",
		"LM", "blind", "track", "east, km", "north, km", "0.1", "0.5",
	} {
		if !texts[want] {
			t.Errorf("no text %q", want)
		}
	}
	if !bytes.Contains(svg, []byte("sans-serif")) || bytes.Contains(svg, []byte("image/jpg")) {
		t.Error("the drawing relies on one font, or calls a PNG a JPEG")
	}
}

// TestMapColours looks for the colours of the least and the greatest cell, and of the one without a
// value, where the map must have them.
func TestMapColours(t *testing.T) {
	g, err := grid.Plain(2, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &Map{Grid: g, Values: []float64{1, math.NaN(), 3, 5}, Scale: Axis{Label: "x"}}
	colours, err := m.colouring()
	if err != nil {
		t.Fatal(err)
	}
	img, _, _ := m.image(colours)
	size := img.Bounds().Dx()
	for _, c := range []struct {
		name    string
		x, y    int // of four quarters, from the top left
		r, g, b uint32
	}{
		{"least, south-west", 0, 1, 0x44, 0x01, 0x54}, {"none, south-east", 1, 1, 236, 236, 236}, {
			"greatest, north-east", 1, 0, 0xfd, 0xe7, 0x25,
		},
	} {
		r, g, b, _ := img.At(size/4+c.x*size/2, size/4+c.y*size/2).RGBA()
		if near(r>>8, c.r) && near(g>>8, c.g) && near(b>>8, c.b) {
			continue
		}
		t.Errorf("%s: colour %02x%02x%02x, want %02x%02x%02x",
			c.name, r>>8, g>>8, b>>8, c.r, c.g, c.b)
	}
}

// TestMapView: what lies outside the view is not drawn, and what is drawn lies where it belongs.
func TestMapView(t *testing.T) {
	g, err := grid.Plain(4, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := &Map{
		Grid: g, Values: make([]float64, 12), Scale: Axis{Label: "x"},
		View: [2]grid.Point{{X: 3, Y: -9}, {X: 6, Y: 1}},
	}
	// of the row in the south; the view ends before the last
	m.Values[1], m.Values[2], m.Values[3] = 5, math.NaN(), 5
	colours, err := m.colouring()
	if err != nil {
		t.Fatal(err)
	}
	img, low, high := m.image(colours)
	if side := g.CellKM() / 200; math.Abs(low.X-3) > side || low.Y != 0 ||
		math.Abs(high.X-6) > side || math.Abs(high.Y-1) > side {
		t.Errorf("drawn from %v to %v", low, high)
	}
	size := img.Bounds()
	if r, _, _, _ := img.At(size.Dx()/6, size.Dy()/2).RGBA(); !near(r>>8, 0xfd) {
		t.Errorf("the first third, half a cell, is %x", r>>8)
	}
	if r, _, _, _ := img.At(size.Dx()-1, size.Dy()/2).RGBA(); !near(r>>8, 236) {
		t.Errorf("the rest, a cell without a value, is %x", r>>8)
	}
	m.View = [2]grid.Point{{X: 100, Y: 100}, {X: 101, Y: 101}}
	if err := (&Figure{Panels: []Panel{m}}).Write(io.Discard, SVG); err != nil {
		t.Errorf("a view beside the grid: %v", err)
	}
}

func near(a, b uint32) bool { return max(a, b)-min(a, b) <= 2 }

func TestPNGSize(t *testing.T) {
	f := testFigure(t)
	f.PanelWidth, f.PanelHeight = 3, 2
	img, err := png.Decode(bytes.NewReader(drawn(t, f, PNG)))
	if err != nil {
		t.Fatal(err)
	}
	// Two panels of 3 inches, a gap of 16 and two margins of 10 points; one more dot for rounding
	// up.
	if got, want := img.Bounds().Dx(), int(dotsPerInch*(6+36./72)); got < want || got > want+1 {
		t.Errorf("width %d, want %d", got, want)
	}
	if blank(img) {
		t.Error("nothing is drawn")
	}
}

func blank(img image.Image) bool {
	first := img.At(0, 0)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if img.At(x, y) != first {
				return false
			}
		}
	}
	return true
}

func TestRefuses(t *testing.T) {
	g, err := grid.Plain(2, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	line := func(s Series) *Figure { return &Figure{Panels: []Panel{&Lines{Series: []Series{s}}}} }
	for name, c := range map[string]struct {
		figure *Figure
		format Format
		want   string
	}{
		"no panel":  {&Figure{}, PNG, "needs a panel"},
		"no series": {&Figure{Panels: []Panel{&Lines{}}}, PNG, "needs a series"},
		"format":    {line(Series{X: []float64{1}, Y: []float64{1}}), "gif", "unknown"},
		"uneven": {
			line(Series{Name: "a", X: []float64{1, 2}, Y: []float64{1}}), PNG,
			`series "a": 2 values of x and 1 of y`,
		},
		"half a band": {
			line(Series{X: []float64{1}, Y: []float64{1}, Low: []float64{1}}), SVG, "band",
		},
		"no grid": {&Figure{Panels: []Panel{&Map{}}}, PNG, "needs a grid"},
		"values of less": {
			&Figure{Panels: []Panel{&Map{Grid: g, Values: []float64{1}}}}, PNG,
			"1 values for a grid of 4 cells",
		},
		"logarithm of 0": {
			&Figure{
				Panels: []Panel{
					&Map{Grid: g, Values: []float64{1, 2, 3, 4}, Scale: Axis{Log: true, Max: 3}},
				},
			},
			PNG, "above 0",
		},
	} {
		if err := c.figure.Write(io.Discard, c.format); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// TestAwkwardValues draws what tends to break a plot.
func TestAwkwardValues(t *testing.T) {
	none := math.NaN()
	for name, l := range map[string]*Lines{
		"one point": {Series: []Series{{X: []float64{1}, Y: []float64{1}}}},
		"log of zeros": {
			Y: Axis{Log: true}, Series: []Series{{X: []float64{1, 2}, Y: []float64{0, 0}}},
		},
		"log with a zero": {
			Y: Axis{Log: true},
			Series: []Series{
				{
					X: []float64{1, 2}, Y: []float64{0, .1}, Low: []float64{0, .01},
					High: []float64{.1, .2},
				},
			},
		},
		"nothing": {Series: []Series{{X: []float64{none}, Y: []float64{none}}}},
		"constant": {
			X: Axis{Log: true}, Series: []Series{{X: []float64{3, 3}, Y: []float64{0, 0}}},
		},
		"infinite": {
			Series: []Series{{X: []float64{1, 2, 3}, Y: []float64{1, math.Inf(1), 2}}},
		},
		"beyond its ends": {
			Y: Axis{Min: 1, Max: 2},
			Series: []Series{
				{
					X: []float64{1, 2, 3}, Y: []float64{-5, 1.5, 9}, Low: []float64{-9, 1, 8},
					High: []float64{0, 2, 10},
				},
			},
		},
	} {
		if err := (&Figure{Panels: []Panel{l}}).Write(io.Discard, SVG); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		ticker    plot.Ticker
		low, high float64
		want      string
	}{
		{linearTicks{}, 0, 20, "0 5 10 15 20"},
		{linearTicks{}, .8, 9.3, "2 4 6 8"},
		{linearTicks{}, -.03, .01, "-0.03 -0.02 -0.01 0 0.01"},
		{linearTicks{}, 0, 500, "0 100 200 300 400 500"},
		{logTicks{}, math.Log10(.1), math.Log10(2), "0.1 0.2 0.5 1 2"},
		{logTicks{}, math.Log10(.001), math.Log10(.1), "0.001 0.002 0.005 0.01 0.02 0.05 0.1"},
		{logTicks{}, math.Log10(.0007), math.Log10(300), "0.001 0.01 0.1 1 10 100"},
		{logTicks{}, math.Log10(1.5), math.Log10(4.2), "1.5 2 2.5 3 3.5 4"},
		{logTicks{}, math.Log10(2200), math.Log10(4700), "2500 3000 3500 4000 4500"},
		{logTicks{at: []float64{.1, 1.5, 2}}, -1, math.Log10(2), "0.1 1.5 2"},
		{logTicks{}, math.Log10(80), math.Log10(490), "100 200 300 400"},
		{logTicks{}, math.Log10(30), math.Log10(350), "30 40 50 70 100 200 300"},
		{logTicks{}, math.Log10(.0002), math.Log10(.1), "0.0003 0.001 0.003 0.01 0.03 0.1"},
		{
			logTicks{zero: true, floor: math.Log10(.005)},
			math.Log10(.003), math.Log10(.1),
			"0 0.005 0.01 0.02 0.05 0.1",
		},
		{degreeTicks{start: 53.4, perKM: .009}, 0, 7, "53.4 53.41 53.42 53.43 53.44 53.45 53.46"},
	} {
		var got []string
		for _, tick := range c.ticker.Ticks(c.low, c.high) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%T from %g to %g: %s, want %s", c.ticker, c.low, c.high, text, c.want)
		}
	}
}

// TestDegreesOf: a map's axes have the degrees of its edges, also at the antimeridian.
func TestDegreesOf(t *testing.T) {
	for _, east := range []float64{-2.79, 180} {
		g, err := grid.New(grid.Box{South: 53.4, West: east - .2, North: 53.5, East: east}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		longitude, latitude := degreesOf(g)
		at := g.ToMap(53.5, east)
		north, south := latitude.start+latitude.perKM*at.Y, latitude.start
		if got := longitude.start + longitude.perKM*at.X; math.Abs(got-east) > 1e-9 ||
			math.Abs(north-53.5) > 1e-9 || math.Abs(south-53.4) > 1e-9 {
			t.Errorf("up to %g east, from %g to %g north, want %g, 53.4, 53.5", got, south, north,
				east)
		}
	}
}

// TestStyles: no two of a dozen series look the same, and one name looks the same in all panels.
func TestStyles(t *testing.T) {
	var s styles
	for i, name := range []string{"a", "b", "a", "c", "b"} {
		if got, want := s.number(name, 0), []int{0, 1, 0, 2, 1}[i]; got != want {
			t.Errorf("%q has number %d, want %d", name, got, want)
		}
	}
	for i := range 12 {
		for j := range i {
			a, b := lookOf(i), lookOf(j)
			if a.line.Color == b.line.Color && (a.glyph.Shape == b.glyph.Shape ||
				slices.Equal(a.line.Dashes, b.line.Dashes)) {
				t.Errorf("looks %d and %d differ in too little", i, j)
			}
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "figure.svg")
	if err := testFigure(t).WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Contains(data, []byte("<svg")) {
		t.Errorf("no drawing: %v", err)
	}
	if err := testFigure(t).WriteFile(filepath.Join(dir, "none", "figure.svg")); err == nil {
		t.Error("a folder that is not there goes unnoticed")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left, want 1", len(entries))
	}
}

// TestZeroPanel: nothing but zeros stands on an axis from 0 up, not around 0.
func TestZeroPanel(t *testing.T) {
	e := extent{any: true}
	var axis plot.Axis
	e.apply(&axis, Axis{Zero: true})
	if axis.Min != 0 || axis.Max != 1 {
		t.Errorf("the axis goes from %g to %g", axis.Min, axis.Max)
	}
}

// TestBars: a point of a band that breaks on both sides of it has a bar, from its lower end to its
// upper one, and a broken band none where it has no ends.
func TestBars(t *testing.T) {
	nan := math.NaN()
	strokes := func(low, high []float64) int {
		f := &Figure{Title: "bars", Note: "none.", Panels: []Panel{&Lines{
			X: Axis{Label: "cars", Min: 0, Max: 4}, Y: Axis{Label: "km", Min: 0, Max: 4},
			Series: []Series{
				{Name: "a", X: []float64{1, 2, 3}, Y: []float64{1, 2, 3}, Low: low, High: high},
			},
		}}}
		return bytes.Count(drawn(t, f, SVG), []byte("<path"))
	}
	none := strokes([]float64{nan, nan, nan}, []float64{nan, nan, nan})
	if got := strokes([]float64{nan, 1, nan}, []float64{nan, 3, nan}); got != none+1 {
		t.Errorf("one bar adds %d strokes", got-none)
	}
	if got := strokes([]float64{1, nan, 2}, []float64{3, nan, 4}); got != none+2 {
		t.Errorf("two bars add %d strokes", got-none)
	}
}
