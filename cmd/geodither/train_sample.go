package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// readSample returns the shipped sample's fixes in order of time.
func readSample() ([]schemas.Raw, error) {
	reader, err := traces.Open(context.Background(), []string{"-"}, bytes.NewReader(sampleCSV), traces.Options{Format: traces.CSV, Strict: true})
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
	return fixes, nil
}

// trainSample trains the demo's model.
func trainSample(fixes []schemas.Raw) (*mobility.Model, error) {
	g, err := grid.New(sampleBox, demoCellM)
	if err != nil {
		return nil, err
	}
	trainer, err := train.New(g, demoStep, train.Options{Source: "shipped sample", Tool: "geodither " + version()})
	if err != nil {
		return nil, err
	}
	for _, fix := range fixes {
		trainer.Add(train.Fix{User: fix.UserID, TimeMS: fix.Timestamp, Lat: fix.Latitude, Lon: fix.Longitude})
	}
	model, _, err := trainer.Finish()
	return model, err
}
