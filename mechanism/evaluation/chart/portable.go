package chart

import (
	"bytes"
	"html"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// svgText is a text as vgsvg writes it: what stands before its size, the size and the text.
var svgText = regexp.MustCompile(`<text ([^>]*font-size:([0-9.]+)px")>([^<]*)</text>`)

// portable makes a drawing whole for readers whose machine lacks the font that it was laid out
// with. It names fonts that they are sure to have, and it says how long each text is, because
// other fonts are wider: without the length, titles, legends and notes would run out of the
// picture. It also corrects the type of embedded images.
func portable(svg []byte) []byte {
	svg = svgText.ReplaceAllFunc(svg, func(element []byte) []byte {
		parts := svgText.FindSubmatch(element)
		size, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil || len(bytes.TrimSpace(parts[3])) == 0 {
			return element
		}
		style := noteStyle
		style.Font.Size = vg.Length(size)
		length := float64(style.Width(html.UnescapeString(string(parts[3]))))
		fitted := append([]byte("<text "), parts[1]...)
		fitted = append(fitted, ` textLength="`...)
		fitted = strconv.AppendFloat(fitted, length, 'f', 2, 64)
		fitted = append(fitted, `" lengthAdjust="spacingAndGlyphs">`...)
		return append(append(fitted, parts[3]...), "</text>"...)
	})
	svg = bytes.ReplaceAll(
		svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"),
	)
	return bytes.ReplaceAll(svg, []byte("data:image/jpg;"), []byte("data:image/png;"))
}
