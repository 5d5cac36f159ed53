package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

type aggregateFlags struct {
	paths    []string
	brokers  []string
	topic    string
	encoding string
	config   string
	models   []string // files
	schedule string   // in place of models
	personal string   // folder
	insists  bool     // the folder has to be there
	release  releaseConfig

	window    time.Duration
	zone      string
	open      int
	from, to  string // times
	out       string
	outFormat string
	flows     string
	least     float64
	image     string
	estimate  aggregate.EstimateOptions
}

func newAggregate(std cli.Streams) *cobra.Command {
	var f aggregateFlags
	cmd := &cobra.Command{
		Use:   "aggregate [PATH...]",
		Short: "Where the fleet is and how it flows, from sanitized records and the model alone",
		Long: `Estimate how many vehicles are in each zone of the map, window by window, and how many go
from zone to zone, from a sanitized topic or from files of "sanitize" or "consume". It
needs the public model and the service's public settings, and nothing secret: it runs the
filter again from the releases. What it finds costs no ε.

Where the service has changed its model, give all versions, by -c, --models or several
--model: users are followed from one to the next. Zones are parts of one map, so windows
of versions with another map are refused: leave them out with --from or --to. Users who
are released under a model of their own are left out and counted, since readers do not
have it; so are those who are alone under a public model that is not given, which looks
the same. Who has users' own models, inside, names the folder with --personal, or the config or schedule
does: then these users are followed too, but for flows, as long as records have their
plain ids.

A vehicle counts once in a window, where it last reported. For each zone there are

  vehicles, low, high    to be expected under a prior that the fleet itself has taught, by
                         the public law of the noise (expectation maximization, held to
                         the model as far as the releases do not contradict it), with an
                         interval of --level
  posterior, ...         the mean of the vehicles' posteriors, with an interval that holds
                         if vehicles move by the model: the better one for small fleets
  naive                  how many last releases lie there: mostly noise under a strong ε
  model                  the model alone, without a release: what does not differ from it,
                         the releases do not tell

Records tell ε, δ, the mechanism and the model. Give the service's other settings of
release as it has them, by -c or by flags, if they are not the defaults: every record's
estimate is compared, and a setting that changes an estimate is noticed. A user whose record
is missing is left out until a gap of more than max_gap steps.

Few vehicles are few people: an estimate for a handful of them is about them. Windows of
a hundred and more are about a fleet.`,
		Example: `  geodither aggregate --model model.avro --in sanitized.csv --window 15m --zone 1km --out density.csv --map density.png
  geodither aggregate -c geodither.yml --window 1h --zone 2km --flows flows.csv --out-format geojson --out density.geojson
  geodither aggregate --models schedule.yml --in sanitized.csv --from 2026-12-01T04:00:00Z --window 1h --out december.csv
  geodither aggregate --model model.avro --brokers localhost:9092 --topic fleet.sanitized --window 10m`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paths = append(f.paths, args...)
			s, err := f.settings(cmd.Flags())
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), s, std)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "in", nil, "file of sanitized records, `PATH`: CSV or JSON lines, plain or gzip; repeat it for several, or name them behind the flags; - is standard input")
	flags.StringSliceVar(&f.brokers, "brokers", []string{"localhost:9092"}, "Kafka brokers, `HOST:PORT,...`")
	flags.StringVar(&f.topic, "topic", "", "sanitized topic to read, up to its end of now")
	flags.StringVar(&f.encoding, "encoding", string(schemas.Avro), "encoding of the topic: avro or json")
	flags.StringVarP(&f.config, "config", "c", "", "config `FILE` of the service: its model or models, topic and options of release; its key is not read")
	flags.StringArrayVar(&f.models, "model", nil, "model `FILE` under which the records were released; repeat it for several versions")
	flags.StringVar(&f.schedule, "models", "", "in place of --model: the service's `SCHEDULE` of models (YAML)")
	flags.StringVar(&f.personal, "personal", "", "`FOLDER` of users' own models over --model, for those who have it")
	flags.DurationVar(&f.window, "window", 15*time.Minute, "length of a window, a multiple of the model's step")
	flags.StringVar(&f.zone, "zone", "", "`LENGTH` of a zone's side, such as 1km, rounded to whole cells; empty: a cell")
	flags.StringVar(&f.from, "from", "", "`TIME` before which no window begins; records before it are followed and not counted")
	flags.StringVar(&f.to, "to", "", "`TIME` after which no window ends; records of windows that do are not looked at")
	flags.IntVar(&f.open, "open", 0, "windows that are open at once: memory, against records that come late; 0: all of files, 2 of a topic")
	flags.StringVar(&f.out, "out", "-", "`FILE` to write the densities to; - is standard output")
	flags.StringVar(&f.outFormat, "out-format", "csv", "csv, json (one object a line) or geojson (a polygon for each zone)")
	flags.Float64Var(&f.least, "least", 0, "leave zones and flows out where fewer `VEHICLES` are expected; of flows, at least .01")
	flags.StringVar(&f.flows, "flows", "", "also write the flows between zones from window to window to this `FILE`, as CSV")
	flags.StringVar(&f.image, "map", "", "also draw the window with most vehicles to this `FILE`, .png or .svg")
	flags.Float64Var(&f.estimate.Level, "level", aggregate.DefaultLevel, "confidence of the intervals")
	flags.IntVar(&f.estimate.Resamples, "resamples", aggregate.DefaultResamples, "fleets drawn from the fleet for the intervals")
	flags.Uint64Var(&f.estimate.Seed, "seed", 1, "seed of these draws")
	f.release.register(flags, 0, 0)
	return cmd
}

// fewOpen is how many windows of a topic are open unless told otherwise: a user's
// partition may be behind another's by a window.
const fewOpen = 2

func (f *aggregateFlags) run(ctx context.Context, s observerSettings, std cli.Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	collect := aggregate.CollectOptions{Flows: f.flows != "", Open: f.open}
	steps, err := cli.InSteps("window", f.window, s.models.public[0].Step)
	if err != nil {
		return cli.Usage(err)
	}
	collect.WindowSteps = int64(steps)
	if collect.ZoneKM, err = cli.Kilometres("zone", f.zone); err != nil {
		return cli.Usage(err)
	}
	if collect.FromMS, err = cli.ParseTime("from", f.from); err != nil {
		return err
	}
	if collect.BeforeMS, err = cli.ParseTime("to", f.to); err != nil {
		return err
	}
	if f.from != "" && f.to != "" && collect.FromMS >= collect.BeforeMS {
		return cli.Usagef("--from is not before --to: there is no window between them")
	}
	read := new(atomic.Int64)
	split := newSplitUsers()
	sources, total, err := f.sources(ctx, read, split, std)
	if err != nil {
		return err
	}
	if len(f.paths) == 0 && f.open == 0 {
		collect.Open = fewOpen
	}
	bar := cli.NewProgress(std.Err, func() (int64, int64) { return read.Load(), total })
	out, err := newAggregateOutput(f, std)
	if err != nil {
		return err
	}
	run := &aggregateRun{settings: s, collect: collect, estimate: f.estimate, out: out, bar: bar, split: split, ctx: ctx}
	err = records.Merge(ctx, sources, run.add)
	if err == nil {
		err = run.finish()
	}
	bar.Done()
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if run.report.smallest < enough {
		err = out.restrict()
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.close(); err != nil {
		return err
	}
	return run.summarize(std.Err)
}

// check refuses what cannot be used before anything is read.
func (f *aggregateFlags) check() error {
	f.estimate.Workers = runtime.GOMAXPROCS(0)
	switch {
	case len(f.paths) > 0 && f.topic != "":
		return cli.Usagef("--in and --topic exclude each other")
	case len(f.paths) == 0 && f.topic == "":
		return cli.Usagef("name the sanitized records to read with --in or --topic; - is standard input")
	case f.window <= 0:
		return cli.Usagef("--window %v is not positive: write a multiple of the model's step, such as 15m", f.window)
	case f.open < 0:
		return cli.Usagef("--open must not be negative")
	case !(f.least >= 0):
		return cli.Usagef("--least is not a number of vehicles")
	}
	if err := f.estimate.Validate(); err != nil {
		return cli.Usage(err)
	}
	if slices.Index(f.paths, "-") != lastIndex(f.paths, "-") {
		return cli.Usagef("standard input is named twice: name - once")
	}
	if err := checkMapName(f.image); err != nil {
		return err
	}
	for _, path := range []string{f.out, f.flows, f.image} {
		if err := files.NotAnInput(path, f.paths); err != nil {
			return err
		}
	}
	return knownAggregateFormat(f.outFormat)
}

func lastIndex(list []string, wanted string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == wanted {
			return i
		}
	}
	return -1
}

// sources opens what is to be read; total is its size in bytes, 0 if that is not known.
func (f *aggregateFlags) sources(ctx context.Context, read *atomic.Int64, split *splitUsers, std cli.Streams) (sources []records.Source, total int64, err error) {
	if f.topic != "" {
		client, err := kafkaconn.Connect(ctx, f.brokers)
		if err != nil {
			return nil, 0, err
		}
		sources, err := topicSources(ctx, client, f.topic, schemas.Encoding(f.encoding), split)
		return sources, 0, err
	}
	sizes, err := records.Sizes(f.paths)
	if err != nil {
		return nil, 0, err
	}
	for _, path := range f.paths {
		sources = append(sources, records.File(path, std.In, func(n int) { read.Add(int64(n)) }))
	}
	return sources, sizes, nil
}
