package tuning

import (
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// usualCells returns a twentieth and a fortieth of the map's longer side, or smaller cells if a
// target needs them: within a cell nobody is found.
func usualCells(box grid.Box, targetKM float64) []float64 {
	const (
		plenty = 40_000 // cells: more take long
		// Places in a cell of this share of the target are a quarter of the target away from its
		// centre.
		ofTarget = .7
	)
	probe, err := grid.New(box, 100)
	if err != nil {
		return []float64{1000} // the search says what is wrong with the box
	}
	corner := probe.ToMap(box.North, box.East)
	fine := 1000 * max(corner.X, corner.Y) / 40
	if targetKM > 0 {
		fine = min(fine, max(1000*ofTarget*targetKM, 1000*math.Sqrt(corner.X*corner.Y/plenty)))
	}
	return []float64{twoDigits(fine), twoDigits(2 * fine)}
}

// twoDigits rounds metres to two significant digits, and to a metre.
func twoDigits(metres float64) float64 {
	scale := math.Pow(10, math.Max(0, math.Floor(math.Log10(metres))-1))
	return max(1, math.Round(metres/scale)*scale)
}

// usualSteps are times in which people think, multiples of the shortest.
var usualSteps = []time.Duration{
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// fill gives the options what was left open. The step depends on how often fixes come, and is a
// minute at least: a plan of a day's releases needs no finer one.
func fill(o *tune.Options, fixes *tune.Fixes) {
	if len(o.Steps) == 0 {
		gap := max(time.Minute, fixes.MedianGap())
		step := usualSteps[len(usualSteps)-1]
		for _, usual := range slices.Backward(usualSteps) {
			if usual >= gap {
				step = usual
			}
		}
		o.Steps = []time.Duration{step}
	}
	// Moves that take longer than a step give transitions along the way.
	o.Train = train.Options{
		Interpolate: true, MaxGap: max(5*time.Minute, 2*slices.Max(o.Steps)),
		Source: "traces", Tool: cli.Tool(),
	}
}
