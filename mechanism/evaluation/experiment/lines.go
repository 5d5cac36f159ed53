package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
)

// windows is into how many equal parts of a trace drift, distances and beliefs are averaged for the
// eye.
const windows = 25

// timestamps are the columns between which a window of time lies.
var timestamps = []string{"from timestamp", "to timestamp"}

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

// styled gives lines the look that their name has in every figure.
func styled(lines []chart.Series) []chart.Series {
	looks := study.Looks()
	for i := range lines {
		lines[i].Reference = lines[i].Name == study.Blind
		lines[i].Look = looks[lines[i].Name]
	}
	return lines
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
