package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// point is a place on a figure: to the right and down from its upper left corner, in points of
// 1/72 inch.
type point struct{ x, y float64 }

// rect is a part of a figure.
type rect struct{ left, top, right, bottom float64 }

func (r rect) width() float64  { return r.right - r.left }
func (r rect) height() float64 { return r.bottom - r.top }

// stroke is how a line is drawn; dashes are lengths of ink and gap in turn.
type stroke struct {
	colour color.NRGBA
	width  float64
	dashes []float64
}

// words is a text with its size. It begins at its place, or has its middle (.5) or its end (1)
// there.
type words struct {
	text         string
	size, anchor float64
}

// canvas takes a drawing. What is drawn between clip and unclip shows in a part alone.
type canvas interface {
	clip(to rect)
	unclip()
	line(points []point, s stroke)
	area(points []point, c color.NRGBA)
	write(at point, w words)
	// picture stretches an image over a place, each of its dots sharp.
	picture(at rect, img *image.NRGBA)
}

// measureSize is the size at which texts are measured; their width grows with the size.
const measureSize = 100

var (
	sans    = must(opentype.Parse(goregular.TTF))
	measure = must(opentype.NewFace(sans, &opentype.FaceOptions{Size: measureSize, DPI: 72}))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the font is part of the program
	}
	return v
}

// width of a text in the font of the layout, which is wider than the usual ones.
func width(text string, size float64) float64 {
	return float64(font.MeasureString(measure, text)) / 64 * size / measureSize
}

// svg is a drawing in text.
type svg struct {
	bytes.Buffer
	clips int
}

func (c *svg) clip(to rect) {
	c.clips++
	fmt.Fprintf(c, `<clipPath id="c%d"><rect x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`+
		`</clipPath><g clip-path="url(#c%[1]d)">`+"\n", c.clips, to.left, to.top, to.width(),
		to.height())
}

func (c *svg) unclip() { c.WriteString("</g>\n") }

// path writes the data of a path.
func (c *svg) path(points []point) {
	c.WriteString(`<path d="`)
	for i, at := range points {
		fmt.Fprintf(c, "%c%.2f,%.2f", "ML"[min(i, 1)], at.x, at.y)
	}
}

func (c *svg) line(points []point, s stroke) {
	c.path(points)
	fmt.Fprintf(c, `" fill="none" stroke="#%02x%02x%02x" stroke-opacity="%.2f" stroke-width="%.2f"`,
		s.colour.R, s.colour.G, s.colour.B, float64(s.colour.A)/255, s.width)
	for i, length := range s.dashes {
		c.WriteString([]string{` stroke-dasharray="`, ","}[min(i, 1)])
		fmt.Fprintf(c, "%g", length)
	}
	c.WriteString([]string{"/>\n", "\"/>\n"}[min(len(s.dashes), 1)])
}

func (c *svg) area(points []point, fill color.NRGBA) {
	c.path(points)
	fmt.Fprintf(c, `Z" fill="#%02x%02x%02x" fill-opacity="%.2f"/>`+"\n",
		fill.R, fill.G, fill.B, float64(fill.A)/255)
}

func (c *svg) write(at point, w words) {
	// With its length a text stays within the picture on machines whose font is wider.
	fmt.Fprintf(c, `<text x="%.2f" y="%.2f" font-size="%g" text-anchor="%s" textLength="%.2f" `+
		`lengthAdjust="spacingAndGlyphs">%s</text>`+"\n", at.x, at.y, w.size,
		[]string{"start", "middle", "end"}[int(2*w.anchor)], width(w.text, w.size),
		html.EscapeString(w.text))
}

func (c *svg) picture(at rect, img *image.NRGBA) {
	var dots bytes.Buffer
	_ = png.Encode(&dots, img) // a buffer takes everything
	fmt.Fprintf(c, `<image x="%.2f" y="%.2f" width="%.2f" height="%.2f" `+
		`preserveAspectRatio="none" style="image-rendering:pixelated" `+
		`href="data:image/png;base64,%s"/>`+"\n", at.left, at.top, at.width(), at.height(),
		base64.StdEncoding.EncodeToString(dots.Bytes()))
}
