package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/topics"
)

type trainFlags struct {
	gather.Training
	input       cli.InputFlags
	config      string
	from, to    topics.Bound
	interpolate time.Duration
	smoothing   gather.Smoothing
}

func newTrain(std cli.Streams) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train {PATH... | -c FILE} --box BOX --cell LENGTH --step TIME --out FILE",
		Short: "Train a mobility model from traces",
		Long: `Train a mobility model: how likely a vehicle in one cell of the map is in each other cell one
step later. The traces are files (--in): CSV, NDJSON, a folder of Geolife 1.3 (.plt) or SNAP's
Gowalla check-ins, plain or gzip. Or they are the raw topic of a service (-c). With both, the
section input of the config says how JSON in the files is read.

The model is learned without privacy and treated as public. --dp-epsilon bounds what it tells
about any one user: the command then adds noise to what it counts. In that case choose all
other options before you look at the traces.

A CSV file has a header with user_id (or user, uid), timestamp (or time, ts), latitude (lat)
and longitude (lon, lng) in any order. Times are RFC 3339, in UTC where they name no zone, or
epoch milliseconds. Choose a step in which a vehicle usually reports once or twice, and cells
that it crosses in about a step. Fixes outside the box are left out. The order of the input
does not matter.

With -c the command reads the raw topic of the service's config: the records that are committed
when it starts, or those from --from on and before --to. These two are an offset, the same in
each partition, or a time such as 2026-11-21T08:00:00Z, compared with the records' Kafka
timestamps. Records that the service would refuse are left out and counted, except for late
fixes. The model that the config names need not exist yet.

The model also has a law of gaps where the traces have enough of them: where a vehicle is after
steps without a fix. People log while they move and often reappear where they vanished.
--dp-epsilon leaves it out: it would need its own share of epsilon.

--calendar gives each part of the day or week a matrix of its own. Each of these is blended with
the matrix of all times, the more so the less data it has.

--smoothing has four parts: radius, the reach of the smoothing in cells; backoff, its weight in
a row, in transitions; cap, how many transitions of one user out of one cell count, or with
--dp-epsilon how many transitions of one user count in all (default 50); and jumps, the share of
each row that goes to far cells, so that the filter finds a lost user again. "geodither model
fit" measures how well the model predicts users that it has not seen, and says which part to
change.`,
		Example: `  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s \
    --out model.avro
  geodither train --in "Geolife Trajectories 1.3/Data" --interpolate 5m \
    --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out beijing.avro
  geodither train --in traces.csv --calendar 6,10,16,20,weekend,utc+1h \
    --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --out model.avro
  geodither train --in traces.csv --dp-epsilon 1 --box 39.85,116.27,39.97,116.50 --cell 340m \
    --step 60s --out private.avro
  geodither train --in traces.csv --smoothing radius=4,jumps=0.02 \
    --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out model.avro
  geodither train --every-fix --in loc-gowalla_totalCheckins.txt.gz \
    --box 33.7,-118.6,34.2,-118.0 --cell 890m --step 1h --out la.avro
  geodither train -c geodither.yml --from 2026-11-01T00:00:00Z \
    --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out fleet.avro`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	flags.StringVarP(&f.config, "config", "c", "",
		"config `FILE` of the service whose raw topic is read, in place of files")
	flags.Var(&f.from, "from",
		"`OFFSET` or time of the first record to train on; default: the topic's start")
	flags.Var(
		&f.to, "to", "`OFFSET` or time of the first record to leave out; default: the topic's end")
	flags.StringVar(&f.Box, "box", "", "`SOUTH,WEST,NORTH,EAST` of the map, in degrees")
	flags.StringVar(&f.Cell, "cell", "", "`LENGTH` of a cell's side, such as 340m or 0.34km")
	flags.DurationVar(&f.Step, "step", 0, "time step of the model, such as 60s")
	flags.StringVar(&f.Out, "out", "", "model `FILE` to write")
	flags.DurationVar(&f.interpolate, "interpolate", 0, "move along a straight line across gaps "+
		"up to this `TIME`, such as 2m; default: none, and the last fix of a step counts")
	flags.BoolVar(&f.Train.EveryFix, "every-fix", false, "count each two successive fixes as one "+
		"transition, whatever the time between (for check-ins)")
	flags.Var((*gather.Calendar)(&f.Train.Calendar), "calendar",
		"a matrix for each part of the week: `HOURS` at which parts of the day start, weekend, "+
			"and the local time, such as 6,10,16,20,weekend,utc+1h")
	flags.Var(&f.smoothing, "smoothing",
		"how rows are smoothed, `PART=NUMBER,...`; default radius=5,backoff=20,cap=30,jumps=0.005")
	flags.StringVar(&f.Private.Epsilon, "dp-epsilon", "",
		"train with differential privacy: the `ε` that bounds what the model tells about any user")
	cli.Required(cmd, "box", "cell", "step", "out")
	return cmd
}

// run trains and prints what was made.
func (f *trainFlags) run(cmd *cobra.Command, args []string, std cli.Streams) error {
	ctx := cmd.Context()
	given := cmd.Flags().Changed
	if given("interpolate") && f.interpolate <= 0 {
		return cli.Usagef("--interpolate %v is no gap: write the longest time between two fixes "+
			"to interpolate across, such as 2m", f.interpolate)
	}
	f.Train.Interpolate, f.Train.MaxGap = f.interpolate > 0, f.interpolate
	f.smoothing.Apply(&f.Train)
	f.Inputs = slices.Concat(f.input.Paths, args)
	if err := f.checkSource(given); err != nil {
		return err
	}
	var c config.File
	f.From = "traces"
	if f.config != "" {
		var err error
		if c, err = f.readConfig(); err != nil {
			return err
		}
		if len(f.Inputs) == 0 {
			f.From = "topic " + c.Topics.Raw
		}
	}
	if err := f.Check(); err != nil {
		return err
	}
	source, err := f.source(ctx, c, args, std)
	if err != nil {
		return err
	}
	made, err := f.Run(ctx, source, std.Err)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "read  %s: %s\nwrote %s\n", made.From,
		cli.Quantity(made.Fixes, "fix"), f.Out)
	return cli.Interruptibly(ctx, func() error {
		return expect.Describe(made.Model).Print(std.Out)
	})
}

// checkSource refuses flags of files and of a topic that do not go together.
func (f *trainFlags) checkSource(given func(string) bool) error {
	switch {
	case f.config == "" && (given("from") || given("to")):
		return cli.Usagef(
			"--from and --to are for a topic: name the service's config with -c, or leave them out")
	case f.config == "" && len(f.Inputs) == 0:
		return cli.Usagef("name the traces to read with --in (- is standard input), or the " +
			"config of a service with -c")
	case len(f.Inputs) > 0 && (given("from") || given("to")):
		return cli.Usagef("--from and --to are for a topic: leave them out, or the files")
	case f.config != "" && len(f.Inputs) == 0 && given("columns"):
		return cli.Usagef("--columns is for files; the config says how a raw topic is encoded")
	}
	return nil
}

// readConfig reads what the config says of the topic, or of messages in files, and no file that it
// names.
func (f *trainFlags) readConfig() (config.File, error) {
	c, err := config.Read(f.config)
	switch {
	case err != nil, len(f.Inputs) > 0:
	case c.Topics.Raw == "":
		err = errors.New("topics.raw: name the topic to train on")
	case len(c.Brokers) == 0:
		err = errors.New("brokers: name one at least, such as localhost:9092")
	case c.MaxAhead < 0:
		err = errors.New("max_ahead must not be negative")
	default:
		_, err = c.Source()
	}
	return c, config.Error(f.config, err)
}

// source opens the files, or connects to the brokers.
func (f *trainFlags) source(
	ctx context.Context, c config.File, args []string, std cli.Streams,
) (gather.Source, error) {
	if len(f.Inputs) > 0 {
		var err error
		if f.input.Mapping, err = (&config.Flags{Path: f.config}).Mapping(); err != nil {
			return nil, err
		}
		reader, err := f.input.Open(ctx, args, std.In)
		return gather.Files{Reader: reader}, err
	}
	source, err := c.Source()
	if err != nil {
		return nil, config.Error(f.config, err)
	}
	s := &gather.Topic{Name: c.Topics.Raw, Source: source, From: f.from, To: f.to}
	if s.From.IsOffset && s.To.IsOffset && s.To.Offset <= s.From.Offset ||
		!s.From.Time.IsZero() && !s.To.Time.IsZero() && !s.To.Time.After(s.From.Time) {
		return nil, cli.Usagef("--to must be behind --from: the record at --to is left out")
	}
	connection, err := c.Connection()
	if err != nil {
		return nil, config.Error(f.config, err)
	}
	s.Client, err = connection.Connect(ctx, c.Brokers)
	return s, err
}
