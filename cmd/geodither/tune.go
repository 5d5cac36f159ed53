package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/tuning"
)

type tuneFlags struct {
	input        cli.InputFlags
	box          string
	cells        []string
	targetRadius string
	options      tuning.Options
}

func newTune(std cli.Streams) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune PATH... --box BOX --out FOLDER",
		Short: "Choose mechanism, cells, step, interval and ε for your traces, and write a config",
		Long: `Measure on traces what releases are worth and what they cost, over mechanisms, cells, steps,
release intervals, ε and δ, and choose:

  --target-radius 500m   the least ε a day with half of the estimates within 500 m
  --target-epsilon 200   the least error with an ε of at most 200 in any 24 hours

Among settings within a tenth of that ε, or a twentieth of that error, it takes the one that
reveals least about near places. It also names the best setting of each mechanism. A codebook
has the least error, but tells two neighbouring cells apart by the full e^ε where a border runs
between them. With lattice and a small δ near places of the location set are told apart less than
far ones: --mechanism lattice --delta 0.01 chooses among such settings only.

Errors are measured on users whom the model was not trained on, at each fix, also between
releases. One fifth of the users is held out: the chosen setting is checked on them, and the
two errors that are printed should agree. The same traces and options give the same figures on
any number of cores. The search takes some minutes; after Ctrl-C it starts from the beginning.

The folder of --out, a new or empty one, gets geodither.yml, which "geodither run" takes as it
is; its model, trained on all users without differential privacy; a new key; report.html with
the frontier, which error costs how much; and each measurement as CSV. Figures are over all
users, and come from the truth: the folder is for its owner only. What can be reached depends
on the traces: without a target you get the frontier alone.

ε a day is the sum of the releases of 24 hours for a user who reports all day, in whole steps.
The config limits it to that.`,
		Example: `  geodither tune --data traces.csv --box 53.40,-2.99,53.47,-2.89 --target-radius 500m --out tuned
  geodither tune --data traces/ --box 39.85,116.27,39.97,116.50 --cell 340m,680m --step 30s,60s \
    --target-epsilon 500 --out tuned`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, std)
		},
	}
	flags, o := cmd.Flags(), &f.options
	f.input.Register(flags, "data")
	flags.StringVar(&f.box, "box", "", "`SOUTH,WEST,NORTH,EAST` of the map, in degrees")
	flags.StringSliceVar(&f.cells, "cell", nil,
		"`LENGTHS` of a cell's side to try; default: 1/20 and 1/40 of the map")
	flags.DurationSliceVar(&o.Steps, "step", nil,
		"`TIMES` of a step to try; default: by how often fixes come")
	flags.DurationSliceVar(&o.Intervals, "interval", nil,
		"`TIMES` between releases to try; default: 1 to 60 steps")
	flags.Float64SliceVar(&o.Epsilons, "epsilon", []float64{.5, 1, 2, 4, 8, 16, 32},
		"`NUMBERS` of ε of a release to try")
	flags.Float64SliceVar(&o.Deltas, "delta", nil,
		"`NUMBERS` of δ to try with lattice; default: 0.01, and 0.6 up to ε = 2 or 0.3 above")
	flags.StringSliceVar(&o.Mechanisms, "mechanism", nil,
		"`NAME` of the mechanism to try, codebook or lattice; default: both")
	flags.StringVar(&f.targetRadius, "target-radius", "",
		"`LENGTH` within which half of the estimates must lie")
	flags.Float64Var(&o.TargetEpsilonDay, "target-epsilon", 0,
		"`EPSILON` that the releases of a day may add up to")
	flags.Float64Var(&o.MostFactor200M, "factor-200m", 0,
		"`FACTOR` by which the median release may at most tell places 200 m apart")
	flags.BoolVar(&o.Quick, "quick", false, "measure on few steps: a first look")
	o.Seed = 1 // fixed, so that the same traces give the same figures
	flags.StringVar(&o.Folder, "out", "", "new `FOLDER` for config, model, key and report")
	for name, text := range map[string]string{
		"step": "", "interval": "", "epsilon": "0.5,1,2,4,8,16,32", "delta": "",
	} {
		flags.Lookup(name).DefValue = text // in the form that one writes
	}
	cli.Required(cmd, "box", "out")
	return cmd
}

func (f *tuneFlags) run(ctx context.Context, args []string, std cli.Streams) error {
	if err := f.complete(); err != nil {
		return err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return err
	}
	return tuning.Run(ctx, reader, f.options, std)
}

// complete makes options of the flags.
func (f *tuneFlags) complete() error {
	o := &f.options
	g, err := cli.ParseMap(f.box, "1km") // any cell: only the box counts
	if err != nil {
		return cli.Usage(err)
	}
	o.Box = g.Box()
	for _, text := range f.cells {
		metres, err := cli.ParseLength(text)
		if err != nil {
			return cli.Usage(fmt.Errorf("--cell: %w", err))
		}
		o.CellsM = append(o.CellsM, metres)
	}
	if o.TargetKM, err = cli.Kilometres("--target-radius", f.targetRadius); err != nil {
		return cli.Usage(err)
	}
	if err := o.Complete(); err != nil {
		return cli.Usage(err)
	}
	return nil
}
