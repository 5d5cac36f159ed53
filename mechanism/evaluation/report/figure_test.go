package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

func plainGrid(t *testing.T, columns, rows int) *grid.Grid {
	t.Helper()
	g, err := grid.Plain(columns, rows, .5)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func testFigure(t *testing.T) *Figure {
	t.Helper()
	return &Figure{
		Title: "Distance & drift, of so many things that the title takes more than a single line " +
			"of the figure, and then a few words",
		Note:   strings.Repeat("Bands: none. ", 40),
		Panels: testPanels(t),
	}
}

func testPanels(t *testing.T) []Panel {
	t.Helper()
	g := plainGrid(t, 4, 3)
	values := make([]float64, g.Cells())
	for i := range values {
		values[i] = float64(i)
	}
	values[5] = math.NaN()
	return []Panel{
		&Lines{
			Title: "first", X: Axis{Label: "ε", Log: true},
			Y: Axis{Label: "distance, km", Zero: true},
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
			Series: []Series{{Name: "track", X: []float64{.2, 1.8}, Y: []float64{.2, 1.2}}},
		},
	}
}

func drawn(t *testing.T, f *Figure) []byte {
	t.Helper()
	data, err := f.draw()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSVG(t *testing.T) {
	texts := map[string]bool{}
	d := xml.NewDecoder(bytes.NewReader(drawn(t, testFigure(t))))
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
		"first", "second", "ε", "distance, km", "north, km; colours: cars", "PIM", "LM", "blind",
		"track", "east, km", "0.1", "0.5",
	} {
		if !texts[want] {
			t.Errorf("no text %q", want)
		}
	}
}

// extents is a canvas that keeps where texts lie.
type extents struct{ texts []rect }

func (e *extents) clip(rect)                  {}
func (e *extents) unclip()                    {}
func (e *extents) line([]point, stroke)       {}
func (e *extents) area([]point, color.NRGBA)  {}
func (e *extents) picture(rect, *image.NRGBA) {}
func (e *extents) write(at point, w words) {
	left := at.x - w.anchor*width(w.text, w.size)
	e.texts = append(e.texts, rect{left, at.y - .8*w.size, left + width(w.text, w.size), at.y})
}

// TestNothingIsCutOff: all text lies within the figure, and no two texts touch each other.
func TestNothingIsCutOff(t *testing.T) {
	narrow := testFigure(t)
	narrow.Columns, narrow.PanelWidth, narrow.PanelHeight = 1, 2, 1.5
	many := &Lines{X: Axis{Label: "x", Min: -10, Max: 15}, Y: Axis{Log: true}}
	for _, name := range strings.Fields(strings.Repeat("one two three four five six ", 4)) {
		many.Series = append(many.Series, Series{
			Name: name + strings.Repeat("x", len(many.Series)),
			X:    []float64{1, 2}, Y: []float64{1, 1000},
		})
	}
	for name, f := range map[string]*Figure{
		"plain": testFigure(t), "narrow": narrow,
		"many": {Title: "t", Note: "n", Panels: []Panel{many}, PanelWidth: 2.5},
	} {
		l, err := f.layout()
		if err != nil {
			t.Fatal(err)
		}
		var e extents
		l.draw(&e)
		for i, a := range e.texts {
			if a.left < 0 || a.top < 0 || a.right > l.width || a.bottom > l.height {
				t.Errorf("%s: text %d at %v of %g × %g", name, i, a, l.width, l.height)
			}
			for j, b := range e.texts[:i] {
				if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom &&
					a.width() > 0 && b.width() > 0 {
					t.Errorf("%s: texts %d at %v and %d at %v", name, j, b, i, a)
				}
			}
		}
	}
}

// TestMapColours looks for the colours of the least and the greatest cell, and of the one without a
// value, where the map must have them, and for the picture where the view has the grid.
func TestMapColours(t *testing.T) {
	m := &Map{
		Grid: plainGrid(t, 2, 2), Values: []float64{1, math.NaN(), 3, 5}, Scale: Axis{Label: "x"},
		View: [2]grid.Point{{X: 0, Y: 0}, {X: 2, Y: 1}},
	}
	f := &Figure{Panels: []Panel{m}}
	l, err := f.layout()
	if err != nil {
		t.Fatal(err)
	}
	var p pictures
	l.draw(&p)
	at := l.frames[0].at
	half := rect{at.left, at.top, at.left + at.width()/2, at.bottom}
	if p.at[0] != half {
		t.Errorf("the grid lies at %v, want %v: the view is twice as wide", p.at[0], half)
	}
	for _, c := range []struct {
		name string
		x, y int // from the top left
		want color.NRGBA
	}{
		{"least, south-west", 0, 1, viridis[0]},
		{"none, south-east", 1, 1, nothing},
		{"middle, north-west", 0, 0, viridis[len(viridis)/2]},
		{"greatest, north-east", 1, 0, viridis[len(viridis)-1]},
	} {
		if got := p.images[0].NRGBAAt(c.x, c.y); got != c.want {
			t.Errorf("%s: colour %v, want %v", c.name, got, c.want)
		}
	}
}

// pictures is a canvas that keeps the pictures.
type pictures struct {
	extents
	at     []rect
	images []*image.NRGBA
}

func (p *pictures) picture(at rect, img *image.NRGBA) {
	p.at, p.images = append(p.at, at), append(p.images, img)
}

// TestDegrees: a map's axes have the degrees of its edges, also at the antimeridian.
func TestDegrees(t *testing.T) {
	for _, east := range []float64{-2.79, 180} {
		g, err := grid.New(grid.Box{South: 53.4, West: east - .2, North: 53.5, East: east}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		m := &Map{Grid: g, Degrees: true}
		_, south := m.place(grid.Point{})
		x, north := m.place(g.ToMap(53.5, east))
		if math.Abs(x-east) > 1e-9 || math.Abs(north-53.5) > 1e-9 || math.Abs(south-53.4) > 1e-9 {
			t.Errorf("up to %g east, from %g to %g north, want %g, 53.4, 53.5",
				x, south, north, east)
		}
	}
}

func TestRefuses(t *testing.T) {
	g := plainGrid(t, 2, 2)
	line := func(s Series) *Figure { return &Figure{Panels: []Panel{&Lines{Series: []Series{s}}}} }
	for name, c := range map[string]struct {
		figure *Figure
		want   string
	}{
		"no panel":  {&Figure{}, "needs a panel"},
		"no series": {&Figure{Panels: []Panel{&Lines{}}}, "needs a series"},
		"uneven": {
			line(Series{Name: "a", X: []float64{1, 2}, Y: []float64{1}}),
			`series "a": 2 values of x and 1 of y`,
		},
		"half a band": {
			line(Series{X: []float64{1}, Y: []float64{1}, Low: []float64{1}}), "band",
		},
		"no grid": {&Figure{Panels: []Panel{&Map{}}}, "needs a grid"},
		"values of less": {
			&Figure{Panels: []Panel{&Map{Grid: g, Values: []float64{1}}}},
			"1 values for a grid of 4 cells",
		},
	} {
		if _, err := c.figure.draw(); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// TestAxes has the labels of axes, also of values that tend to break one.
func TestAxes(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		axis         Axis
		values, lows []float64
		want         string
	}{
		"from 0":      {Axis{Zero: true}, []float64{3, 20}, nil, "0 5 10 15 20"},
		"within":      {Axis{Min: .8, Max: 9.3}, nil, nil, "2 4 6 8"},
		"below 0":     {Axis{Min: -.03, Max: .01}, nil, nil, "-0.03 -0.02 -0.01 0 0.01"},
		"hundreds":    {Axis{Min: 0, Max: 500}, nil, nil, "0 100 200 300 400 500"},
		"degrees":     {Axis{Min: 53.4, Max: 53.441}, nil, nil, "53.4 53.41 53.42 53.43 53.44"},
		"a decade":    {Axis{Log: true}, []float64{.1, 2}, nil, "0.1 0.2 0.5 1 2"},
		"two":         {Axis{Log: true}, []float64{.01, 1}, nil, "0.01 0.02 0.05 0.1 0.2 0.5 1"},
		"five":        {Axis{Log: true}, []float64{.0007, 300}, nil, "0.001 0.01 0.1 1 10 100"},
		"few":         {Axis{Log: true}, []float64{1.5, 4.2}, nil, "1.5 2 2.5 3 3.5 4"},
		"chosen":      {Axis{Log: true, At: []float64{1.5, 2}}, []float64{.1, 2}, nil, "1.5 2"},
		"a zero":      {Axis{Log: true}, []float64{0, .005, .1}, nil, "0 0.005 0.01 0.02 0.05 0.1"},
		"low band":    {Axis{Log: true}, []float64{1, 10}, []float64{1e-9}, "0.1 0.2 0.5 1 2 5 10"},
		"only zeros":  {Axis{Log: true}, []float64{0, 0}, nil, "0 0.2 0.4 0.6 0.8 1"},
		"plain zeros": {Axis{Zero: true}, []float64{0, 0}, nil, "0 0.2 0.4 0.6 0.8 1"},
		"one value":   {Axis{}, []float64{1}, nil, "0.6 0.8 1 1.2 1.4"},
		"nothing":     {Axis{}, []float64{nan, math.Inf(1)}, nil, "0 0.2 0.4 0.6 0.8 1"},
	} {
		var got []string
		for _, tick := range newAxis(c.axis, c.values, c.lows, air).ticks() {
			got = append(got, tick.label)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestSharedAxis: panels of a row with the same label have the same y axis.
func TestSharedAxis(t *testing.T) {
	panel := func(label string, high float64) *Lines {
		return &Lines{
			Y:      Axis{Label: label},
			Series: []Series{{X: []float64{1, 2}, Y: []float64{0, high}}},
		}
	}
	l, err := (&Figure{
		Panels: []Panel{panel("km", 1), panel("km", 9), panel("", 2), panel("km", 4)},
	}).layout()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{9, 9, 2, 4} {
		if got := l.frames[i].y.high; math.Abs(got-want*1.03) > 1e-9 {
			t.Errorf("panel %d reaches to %g, want a little more than %g", i, got, want)
		}
	}
}

// TestLooks: no two of a dozen series look the same, and one name looks the same in all panels.
func TestLooks(t *testing.T) {
	var l looks
	var marks []*mark
	for _, name := range strings.Split("abacb"+"defghijkl", "") {
		marks = append(marks, &mark{Series: &Series{Name: name}})
	}
	l.choose(marks)
	if marks[0].colour != marks[2].colour || marks[1].colour != marks[4].colour {
		t.Error("a name has two looks")
	}
	for i, a := range marks {
		for _, b := range marks[:i] {
			if a.Name != b.Name && a.colour == b.colour &&
				(a.corners == b.corners || slices.Equal(a.dashes, b.dashes)) {
				t.Errorf("%s and %s differ in too little", a.Name, b.Name)
			}
		}
	}
}

// TestBars: a point of a band that breaks on both sides of it has a bar, from its lower end to its
// upper one, and a broken band none where it has no ends.
func TestBars(t *testing.T) {
	nan := math.NaN()
	strokes := func(low, high []float64) int {
		f := &Figure{Panels: []Panel{&Lines{Series: []Series{
			{X: []float64{1, 2, 3}, Y: []float64{1, 2, 3}, Low: low, High: high},
		}, Y: Axis{Min: 0, Max: 4}}}}
		return bytes.Count(drawn(t, f), []byte("<path"))
	}
	none := strokes([]float64{nan, nan, nan}, []float64{nan, nan, nan})
	if got := strokes([]float64{nan, 1, nan}, []float64{nan, 3, nan}); got != none+1 {
		t.Errorf("one bar adds %d strokes", got-none)
	}
	if got := strokes([]float64{1, nan, 2}, []float64{3, nan, 4}); got != none+2 {
		t.Errorf("two bars add %d strokes", got-none)
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
