package modelview

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
)

// PlotFit draws drift against δ into a .png or .svg file.
func PlotFit(f *mobility.Fit, path string) error {
	var delta, drift, low, high []float64
	for _, at := range f.Calibration {
		delta, drift = append(delta, at.Delta), append(drift, at.Drift)
		low, high = append(low, at.Low), append(high, at.High)
	}
	reading := "Band: 95 % over users, who are independent; their steps are not."
	if f.Users < fit.EnoughUsers {
		low, high, reading = nil, nil, fmt.Sprintf("No band: it takes %d users.", fit.EnoughUsers)
	}
	if what, _ := fit.Judge(*f); what != fit.Unclear {
		reading += " Above the dashed line the model is too sure."
	}
	figure := chart.Figure{
		Title: "Drift against δ on users that the model was not trained on",
		Note: fmt.Sprintf("%s, %s, ε = %g at every step. %s",
			cli.Quantity(f.Users, "user"), cli.Quantity(f.Steps, "step"), f.Epsilon, reading),
		Panels: []chart.Panel{&chart.Lines{
			X: chart.Axis{Label: "δ", Log: true},
			Y: chart.Axis{Label: "drift, share of releases", Log: true},
			Series: []chart.Series{
				{Name: "a right model", X: delta, Y: delta, Reference: true},
				{Name: "measured", X: delta, Y: drift, Low: low, High: high},
			},
		}},
		PanelWidth: 5, PanelHeight: 4,
	}
	return files.Unwritten(path, figure.WriteFile(path))
}
