package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism/mobility"
)

type inspectFlags struct {
	json     bool
	settings config.Flags
	maps     mapFlags
	popular  string
}

func newModelInspect(std cli.Streams) *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE|FOLDER",
		Short: "Print what a model holds, and what error to expect from releases under it",
		Long: `Print what a model file holds, how it was made, what any reader of it may learn about the traces
behind it, and how well it predicts users that it was not trained on, if "geodither model fit"
has measured that. --from tells where a vehicle goes from a cell in 1, 3 and 10 steps. --map draws
that, or without --from where vehicles are.

With -c or --epsilon the command also simulates tracks that move as the model says, and prints
what to expect of releases: the error of the release and of the estimate, and beside them the
error of an estimate that sees no release (blind); the size |ΔX| of the location sets, or with
codebook how many cells are possible before a release; and the ε that a user spends in an hour
and a day. Real people move otherwise: "geodither sanitize" measures the same on traces.

For a folder of personal models it prints their number and sizes, and nothing about a single
user. With --popular, the shared model behind them, it reads and checks all of them.`,
		Example: `  geodither model inspect model.avro
  geodither model inspect --map popularity.png model.avro
  geodither model inspect --map flows.svg --from 39.91,116.39 model.avro
  geodither model inspect --epsilon 10 --interval 10m model.avro
  geodither model inspect --mechanism lattice --epsilon 12 --delta 0.3 --interval 10m model.avro
  geodither model inspect --json model.avro
  geodither model inspect --popular model.avro personal/`,
		Args: cli.OneFile("model file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	f.maps.register(flags)
	flags.StringVar(&f.popular, "popular", "",
		"model `FILE` that the personal models of a folder belong to")
	f.settings.Register(flags, "release")
	f.settings.RegisterInterval(flags)
	return cmd
}

func (f *inspectFlags) run(cmd *cobra.Command, path string, std cli.Streams) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return f.runFolder(cmd.Context(), path, std)
	}
	if f.popular != "" {
		return cli.Usagef("--popular belongs to a folder of personal models, and %s is a file",
			path)
	}
	if err := f.maps.check(); err != nil {
		return err
	}
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return err
	}
	summary := modelview.Summarize(model)
	if info, err := os.Stat(path); err == nil {
		summary.FileBytes = info.Size()
	}
	if f.settings.Given(cmd.Flags()) {
		if err := f.simulate(cmd, model, &summary, std.Err); err != nil {
			return err
		}
	}
	if summary.Flows, err = f.maps.draw(model, std.Err); err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(std.Out).Encode(summary)
	}
	return summary.Print(std.Out)
}

// simulate fills in what error to expect.
func (f *inspectFlags) simulate(
	cmd *cobra.Command, model *mobility.Model, summary *modelview.Summary, log io.Writer,
) error {
	c, err := f.settings.File(cmd.Flags())
	if err != nil {
		return err
	}
	release, err := c.Release.Options(model)
	if err := f.settings.Error(errors.Join(err, release.Validate())); err != nil {
		return err
	}
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	bar.Phase("simulating", nil)
	x, err := expect.Simulate(cmd.Context(), model, release, expect.Options{
		Seed: expect.Seed, Progress: bar.Reporter(cmd.Context(), "steps"),
	})
	if err != nil {
		return fmt.Errorf("simulating: %w", err)
	}
	expected := x.Summary()
	summary.Expected = &expected
	return nil
}

func (f *inspectFlags) runFolder(ctx context.Context, dir string, std cli.Streams) error {
	if f.maps != (mapFlags{}) {
		return cli.Usagef("--map, --from and --at belong to a model file, and %s is a folder: no "+
			"picture is made of a user's own model", dir)
	}
	s, err := modelview.ReadFolder(ctx, dir, f.popular)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(std.Out).Encode(s)
	}
	return s.Print(std.Out)
}

// mapFlags say what to draw of a model.
type mapFlags struct {
	path string // of the picture; empty: none
	from string // the cell that flows begin in; empty: no flows
	at   string
}

func (f *mapFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "map", "",
		"draw where vehicles are, or with --from where one goes, into a `FILE` .png or .svg")
	flags.StringVar(&f.from, "from", "",
		"tell where a vehicle goes from this cell: `LAT,LON`, or its number")
	flags.StringVar(&f.at, "at", "",
		"`TIME` of --from, such as 2024-05-01T08:00:00Z, for a model with a calendar")
}

// ahead are the steps after which flows are told.
var ahead = []int{1, 3, 10}

func (f *mapFlags) check() error {
	if err := files.CheckPicture(f.path); err != nil {
		return err
	}
	if f.at != "" && f.from == "" {
		return cli.Usagef("--at belongs to --from, the cell that a vehicle leaves")
	}
	if _, err := f.start(); err != nil {
		return err
	}
	return nil
}

func (f *mapFlags) start() (time.Time, error) {
	if f.at == "" {
		return time.UnixMilli(0), nil
	}
	at, err := time.Parse(time.RFC3339, f.at)
	if err != nil {
		return at, cli.Usagef("--at must be a time such as 2024-05-01T08:00:00Z")
	}
	return at, nil
}

// draw writes the picture that was asked for, and returns the flows' figures.
func (f *mapFlags) draw(m *mobility.Model, log io.Writer) (flows *modelview.Flows, err error) {
	drawing := func() error { return modelview.DrawPopularity(m, f.path) }
	if f.from != "" {
		from, err := modelview.ParseCell(f.from, m.Grid)
		if err != nil {
			return nil, cli.Usage(err)
		}
		at, err := f.start()
		if err != nil {
			return nil, err
		}
		flows = modelview.NewFlows(m, from, m.StepAt(at.UnixMilli()), ahead)
		drawing = func() error { return flows.Draw(m, f.path) }
	}
	if f.path == "" {
		return flows, nil
	}
	if err := drawing(); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "wrote %s\n", f.path)
	return flows, nil
}
