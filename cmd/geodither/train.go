package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

type trainFlags struct {
	input inputFlags
	box   string
	cell  string
	step  time.Duration
	out   string
	train mobility.TrainOptions
}

func newTrain(std streams) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train [PATH...]",
		Short: "Train a mobility model from traces",
		Long: `Train a mobility model: how likely a vehicle in a cell of the map is in each other cell one
step later. Reads CSV, NDJSON, a folder of Geolife 1.3 (.plt) or SNAP's Gowalla check-ins,
plain or gzip. The model assumes that it is public: it is learned without privacy.

A CSV file has a header with user_id (or user, uid), timestamp (or time, ts), latitude (lat)
and longitude (lon, lng) in any order. Times are RFC 3339, UTC where they name no zone, or
epoch milliseconds. Choose a step in which a vehicle usually reports once or twice, and
cells that it crosses in about a step.

Fixes outside the box are left out. The result does not depend on the order of the input.`,
		Example: `  geodither train --format csv --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out model.avro
  geodither train --format geolife --in "Geolife Trajectories 1.3/Data" --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out beijing.avro
  geodither train --format gowalla --every-fix --in loc-gowalla_totalCheckins.txt.gz --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h --out la.avro`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, std)
		},
	}
	flags := cmd.Flags()
	f.input.register(flags)
	flags.StringVar(&f.box, "box", "", "the map's `SOUTH,WEST,NORTH,EAST`, degrees")
	flags.StringVar(&f.cell, "cell", "", "side of a cell, such as 340m or 0.34km")
	flags.DurationVar(&f.step, "step", 0, "time step of the model, such as 60s")
	flags.StringVar(&f.out, "out", "", "model `FILE` to write")
	flags.DurationVar(&f.train.MaxGap, "max-gap", 0, "cut a trace where two fixes are further apart; 0: only consecutive steps count anyway")
	flags.BoolVar(&f.train.EveryFix, "every-fix", false, "count each pair of successive fixes as a transition, whatever the time between (check-ins)")
	flags.IntVar(&f.train.KernelRadius, "kernel-radius", 0, "reach of the smoothing in cells; 0: 5")
	flags.Float64Var(&f.train.Backoff, "backoff", 0, "weight of the smoothing in a row, in transitions; 0: 20")
	flags.IntVar(&f.train.UserCap, "user-cap", 0, "transitions of one user out of one cell that count; 0: 30")
	required(cmd, "box", "cell", "step", "out")
	return cmd
}

func (f *trainFlags) run(ctx context.Context, args []string, std streams) error {
	box, err := parseBox(f.box)
	if err != nil {
		return usageError{err}
	}
	cellM, err := parseLength(f.cell)
	if err != nil {
		return usageError{err}
	}
	g, err := grid.New(box, cellM)
	if err != nil {
		return usageError{err}
	}
	// Now, not after an hour of training.
	if f.out == "-" {
		return usagef("a model is a file, not a stream: name one with --out")
	}
	if err := checkTarget(f.out); err != nil {
		return err
	}
	if info, err := os.Stat(f.out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a device or a pipe: name a file for the model", f.out)
	}
	if err := notAnInput(f.out, slices.Concat(f.input.paths, args)); err != nil {
		return err
	}
	reader, err := f.input.open(ctx, args, std)
	if err != nil {
		return err
	}
	f.train.Source = strings.TrimSpace("traces " + f.input.format)
	f.train.Tool = "geodither " + version()
	trainer, err := mobility.NewTrainer(g, f.step, f.train)
	if err != nil {
		return usageError{err}
	}
	progress := newProgress(std.err, reader.Progress)
	err = trainOn(ctx, trainer, reader, progress)
	progress.done()
	if err != nil {
		return err
	}
	model, _, err := trainer.Finish()
	if err != nil {
		if skips := reader.Skips(); skips.Total > 0 {
			return fmt.Errorf("%w; %s", err, skips)
		}
		return err
	}
	if err := model.WriteFile(f.out); err != nil {
		return err
	}
	if skips := reader.Skips(); skips.Total > 0 {
		fmt.Fprintln(std.err, skips)
	}
	fmt.Fprintf(std.out, "wrote %s\n", f.out)
	return summarize(model).print(std.out)
}

func trainOn(ctx context.Context, trainer *mobility.Trainer, reader *traces.Reader, progress *progress) error {
	n := 0
	for raw, err := range reader.Fixes() {
		if err != nil {
			return err
		}
		trainer.Add(trainingFix(raw))
		if n++; n%4096 == 0 {
			progress.show(int64(n))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

func trainingFix(raw schemas.Raw) mobility.Fix {
	return mobility.Fix{User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude}
}

// readSample returns the shipped sample's fixes in order of time.
func readSample() ([]schemas.Raw, error) {
	reader, err := traces.Open([]string{"-"}, bytes.NewReader(sampleCSV), traces.Options{Format: traces.CSV, Strict: true})
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
	trainer, err := mobility.NewTrainer(g, demoStep, mobility.TrainOptions{Source: "shipped sample", Tool: "geodither " + version()})
	if err != nil {
		return nil, err
	}
	for _, fix := range fixes {
		trainer.Add(trainingFix(fix))
	}
	model, _, err := trainer.Finish()
	return model, err
}
