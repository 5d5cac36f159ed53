package expect

import (
	"fmt"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/trial"
)

// Errors sums up distances to the truth, in metres.
type Errors struct {
	RMS    float64 `json:"rms"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
}

// ErrorsOf sums up distances, of a trial's score.
func ErrorsOf(d trial.Losses) Errors {
	return Errors{RMS: d.RMS(), Mean: d.Mean(), Median: d.Median()}
}

// Line returns a row of a table of distances, below [ErrorsHead].
func (e Errors) Line(name string) string {
	return fmt.Sprintf("  %-11s %10s %10s %10s\n", name, cli.Metres(e.RMS), cli.Metres(e.Mean),
		cli.Metres(e.Median))
}

// ModelAlone names the row of the best guess that sees no release.
const ModelAlone = "model alone"

// ErrorsHead is the first line of a table of distances.
const ErrorsHead = "  distance           rms       mean     median\n"
