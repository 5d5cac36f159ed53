package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/evaluation/chart/charttest"
)

// faults lists the texts of a drawing that a browser would cut off or crush.
func faults(t *testing.T, svg []byte) string {
	t.Helper()
	list, err := charttest.Faults(svg)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, "\n")
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
			if found := faults(t, drawn(t, f, SVG)); found != "" {
				t.Errorf("cut off:\n%s", found)
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
		if found := faults(t, svg); found != "" {
			t.Errorf("%s: %s", file, found)
		}
	}
}
