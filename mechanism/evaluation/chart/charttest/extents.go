// Package charttest looks at drawings as a browser would, for tests.
package charttest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// affine maps a point (x, y) to (a·x + c·y + e, b·x + d·y + f), as in SVG's matrix(a b c d e
// f).
type affine struct{ a, b, c, d, e, f float64 }

func (m affine) after(inner affine) affine {
	return affine{
		m.a*inner.a + m.c*inner.b, m.b*inner.a + m.d*inner.b,
		m.a*inner.c + m.c*inner.d, m.b*inner.c + m.d*inner.d,
		m.a*inner.e + m.c*inner.f + m.e, m.b*inner.e + m.d*inner.f + m.f,
	}
}

func (m affine) at(x, y float64) (float64, float64) {
	return m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f
}

var (
	operation = regexp.MustCompile(`(scale|translate|rotate)\(([^)]*)\)`)
	fontSize  = regexp.MustCompile(`font-size:([0-9.]+)px`)
)

// transform reads the value of a transform attribute.
func transform(value string) (affine, error) {
	m := affine{a: 1, d: 1}
	found := operation.FindAllStringSubmatch(value, -1)
	if len(found) == 0 && strings.TrimSpace(value) != "" {
		return m, fmt.Errorf("charttest: transform %q is unknown", value)
	}
	for _, part := range found {
		numbers, err := numbersOf(part[2])
		if err != nil {
			return m, err
		}
		x, y := numbers[0], numbers[len(numbers)-1]
		switch part[1] {
		case "scale":
			m = m.after(affine{a: x, d: y})
		case "translate":
			m = m.after(affine{a: 1, d: 1, e: x, f: y})
		case "rotate":
			sin, cos := math.Sincos(x * math.Pi / 180)
			m = m.after(affine{a: cos, b: sin, c: -sin, d: cos})
		}
	}
	return m, nil
}

func numbersOf(list string) (numbers []float64, err error) {
	apart := func(r rune) bool { return r == ',' || r == ' ' }
	for word := range strings.FieldsFuncSeq(list, apart) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, v)
	}
	if len(numbers) == 0 {
		return nil, errors.New("charttest: a transform without numbers")
	}
	return numbers, nil
}

const (
	// ascent and descent are how far the letters of common fonts reach above and below the line
	// they stand on, in font sizes: accents and brackets included.
	ascent, descent = .93, .24
	// squeeze is the smallest factor by which a text may be made narrower than common fonts draw
	// it: below, letters touch.
	squeeze = .72
	// few is how many bytes a text may have whose length is not looked at.
	few = 4
	// slack is what rounding may cost, in the drawing's unit.
	slack = .5
)

// width estimates the length of a text in a wide common font (DejaVu Sans, Verdana), in font sizes.
func width(text string) (sum float64) {
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljI.,:;'|!", r):
			sum += .33
		case strings.ContainsRune(" ()[]-frt/\u00a0", r):
			sum += .4
		case strings.ContainsRune("mwMW%—…", r):
			sum += .95
		case r >= 'A' && r <= 'Z':
			sum += .7
		default:
			sum += .62
		}
	}
	return sum
}

// Faults lists the texts of an SVG drawing that a browser would cut off or crush: those whose box,
// as long as the text says it is, does not lie within the drawing's viewBox on all four sides;
// those that do not say how long they are, so that a browser's own font decides; and those that are
// so much shorter than common fonts draw them that letters would touch. An error says that the
// drawing cannot be read.
func Faults(svg []byte) (faults []string, err error) {
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	d := drawing{stack: []affine{{a: 1, d: 1}}}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if d.width == 0 || d.height == 0 {
				return nil, errors.New("charttest: the drawing has no viewBox")
			}
			return d.faults, nil
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			err = d.open(token)
		case xml.CharData:
			if d.text != nil {
				d.check(string(token))
			}
		case xml.EndElement:
			d.stack, d.text = d.stack[:len(d.stack)-1], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// drawing is a drawing being read.
type drawing struct {
	width, height float64
	stack         []affine          // from the elements that are open to the drawing
	text          map[string]string // the attributes of the text that is open, else nil
	faults        []string
}

func (d *drawing) open(element xml.StartElement) error {
	values := attributes(element)
	own, err := transform(values["transform"])
	if err != nil {
		return err
	}
	d.stack, d.text = append(d.stack, d.stack[len(d.stack)-1].after(own)), nil
	switch element.Name.Local {
	case "svg":
		_, err = fmt.Sscanf(values["viewBox"], "0 0 %f %f", &d.width, &d.height)
	case "text":
		d.text = values
	}
	return err
}

func attributes(element xml.StartElement) map[string]string {
	values := map[string]string{}
	for _, a := range element.Attr {
		values[a.Name.Local] = a.Value
	}
	return values
}

// check looks at the content of the text that is open.
func (d *drawing) check(content string) {
	if strings.TrimSpace(content) == "" {
		return
	}
	size := fontSize.FindStringSubmatch(d.text["style"])
	if size == nil || d.text["lengthAdjust"] != "spacingAndGlyphs" {
		d.fault("%q says no size or length", content)
		return
	}
	var numbers [4]float64
	for i, value := range []string{size[1], d.text["x"], d.text["y"], d.text["textLength"]} {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			d.fault("%q says no place or length", content)
			return
		}
		numbers[i] = v
	}
	em, x, y, length := numbers[0], numbers[1], numbers[2], numbers[3]
	for _, corner := range [][2]float64{
		{x, y - ascent*em},
		{x + length, y - ascent*em},
		{x, y + descent*em},
		{x + length, y + descent*em},
	} {
		px, py := d.stack[len(d.stack)-1].at(corner[0], corner[1])
		if px < -slack || px > d.width+slack || py < -slack || py > d.height+slack {
			d.fault("%q reaches %.0f, %.0f, and the drawing %.0f, %.0f, outside", content, px, py,
				d.width, d.height)
			return
		}
	}
	// A few letters alone may be narrow ones, and squeezing them hurts nobody.
	if natural := width(content) * em; len(content) > few && length < squeeze*natural {
		d.fault("%q is %.0f long, and most fonts need %.0f", content, length, natural)
	}
}

func (d *drawing) fault(format string, of ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, of...))
}
