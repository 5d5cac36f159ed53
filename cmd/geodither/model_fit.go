package main

import (
	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/modelfit"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

func newModelFit(std cli.Streams) *cobra.Command {
	o := modelfit.Options{Release: mechanism.Options{
		Mechanism: law.Lattice, Estimate: mechanism.EstimateMean,
	}}
	var input cli.InputFlags
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
lattice, whatever the service uses: codebook has no location set, so no drift. The places between
fixes are those that the model's training took. Drift is the share of releases whose true cell
lies outside the location set: far above δ, the model is too sure; far below, too unsure.
Intervals are over users, since the steps of one user depend on each other. The same traces give
the same figures.

The command prints and writes figures over all measured users, and no name or place. The figures
of one user are that person's all the same, and those of a few users tell about these few: keep
them as you keep the traces. --write stores the fit in the model's file, where every reader of
the model sees it, so it is refused for few users: it takes at least five users to measure and
five others, and no user may have more than half of what is measured.

--select tries smoothings on users that are left out in turn, starting with the smoothing of the
model, and prints a table. Its last line is the flag to train with.

A model that was trained with differential privacy can be measured on traces of other users only.`,
		Example: `  geodither model fit model.avro --in other-users.csv
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 0.1
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 20 --write
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --select
  geodither model fit model.avro --in test/ --epsilon 4 --delta 0.3 --json fit.json --plot fit.png
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
			result, err := modelfit.Run(cmd.Context(), args[0],
				gather.Files{Reader: reader}, o, bar)
			bar.Done()
			if err != nil {
				return err
			}
			return result.Print(o, std)
		},
	}
	flags := cmd.Flags()
	input.Register(flags, "in")
	flags.StringVar(&o.HeldOut, "held-out", "", "`USERS` that a second model is not trained on: "+
		"a share such as 0.1, a number, or a file with one user a line")
	flags.BoolVar(&o.Write, "write", false,
		"store the fit of --held-out in the model's file; the model itself stays the same")
	flags.BoolVar(&o.Select, "select", false,
		"choose the smoothing that best predicts users left out, in place of a measurement")
	flags.Float64Var(&o.Release.Epsilon, "epsilon", 1, "ε of each release by lattice")
	flags.Float64Var(&o.Release.Delta, "delta", 0.01, "δ of the filter's location sets")
	flags.IntVar(&o.Runs, "runs", 1, "number of passes over the traces, each with other noise")
	flags.Int64Var(&o.Steps, "steps", 0, "measure at most this many steps, spread evenly over "+
		"users; 0: no limit, and 6000 for --select")
	flags.IntVar(&o.MinSegment, "min-segment", 0, "measure stretches of at least this many steps "+
		"without a gap; 0: 60, or less if few users have such")
	flags.StringVar(&o.Personal, "personal", "",
		"measure each user under a model of the user's own, from this `FOLDER`")
	flags.StringVar(&o.JSON, "json", "", "write the fit to this `FILE`, as JSON")
	flags.StringVar(&o.Plot, "plot", "", "draw drift against δ to this `FILE`, .png or .svg")
	return cmd
}
