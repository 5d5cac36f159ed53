package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

type modelFitFlags struct {
	fitFlags
	input       cli.InputFlags
	maxGap      time.Duration
	interpolate bool
	personal    string
}

// personalsAtOnce is how many bytes of users' own models are kept in memory: of some
// ten thousand users.
const personalsAtOnce = 64 << 20

func newModelFit(std cli.Streams) *cobra.Command {
	var f modelFitFlags
	cmd := &cobra.Command{
		Use:   "fit MODEL --in TRACES",
		Short: "Measure how well a model foretells traces that it was not trained on",
		Long: `Measure how well a model foretells traces. They must be of other users than those it was
trained on: a model knows these too well, and the figures would flatter it.

The filter goes through every stretch without a gap, with a release in each step, as it
would in service. If drift, the share of releases whose true cell lies outside the location
set, is far above δ, the model is too sure; far below, too unsure. Intervals are over users,
since the steps of one user depend on each other. The same traces and seed give the same
figures. Nothing is printed or written but figures over all users: of one user, these are
that person's figures, and of a few, theirs.`,
		Example: `  geodither model fit model.avro --in other-users.csv
  geodither model fit model.avro --in test/ --epsilon 4 --delta 0.3 --runs 5 --json fit.json --plot fit.png
  geodither model fit model.avro --personal users/ --in the-same-users-later.csv`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], args[1:], std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.register(flags, "")
	flags.DurationVar(&f.maxGap, "max-gap", 0, "cut a trace where two fixes are further apart; a step without one cuts it anyway")
	flags.BoolVar(&f.interpolate, "interpolate", false, "take places on straight lines between fixes at most --max-gap apart")
	flags.StringVar(&f.personal, "personal", "", "measure each user under his own model, from this `FOLDER`")
	return cmd
}

func (f *modelFitFlags) run(ctx context.Context, path string, more []string, std cli.Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return err
	}
	every := strings.Contains(model.Provenance.Options, "every_fix=true")
	// It gathers fixes and makes no model of them: the radius is the smallest, for maps of any size.
	options := train.Options{KernelRadius: 1, EveryFix: every, MaxGap: f.maxGap, Interpolate: f.interpolate}
	if err := options.Validate(model.Step); err != nil {
		return cli.Usage(err)
	}
	reader, err := f.input.Open(ctx, more, std.In)
	if err != nil {
		return err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	in, err := gather.Files{Reader: reader}.Read(ctx, gather.Into{Grid: model.Grid, New: func() *train.Trainer {
		trainer, err := train.New(model.Grid, model.Step, options)
		if err != nil {
			panic(err) // the options are valid, and the radius fits any grid
		}
		return trainer
	}}, bar)
	if err != nil {
		return err
	}
	trainer := in.Trainer()
	bar.Phase("measuring", nil)
	o := f.options(ctx, bar)
	o.EveryFix = every
	o.MinSegment = f.segment(trainer.Tracks(nil))
	if f.personal != "" {
		personals, err := mobility.OpenPersonals(f.personal, model, personalsAtOnce)
		if err != nil {
			return err
		}
		o.Personal = personals.Load
	}
	measured, err := fit.Measure(model, trainer.Tracks(nil), o)
	if errors.Is(err, fit.ErrNoTracks) {
		return fmt.Errorf("%w; and see that the traces lie in the model's box", err)
	} else if err != nil {
		return err
	}
	bar.Done()
	if in.Skips.Total > 0 {
		fmt.Fprintln(std.Err, &in.Skips)
	}
	var text strings.Builder
	modelview.PrintFit(&text, &measured, fit.Verdict(measured))
	_, err = fmt.Fprint(std.Out, text.String())
	return errors.Join(err, f.write(&measured)) // what cannot be written is printed all the same
}
