package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
)

type aggregateFlags struct {
	settings config.Flags
	paths    []string
	topic    config.Topic
	models   []string // files

	window   time.Duration
	zone     string // side, or a file of polygons
	from, to cli.When
	out      string
}

func newAggregate(std cli.Streams) *cobra.Command {
	var f aggregateFlags
	cmd := &cobra.Command{
		Use:   "aggregate {-c FILE | --model FILE} [PATH...]",
		Short: "Where users are by zone and window, from sanitized records and the model alone",
		Long: `Add up where users are: for each zone of the map and each window of time, the sum of
the users' posteriors. A user counts once in a window, where the user last reported. The column
posterior of a window has the number of its users as its sum.

The input is a sanitized topic, or files of "sanitize" or "consume". The command computes each
posterior from the model and the releases, as "smooth" does, and needs nothing secret. It costs
no ε.

A sum has no interval. It leans on the model: where users do not move as the model says, or a
release says little, it shows what the model expects. For the numbers of a fleet, with an interval
and a guarantee for a user's whole day, use "counts". A sum over a handful of users is about
individual people: do not publish it.

The records name ε, δ, the mechanism and the model. The other settings of the release come from
the service's config (-c). A user with a missing record is left out until a gap that the filter
does not bridge. If the service has changed its model, give all versions.`,
		Example: `  geodither aggregate --model model.avro --in sanitized.csv --window 15m --zone 1km \
    --out density.csv
  geodither aggregate -c geodither.yml --window 1h --zone districts.geojson \
    --from 2026-12-01T17:00:00Z --to 2026-12-01T18:00:00Z --out districts.geojson
  geodither consume --topic fleet.sanitized |
    geodither aggregate --model model.avro --in - --window 10m`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paths = append(f.paths, args...)
			f.settings.Path = cli.Config(cmd, len(f.paths) == 0 || len(f.models) == 0)
			options, err := f.options(cmd.Flags())
			if err != nil {
				return err
			}
			in, err := f.input(cmd.Context(), std)
			if err != nil {
				return err
			}
			return runAggregate(cmd.Context(), in, options, std)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "in", nil, "file of sanitized records, `PATH`: CSV or JSON "+
		"lines, plain or gzip; repeatable; - is standard input")
	flags.StringArrayVar(&f.models, "model", nil,
		"model `FILE` of the releases; repeatable, for several versions")
	flags.DurationVar(&f.window, "window", 15*time.Minute,
		"`DURATION` of a window, a multiple of the model's step")
	flags.StringVar(&f.zone, "zone", "",
		"`LENGTH` of a zone's side, such as 1km, rounded to whole cells, or GeoJSON file of "+
			"polygons with the property name: a cell belongs to the one that holds its middle; "+
			"default: one cell")
	flags.Var(&f.from, "from",
		"`TIME` or day at which the first window starts at the earliest; older records are only "+
			"followed")
	flags.Var(&f.to, "to",
		"`TIME` or day at which the last window ends at the latest; later records are not read")
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv, .ndjson, .geojson or .parquet; - is CSV on standard output")
	return cmd
}

// options resolves the flags and the config of the service. It does not read the config's key.
func (f *aggregateFlags) options(flags *pflag.FlagSet) (o aggregateOptions, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return o, err
	}
	f.topic = c.SanitizedTopic()
	if len(f.paths) == 0 {
		if f.topic.Connection, err = c.Connection(); err != nil {
			return o, f.settings.Error(err)
		}
	}
	if len(f.models) == 0 && c.Model == "" && c.Models == "" {
		return o, cli.Usagef(
			"name the model of the releases with --model, or the service's config with -c")
	}
	if o.Public, err = f.settings.Public(c, f.models); err != nil {
		return o, err
	}
	if err := f.check(); err != nil {
		return o, err
	}
	model := o.Public.Models[0]
	steps, err := cli.InSteps("window", f.window, model.Step)
	if err != nil {
		return o, cli.Usage(err)
	}
	o.out, o.window = f.out, f.window
	o.WindowSteps, o.Workers = int64(steps), runtime.GOMAXPROCS(0)
	if len(f.paths) == 0 {
		o.Open = openWindows
	}
	if o.zones, err = zonesOn(model.Grid, f.zone); err != nil {
		return o, cli.Usage(err)
	}
	o.Zones, o.ZoneOf = o.zones.Count(), o.zones.Of
	o.FromMS, o.BeforeMS = f.from.UnixMilli(), f.to.UnixMilli()
	if o.FromMS != 0 && o.BeforeMS != 0 && o.FromMS >= o.BeforeMS {
		return o, cli.EmptyRange(f.from.String(), f.to.String())
	}
	return o, nil
}

// check refuses what cannot be used before anything is read.
func (f *aggregateFlags) check() error {
	switch {
	case len(f.paths) == 0 && f.topic.Name == "":
		return cli.Usagef("name the sanitized records to read with --in, - for standard input, " +
			"or the topic's config with -c")
	case f.window <= 0:
		return cli.Usagef("--window %v is not positive: write a multiple of the model's step, "+
			"such as 15m", f.window)
	}
	if err := files.NotAnInput(f.out, f.paths); err != nil {
		return err
	}
	_, err := files.FormatOf(f.out)
	return err
}

// input opens the files, or connects to the brokers.
func (f *aggregateFlags) input(ctx context.Context, std cli.Streams) (*gather.Input, error) {
	if len(f.paths) > 0 {
		return gather.SanitizedFiles(f.paths, std.In)
	}
	if err := f.topic.Encoding.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	client, err := f.topic.Connect(ctx)
	if err != nil {
		return nil, err
	}
	topic := gather.Records{Client: client, Topic: f.topic.Name, Encoding: f.topic.Encoding}
	return topic.Input(ctx)
}
