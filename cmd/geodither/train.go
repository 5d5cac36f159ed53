package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

type trainFlags struct {
	input cli.InputFlags
	topic topicFlags
	model modelFlags
	out   string

	private privateFlags
	fit     trainFitFlags
}

func newTrain(std cli.Streams) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train [PATH...]",
		Short: "Train a mobility model from traces",
		Long: `Train a mobility model: how likely a vehicle in a cell of the map is in each other cell one
step later. Reads CSV, NDJSON, a folder of Geolife 1.3 (.plt) or SNAP's Gowalla check-ins,
plain or gzip; or with --topic a raw topic of Kafka.

The model assumes that it is public: it is learned without privacy, unless
--dp-epsilon bounds what it tells about any one user, by noise on what is counted. Then
choose all options without a look at the traces.

A CSV file has a header with user_id (or user, uid), timestamp (or time, ts), latitude (lat)
and longitude (lon, lng) in any order. Times are RFC 3339, UTC where they name no zone, or
epoch milliseconds. Choose a step in which a vehicle usually reports once or twice, and
cells that it crosses in about a step.

Of a topic, the committed records are read that it holds at the start, or those from --from
on and before --to: an offset, the same in each partition, or a time such as
2026-11-21T08:00:00Z, compared with the records' Kafka timestamps, as in "geodither replay".
What "geodither run" would send to its dead letters is left out and counted, but for late
fixes: a model does not depend on the order.

Fixes outside the box are left out. The result does not depend on the order of the input.

--hours, --weekend and --utc-offset give each part of the day or week a matrix of its own,
which backs off to all of them together. --personal also writes how each user moves, over
the popular model by how much of them there is. Whoever reads that folder knows where its
users live: it has to stay as secret as the traces, and no epsilon protects it.

With 30 users or more a tenth of them, ten at least, are held out of a second model, which
tells how well such models foretell people they have not seen; the verdict is printed and
stands in the file. The model itself is trained on all. --held-out says whom to hold out,
or nobody. Five users at least have to be held out and five not, and none may have more than
half of what is measured: the fit would tell about these few. --select chooses the smoothing
on users left out in turn. A --dp-epsilon forbids both.`,
		Example: `  geodither train --format csv --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out model.avro
  geodither train --format geolife --in "Geolife Trajectories 1.3/Data" --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out beijing.avro
  geodither train --in traces.csv --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --hours 6,10,16,20 --weekend --personal models --out model.avro
  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --dp-epsilon 1 --dp-contribution 50 --out private.avro
  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --select --held-out 0.2 --fit-plot fit.png --out model.avro
  geodither train --format gowalla --every-fix --in loc-gowalla_totalCheckins.txt.gz --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h --out la.avro
  geodither train --brokers localhost:9092 --topic fleet.raw --from 2026-11-01T00:00:00Z --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out fleet.avro`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.topic.register(flags)
	f.model.register(flags)
	f.private.register(flags)
	f.fit.register(flags)
	flags.StringVar(&f.out, "out", "", "model `FILE` to write")
	cli.Required(cmd, "box", "cell", "step", "out")
	return cmd
}

// run reads the traces, makes a model of them and writes it, in phases:
// parse, read, choose parameters, finish, measure the fit, write, summarize.
// Nothing is written before the model is complete; a fit that fails after that
// does not take the model along.
func (f *trainFlags) run(cmd *cobra.Command, args []string, std cli.Streams) error {
	ctx := cmd.Context()
	if err := f.private.apply(&f.model.train, f.fit.asked(), f.model.personal.dir != ""); err != nil {
		return err
	}
	g, trainers, err := f.model.trainers(f.origin())
	if err != nil {
		return err
	}
	if err := f.checkOut(args); err != nil {
		return err
	}
	if err := f.fit.check(); err != nil {
		return err
	}
	source, err := f.source(cmd, args, std)
	if err != nil {
		return err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()

	in, err := source.Read(ctx, gather.Into{Grid: g, New: trainers}, bar)
	if err != nil {
		return err
	}
	var (
		trainer  *train.Trainer
		held     *holding
		selected string
		model    *mobility.Model
		report   mobility.Report
		summary  modelview.Summary

		unmeasured error // of the fit, which is told when the model is written
	)
	start := f.model.train
	start.Source, start.Tool = f.origin(), cli.Tool()
	err = cli.Interruptibly(ctx, func() (err error) {
		trainer = in.Trainer()
		// Nothing else of a private model's users may be told, unasked or asked.
		if !f.private.on() {
			if held, err = f.fit.holding(trainer, start.EveryFix); err != nil {
				return err
			}
		}
		if trainer, selected, err = f.fit.chosen(ctx, trainer, start, bar, std.Out); err != nil {
			return err
		}
		bar.Phase("smoothing", nil)
		model, report, err = f.finish(trainer, bar.Reporter(ctx, ""), std)
		return err
	})
	if err == nil || errors.Is(err, train.ErrNoFixes) {
		err = f.refuse(in.Useless(report, f.model.train), std)
	}
	if err != nil {
		return err
	}
	err = cli.Interruptibly(ctx, func() (err error) {
		model.Provenance.Options += selected
		model.Provenance.Fit, unmeasured = f.fit.measure(ctx, trainer, held, f.model.train.EveryFix, bar)
		summary = modelview.Summarize(model)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	file, err := files.Prepare(ctx, f.out, model)
	if err != nil {
		return err
	}
	defer file.Discard()
	bar.Phase("personal models", nil)
	users, err := f.model.personal.write(trainer, model, bar.Reporter(ctx, "users"))
	if err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.Done()
	// The model is there, whatever becomes of what goes beside it.
	if unmeasured == nil {
		unmeasured = f.fit.write(model.Provenance.Fit)
	}
	warn(in, report, trainer, model, std.Err)
	fixes, _ := in.Counts()
	fmt.Fprintf(std.Out, "read  %s: %s\nwrote %s\n", in.From, cli.Quantity(fixes, "fix"), f.out)
	if users > 0 {
		fmt.Fprintf(std.Out, "wrote %s to %s\n", cli.Quantity(users, "personal model"), f.model.personal.dir)
	}
	return errors.Join(summary.Print(std.Out), f.besides(unmeasured))
}

// besides says of an error of the fit that the model is written all the same.
func (f *trainFlags) besides(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (the model is in %s all the same: \"geodither model inspect --json\" prints the fit, if it has one)", err, f.out)
}

// checkOut refuses a file that cannot be written: now, not after an hour of
// training.
func (f *trainFlags) checkOut(args []string) error {
	if f.out == "-" {
		return cli.Usagef("a model is a file, not a stream: name one with --out")
	}
	if err := files.CheckTarget(f.out); err != nil {
		return err
	}
	if info, err := os.Stat(f.out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a device or a pipe: name a file for the model", f.out)
	}
	return files.NotAnInput(f.out, slices.Concat(f.input.Paths, args))
}

// finish turns what was read into a model, unless report returns an error.
func (f *trainFlags) finish(trainer *train.Trainer, report func(done, total int64) error, std cli.Streams) (*mobility.Model, mobility.Report, error) {
	if f.private.on() {
		return f.private.train(trainer, report, std.Err)
	}
	return trainer.FinishWithProgress(report)
}

// refuse is the error of traces that a model learns nothing from. For a private
// model it is a warning: that there is a model must not depend on the traces.
func (f *trainFlags) refuse(useless error, std cli.Streams) error {
	if useless == nil || !f.private.on() {
		return useless
	}
	fmt.Fprintf(std.Err, "warning: the model is made of noise alone: %v\n", useless)
	return nil
}
