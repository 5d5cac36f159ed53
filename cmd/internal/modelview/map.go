package modelview

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/mobility"
)

// DrawPopularity draws where vehicles are to be found, into a .png or .svg file.
func DrawPopularity(m *mobility.Model, path string) error {
	values := make([]float64, m.Grid.Cells())
	for i := range values {
		values[i] = math.NaN()
	}
	for i, c := range m.Initial.Cells {
		values[c] = m.Initial.P[i]
	}
	figure := chart.Figure{
		Title: "Where vehicles are to be found",
		Note: fmt.Sprintf("Initial distribution of model %s, cells of %.0f m.",
			m.ID(), m.Grid.CellKM()*1000),
		Panels: []chart.Panel{&chart.Map{
			Grid: m.Grid, Values: values,
			Scale: chart.Axis{Label: "probability of the cell", Log: true},
		}},
		PanelWidth: 6, PanelHeight: 5,
	}
	return files.Unwritten(path, figure.WriteFile(path))
}
