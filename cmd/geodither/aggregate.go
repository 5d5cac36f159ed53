package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/mechanism/evaluation/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

type aggregateFlags struct {
	paths    []string
	brokers  []string
	topic    string
	encoding string
	config   string
	model    string
	release  releaseConfig

	window    time.Duration
	zone      string
	open      int
	out       string
	outFormat string
	flows     string
	least     float64
	image     string
	estimate  aggregate.EstimateOptions
}

func newAggregate(std streams) *cobra.Command {
	var f aggregateFlags
	cmd := &cobra.Command{
		Use:   "aggregate [PATH...]",
		Short: "Where the fleet is and how it flows, from sanitized records and the model alone",
		Long: `Estimate how many vehicles are in each zone of the map, window by window, and how many go
from zone to zone, from a sanitized topic or from files of "sanitize" or "consume". It
needs the public model and the service's public settings, and nothing secret: it runs the
filter again from the releases. What it finds costs no ε.

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
estimate is compared, and another setting is noticed. A user whose record is missing is
left out until a gap of more than max_gap steps.

Few vehicles are few people: an estimate for a handful of them is about them. Windows of
a hundred and more are about a fleet.`,
		Example: `  geodither aggregate --model model.avro --in sanitized.csv --window 15m --zone 1km --out density.csv --map density.png
  geodither aggregate -c geodither.yml --window 1h --zone 2km --flows flows.csv --out-format geojson --out density.geojson
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
	flags.StringVarP(&f.config, "config", "c", "", "config `FILE` of the service: its model, topic and options of release; its key is not read")
	flags.StringVar(&f.model, "model", "", "model `FILE` under which the records were released")
	flags.DurationVar(&f.window, "window", 15*time.Minute, "length of a window, a multiple of the model's step")
	flags.StringVar(&f.zone, "zone", "", "`LENGTH` of a zone's side, such as 1km, rounded to whole cells; empty: a cell")
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

func (f *aggregateFlags) run(ctx context.Context, s observerSettings, std streams) error {
	if err := f.check(); err != nil {
		return err
	}
	collect := aggregate.CollectOptions{Flows: f.flows != "", Open: f.open, Block: 1}
	steps, err := inSteps("window", f.window, s.model.Step)
	if err != nil {
		return usageError{err}
	}
	collect.WindowSteps = int64(steps)
	zoneKM, err := kilometres("zone", f.zone)
	if err != nil {
		return usageError{err}
	}
	if zoneKM > 0 {
		collect.Block = aggregate.BlockOf(s.model.Grid, zoneKM)
	}
	read := new(atomic.Int64)
	sources, total, err := f.sources(ctx, read, std)
	if err != nil {
		return err
	}
	if len(f.paths) == 0 && f.open == 0 {
		collect.Open = fewOpen
	}
	bar := newProgress(std.err, func() (int64, int64) { return read.Load(), total })
	out, err := newAggregateOutput(f, s.model.Grid, std)
	if err != nil {
		return err
	}
	run := &aggregateRun{settings: s, collect: collect, estimate: f.estimate, out: out, bar: bar, ctx: ctx}
	err = merged(ctx, sources, run.add)
	if err == nil {
		err = run.finish()
	}
	bar.done()
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.close(); err != nil {
		return err
	}
	return run.summarize(std.err)
}

// check refuses what cannot be used before anything is read.
func (f *aggregateFlags) check() error {
	f.estimate.Workers = runtime.GOMAXPROCS(0)
	switch {
	case len(f.paths) > 0 && f.topic != "":
		return usagef("--in and --topic exclude each other")
	case len(f.paths) == 0 && f.topic == "":
		return usagef("name the sanitized records to read with --in or --topic; - is standard input")
	case f.window <= 0:
		return usagef("--window %v is not positive: write a multiple of the model's step, such as 15m", f.window)
	case f.open < 0:
		return usagef("--open must not be negative")
	case !(f.least >= 0):
		return usagef("--least is not a number of vehicles")
	}
	if err := f.estimate.Validate(); err != nil {
		return usageError{err}
	}
	if slices.Index(f.paths, "-") != lastIndex(f.paths, "-") {
		return usagef("standard input is named twice: name - once")
	}
	if err := checkMapName(f.image); err != nil {
		return err
	}
	for _, path := range []string{f.out, f.flows, f.image} {
		if err := notAnInput(path, f.paths); err != nil {
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
func (f *aggregateFlags) sources(ctx context.Context, read *atomic.Int64, std streams) (sources []sanitizedSource, total int64, err error) {
	if f.topic != "" {
		client, err := connect(ctx, f.brokers)
		if err != nil {
			return nil, 0, err
		}
		sources, err := topicSources(ctx, client, f.topic, schemas.Encoding(f.encoding))
		return sources, 0, err
	}
	sizes, err := sizesOf(f.paths)
	if err != nil {
		return nil, 0, err
	}
	for _, path := range f.paths {
		sources = append(sources, fileSource(path, std.in, func(n int) { read.Add(int64(n)) }))
	}
	return sources, sizes, nil
}

// aggregateRun is one pass over records.
type aggregateRun struct {
	ctx       context.Context //nolint:containedctx // the collector's callback has no other place for it
	settings  observerSettings
	collect   aggregate.CollectOptions
	estimate  aggregate.EstimateOptions
	out       *aggregateOutput
	bar       *progress
	collector *aggregate.Collector // nil until the settings are complete
	waiting   []located
	records   int64
	report    aggregateReport
}

// add takes one record.
func (r *aggregateRun) add(record schemas.Sanitized, where string) error {
	r.records++
	const often = 256
	if r.records%often == 0 {
		r.bar.show(r.records)
	}
	if r.collector != nil {
		return r.one(record)
	}
	// Until a release has told ε, what was predicted waits.
	if !r.settings.complete(record) {
		r.waiting = append(r.waiting, located{record, where})
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	return r.one(record)
}

// begin makes the collector and hands it what waited.
func (r *aggregateRun) begin() error {
	if !r.settings.epsilon {
		r.settings.options.Epsilon, r.settings.epsilon = 1, true // there is no release
	}
	if err := r.settings.options.Validate(); err != nil {
		return usageError{err}
	}
	var err error
	r.collector, err = aggregate.NewCollector(r.settings.model, r.settings.options, r.collect, r.window)
	if err != nil {
		return usageError{err}
	}
	r.out.zones = r.collector.Zones()
	for _, w := range r.waiting {
		if err := r.one(w.record); err != nil {
			return fmt.Errorf("%s: %w", w.where, err)
		}
	}
	r.waiting = nil
	return nil
}

func (r *aggregateRun) one(record schemas.Sanitized) error {
	kind, ok := kindsOf[record.Kind]
	if !ok {
		return errors.New("the record is of a kind that this program does not know: run a newer one")
	}
	if err := r.settings.check(record); err != nil {
		return err
	}
	g := r.settings.model.Grid
	return r.collector.Add(aggregate.Record{
		User: record.UserID, Step: record.Step, Kind: kind, Number: uint64(record.Release),
		Release:  r.collector.Snap(place(g, record.Latitude, record.Longitude)),
		Estimate: place(g, record.EstimateLatitude, record.EstimateLongitude),
	})
}

func place(g *grid.Grid, lat, lon float64) grid.Point { return g.ToMap(lat, lon) }

// window estimates and writes one window.
func (r *aggregateRun) window(w *aggregate.Window) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if w.Vehicles() == 0 {
		r.report.empty++
		return nil
	}
	d := w.Estimate(r.estimate)
	r.report.add(w, d)
	return r.out.window(w, d, r.estimate.Level)
}

func (r *aggregateRun) finish() error {
	if r.records == 0 {
		return errors.New("there is no record in the input: nothing to aggregate")
	}
	if r.collector == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	return r.collector.Finish()
}
