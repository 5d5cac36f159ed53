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
		Use:   "train {PATH... | -c FILE} --box BOX --cell LENGTH --step DURATION --out FILE",
		Short: "Train a mobility model from traces",
		Long: `Train a mobility model: how likely a vehicle in one cell of the map is in each other cell one step
later. The traces are files (CSV, NDJSON, Geolife's .plt or Gowalla's check-ins, plain or gzip), or
with -c the committed records of a service's raw topic.

Choose a step in which a vehicle usually reports once or twice, and cells that it crosses in about
a step. "geodither model fit" measures the result, and says what to change.

The model is learned without privacy and treated as public. --dp-epsilon bounds what it tells about
any one user. In that case choose all other options before you look at the traces.

--smoothing has four parts: radius, the reach of the smoothing in cells; backoff, its weight in a
row, in transitions; cap, how many transitions of one user out of one cell count, or with
--dp-epsilon of one user in all; and jumps, the share of each row that goes to far cells.`,
		Example: `  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s \
    --out model.avro
  geodither train --in traces.csv --calendar 6,10,16,20,weekend,utc+1h \
    --box 53.40,-2.99,53.47,-2.89 --cell 250m --step 30s --out model.avro
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
	flags.Var(&f.from, "from",
		"`TIME`, day or offset of the first record to train on; default: the topic's start")
	flags.Var(&f.to, "to",
		"`TIME`, day or offset of the first record to leave out; default: the topic's end")
	flags.StringVar(&f.Box, "box", "", "`SOUTH,WEST,NORTH,EAST` of the map, in degrees")
	flags.StringVar(&f.Cell, "cell", "", "`LENGTH` of a cell's side, such as 340m or 0.34km")
	flags.DurationVar(&f.Step, "step", 0, "step of the model, a `DURATION` such as 60s")
	flags.StringVar(&f.Out, "out", "", "model `FILE` to write")
	flags.DurationVar(&f.interpolate, "interpolate", 0, "move along a straight line across gaps "+
		"up to this `DURATION`, such as 2m; default: none, and the last fix of a step counts")
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
		return cli.Usagef("--interpolate %v: write the longest gap, such as 2m", f.interpolate)
	}
	f.Train.Interpolate, f.Train.MaxGap = f.interpolate > 0, f.interpolate
	f.smoothing.Apply(&f.Train)
	f.Inputs = slices.Concat(f.input.Paths, args)
	f.config = cli.Config(cmd, len(f.Inputs) == 0)
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
		return cli.Usagef("--from and --to are for a topic (-c)")
	case f.config == "" && len(f.Inputs) == 0:
		return cli.Usagef("name the traces with --in, or a config with -c")
	case len(f.Inputs) > 0 && (given("from") || given("to")):
		return cli.Usagef("--from and --to are for a topic, without files")
	case f.config != "" && len(f.Inputs) == 0 && given("columns"):
		return cli.Usagef("--columns is for files")
	}
	return nil
}

// readConfig reads what the config says of the topic, or of messages in files, and no file that it
// names.
func (f *trainFlags) readConfig() (config.File, error) {
	c, err := config.Read(f.config)
	if err == nil && len(f.Inputs) == 0 {
		_, err = topicOf(c)
	}
	return c, config.Error(f.config, err)
}

// topicOf returns the raw topic of a config, without a connection.
func topicOf(c config.File) (*gather.Topic, error) {
	switch {
	case c.Topics.Raw == "":
		return nil, errors.New("topics.raw: name the topic to read")
	case len(c.Brokers) == 0:
		return nil, errors.New("brokers: name one, such as localhost:9092")
	case c.MaxAhead < 0:
		return nil, errors.New("max_ahead must not be negative")
	}
	source, err := c.Source()
	return &gather.Topic{Name: c.Topics.Raw, Source: source}, err
}

// connect connects a topic to the config's brokers.
func connect(ctx context.Context, c config.File, topic *gather.Topic) error {
	connection, err := c.Connection()
	if err == nil {
		topic.Client, err = connection.Connect(ctx, c.Brokers)
	}
	return err
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
	s, err := topicOf(c)
	if err != nil {
		return nil, config.Error(f.config, err)
	}
	s.From, s.To = f.from, f.to
	if err := topics.CheckRange(s.From, s.To); err != nil {
		return nil, err
	}
	return s, config.Error(f.config, connect(ctx, c, s))
}
