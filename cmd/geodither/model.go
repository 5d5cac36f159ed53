package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

func newModel(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Look at mobility models, check and measure them",
		Example: `  geodither model inspect model.avro
  geodither model fit model.avro --in other-users.csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelInspect(std), newModelFit(std))
	return cmd
}

type inspectFlags struct {
	json, strict bool
	settings     config.Flags
}

func newModelInspect(std cli.Streams) *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Print what a model holds, what is suspicious about it, and what to expect of it",
		Long: `Print what a model file holds, how it was made, what any reader of it may learn about the traces
behind it, and how well it predicts users that it was not trained on, if "geodither model fit"
has measured that. The command fails for a damaged file.

A model is suspicious if releases under it will probably disappoint: rows that are too sure of
themselves, a step that does not suit the cells, drift far from δ on users held out, or a model
learned from a few people. --strict makes that a failure.

With -c the command also simulates tracks that move as the model says, and prints
what to expect of releases: the error of the release and of the estimate, and beside them the
error of an estimate that sees no release (blind); the size |ΔX| of the location sets, or with
codebook how many cells are possible before a release; and the ε that a user spends in an hour
and a day. Real people move otherwise: "geodither sanitize" measures the same on traces.`,
		Example: `  geodither model inspect model.avro
  geodither model inspect -c geodither.yml model.avro
  geodither model inspect --json --strict model.avro`,
		Args: cli.OneFile("model file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.strict, "strict", false, "fail if the model is suspicious")
	f.settings.RegisterConfig(flags, "release")
	return cmd
}

func (f *inspectFlags) run(cmd *cobra.Command, path string, std cli.Streams) error {
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return err
	}
	summary := summarizeModel(model)
	if summary.Expected, err = f.simulate(cmd, model, std.Err); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		summary.FileBytes = info.Size()
	}
	if f.json {
		err = json.NewEncoder(std.Out).Encode(summary)
	} else {
		err = summary.Print(std.Out)
	}
	if err != nil {
		return err
	}
	if f.strict && len(summary.Suspicious) > 0 {
		return errors.New("the model is suspicious")
	}
	return nil
}

// simulate returns what error to expect of releases, nil if none were asked for.
func (f *inspectFlags) simulate(
	cmd *cobra.Command, model *mobility.Model, log io.Writer,
) (*expect.Summary, error) {
	if f.settings.Path == "" {
		return nil, nil
	}
	c, err := f.settings.File(cmd.Flags())
	if err != nil {
		return nil, err
	}
	release, err := c.Release.Options(model)
	if err := f.settings.Error(errors.Join(err, release.Validate())); err != nil {
		return nil, err
	}
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	bar.Phase("simulating", nil)
	x, err := expect.Simulate(cmd.Context(), model, release, expect.Options{
		Seed: expect.Seed, Progress: bar.Reporter(cmd.Context(), "steps"),
	})
	if err != nil {
		return nil, fmt.Errorf("simulating: %w", err)
	}
	expected := x.Summary()
	return &expected, nil
}

func newModelFit(std cli.Streams) *cobra.Command {
	o := fitOptions{Release: mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 1, Delta: .01, Estimate: mechanism.EstimateMean,
	}}
	var input cli.InputFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fit MODEL PATH...",
		Short: "Measure how well a model predicts users that it has not seen",
		Long: `Measure how well a model predicts users that it has not seen. A model predicts the users that it
was trained on too well, so their figures would flatter it.

Give traces of other users than those that the model was trained on. Or give the very traces that
it was trained on, with --held-out: the command checks that the traces give the model, trains a
second model with the same options and without some of the users, and measures how well it
predicts these users.

The filter goes through every stretch without a gap, with a release in each step by the mechanism
lattice at ε = 1 and δ = 0.01, whatever the service uses: codebook has no location set, so no drift.
The places between fixes are those that the model's training took. Drift is the share of releases
whose true cell lies outside the location set: far above δ, the model is too sure; far below, too
unsure. Intervals are over users, since the steps of one user depend on each other. At most 20,000
steps are measured, taken evenly from users and of none more than of all others together, in
stretches of at least 60 steps where enough users have such. The same traces give the same figures.

The command prints figures over all measured users, and no name or place. The figures of one user
are that person's all the same, and those of a few users tell about these few: keep them as you
keep the traces. --write stores the fit in the model's file, where every reader of the model sees
it, so it is refused for few users: it takes at least five users to measure and five others.

A model that was trained with differential privacy can be measured on traces of other users only.`,
		Example: `  geodither model fit model.avro --in other-users.csv
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 0.1
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 20 --write
  geodither model fit model.avro --in test/ --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			reader, err := input.Open(cmd.Context(), args[1:], std.In)
			if err != nil {
				return err
			}
			bar := cli.NewProgress(std.Err, nil)
			measured, err := measureFit(cmd.Context(), args[0], reader, o, bar)
			bar.Done()
			if err != nil {
				return err
			}
			if skips := reader.Skips(); skips.Total > 0 {
				fmt.Fprintln(std.Err, skips)
			}
			if asJSON {
				return json.NewEncoder(std.Out).Encode(measured)
			}
			var text strings.Builder
			printFit(&text, measured, trial.FitVerdict(*measured))
			_, err = io.WriteString(std.Out, text.String())
			return err
		},
	}
	flags := cmd.Flags()
	input.Register(flags, "in")
	flags.StringVar(&o.HeldOut, "held-out", "", "`USERS` that a second model is not trained on: "+
		"a share such as 0.1, a number, or a file with one user a line")
	flags.BoolVar(&o.Write, "write", false,
		"store the fit of --held-out in the model's file; the model itself stays the same")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
