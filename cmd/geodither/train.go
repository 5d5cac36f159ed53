package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/mobility"
)

type trainFlags struct {
	input inputFlags
	model modelFlags
	out   string

	private privateFlags
}

func newTrain(std streams) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train [PATH...]",
		Short: "Train a mobility model from traces",
		Long: `Train a mobility model: how likely a vehicle in a cell of the map is in each other cell one
step later. Reads CSV, NDJSON, a folder of Geolife 1.3 (.plt) or SNAP's Gowalla check-ins,
plain or gzip. The model assumes that it is public: it is learned without privacy, unless
--dp-epsilon bounds what it tells about any one user, by noise on what is counted. Then
choose all options without a look at the traces.

A CSV file has a header with user_id (or user, uid), timestamp (or time, ts), latitude (lat)
and longitude (lon, lng) in any order. Times are RFC 3339, UTC where they name no zone, or
epoch milliseconds. Choose a step in which a vehicle usually reports once or twice, and
cells that it crosses in about a step.

Fixes outside the box are left out. The result does not depend on the order of the input.

--hours, --weekend and --utc-offset give each part of the day or week a matrix of its own,
which backs off to all of them together. --personal also writes how each user moves, over
the popular model by how much of them there is. Whoever reads that folder knows where its
users live: it has to stay as secret as the traces, and no epsilon protects it.`,
		Example: `  geodither train --format csv --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out model.avro
  geodither train --format geolife --in "Geolife Trajectories 1.3/Data" --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out beijing.avro
  geodither train --in traces.csv --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --hours 6,10,16,20 --weekend --personal models --out model.avro
  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --dp-epsilon 1 --dp-contribution 50 --out private.avro
  geodither train --format gowalla --every-fix --in loc-gowalla_totalCheckins.txt.gz --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h --out la.avro`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, std)
		},
	}
	flags := cmd.Flags()
	f.input.register(flags)
	f.model.register(flags)
	f.private.register(flags)
	flags.StringVar(&f.out, "out", "", "model `FILE` to write")
	required(cmd, "box", "cell", "step", "out")
	return cmd
}

// run reads the traces, makes a model of them and writes it, in phases:
// parse, read, choose parameters, finish, measure the fit, write, summarize.
// Nothing is written before all of them have succeeded.
func (f *trainFlags) run(ctx context.Context, args []string, std streams) error {
	if err := f.private.apply(&f.model.train, false); err != nil {
		return err
	}
	trainers, err := f.model.trainers(strings.TrimSpace("traces " + f.input.format))
	if err != nil {
		return err
	}
	if err := f.checkOut(args); err != nil {
		return err
	}
	reader, err := f.input.open(ctx, args, std)
	if err != nil {
		return err
	}
	bar := newProgress(std.err, nil)
	defer bar.done()

	bar.phase("reading", reader.Progress)
	trainer, err := readTraces(reader, trainers, bar)
	if err != nil {
		return err
	}
	bar.phase("smoothing", nil)
	model, err := f.finish(trainer, func(done, total int64) error {
		bar.count(done, total, "")
		return ctx.Err()
	}, std)
	if err != nil {
		if skips := reader.Skips(); skips.Total > 0 {
			return fmt.Errorf("%w; %s", err, skips)
		}
		return err
	}
	if err := model.WriteFile(f.out); err != nil {
		return err
	}
	bar.phase("personal models", nil)
	users, err := f.model.personal.write(trainer, model, func(done, total int64) error {
		bar.count(done, total, "users")
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	bar.done()
	if err := f.summarize(model, reader.Skips(), std); err != nil || users == 0 {
		return err
	}
	fmt.Fprintf(std.out, "wrote %d personal models to %s\n", users, f.model.personal.dir)
	return nil
}

// checkOut refuses a file that cannot be written: now, not after an hour of
// training.
func (f *trainFlags) checkOut(args []string) error {
	if f.out == "-" {
		return usagef("a model is a file, not a stream: name one with --out")
	}
	if err := checkTarget(f.out); err != nil {
		return err
	}
	if info, err := os.Stat(f.out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a device or a pipe: name a file for the model", f.out)
	}
	return notAnInput(f.out, slices.Concat(f.input.paths, args))
}

// finish turns what was read into a model, unless report returns an error.
func (f *trainFlags) finish(trainer *mobility.Trainer, report func(done, total int64) error, std streams) (*mobility.Model, error) {
	if f.private.on() {
		return f.private.train(trainer, report, std.err)
	}
	model, _, err := trainer.FinishWhile(report)
	return model, err
}

// summarize says what was read and what became of it.
func (f *trainFlags) summarize(model *mobility.Model, skips *traces.Skips, std streams) error {
	if skips.Total > 0 {
		fmt.Fprintln(std.err, skips)
	}
	fmt.Fprintf(std.out, "wrote %s\n", f.out)
	return summarize(model).print(std.out)
}
