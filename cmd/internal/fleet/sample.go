package fleet

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

//go:embed sample/liverpool.csv
var sampleCSV []byte

// The map and the step of the sample's model. The buses report about every 24 s, so a step
// of 30 s has one or two fixes.
const (
	SampleCellM = 250
	SampleStep  = 30 * time.Second
)

// The plan that "geodither tune" chooses for the sample at a Σε of 20 a day: three releases, so far
// apart.
const (
	PlanEpsilon  = 6.6
	PlanBudget   = 20.
	PlanInterval = 40 * time.Minute
)

// SampleBox is the part of Liverpool that the sample's model covers.
func SampleBox() grid.Box { return grid.Box{South: 53.40, West: -2.99, North: 53.47, East: -2.89} }

// SampleFile returns the shipped sample as a CSV file.
func SampleFile() io.Reader { return bytes.NewReader(sampleCSV) }

// Sample returns the shipped sample's fixes in order of time.
func Sample() ([]schemas.Raw, error) {
	options := traces.Options{Format: traces.CSV}
	reader, err := traces.Open(context.Background(), []string{"-"}, SampleFile(), options)
	if err != nil {
		return nil, err
	}
	var fixes []schemas.Raw
	for fix, err := range reader.Fixes() {
		if err != nil {
			return nil, fmt.Errorf("the shipped sample: %w", err)
		}
		fixes = append(fixes, fix)
	}
	if skips := reader.Skips(); skips.Total > 0 {
		return nil, fmt.Errorf("the shipped sample: %s", skips)
	}
	return fixes, nil
}

// SampleModel trains a model on the fixes of the sample.
func SampleModel(fixes []schemas.Raw) (*mobility.Model, error) {
	return SampleModelOf(fixes, SampleCellM)
}

// SampleModelOf is SampleModel with cells of another side, in metres.
func SampleModelOf(fixes []schemas.Raw, cellM float64) (*mobility.Model, error) {
	g, err := grid.New(SampleBox(), cellM)
	if err != nil {
		return nil, err
	}
	options := train.Options{Source: "shipped sample", Tool: cli.Tool()}
	trainer, err := train.New(g, SampleStep, options)
	if err != nil {
		return nil, err
	}
	for _, fix := range fixes {
		trainer.Add(train.Fix{
			User: fix.UserID, TimeMS: fix.Timestamp, Lat: fix.Latitude, Lon: fix.Longitude,
		})
	}
	model, _, err := trainer.Finish()
	return model, err
}
