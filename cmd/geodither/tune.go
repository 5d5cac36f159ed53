package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

type tuneFlags struct {
	input        cli.InputFlags
	config       config.Flags
	box          string
	cells        []string
	targetRadius string
	folder       string
	options      tune.Options
}

func newTune(std cli.Streams) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune [-c FILE] PATH... --box BOX --out FOLDER",
		Short: "Choose a plan of a day's releases for your traces, and write a config",
		Long: `Get a config for your traces. A release has a price, ε: how much it can reveal. A user's releases
of any 24 hours add up to at most a limit, the config's budget. For limits of 5, 10, 20, 40 and 80
this looks for the best plan: how many releases of which ε, how often, with which cells, and with
a calendar or without. The plan is chosen by one of

  --target-radius 500m   the least limit of 5 to 80 with half of the estimates within 500 m
  --target-epsilon 20    the least error with a limit of at most 20

Errors are measured over whole days, on users whom the model was not trained on, beside the best
estimate of the model alone. The chosen plan is measured again on a fifth of the users, who had no
part in the choice. It takes some minutes. -c takes the section input of a config, by which JSON in
files is read.

The folder of --out, a new or empty one, gets geodither.yml, for "geodither run";
its model, trained on all users without differential privacy; a new key; report.md; and each
number as CSV. Figures come from the truth, so the folder is for its owner only. Without a target
you get the report alone.`,
		Example: `  geodither tune --in traces.csv --box 53.40,-2.99,53.47,-2.89 --target-epsilon 20 --out tuned
  geodither tune --in traces/ --box 39.85,116.27,39.97,116.50 --cell 340m,680m --step 60s \
    --target-radius 1km --out tuned`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.config.Path = cli.Config(cmd, false)
			return f.run(cmd.Context(), args, std)
		},
	}
	flags, o := cmd.Flags(), &f.options
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	flags.StringVar(&f.box, "box", "", "`SOUTH,WEST,NORTH,EAST` of the map, in degrees")
	flags.StringSliceVar(&f.cells, "cell", nil,
		"`LENGTHS` of a cell's side to try; default: 1/20 and 1/40 of the map")
	flags.DurationVar(&o.Step, "step", 0, "`DURATION` of a step; default: by how often fixes come")
	flags.StringVar(&o.Mechanism, "mechanism", law.Codebook, "`NAME`: codebook or lattice")
	cli.Values(cmd, "mechanism", law.Codebook, law.Lattice)
	flags.StringVar(&f.targetRadius, "target-radius", "",
		"`LENGTH` within which half of the estimates must lie")
	flags.Float64Var(&o.TargetEpsilonDay, "target-epsilon", 0,
		"`EPSILON` that the releases of a day may add up to")
	flags.BoolVar(&o.Quick, "quick", false, "measure on few steps: a first look")
	flags.StringVar(&f.folder, "out", "", "new `FOLDER` for config, model, key and report")
	cli.Required(cmd, "box", "out")
	return cmd
}

func (f *tuneFlags) run(ctx context.Context, args []string, std cli.Streams) error {
	if err := f.complete(); err != nil {
		return err
	}
	var err error
	if f.input.Mapping, err = f.config.Mapping(); err != nil {
		return err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return err
	}
	leave, err := claim(f.folder, std.Err)
	if err != nil {
		return err
	}
	defer leave()
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	fixes, err := f.read(reader, bar, std.Err)
	if err != nil {
		return err
	}
	paths := slices.Concat(f.input.Paths, args)
	f.options.Name = filepath.Base(paths[0])
	if len(paths) > 1 {
		f.options.Name += " and others"
	}
	bar.Phase("preparing", nil)
	phase, announced := "", map[string]bool{}
	f.options.Progress = func(name string, done, total int64) error {
		if name != phase {
			phase = name
			bar.Phase(name, nil)
			if !announced[name] {
				announced[name] = true
				bar.Announce(name + " ...")
			}
		}
		bar.Count(done, total, "")
		return ctx.Err()
	}
	var result *tune.Result
	err = cli.Interruptibly(ctx, func() (err error) {
		result, err = tune.Search(fixes, f.options)
		return err
	})
	bar.Done()
	if err != nil {
		return err
	}
	return deliver(ctx, result, f.folder, std)
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
	o.Seed = 1 // fixed, so that the same traces give the same figures
	o.Workers, o.Tool = runtime.GOMAXPROCS(0), cli.Tool()
	if err := o.Validate(); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// read gathers the traces, with all cores. It says on log what it left out.
func (f *tuneFlags) read(
	reader *traces.Reader, bar *cli.Progress, log io.Writer,
) (*tune.Fixes, error) {
	bar.Phase("reading", reader.Progress)
	gathered := make([]*tune.Fixes, max(1, min(runtime.GOMAXPROCS(0), reader.Files())))
	for i := range gathered {
		gathered[i] = tune.NewFixes(f.options)
	}
	var all atomic.Int64
	err := reader.Parallel(len(gathered), func(worker int, raw schemas.Raw) error {
		const many = 4096
		w := gathered[worker]
		w.Add(train.Fix{
			User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude,
		})
		if w.All%many == 0 {
			bar.Show(all.Add(many))
		}
		return nil
	})
	bar.Done()
	if err != nil {
		return nil, err
	}
	if skips := reader.Skips(); skips.Total > 0 {
		fmt.Fprintln(log, skips)
	}
	first := gathered[0]
	for _, other := range gathered[1:] {
		first.Merge(other)
	}
	if err := gather.NoneInside(cli.Quantity(int64(reader.Files()), "file"), first.All,
		first.Inside, first.Swapped); err != nil {
		return nil, err
	}
	if out := first.All - first.Inside; out > 0 {
		fmt.Fprintf(log, "warning: %d of %d fixes lie outside the box and are left out\n", out,
			first.All)
	}
	return first, nil
}

// claim makes a folder for its owner only, or takes an empty one as it is. It refuses another one:
// the model that a service runs with, or a key, must not be replaced. The returned function removes
// the folder if nothing was written into it.
func claim(folder string, log io.Writer) (leave func(), err error) {
	entries, err := os.ReadDir(folder)
	switch {
	case err == nil && len(entries) > 0:
		return nil, cli.Usagef("the folder %s is not empty: name a new one with --out", folder)
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(folder, 0o700)
	case err == nil:
		files.WarnOpenFolder(folder, log)
	}
	if err != nil {
		return nil, files.Unwritten(folder, err)
	}
	// Figures of people's traces and the key stay out of any repository around the folder.
	if err := files.Hide(folder, log); err != nil {
		_ = os.Remove(folder) // it is empty
		return nil, err
	}
	return func() {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) == 1 {
			_ = os.Remove(filepath.Join(folder, entries[0].Name()))
			_ = os.Remove(folder)
		}
	}, nil
}

// Files of a tuned folder, besides its report.
const (
	tunedConfig = "geodither.yml"
	tunedModel  = "model.avro"
	tunedKey    = "noise.key"
)

// errNoChoice ends a search for a target that no plan reaches. The report is written all the same.
var errNoChoice = errors.New(
	"no plan meets the target; the folder has the report and no config")

// deliver writes the folder and prints what was found. The config is written last: where it is, all
// else is.
func deliver(ctx context.Context, r *tune.Result, folder string, std cli.Streams) error {
	cli.Say(std.Out, "A release has a price, ε: how much it can reveal. For each limit of a "+
		"user's sum a day, this is the best plan, with errors while somebody reports:")
	if err := r.Frontier().Text(std.Out); err != nil {
		return err
	}
	if err := r.Report().Write(folder, func() error { return ctx.Err() }); err != nil {
		return files.Unwritten(folder, err)
	}
	fmt.Fprintln(std.Out)
	if r.Promise == nil {
		fmt.Fprintf(std.Out, "wrote %s\n", filepath.Join(folder, "report.md"))
	} else {
		if err := writeTuned(ctx, r, folder); err != nil {
			return err
		}
		path := filepath.Join(folder, tunedConfig)
		fmt.Fprintf(std.Out, "wrote %s, with report.md, %s and %s (keep it secret)\n"+
			"next: enter your brokers, group and topics, then run\n  geodither doctor -c %s\n\n",
			path, tunedModel, tunedKey, path)
	}
	for _, paragraph := range r.Verdict() {
		cli.Say(std.Out, "%s", paragraph)
	}
	if r.Promise == nil && (r.Options.TargetKM > 0 || r.Options.TargetEpsilonDay > 0) {
		return errNoChoice
	}
	return nil
}

// writeTuned writes the key, the model and the config of a choice.
func writeTuned(ctx context.Context, r *tune.Result, folder string) error {
	in := func(name string) string { return filepath.Join(folder, name) }
	model, err := files.Prepare(ctx, in(tunedModel), r.Model)
	if err != nil {
		return err
	}
	defer model.Discard()
	if err := files.WriteKey(in(tunedKey), noise.NewKey()); err != nil {
		return files.Unwritten(in(tunedKey), err)
	}
	if err := model.Commit(); err != nil {
		return err
	}
	return files.WriteWhole(in(tunedConfig), []byte(yamlOf(r)))
}

// yamlOf returns the config of the choice.
func yamlOf(r *tune.Result) string {
	p := r.Promise
	var b strings.Builder
	b.WriteString(
		"# Configuration of \"geodither run -c FILE\", from \"geodither tune\". " +
			"Relative paths are relative to this file.\n" +
			"# deploy/geodither.yml of the project explains every key. What is measured " +
			"on the traces is in report.md alone.\n",
	)
	window := (24*time.Hour + p.Step - 1) / p.Step * p.Step // in whole steps, at least a day
	delta := fmt.Sprintf("  delta: %s\n", decimal(p.Delta))
	if p.Mechanism == law.Codebook {
		delta = "" // it has no location set
	}
	fmt.Fprintf(&b, `
brokers: [localhost:9092]  # a secured cluster needs the section kafka: deploy/SETUP.md
group: geodither
# input: {preset: traccar}  # for records of another form than Avro's: schemas/RECORDS.md

topics:
  raw: fleet.raw
  sanitized: fleet.sanitized
  create: true  # all but the raw topic

model: %s
key_file: %s
state_dir: geodither-state

release:
  mechanism: %s
  epsilon: %s
%s  interval: %s
  budget:
    epsilon: %s  # %d releases a day
    window: %s
`,
		tunedModel, tunedKey, p.Mechanism, decimal(p.Epsilon), delta,
		tune.Short(p.Interval), decimal(p.DayEpsilon), p.ReleasesDay(), tune.Short(window))
	return b.String()
}

// decimal writes a number as YAML and people read it, to a billionth, the unit in which ε is
// counted.
func decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 9, 64), "0"), ".")
}
