package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

type aggregateFlags struct {
	settings config.Flags
	paths    []string
	topic    config.Topic
	models   []string // files

	window   time.Duration
	zone     string // side, or a file of polygons
	lag      string
	from, to string // times
	output   aggregateOutput
}

func newAggregate(std cli.Streams) *cobra.Command {
	var f aggregateFlags
	cmd := &cobra.Command{
		Use:   "aggregate {-c FILE | --model FILE} [PATH...]",
		Short: "Where the fleet is, from sanitized records and the model alone",
		Long: `Estimate how many vehicles are in each zone of the map, window by window. The input is a
sanitized topic, or files of "sanitize" or "consume". The command needs the public model and the
public settings of the service, and nothing secret: it runs the filter again from the releases. It
costs no ε.

A vehicle counts once in a window, where it last reported. For each zone there are

  vehicles, low, high    the expected number under a prior that is fitted to the fleet, from the
                         public law of the noise (expectation maximization), with an interval
                         of 90 % in whole vehicles: that of a number below .5 can be 0 to 1. The
                         prior stays the model's as long as the releases do not contradict it,
                         and close to it where they do
  posterior, ...         the mean of the vehicles' posteriors, with an interval that holds if
                         vehicles move as the model says. For such fleets the number is nearly
                         that of vehicles. Where many vehicles are where the model does not
                         expect them, vehicles is a little nearer to the truth, and its interval
                         holds the truth more often
  naive                  how many last releases lie in the zone: mostly noise if ε is small
  model                  what the model says without releases. Where an estimate is no
                         different, the releases have added nothing

Intervals allow for chance, and not for a model that is wrong in how vehicles move. On real days
they held the number in less than half of the zones (mechanism/evaluation/RESULTS.md).

The records name ε, δ, the mechanism and the model. The other settings of the release come from
the service's config (-c), where they are not the defaults. The command compares the estimate of
every record with its own, so it notices a setting that changes estimates. A user with a missing
record is left out until the next gap that is longer than the model's law of gaps ("model inspect"
shows it), or than 60 steps where that law is missing or reports may leave no record.

If the service has changed its model, give all versions, with -c or several --model: the command
follows users from one version to the next. Zones are parts of one map, so windows on another map
are refused: leave them out with --from or --to.

A file of --zone has polygons with names, such as districts. Intervals of several zones do not add
up to one of their sum, so draw the area that you ask for as one zone. Zones must not overlap.
Those off the map are left out, with a warning.

With --lag, a vehicle's position in a window also uses its later releases, up to the first one that
is made --lag or more after its last report in the window ("smooth" explains it). A release that
comes later than --lag and one release interval does not count. One release interval gives most of
the gain. The value all keeps a user's whole day in memory: every release with a number for each
cell of the map, or a bit under codebook.

With a handful of vehicles the estimate is about individual people. Do not publish it. Windows of
a hundred vehicles and more are about a fleet.`,
		Example: `  geodither aggregate --model model.avro --in sanitized.csv --window 15m --zone 1km \
    --out density.csv
  geodither aggregate -c geodither.yml --window 1h --zone 2km --out density.geojson
  geodither aggregate -c geodither.yml --in sanitized.csv --from 2026-12-01T04:00:00Z \
    --window 1h --out december.csv
  geodither aggregate -c geodither.yml --window 1h --zone districts.geojson --lag 10m \
    --from 2026-12-01T17:00:00Z --to 2026-12-01T18:00:00Z --out districts.csv
  geodither consume --topic fleet.sanitized |
    geodither aggregate --model model.avro --in - --window 10m`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paths = append(f.paths, args...)
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
	f.settings.RegisterConfig(flags, "models, topic, release")
	flags.StringArrayVar(&f.models, "model", nil,
		"model `FILE` of the releases; repeatable, for several versions")
	flags.DurationVar(&f.window, "window", 15*time.Minute,
		"length of a window, a multiple of the model's step")
	flags.StringVar(&f.zone, "zone", "",
		"`LENGTH` of a zone's side, such as 1km, rounded to whole cells, or GeoJSON file of "+
			"polygons with the property name: a cell belongs to the one that holds its middle, "+
			"the rest of the map is elsewhere; default: one cell")
	flags.StringVar(&f.lag, "lag", "",
		"how long after a window's last report to wait for its user's next release, `DURATION` "+
			"or all; default: do not wait")
	flags.StringVar(&f.from, "from", "",
		"`TIME` at which the first window starts at the earliest; older records are followed only")
	flags.StringVar(&f.to, "to", "",
		"`TIME` at which the last window ends at the latest; later records are not read")
	flags.StringVar(&f.output.Path, "out", "-",
		"`FILE` for the densities: .csv, .ndjson, .geojson or .parquet; - is CSV on standard "+
			"output")
	return cmd
}

const (
	// openWindows is how many windows of a topic are open at a time: a user's partition may be
	// behind another's by a window, and memory must not grow with the topic. Files are small enough
	// for all.
	openWindows = 2
	// aggregateSeed is fixed, so that the same records give the same figures. The draws resample
	// the fleet for the intervals; no noise of a release depends on them.
	aggregateSeed = 1
)

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
	if o.Read, err = publicOf(&f.settings, c, f.models); err != nil {
		return o, err
	}
	model := o.Read.Models[0]
	o.Read.Estimate = aggregate.EstimateOptions{
		Seed: aggregateSeed, Workers: runtime.GOMAXPROCS(0),
	}
	o.Output = f.output
	if err := f.check(); err != nil {
		return o, err
	}
	collect := &o.Read.Collect
	collect.Workers = runtime.GOMAXPROCS(0)
	if len(f.paths) == 0 {
		collect.Open = openWindows
	}
	steps, err := cli.InSteps("window", f.window, model.Step)
	if err != nil {
		return o, cli.Usage(err)
	}
	collect.WindowSteps = int64(steps)
	if err := f.areas(&o); err != nil {
		return o, err
	}
	if f.lag != "" {
		if collect.LagSteps, err = lagSteps(f.lag, model.Step); err != nil {
			return o, err
		}
	}
	if collect.FromMS, err = cli.ParseTime("from", f.from); err != nil {
		return o, err
	}
	if collect.BeforeMS, err = cli.ParseTime("to", f.to); err != nil {
		return o, err
	}
	if f.from != "" && f.to != "" && collect.FromMS >= collect.BeforeMS {
		return o, cli.Usagef("--from is not before --to: there is no window between them")
	}
	return o, nil
}

// lagSteps returns the steps of a --lag.
func lagSteps(text string, step time.Duration) (int64, error) {
	if text == "all" {
		return mechanism.SmoothAll, nil
	}
	lag, err := time.ParseDuration(text)
	if err != nil || lag <= 0 {
		return 0, cli.Usagef("--lag %q is no time to wait: write one such as 10m, or all", text)
	}
	steps, err := cli.InSteps("lag", lag, step)
	if err != nil {
		return 0, cli.Usage(err)
	}
	return int64(steps), nil
}

// zoneOf is the side of the square zones that --zone names, kilometres, unless it names a file.
func zoneOf(text string) (sideKM float64, file bool, err error) {
	sideKM, err = cli.Kilometres("--zone", text)
	if err == nil {
		return sideKM, false, nil
	}
	if _, missing := os.Stat(text); missing != nil {
		return 0, false, cli.Usage(fmt.Errorf("%w, or name a GeoJSON file that is there", err))
	}
	return 0, true, nil
}

// areas reads the zones of --zone, and refuses what cannot be used on the map of the first model.
func (f *aggregateFlags) areas(o *aggregateOptions) error {
	side, file, err := zoneOf(f.zone)
	if err != nil || !file {
		o.Read.Collect.ZoneKM = side
		return err
	}
	zones, err := files.ReadZones(f.zone)
	if err != nil {
		return cli.Usage(err)
	}
	areas := make([]aggregate.Area, len(zones))
	for i, z := range zones {
		areas[i] = aggregate.Area(z)
	}
	g := o.Read.Models[0].Grid
	on, off := zonesOnMap(g, areas)
	if len(on) == 0 && off > 0 {
		return cli.Usagef("--zone %s: no polygon lies on the map: check that they have longitude "+
			"before latitude", f.zone)
	}
	if _, err := aggregate.NewNamedZones(g, on); err != nil {
		return cli.Usagef("--zone %s: %v", f.zone, err)
	}
	o.Read.Collect.Areas, o.Output.Areas, o.Output.OffMap = on, on, off
	return nil
}

// publicOf returns what the readers of a service's records know: all models that records may name,
// those of the files or else the config's, and the settings of the release. What the config does
// not say the records tell.
func publicOf(settings *config.Flags, c config.File, models []string) (
	o aggregate.ReadOptions, err error,
) {
	if o.Models, err = c.Versions(models); err != nil {
		return o, err
	}
	o.TellEpsilon, o.TellDelta = c.Release.Epsilon == nil, c.Release.Delta == nil
	o.TellMechanism = c.Release.Mechanism == ""
	// What the records tell has a value that can be used until they do.
	if o.TellEpsilon {
		c.Release.Epsilon = new(float64)
	}
	if o.TellMechanism {
		c.Release.Mechanism = law.Lattice
	}
	if o.TellDelta && c.Release.Mechanism != law.Codebook {
		c.Release.Delta = new(float64)
	}
	o.Release, err = c.Release.Options(o.Models[0].Step)
	return o, settings.Error(err)
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
	if err := files.NotAnInput(f.output.Path, f.paths); err != nil {
		return err
	}
	return f.output.Validate()
}

// input opens the files, or connects to the brokers.
func (f *aggregateFlags) input(ctx context.Context, std cli.Streams) (*aggregateInput, error) {
	if len(f.paths) > 0 {
		return aggregateFiles(f.paths, std.In)
	}
	if err := f.topic.Encoding.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	client, err := f.topic.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return aggregateTopic(ctx, client, f.topic.Name, f.topic.Encoding)
}

// OnMap returns the areas that lie on a map at least in part, as far as their corners tell, and how
// many do not.
func zonesOnMap(g *grid.Grid, areas []aggregate.Area) (on []aggregate.Area, off int) {
	for _, a := range areas {
		low, high := [2]float64{180, 90}, [2]float64{-180, -90} // longitude first
		for _, ring := range slices.Concat(a.Polygons...) {
			for _, corner := range ring {
				for i, degrees := range corner {
					low[i], high[i] = min(low[i], degrees), max(high[i], degrees)
				}
			}
		}
		if b := g.Box(); low[0] < b.East && high[0] > b.West && low[1] < b.North &&
			high[1] > b.South {
			on = append(on, a)
		}
	}
	return on, len(areas) - len(on)
}
