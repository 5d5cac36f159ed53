package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

type tuneFlags struct {
	input         cli.InputFlags
	box           string
	cells         []string
	steps         []time.Duration
	intervals     []time.Duration
	epsilons      []float64
	deltas        []float64
	mechanism     string
	targetRadius  string
	targetEpsilon float64
	factor        float64
	scout, most   int64
	seed          uint64
	out           string
}

func newTune(std cli.Streams) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune [PATH...]",
		Short: "Choose cells, step, interval, ε and δ for your own traces, and write a config",
		Long: `Measure on traces what releases would be worth and what they would cost, over cells, steps,
release intervals, ε and δ, and choose:

  --target-radius 500m   the least ε a day for which half of the estimates are within 500 m
  --target-epsilon 200   the least error for an ε of at most 200 in any 24 hours

Of settings within a tenth of that ε, or a twentieth of that error, it takes the one of
which the least goes to telling near places apart.

Errors are measured on users whom the model was not trained on, at each fix, also between
releases. A fifth of the users has no part in the choice: on them it is checked, and what
is printed as promised and as checked should be alike. Who is in which part is drawn by
--seed. The same traces and options give the same figures on any number of cores. It takes
some minutes; after Ctrl-C it begins anew.

The folder of --out, a new or empty one, gets geodither.yml, which "geodither run" takes as
it is, with its model (trained on all users, without differential privacy) and a new key;
report.html with the frontier, what error costs how much, drawn and as a table; each
measurement as CSV. Figures are over all users; they come from the truth: the folder is for
its owner only. What can be reached depends on the traces: without a target only the
frontier is shown.

ε a day is what the releases of 24 hours add up to for a user who reports all day, counted
in whole steps. The config limits it to that.`,
		Example: `  geodither tune --data traces.csv --box 53.40,-2.99,53.47,-2.89 --target-radius 500m --out tuned
  geodither tune --data traces/ --box 39.85,116.27,39.97,116.50 --cell 340m,680m --step 30s,60s --target-epsilon 500 --out tuned`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args, std) },
	}
	flags := cmd.Flags()
	f.input.RegisterAs(flags, "data")
	flags.StringVar(&f.box, "box", "", "the map's `SOUTH,WEST,NORTH,EAST`, degrees")
	flags.StringSliceVar(&f.cells, "cell", nil, "sides of cells to try, `LENGTHS` such as 250m,500m; default a twentieth and a fortieth of the map, or as small as --target-radius needs")
	flags.DurationSliceVar(&f.steps, "step", nil, "time steps to try, `TIMES` that are multiples of the shortest; default by how often fixes come, and twice that")
	flags.DurationSliceVar(&f.intervals, "interval", nil, "least `TIMES` between two releases to try, of at most 60 of the longest step; default 1, 5, 10, 20 and 60 of it. A release in each step is always tried too")
	flags.Float64SliceVar(&f.epsilons, "epsilon", []float64{.5, 1, 2, 4, 8, 16, 32}, "ε of a release to try, `NUMBERS`; between them it is refined for a target")
	flags.Float64SliceVar(&f.deltas, "delta", []float64{.01, .1, .3, .6}, "δ to try, `NUMBERS`: prior mass that location sets may leave out")
	flags.StringVar(&f.mechanism, "mechanism", law.Lattice, "lattice, or one of the paper's: pim, knorm, laplace, laplace-tight")
	flags.StringVar(&f.targetRadius, "target-radius", "", "`LENGTH` within which half of the estimates are to be, such as 500m")
	flags.Float64Var(&f.targetEpsilon, "target-epsilon", 0, "ε that the releases of a day may add up to")
	flags.Float64Var(&f.factor, "factor-200m", 0, "leave out what lets a release, the median one, tell two likely places 200 m apart by more than this factor; 0: no limit")
	flags.Int64Var(&f.scout, "scout-steps", 1000, "time steps with a fix, taken evenly from users, for a first look at each setting")
	flags.Int64Var(&f.most, "steps", 8000, "the same for settings that are worth it; what is promised and checked is measured on four times as many")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the noise and of who is held out")
	flags.StringVar(&f.out, "out", "", "`FOLDER` for config, model, key and report")
	cli.Required(cmd, "box", "out")
	return cmd
}

// run reads, searches, and writes.
func (f *tuneFlags) run(ctx context.Context, args []string, std cli.Streams) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	leave, err := f.claim(std)
	if err != nil {
		return err
	}
	defer leave()
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	fixes, err := f.read(ctx, args, o, bar, std)
	if err != nil {
		return err
	}
	f.fill(&o, fixes)
	if err := o.Validate(); err != nil {
		return cli.Usage(err)
	}
	phase, number := "", 0
	o.Progress = func(name string, done, total int64) error {
		if name != phase {
			phase = name
			number++
			bar.Phase(fmt.Sprintf("%d/%d %s", number, f.phases(), name), nil)
		}
		bar.Count(done, total, "")
		return ctx.Err()
	}
	var result *tune.Result
	err = cli.Interruptibly(ctx, func() (err error) {
		result, err = tune.Search(fixes, o)
		return err
	})
	bar.Done()
	if err != nil {
		return err
	}
	return f.deliver(ctx, result, std)
}

// claim makes the folder, for its owner only, or takes an empty one as it is: what is in another
// one, a model that a service runs with or a key, is not to be replaced. The returned
// function removes it if nothing was written.
func (f *tuneFlags) claim(std cli.Streams) (leave func(), err error) {
	entries, err := os.ReadDir(f.out)
	switch {
	case err == nil && len(entries) > 0:
		return nil, cli.Usagef("the folder %s is not empty: name a new one with --out", f.out)
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(f.out, 0o700)
	case err == nil:
		files.WarnOpenFolder(f.out, std.Err)
	}
	if err != nil {
		return nil, files.Unwritten(f.out, err)
	}
	// What comes from people's traces, and the key, stay out of any repository around it.
	if err := files.Hide(f.out, std.Err); err != nil {
		_ = os.Remove(f.out) // it is empty
		return nil, err
	}
	return func() {
		if entries, err := os.ReadDir(f.out); err == nil && len(entries) == 1 {
			_ = os.Remove(filepath.Join(f.out, entries[0].Name()))
			_ = os.Remove(f.out)
		}
	}, nil
}

// phases is how many there are.
func (f *tuneFlags) phases() int {
	switch {
	case f.targetRadius != "":
		return 5
	case f.targetEpsilon > 0:
		return 4
	}
	return 2
}

// options are those of the flags, before the traces are known.
func (f *tuneFlags) options() (tune.Options, error) {
	o := tune.Options{
		Steps: f.steps, Intervals: f.intervals, Epsilons: f.epsilons, Deltas: f.deltas,
		Release: mechanism.Options{Mechanism: f.mechanism}, TargetEpsilonDay: f.targetEpsilon, MostFactor200M: f.factor,
		ScoutBins: f.scout, Bins: f.most, Seed: f.seed, Workers: runtime.GOMAXPROCS(0),
	}
	g, err := cli.ParseMap(f.box, "1km")
	if err != nil {
		return o, cli.Usage(err)
	}
	o.Box = g.Box()
	for _, text := range f.cells {
		metres, err := cli.ParseLength(text)
		if err != nil {
			return o, cli.Usage(fmt.Errorf("--cell: %w", err))
		}
		o.CellsM = append(o.CellsM, metres)
	}
	if o.TargetKM, err = cli.Kilometres("--target-radius", f.targetRadius); err != nil {
		return o, cli.Usage(err)
	}
	if f.scout < 1 || f.most < 1 {
		return o, cli.Usagef("--scout-steps and --steps must be at least 1")
	}
	if len(o.CellsM) == 0 {
		o.CellsM = usualCells(o.Box, o.TargetKM)
	}
	if len(o.Steps) == 0 {
		return o, nil // the traces decide
	}
	f.fill(&o, nil)
	if err := o.Validate(); err != nil {
		return o, cli.Usage(err)
	}
	return o, nil
}

// usualCells are a twentieth and a fortieth of the map's longer side, or smaller ones
// that a target needs: within a cell nobody is found.
func usualCells(box grid.Box, targetKM float64) []float64 {
	const (
		plenty   = 40_000 // cells: more take long
		ofTarget = .7     // places in a cell of this much of the target are a quarter of it away from its centre
	)
	probe, err := grid.New(box, 100)
	if err != nil {
		return []float64{1000} // which says the same
	}
	corner := probe.ToMap(box.North, box.East)
	fine := 1000 * max(corner.X, corner.Y) / 40
	if targetKM > 0 {
		fine = min(fine, max(1000*ofTarget*targetKM, 1000*math.Sqrt(corner.X*corner.Y/plenty)))
	}
	return []float64{twoDigits(fine), twoDigits(2 * fine)}
}

// twoDigits rounds metres to two significant digits, and to a metre.
func twoDigits(metres float64) float64 {
	scale := math.Pow(10, math.Max(0, math.Floor(math.Log10(metres))-1))
	return max(1, math.Round(metres/scale)*scale)
}

// usualSteps are times in which people think, multiples of the shortest.
var usualSteps = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}

// fill gives the options what was left open: steps by how often fixes come.
func (f *tuneFlags) fill(o *tune.Options, fixes *tune.Fixes) {
	if len(o.Steps) == 0 {
		gap := fixes.MedianGap()
		step := usualSteps[len(usualSteps)-1]
		for _, usual := range slices.Backward(usualSteps) {
			if usual >= gap {
				step = usual
			}
		}
		o.Steps = []time.Duration{step, 2 * step}
	}
	longest := slices.Max(o.Steps)
	if len(o.Intervals) == 0 {
		for _, n := range []time.Duration{1, 5, 10, 20, 60} {
			o.Intervals = append(o.Intervals, n*longest)
		}
	}
	// Moves that take longer than a step give transitions along the way.
	o.Train = train.Options{Interpolate: true, MaxGap: max(5*time.Minute, 2*longest), Source: "traces", Tool: cli.Tool()}
}
