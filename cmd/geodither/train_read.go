package main

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// readTraces gives every fix of the files to a trainer.
func readTraces(ctx context.Context, reader *traces.Reader, trainers func() *mobility.Trainer, bar *progress) (*mobility.Trainer, error) {
	trainer, n := trainers(), 0
	for raw, err := range reader.Fixes() {
		if err != nil {
			return nil, err
		}
		trainer.Add(trainingFix(raw))
		if n++; n%4096 == 0 {
			bar.show(int64(n))
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	return trainer, nil
}

func trainingFix(raw schemas.Raw) mobility.Fix {
	return mobility.Fix{User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude}
}
