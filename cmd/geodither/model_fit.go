package main

import (
	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/modelfit"
	"github.com/geodither/geodither/mechanism"
)

func newModelFit(std cli.Streams) *cobra.Command {
	o := modelfit.Options{Release: mechanism.Options{Estimate: mechanism.EstimateMean}}
	var input cli.InputFlags
	cmd := &cobra.Command{
		Use:   "fit MODEL --in TRACES",
		Short: "Measure how well a model predicts users that it has not seen",
		Long: `Measure how well a model predicts users that it has not seen: it knows the others too well,
and the figures would flatter it.

Give traces of other users than those the model was trained on. Or give the very traces that it
was trained on, with --held-out: the command trains a second model without some of the users,
with the options of the first, and measures how well it predicts these users. It checks
first that the traces give the model.

The filter goes through every stretch without a gap, with a release in each step, as it
would in service. Places are taken as the model's training took them, interpolated or not. If drift, the share of releases whose true cell lies outside the location
set, is far above δ, the model is too sure; far below, too unsure. Intervals are over users,
since the steps of one user depend on each other. The same traces give the same figures.

The command prints and writes figures over all measured users, and no name or place. But the
figures of one user are that person's, and those of a few tell about these few: keep them, as
you keep the traces. --write stores the fit in the model's file, for all who read the model,
and refuses that where it would tell about few: it takes five users to measure and five others,
and no user may have more than half of what is measured.

--select tries smoothings on users left out in turn, from that of the model on, and prints
a table. Its last line is the flag to train with.

A model that was trained with differential privacy is measured on traces of other people
alone.`,
		Example: `  geodither model fit model.avro --in other-users.csv
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 0.1
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 20 --write
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --select
  geodither model fit model.avro --in test/ --epsilon 4 --delta 0.3 --runs 5 --json fit.json --plot fit.png
  geodither model fit model.avro --personal users/ --in the-same-users-later.csv`,
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
			result, err := modelfit.Run(cmd.Context(), args[0], gather.Files{Reader: reader}, o, bar)
			bar.Done()
			if err != nil {
				return err
			}
			return result.Print(o, std)
		},
	}
	flags := cmd.Flags()
	input.Register(flags, "in")
	flags.StringVar(&o.HeldOut, "held-out", "", "`WHO` a second model is not trained on: a share of the users such as 0.1, a number of them, or a file with a user in each line")
	flags.BoolVar(&o.Write, "write", false, "store the fit of --held-out in the model's file; the model stays the same")
	flags.BoolVar(&o.Select, "select", false, "choose the smoothing that predicts users left out best, in place of a measurement")
	flags.Float64Var(&o.Release.Epsilon, "epsilon", 1, "ε of each release of the filter")
	flags.Float64Var(&o.Release.Delta, "delta", 0.01, "δ of the filter's location sets")
	flags.IntVar(&o.Runs, "runs", 1, "let the filter go through the traces this many times, each with other noise")
	flags.Int64Var(&o.Steps, "steps", 0, "measure on at most this many steps, taken evenly from users, or from some of them where they are many; 0: no limit, and 6000 for --select")
	flags.IntVar(&o.MinSegment, "min-segment", 0, "measure on stretches of at least this many steps without a gap; 0: 60, or less where too few users have such")
	flags.StringVar(&o.Personal, "personal", "", "measure each user under a model of the user's own, from this `FOLDER`")
	flags.StringVar(&o.JSON, "json", "", "write the fit into this `FILE`, as JSON")
	flags.StringVar(&o.Plot, "plot", "", "draw drift against δ into this `FILE`, .png or .svg")
	return cmd
}
