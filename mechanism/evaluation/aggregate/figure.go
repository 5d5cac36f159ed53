package aggregate

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
)

// Figure draws the scores of an experiment: the error of each estimator against the number of vehicles, a panel for each fleet and ε.
func Figure(scores []Score) *chart.Figure {
	f := &chart.Figure{
		Title: "Where the fleet is, from its releases alone",
		Note: "Total variation distance from where the vehicles are: the share of the fleet that would have to be elsewhere. " +
			"Bands hold 80 % of the fleets of a size. blind is the model without a release: what lies below it is what the releases tell.",
		Columns: 2,
	}
	type key struct {
		fleet   string
		epsilon float64
	}
	type line struct {
		key
		estimator string
	}
	panels, series := map[key]*chart.Lines{}, map[line]*chart.Series{}
	var order []line
	for _, s := range scores {
		k := key{s.Fleet, s.Epsilon}
		if panels[k] == nil {
			panels[k] = &chart.Lines{
				Title: fmt.Sprintf("%s fleet, ε = %g", s.Fleet, s.Epsilon),
				X:     chart.Axis{Label: "vehicles", Log: true},
				Y:     chart.Axis{Label: "total variation", Zero: true, Min: 0, Max: 1},
			}
			f.Panels = append(f.Panels, panels[k])
		}
		l := line{k, s.Estimator}
		if series[l] == nil {
			series[l] = &chart.Series{Name: s.Estimator, Reference: s.Estimator == "blind"}
			order = append(order, l)
		}
		to := series[l]
		to.X, to.Y = append(to.X, float64(s.Vehicles)), append(to.Y, s.Variation)
		to.Low, to.High = append(to.Low, s.VariationLow), append(to.High, s.VariationHigh)
	}
	for _, l := range order {
		panels[l.key].Series = append(panels[l.key].Series, *series[l])
	}
	return f
}

// Map draws an estimate of a window: expected vehicles per km², by zone.
func (z *Zones) Map(title string, vehicles []float64) *chart.Map {
	values := make([]float64, z.grid.Cells())
	for c := range values {
		zone := z.Of(int32(c))
		low, high := z.Corners(zone)
		values[c] = vehicles[zone] / float64((high.X-low.X)*(high.Y-low.Y))
		if math.IsNaN(values[c]) {
			values[c] = 0
		}
	}
	return &chart.Map{Title: title, Grid: z.grid, Values: values, Scale: chart.Axis{Label: "vehicles per km²", Zero: true}}
}
