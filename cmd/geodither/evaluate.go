package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/experiment"
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
release, and write a report: report.html (one file with all figures), each figure as SVG, each
number as CSV. Without --data the traces are those of the shipped buses.

  over-time    one trace over time
  parameters   the traces of many users, over ε and δ
  knn          the nearest places to a release: with check-ins these are the places of all of
               them, else synthetic ones
  adversaries  what an observer learns who knows less or more than the model: from the releases
               so far, and from all of them (forward-backward)
  fleet        where all vehicles of a fleet are, as "geodither aggregate" estimates it, by their
               number and ε: of simulated vehicles, and of traces laid over each other
  mechanisms   all mechanisms at the same ε, each at its best δ: the error, what it costs near
               places, and one release beside the bound on every mechanism
  claims       which sentences of the paper hold; it measures what over-time, parameters, knn and
               mechanisms need

The sets geolife and gowalla have maps, cells and steps of their own, and in gowalla, a set of
check-ins, each fix is a timestamp. Any other name stands for your traces and needs --box, --cell
and --step. Each of these is given for all sets, as 250m, or for one, as NAME=250m.

--also measures more than the paper's two mechanisms:
  %s

The same data and options give the same report on any number of cores, except for the times that
releases take (claims). Finished pieces are kept in the folder: after Ctrl-C the same command
goes on where it stopped, and other options reuse what is the same. Figures over time show the
trace of one person, so the folder is for your eyes only, unless the data are open.`,
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
	cli.Required(cmd, "out")
	return cmd
}

func (f *evaluateFlags) run(ctx context.Context, std cli.Streams) error {
	chosen, err := experiment.Choose(f.experiments)
	if err != nil {
		return cli.Usage(err)
	}
	started := time.Now()
	options := experiment.Options{
		Seed: 1, Quick: f.quick, Also: f.also, Tool: cli.Tool(),
		Clock: func() time.Duration { return time.Since(started) },
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
	fmt.Fprintf(std.Out, "wrote %s\n", filepath.Join(f.out, "report.html"))
	return nil
}
