package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func testChart() *Chart {
	return &Chart{
		Name: "lines", Title: "A line", Note: "Of one.",
		Panels: []Panel{
			{
				Title: "first", X: Axis{Label: "ε", Log: true}, Y: Axis{Label: "distance, km"},
				Series: []Series{
					{
						Name: "PIM", X: []float64{.1, 1, 2}, Y: []float64{3, 2, 1},
						Low: []float64{2.5, 1.5, .5}, High: []float64{3.5, 2.5, 1.5},
					},
					{Name: "LM & more", X: []float64{.1, 1, 2}, Y: []float64{5, math.NaN(), 3}},
				},
			},
			{Series: []Series{
				{Name: "places", X: []float64{-3, 1}, Y: []float64{-1, 4}, Points: true},
			}},
			{Y: Axis{Label: "of zeros", Log: true}, Series: []Series{
				{Name: "zeros", X: []float64{1, 2}, Y: []float64{0, 0}},
			}},
		},
	}
}

// TestChart: a chart is SVG with all of its names, whatever values it is given: none, zeros on a
// logarithmic axis, a single point.
func TestChart(t *testing.T) {
	c := testChart()
	c.Panels = append(c.Panels, Panel{}, Panel{
		X: Axis{Log: true}, Y: Axis{Log: true},
		Series: []Series{{Name: "one", X: []float64{5}, Y: []float64{7}}},
	})
	svg, err := c.draw()
	if err != nil {
		t.Fatal(err)
	}
	decoder, texts := xml.NewDecoder(bytes.NewReader(svg)), strings.Builder{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts.Write(text)
		}
	}
	for _, want := range []string{
		"first", "ε", "distance, km", "PIM", "LM & more", "places", "one",
	} {
		if !strings.Contains(texts.String(), want) {
			t.Errorf("the chart has no %q", want)
		}
	}
	for _, s := range []Series{
		{X: []float64{1}}, {X: []float64{1}, Y: []float64{1}, Low: []float64{}, High: []float64{}},
	} {
		if _, err := (&Chart{Panels: []Panel{{Series: []Series{s}}}}).draw(); err == nil {
			t.Errorf("%+v is drawn", s)
		}
	}
}
