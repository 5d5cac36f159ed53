package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
)

// windows is into how many equal parts of a trace drift, distances and beliefs are averaged for the
// eye.
const windows = 25

// timeAxis is the axis of the timestamps of a trace, the same in every panel.
func timeAxis(d *study.Data, timestamps int) chart.Axis {
	step := "steps of " + study.Seconds(d.Step)
	if d.EveryFix {
		step = "check-ins"
	}
	return chart.Axis{
		Label: fmt.Sprintf("timestamp (%s)", step), Min: 1, Max: float64(max(timestamps, 2)),
	}
}

// driftGuide is the drift that a right M has at most, on average.
func driftGuide(x []float64, delta func(float64) float64) chart.Series {
	guide := chart.Series{
		Name: "δ: the drift that a right M has at most, on average", X: x, Guide: true,
	}
	for _, v := range x {
		guide.Y = append(guide.Y, delta(v))
	}
	return guide
}

// add adds a point with its interval to a line.
func add(series *chart.Series, x float64, band study.Band) {
	series.X, series.Y = append(series.X, x), append(series.Y, band.Value)
	series.Low, series.High = append(series.Low, band.Low), append(series.High, band.High)
}
