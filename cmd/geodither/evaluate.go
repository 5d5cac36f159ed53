package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/experiment"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

type evaluateFlags struct {
	data        dataFlags
	experiments []string
	also        []string
	out         string
	quick       bool
}

func newEvaluate(std cli.Streams) *cobra.Command {
	f := evaluateFlags{}
	cmd := &cobra.Command{
		Use:   "evaluate --out FOLDER",
		Short: "Repeat the paper's experiments on your traces, and write a report",
		Long: fmt.Sprintf(`Repeat the experiments of Xiao and Xiong (CCS 2015) on traces, beside a baseline that sees no
release, and write a report: report.md, each chart as SVG, each number as CSV. Without --data the
traces are those of the shipped buses.

  over-time    one trace over time
  parameters   the traces of many users, over ε and δ
  knn          the nearest places to a release: those of all check-ins, else synthetic ones
  adversaries  what an observer learns who knows less or more than the model
  mechanisms   all mechanisms at the same ε, each at its best δ: the error, and how many
               neighbouring cells a release tells apart

The sets geolife and gowalla have maps, cells and steps of their own; in gowalla, a set of
check-ins, each fix is a timestamp. Any other name stands for your traces and needs --box, --cell
and --step: for all sets, as 250m, or for one, as NAME=250m.

--also measures more than the paper's two mechanisms:
  %s

The same data and options give the same report on any number of cores. After Ctrl-C the same
command goes on where it stopped. The report shows the trace of one person, so the folder is for
your eyes only, unless the data are open.`,
			strings.Join(experiment.Alsos(), ", ")),
		Example: `  geodither evaluate --out buses
  geodither evaluate --data "geolife=Geolife Trajectories 1.3/Data" \
    --data gowalla=loc-gowalla_totalCheckins.txt.gz --out paper
  geodither evaluate --data fleet=traces.csv --box 53.40,-2.99,53.47,-2.89 --cell 250m \
    --step 30s --experiment parameters --out fleet`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), std) },
	}
	flags := cmd.Flags()
	f.data.register(flags)
	flags.StringSliceVar(&f.experiments, "experiment", []string{"all"},
		"`NAMES` with commas: "+strings.Join(experiment.Names(), ", ")+", or all")
	flags.StringSliceVar(&f.also, "also", nil,
		"`NAMES` of what is measured besides, with commas")
	flags.StringVar(&f.out, "out", "", "`FOLDER` for the report and the pieces that it is made of")
	flags.BoolVar(&f.quick, "quick", false,
		"few users, runs and parameters: a first look, with wide bands")
	flags.Lookup("experiment").DefValue = "all"
	cli.Values(cmd, "experiment", append(experiment.Names(), "all")...)
	cli.Values(cmd, "also", experiment.Alsos()...)
	cli.Required(cmd, "out")
	return cmd
}

func (f *evaluateFlags) run(ctx context.Context, std cli.Streams) error {
	chosen, err := experiment.Choose(f.experiments)
	if err != nil {
		return cli.Usage(err)
	}
	options := experiment.Options{Extent: experiment.Full, Also: f.also, Tool: cli.Tool()}
	if f.quick {
		options.Extent = experiment.Quick
	}
	if err := options.Validate(); err != nil {
		return cli.Usage(err)
	}
	sets, err := f.data.read()
	if err != nil {
		return err
	}
	if err := f.prepare(sets, std); err != nil {
		return err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	var data []*experiment.Data
	for _, set := range sets {
		d, err := set.load(ctx, bar, std)
		if err != nil {
			return err
		}
		data = append(data, d)
	}
	plan, err := experiment.New(data, options)
	if err != nil {
		return cli.Usage(err)
	}
	return f.carry(ctx, plan, chosen, bar, std)
}

// prepare makes the folder, before an hour of work. What is measured of others'
// traces is for the caller alone, and stays out of any repository around it.
func (f *evaluateFlags) prepare(sets []dataSet, std cli.Streams) error {
	if err := os.MkdirAll(f.out, 0o700); err != nil {
		return files.Unwritten(f.out, err)
	}
	files.WarnOpenFolder(f.out, std.Err)
	for _, set := range sets {
		if !set.definition.Open {
			return files.Hide(f.out, std.Err)
		}
	}
	return nil
}

// carry measures what is missing and writes the report.
func (f *evaluateFlags) carry(
	ctx context.Context, plan *experiment.Study, chosen []experiment.Experiment, bar *cli.Progress,
	std cli.Streams,
) error {
	var last experiment.Progress
	bar.Phase("measuring", nil)
	report, err := experiment.Carry(plan, chosen, experiment.Run{
		Workers: runtime.GOMAXPROCS(0), Folder: filepath.Join(f.out, "pieces"),
		Progress: func(p experiment.Progress) error {
			last = p
			bar.Count(p.Done, p.Total, "timestamps")
			return ctx.Err()
		},
	})
	bar.Done()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(std.Err, "%d of %d pieces are measured and kept in %s: the same command "+
				"goes on from there\n", last.Kept+last.Finished, last.Pieces, f.out)
		}
		return files.Unwritten(f.out, err)
	}
	if last.Kept > 0 {
		fmt.Fprintf(std.Err, "%d of %d pieces were measured before and are taken from %s\n",
			last.Kept, last.Pieces, f.out)
	}
	bar.Phase("drawing", nil)
	if err := report.Write(f.out, func() error { return ctx.Err() }); err != nil {
		return files.Unwritten(f.out, err)
	}
	fmt.Fprintf(std.Out, "wrote %s\n", filepath.Join(f.out, "report.md"))
	return nil
}

// dataFlags name the sets of traces that "geodither evaluate" compares, and say what map and step
// each has: two published ones whose maps are known, the shipped buses, and the user's own.
type dataFlags struct {
	paths           []string // NAME=PATH
	box, cell, step []string // VALUE or NAME=VALUE
	timestamps      []string
	columns         cli.InputFlags // only its --columns
}

// register registers the flags.
func (f *dataFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.paths, "data", nil,
		"`NAME=PATH` of a data set, a file or folder of traces; repeatable; default: the buses")
	flags.StringArrayVar(&f.box, "box", nil,
		"`SOUTH,WEST,NORTH,EAST` of the map, in degrees, or NAME=...")
	flags.StringArrayVar(&f.cell, "cell", nil,
		"`LENGTH` of a cell's side, such as 340m, or NAME=340m")
	flags.StringArrayVar(&f.step, "step", nil,
		"`DURATION` of a step of the model, such as 30s, or NAME=30s")
	flags.StringArrayVar(&f.timestamps, "timestamps", nil,
		"`NUMBER` of timestamps in a trace, or NAME=NUMBER; default 500")
	f.columns.RegisterColumns(flags)
}

// dataSet is a data set before it is read.
type dataSet struct {
	definition experiment.Definition
	paths      []string
	format     traces.Format // empty: seen from the content
	sample     bool          // the shipped buses, instead of paths
	columns    map[string]string
	model      gather.Plan
}

// sampleName is the name of the shipped buses.
const sampleName = "buses"

// knownSets are the data sets whose maps and steps are known.
func knownSets() []dataSet {
	return []dataSet{
		{
			definition: experiment.Definition{
				Name: "geolife", Title: "Geolife", Timestamps: 500, Least: 500,
				MaxGap: 5 * time.Minute, Folds: 5,
			},
			model: gather.Plan{
				Box: "39.85,116.27,39.97,116.50", Cell: "340m", Step: 5 * time.Second,
			},
		},
		{
			definition: experiment.Definition{
				Name: "gowalla", Title: "Gowalla", Timestamps: 500, Least: 100, Folds: 5,
			},
			format: traces.Gowalla,
			model: gather.Plan{
				Box: "33.70,-118.69,34.34,-118.14", Cell: "890m", Step: time.Hour,
				Train: train.Options{EveryFix: true},
			},
		},
	}
}

func sampleSet() dataSet {
	b := fleet.SampleBox()
	return dataSet{
		definition: experiment.Definition{
			Name: sampleName, Title: "Liverpool buses", Timestamps: 60, Least: 60,
			MaxGap: 5 * time.Minute, Folds: 4, Open: true,
		},
		sample: true,
		model: gather.Plan{
			Box:  fmt.Sprintf("%g,%g,%g,%g", b.South, b.West, b.North, b.East),
			Cell: fmt.Sprintf("%dm", fleet.SampleCellM), Step: fleet.SampleStep,
		},
	}
}

var dataSetName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// read returns the data sets that the flags name, each with all that it needs.
func (f *dataFlags) read() ([]dataSet, error) {
	var sets []dataSet
	for _, text := range f.paths {
		name, path, ok := strings.Cut(text, "=")
		if !ok || !dataSetName.MatchString(name) || path == "" {
			return nil, cli.Usagef("--data %q: write NAME=PATH, with a name of lower-case "+
				"letters, digits and hyphens", text)
		}
		at := slices.IndexFunc(sets, func(s dataSet) bool { return s.definition.Name == name })
		if at < 0 {
			at = len(sets)
			sets = append(sets, newDataSet(name))
		}
		sets[at].paths = append(sets[at].paths, path)
	}
	if len(sets) == 0 {
		sets = append(sets, sampleSet())
	}
	for i := range sets {
		sets[i].columns = f.columns.Columns
		if err := f.amend(&sets[i]); err != nil {
			return nil, err
		}
	}
	if err := (traces.Options{Columns: f.columns.Columns}).Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	return sets, f.strangers(sets)
}

func newDataSet(name string) dataSet {
	for _, set := range knownSets() {
		if set.definition.Name == name {
			return set
		}
	}
	return dataSet{definition: experiment.Definition{
		Name: name, Title: name, Timestamps: 500, Least: 100, MaxGap: 5 * time.Minute, Folds: 5,
	}}
}

// amend gives a set what the flags say of it, or of all.
func (f *dataFlags) amend(set *dataSet) error {
	name := set.definition.Name
	for _, flag := range []struct {
		name   string
		values []string
		to     *string
	}{{"box", f.box, &set.model.Box}, {"cell", f.cell, &set.model.Cell}} {
		if value, ok := valueFor(flag.values, name); ok {
			*flag.to = value
		}
		if *flag.to == "" {
			return cli.Usagef("the data set %s has no --%s: only geolife and gowalla have one "+
				"of their own", name, flag.name)
		}
	}
	if value, ok := valueFor(f.step, name); ok {
		step, err := time.ParseDuration(value)
		if err != nil {
			return cli.Usagef("--step %q is no time: write 30s or 1m", value)
		}
		set.model.Step = step
	}
	if set.model.Step == 0 {
		return cli.Usagef("the data set %s has no --step: choose one in which a vehicle usually "+
			"reports once or twice", name)
	}
	if value, ok := valueFor(f.timestamps, name); ok {
		var n int
		if _, err := fmt.Sscanf(value+"\n", "%d\n", &n); err != nil || n < 2 {
			return cli.Usagef("--timestamps %q is no number of timestamps from 2 on", value)
		}
		set.definition.Timestamps, set.definition.Least = n, min(n, set.definition.Least)
	}
	_, err := set.model.Into("") // so that what cannot be is said before anything is done
	return err
}

// valueFor returns what was said of a data set by name, or else of all.
func valueFor(values []string, name string) (value string, ok bool) {
	for _, text := range values {
		of, v, named := strings.Cut(text, "=")
		switch {
		case named && of == name:
			return v, true
		case !named:
			value, ok = text, true
		}
	}
	return value, ok
}

// strangers refuses settings of a data set that is not there.
func (f *dataFlags) strangers(sets []dataSet) error {
	known := func(name string) bool {
		return slices.ContainsFunc(sets, func(s dataSet) bool { return s.definition.Name == name })
	}
	for _, text := range slices.Concat(f.box, f.cell, f.step, f.timestamps) {
		if name, _, named := strings.Cut(text, "="); named && !known(name) {
			return cli.Usagef("%q is of a data set that no --data names", text)
		}
	}
	return nil
}

// load reads a set's traces.
func (s *dataSet) load(
	ctx context.Context, bar *cli.Progress, std cli.Streams,
) (*experiment.Data, error) {
	into, err := s.model.Into("traces " + s.definition.Name)
	if err != nil {
		return nil, err
	}
	into.Places = s.model.Train.EveryFix
	paths, options, stdin := s.paths, traces.Options{Format: s.format, Columns: s.columns}, std.In
	if s.sample {
		paths, options = []string{"-"}, traces.Options{Format: traces.CSV}
		stdin = fleet.SampleFile()
	}
	reader, err := traces.Open(ctx, paths, stdin, options)
	if err != nil {
		return nil, err
	}
	in, err := gather.Files{Reader: reader, Name: s.definition.Name}.Read(ctx, into, bar)
	bar.Done()
	if err != nil {
		return nil, err
	}
	if in.Skips.Total > 0 {
		fmt.Fprintln(std.Err, &in.Skips)
	}
	data, err := experiment.NewData(s.definition, in.Trainer())
	if err != nil {
		return nil, err
	}
	if points, kept := in.Places(); kept {
		data.Places = experiment.NewPlaces(points)
	}
	return data, nil
}
