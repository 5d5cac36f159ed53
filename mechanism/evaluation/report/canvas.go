package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
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

// canvas is a file format. What is drawn between clip and unclip shows in a part alone.
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

// raster is a drawing in dots.
type raster struct {
	img    *image.RGBA
	inside image.Rectangle
	scale  float64 // dots to a point
}

func (c *raster) dots(r rect) image.Rectangle {
	at := func(v float64) int { return int(math.Round(v * c.scale)) }
	return image.Rect(at(r.left), at(r.top), at(r.right), at(r.bottom))
}

func (c *raster) clip(to rect) { c.inside = c.dots(to).Intersect(c.img.Rect) }
func (c *raster) unclip()      { c.inside = c.img.Rect }

func (c *raster) area(points []point, fill color.NRGBA) { c.fill([][]point{points}, fill) }

// fill fills shapes that all turn the same way round.
func (c *raster) fill(shapes [][]point, fill color.NRGBA) {
	around := rect{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, shape := range shapes {
		for _, p := range shape {
			around = rect{
				min(around.left, p.x), min(around.top, p.y), max(around.right, p.x),
				max(around.bottom, p.y),
			}
		}
	}
	box := c.dots(rect{around.left - 1, around.top - 1, around.right + 1, around.bottom + 1})
	if box = box.Intersect(c.inside); len(shapes) == 0 || box.Empty() {
		return
	}
	r := vector.NewRasterizer(box.Dx(), box.Dy())
	for _, shape := range shapes {
		for i, p := range shape {
			x, y := float32(p.x*c.scale)-float32(box.Min.X), float32(p.y*c.scale)-float32(box.Min.Y)
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	r.Draw(c.img, box, image.NewUniform(fill), image.Point{})
}

func (c *raster) line(points []point, s stroke) {
	var shapes [][]point
	for _, dash := range dashed(points, s.dashes) {
		for i, b := range dash[1:] {
			a := dash[i]
			length := math.Hypot(b.x-a.x, b.y-a.y)
			if length == 0 {
				continue
			}
			nx, ny := -(b.y-a.y)/length*s.width/2, (b.x-a.x)/length*s.width/2
			shapes = append(shapes, []point{
				{a.x + nx, a.y + ny},
				{b.x + nx, b.y + ny},
				{b.x - nx, b.y - ny},
				{a.x - nx, a.y - ny},
			})
			if i > 0 { // a round joint
				shapes = append(shapes, corners(a, s.width/2, 8, 0))
			}
		}
	}
	c.fill(shapes, s.colour)
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

// dashed cuts a line into dashes; a pattern of none leaves it whole.
func dashed(points []point, pattern []float64) (dashes [][]point) {
	if len(pattern) == 0 || len(points) == 0 {
		return [][]point{points}
	}
	now, number, left := []point{points[0]}, 0, pattern[0]
	for i := 1; i < len(points); {
		a, b := now[len(now)-1], points[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if length <= left {
			now, left = append(now, b), left-length
			i++
			continue
		}
		cut := point{a.x + (b.x-a.x)*left/length, a.y + (b.y-a.y)*left/length}
		if number%2 == 0 {
			dashes = append(dashes, append(now, cut))
		}
		number++
		now, left = []point{cut}, pattern[number%len(pattern)]
	}
	if number%2 == 0 {
		dashes = append(dashes, now)
	}
	return dashes
}

func (c *raster) write(at point, w words) {
	size := w.size * c.scale
	face := must(opentype.NewFace(sans, &opentype.FaceOptions{Size: size, DPI: 72}))
	pen := font.Drawer{Dst: c.img, Src: image.Black, Face: face, Dot: fixed.Point26_6{
		X: fixed.Int26_6(64 * (at.x*c.scale - w.anchor*width(w.text, size))),
		Y: fixed.Int26_6(64 * at.y * c.scale),
	}}
	pen.DrawString(w.text)
}

func (c *raster) picture(at rect, img *image.NRGBA) {
	to := c.dots(at)
	shown := to.Intersect(c.inside)
	for y := shown.Min.Y; y < shown.Max.Y; y++ {
		for x := shown.Min.X; x < shown.Max.X; x++ {
			c.img.Set(x, y, img.At((x-to.Min.X)*img.Rect.Dx()/to.Dx(),
				(y-to.Min.Y)*img.Rect.Dy()/to.Dy()))
		}
	}
}
