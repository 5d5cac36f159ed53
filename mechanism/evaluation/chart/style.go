package chart

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sans is the font of all text.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func textStyle(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: color.Black, Font: font.From(sans, size), XAlign: x, YAlign: y,
		Handler: plot.DefaultTextHandler,
	}
}

var (
	titleStyle  = textStyle(13, draw.XLeft, draw.YTop)
	panelStyle  = textStyle(10.5, draw.XCenter, draw.YTop)
	noteStyle   = textStyle(9, draw.XLeft, draw.YTop)
	legendStyle = textStyle(10, draw.XLeft, draw.YCenter)
)

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

var black = color.NRGBA{A: 255}

// dashes and glyphs repeat with other periods than the colours, so that a few dozen series differ.
var (
	dashes = [][]vg.Length{nil, {6, 2}, {2, 2}, {8, 2, 2, 2}, {4, 1.5, 1, 1.5, 1, 1.5}}
	glyphs = []draw.GlyphDrawer{
		draw.CircleGlyph{},
		draw.TriangleGlyph{},
		draw.BoxGlyph{},
		draw.CrossGlyph{},
		draw.RingGlyph{},
		draw.PlusGlyph{},
		draw.PyramidGlyph{},
		draw.SquareGlyph{},
	}
)

// look is how a series is drawn.
type look struct {
	line  draw.LineStyle
	glyph draw.GlyphStyle
}

func lookOf(number int) look {
	c := colours[number%len(colours)]
	return look{
		line:  draw.LineStyle{Color: c, Width: 1.3, Dashes: dashes[number%len(dashes)]},
		glyph: draw.GlyphStyle{Color: c, Radius: 2.6, Shape: glyphs[number%len(glyphs)]},
	}
}

// guide is the look of a line that was not measured: long dashes, so that it does not look like the
// edge of a band.
var guide = look{
	line: draw.LineStyle{
		Color: color.NRGBA{R: 130, G: 130, B: 130, A: 255}, Width: 1, Dashes: []vg.Length{11, 3},
	},
}

// reference is the look of a baseline: black dashes without markers.
var reference = look{line: draw.LineStyle{Color: black, Width: 1.3, Dashes: []vg.Length{3, 2.5}}}

// styles numbers the names of a figure in the order of their first use.
type styles struct {
	numbers map[string]int
}

func (s *styles) number(name string, wanted int) int {
	if wanted > 0 {
		return wanted - 1
	}
	if s.numbers == nil {
		s.numbers = map[string]int{}
	}
	n, ok := s.numbers[name]
	if !ok {
		n = len(s.numbers)
		s.numbers[name] = n
	}
	return n
}

// entry is one item of the legend.
type entry struct {
	name  string
	look  look
	plain bool // no marker
}

const (
	legendSample = vg.Length(28)
	legendRow    = vg.Length(15)
	legendGap    = vg.Length(14) // between entries
)

// sample returns the length of an entry's sample, which is short if it is only a marker.
func (e entry) sample() vg.Length {
	if e.look.line.Width > 0 {
		return legendSample
	}
	return 3 * e.look.glyph.Radius
}

func (e entry) width() vg.Length { return e.sample() + 5 + legendStyle.Width(e.name) + legendGap }

// together keeps on one line what belongs together: a number and its percent sign, and the two
// sides of an equation.
var together = strings.NewReplacer(" %", "\u00a0%", " = ", "\u00a0=\u00a0")

// elide cuts off the end of a text that is too wide, and marks the cut.
func elide(style text.Style, s string, width vg.Length) string {
	if style.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && style.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// wrap breaks text into lines of at most a width, at spaces and at line ends. It cuts off the end
// of a word that is too wide for a line.
func wrap(style text.Style, s string, width vg.Length) (lines []string) {
	if s == "" {
		return nil
	}
	for paragraph := range strings.SplitSeq(s, "\n") {
		line := ""
		for word := range strings.FieldsFuncSeq(
			together.Replace(paragraph), func(r rune) bool { return r == ' ' },
		) {
			word = elide(style, word, width)
			switch longer := line + " " + word; {
			case line == "":
				line = word
			case style.Width(longer) > width:
				lines = append(lines, line)
				line = word
			default:
				line = longer
			}
		}
		lines = append(lines, line)
	}
	return lines
}
