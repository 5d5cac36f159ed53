package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/demo"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

type demoFlags struct {
	once, json bool
	vehicles   int
	settings   config.Flags
}

func newDemo(std cli.Streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo [-c FILE]",
		Short: "See the whole pipeline at work on a sample fleet, with nothing else installed",
		Long: `Start an embedded broker, train a model from the shipped sample (eight Liverpool buses), feed the
sample in faster than it happened, sanitize it and show what comes out. A web page takes releases
apart, with the truth beside: all of it is open data or simulated. The model is trained on the
traces it is then used for, so errors are smaller than on new ones. -c takes the section release of
a config.

Contains public sector information licensed under the Open Government Licence v3.0.`,
		Example: `  geodither demo
  geodither demo --once --json
  geodither demo --vehicles 1000`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.settings.Path = cli.Config(cmd, false)
			return f.run(cmd.Context(), cmd.Flags(), std)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "feed the sample as fast as it goes, print a report, "+
		"and fail if a record is missing or double")
	flags.BoolVar(&f.json, "json", false, "print the report as one JSON object")
	flags.IntVar(&f.vehicles, "vehicles", 0,
		"add this many simulated vehicles that move by the model")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, flags *pflag.FlagSet, std cli.Streams) error {
	if f.vehicles < 0 {
		return cli.Usagef("--vehicles must not be negative")
	}
	speed := 120. // the sample's two and a half hours take little more than a minute
	if f.once {
		speed = 0
	}
	c, err := f.settings.File(flags)
	if err != nil {
		return err
	}
	if f.settings.Path == "" {
		c.Release.Interval = fleet.PlanInterval
		c.Release.Budget = config.Budget{Epsilon: fleet.PlanBudget, Window: 24 * time.Hour}
	}
	if c.Release.Epsilon == nil {
		c.Release.Epsilon = new(fleet.PlanEpsilon)
	}
	c.Release.Mechanism = cmp.Or(c.Release.Mechanism, law.Codebook)
	if c.Release.Delta == nil && c.Release.Mechanism != law.Codebook {
		c.Release.Delta = new(.01)
	}
	release := func(model *mobility.Model) (mechanism.Options, error) {
		o, err := c.Release.Options(model.Step)
		return o, f.settings.Error(errors.Join(err, o.Validate()))
	}
	return demo.Run(ctx, demo.Options{
		Once: f.once, JSON: f.json, Vehicles: f.vehicles, Seed: 1, Speed: speed,
		Release: release,
		// A log of more than errors would hide the view.
		Logger: slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{
			Level: slog.LevelError,
		})),
	}, std)
}
