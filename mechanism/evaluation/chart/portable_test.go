package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// overflowing lists the texts of a drawing that do not end within it, by the length that each is
// said to have, whatever font a reader has. A text without a length is one that may not.
func overflowing(t *testing.T, svg []byte) (faults []string) {
	t.Helper()
	var width, height float64
	turned := regexp.MustCompile(`rotate\((-?[0-9.]+)\)`)
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	depth := 0 // of groups below a turned one
	for {
		token, err := decoder.Token()
		if token == nil {
			if width == 0 || height == 0 {
				t.Fatalf("the drawing has no size: %v", err)
			}
			return faults
		}
		if end, ok := token.(xml.EndElement); ok && end.Name.Local == "g" && depth > 0 {
			depth--
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range start.Attr {
			attr[a.Name.Local] = a.Value
		}
		switch start.Name.Local {
		case "svg":
			if _, err := fmt.Sscanf(attr["viewBox"], "0 0 %f %f", &width, &height); err != nil {
				t.Fatal(err)
			}
		case "g":
			if depth > 0 || turned.MatchString(attr["transform"]) {
				depth++
			}
		case "text":
			x, _ := strconv.ParseFloat(attr["x"], 64)
			length, err := strconv.ParseFloat(attr["textLength"], 64)
			limit := width
			if depth > 0 || turned.MatchString(attr["transform"]) {
				x, limit = 0, height // upwards: where it starts is in another coordinate
			}
			if err != nil || attr["lengthAdjust"] != "spacingAndGlyphs" || x < 0 ||
				x+length > limit+.5 {
				text, _ := decoder.Token()
				faults = append(faults,
					fmt.Sprintf("%q from %.0f, %.0f long, of %.0f", text, x, length, limit))
			}
		}
	}
}

// TestNothingIsCutOff: every text of a figure ends within it and says how long it is, so that a
// browser with a wider font squeezes it and does not cut it off.
func TestNothingIsCutOff(t *testing.T) {
	long := strings.Repeat("words that go on & on < for longer than a figure is wide ", 6)
	x := []float64{1, 2}
	for name, f := range map[string]*Figure{
		"a long title, note and legend": {
			Title: long, Note: long, Panels: []Panel{&Lines{
				Title: "a panel", X: Axis{Label: "ε"}, Y: Axis{Label: "km"},
				Series: []Series{
					{Name: "short", X: x, Y: x},
					{Name: strings.TrimSpace(long), X: x, Y: []float64{2, 3}},
					{Name: "more", X: x, Y: x},
				},
			}},
		},
		"a word without an end": {
			Title: strings.Repeat("title", 60), Note: strings.Repeat("note", 90),
			Panels: []Panel{
				&Lines{Series: []Series{{Name: strings.Repeat("name", 60), X: x, Y: x}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if faults := overflowing(t, drawn(t, f, SVG)); len(faults) > 0 {
				t.Errorf("cut off:\n%s", strings.Join(faults, "\n"))
			}
		})
	}
}

// TestShippedFigures: the drawings in the repository are whole in any browser too.
func TestShippedFigures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "figures", "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d figures: %v", len(files), err)
	}
	for _, file := range files {
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if faults := overflowing(t, svg); len(faults) > 0 {
			t.Errorf("%s: %s", file, strings.Join(faults, "\n"))
		}
	}
}
