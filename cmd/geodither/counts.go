package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/schemas"
)

type countsFlags struct {
	input    cli.InputFlags
	config   config.Flags
	section  config.Counts
	from, to string // days
	typical  bool
	days     string
	keyFile  string
	out      string
	source   func(key string) string // names for errors where a setting came from
}

func newCounts(std cli.Streams) *cobra.Command {
	var f countsFlags
	cmd := &cobra.Command{
		Use:   "counts [-c FILE] --from DAY --to DAY [--typical] [--per-day N] PATH...",
		Short: "Where the fleet is, under an ε for a user's whole day or month, from raw fixes",
		Long: `Count vehicles by window and zone, and publish each count with noise. All that one user does in a
day changes the odds of anything published by at most e^ε. Days add up, and so do further editions,
zones and windows of the same day.

A user counts once in each window, where its first fix of the window lies, in at most --per-day
windows of a day. Every zone of every window is published, with an interval that holds its count in
90 % and an estimate for maps. Without --per-day the command publishes nothing: it prints what is
useful to this fleet.

With --typical it publishes where the fleet usually is at each time of the day. ε is then for all
that a user does on these days. Without files it reads the raw topic of the config up to its
present end.

A key file makes the same counts give the same bytes again. KEYFILE.counts beside it keeps what was
published, so that other counts of the same time are refused. Without a key file a second run is a
further ε.

The service that counts a raw topic is "geodither counts serve".`,
		Example: `  geodither counts --in traces.csv --from 2026-11-23 --to 2026-11-30 --box 51.3,-0.5,51.7,0.3
  geodither counts --in traces.csv --typical --days working --from 2026-12-01 --to 2027-01-01 \
    --time-zone Europe/London --epsilon 2 --per-day 10 --zone 1km --box 51.3,-0.5,51.7,0.3 \
    --key-file noise.key --out typical.csv`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.config.Path = cli.Config(cmd, f.typical && len(f.input.Paths)+len(args) == 0)
			request, err := f.request(cmd.Flags(), args)
			if err != nil {
				return err
			}
			if err := request.Validate(); err != nil {
				return err
			}
			source, err := f.open(cmd.Context(), args, request, std)
			if err != nil {
				return err
			}
			if err := countfiles.Run(cmd.Context(), source, request, std); err != nil {
				return err
			}
			files.Wrote(std.Err, f.out, "the counts")
			return nil
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	flags.StringVar(&f.from, "from", "",
		"first `DAY`, such as 2026-12-01, or the time at which it starts")
	flags.StringVar(&f.to, "to", "", "`DAY` after the last one, or the time at which it starts")
	flags.BoolVar(&f.typical, "typical", false, "publish one typical day of the range")
	flags.StringVar(&f.days, "days", "all", "`DAYS` of a typical day: working, weekend, all or "+
		"mon,fri, and a file of days to leave out, one a line: working,holidays.txt")
	flags.StringVar(&f.section.TimeZone, "time-zone", "UTC",
		"time `ZONE` of the days, an IANA name")
	flags.DurationVar(&f.section.Window, "window", time.Hour,
		"`DURATION` of a window, which divides a day")
	flags.StringVar(&f.section.Zone, "zone", "",
		"`LENGTH` of the side of square zones, such as 1km, or GeoJSON file of polygons with the "+
			"property name")
	flags.StringVar(&f.section.Box, "box", "", "`BOX` that --zone divides, "+
		"south,west,north,east in degrees; default: the map of the config's model")
	flags.Float64Var(&f.section.Epsilon, "epsilon", 0, "ε of all that a user does in a day, or on "+
		"all days of a typical day")
	flags.IntVar(&f.section.PerDay, "per-day", 0,
		"in how many windows of a day a user counts at most; noise grows with it: for some hours "+
			"alone, give files of these hours and a smaller one")
	flags.IntVar(&f.section.Edition, "edition", 1,
		"raise it to publish the same days again from other fixes, at a further ε")
	flags.StringVar(&f.keyFile, "key-file", "", "noise key `FILE` from \"geodither key new\"")
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv or .ndjson; - is CSV on standard output")
	cmd.AddCommand(newCountsServe(std))
	return cmd
}

// countsKeys are the flags that stand for keys of the section counts.
var countsKeys = map[string]string{
	"time_zone": "time-zone", "per_day": "per-day", "first": "from", "zones": "zone",
}

// file returns the config, with the flags in the place of its settings, and those of its service.
func (f *countsFlags) file(flags *pflag.FlagSet) (
	c config.File, service config.Counts, err error,
) {
	if f.config.Path != "" {
		if c, err = config.Read(f.config.Path); err != nil {
			return c, service, err
		}
	}
	if len(c.Brokers) > 0 {
		service = c.Counts
	}
	given := func(name string) bool { return flags.Changed(name) || f.config.Path == "" }
	f.source = func(key string) string {
		if name := cmp.Or(countsKeys[key], key); given(name) {
			return "--" + name
		}
		return fmt.Sprintf("config %s: counts.%s", f.config.Path, key)
	}
	own, to := f.section, &c.Counts
	if own.Zone != "" {
		_, polygons, err := zoneOf(own.Zone)
		if err != nil {
			return c, service, err
		}
		if polygons {
			own.Zone, own.Zones = "", own.Zone
		}
	}
	if given("zone") {
		to.Zone, to.Zones = own.Zone, own.Zones
	}
	if given("zone") || given("box") {
		to.Box = own.Box
	}
	for name, set := range map[string]func(){
		"time-zone": func() { to.TimeZone = own.TimeZone },
		"window":    func() { to.Window = own.Window },
		"epsilon":   func() { to.Epsilon = own.Epsilon },
		"per-day":   func() { to.PerDay = own.PerDay },
		"edition":   func() { to.Edition = own.Edition },
	} {
		if given(name) {
			set()
		}
	}
	to.First = "" // --from is
	if flags.Changed("edition") && own.Edition == 0 {
		return c, service, cli.Usagef("there is no edition 0: the first is 1")
	}
	return c, service, nil
}

// open opens the files, or the config's raw topic if there are none.
func (f *countsFlags) open(
	ctx context.Context, args []string, q countfiles.Request, std cli.Streams,
) (countfiles.Source, error) {
	inputs := slices.Concat(f.input.Paths, args)
	if !f.ofTopic(args) {
		if err := files.NotAnInput(f.out, inputs); err != nil {
			return nil, err
		}
		reader, err := f.input.Open(ctx, args, std.In)
		return countfiles.Files{Reader: reader}, err
	}
	since, err := q.Since()
	if err != nil {
		return nil, cli.Usage(err)
	}
	raw, err := topicOf(q.Config)
	if err == nil {
		// A fix may lie ahead of its record.
		raw.Since = since.Add(-cmp.Or(time.Duration(q.Config.MaxAhead), schemas.DefaultMaxAhead))
		err = connect(ctx, q.Config, raw)
	}
	return &gather.Fixes{Topic: raw}, config.Error(f.config.Path, err)
}

// ofTopic says that the raw topic is to be read.
func (f *countsFlags) ofTopic(args []string) bool {
	return len(f.input.Paths)+len(args) == 0 && f.config.Path != ""
}

// request returns what to count.
func (f *countsFlags) request(
	flags *pflag.FlagSet, args []string,
) (q countfiles.Request, err error) {
	format, err := files.FormatOf(f.out)
	switch {
	case err != nil:
		return q, err
	case format != "csv" && format != "json":
		return q, cli.Usagef("--out %s: counts are written as .csv or .ndjson", f.out)
	case flags.Changed("days") && !f.typical:
		return q, cli.Usagef("--days is for --typical")
	case f.ofTopic(args) && !f.typical:
		return q, cli.Usagef("name files: only --typical reads the raw topic")
	}
	c, service, err := f.file(flags)
	if err != nil {
		return q, err
	}
	if f.input.Mapping, err = f.config.Mapping(); err != nil {
		return q, err
	}
	f.input.MaxAhead = time.Duration(c.MaxAhead)
	choose := f.keyFile == "" && !flags.Changed("per-day") && !flags.Changed("out")
	if choose {
		c.Counts.PerDay = 0
	} else if f.ofTopic(args) && f.keyFile == "" {
		if f.keyFile = c.KeyFile; f.keyFile == "" {
			return q, cli.Usagef("name the noise key with --key-file: the ledger of what was " +
				"published lies beside it")
		}
	}
	q = countfiles.Request{
		Config: c, Service: service, Name: f.source, From: f.from, To: f.to,
		Typical: f.typical, Days: f.days, Now: time.Now(),
		Choose:  choose,
		KeyFile: f.keyFile, Out: f.out, Format: format,
	}
	if q.Choose && f.config.Path == "" && !flags.Changed("window") {
		q.Config.Counts.Window = 0 // several
	}
	q.Key, err = keyOfFile(f.keyFile)
	return q, err
}

func newCountsServe(std cli.Streams) *cobra.Command {
	var accept acceptances
	cmd := &cobra.Command{
		Use:   "serve -c FILE",
		Short: "Count as a service: raw topic in, topics.counts out",
		Long: `Count vehicles as "counts" does, from the raw topic into topics.counts, each window once, until
SIGTERM or Ctrl-C. The settings are the section counts of the config.

The raw topic needs message.timestamp.type=LogAppendTime: a fix counts if its record was appended
by counts.grace after the window's end. A window is published counts.skew after that, also where
nobody reports. An instance counts by raw partition into a topic of partial counts, which are true
ones, and publishes their totals with the key's noise. Other settings need another counts.group and
topics.counts, and counts.first from tomorrow on. With another counts.time_zone it is the day after,
so that no day overlaps one that was counted.`,
		Example: "  geodither counts serve -c geodither.yml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			return serveCounts(cmd.Context(), path, accept, std)
		},
	}
	accept = acceptFlag(cmd, "for one start go on, by `NAME`: refused, where nearly all of the "+
		"first raw records would be refused", "refused")
	return cmd
}

// serveCounts runs an instance of the two services that count, until the context ends or one of
// them fails.
func serveCounts(ctx context.Context, path string, accept acceptances, std cli.Streams) error {
	n, file, err := config.ReadCounting(path)
	if err != nil {
		return err
	}
	n.Windows.AcceptRefused = accept["refused"]
	log, err := file.Log.Logger(std.Err)
	if err != nil {
		return config.Error(path, err)
	}
	log = slog.New(monitor.NameEvents(log.Handler()))
	var services [2]*service.Service
	var sources [2]monitor.Source
	for i, stage := range []struct {
		name    string
		options *service.Options
		create  func(service.Options, *service.Counting) (*service.Service, error)
	}{
		{stageWindows, &n.Windows, service.NewWindows}, {"totals", &n.Totals, service.NewTotals},
	} {
		o := stage.options
		o.Logger = log.With("stage", stage.name)
		o.Board, o.Counters = monitor.NewBoard(), new(engine.Counters)
		if services[i], err = stage.create(*o, n.Count); err != nil {
			return config.Error(path, err)
		}
		sources[i] = countsSource(stage.name, *o, n)
	}
	sources[0].Next = &sources[1]
	server, err := monitor.Open(file.HTTP.Options(n.Windows.WithDefaults().SessionTimeout),
		sources[0], log)
	if err != nil {
		return fmt.Errorf("http.%w", err)
	}
	defer server.Close()
	n.Windows.Connection.Log(log)
	if err := n.Windows.Connection.Refused(ctx, n.Windows.Brokers); err != nil {
		return err
	}
	return together(ctx, services[0].Run, services[1].Run)
}

// stageWindows is the stage that reads fixes.
const stageWindows = "windows"

// together runs functions until all have returned. When one has, the context of the others ends.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, run := range all {
		running.Go(func() {
			defer stop()
			errs[i] = run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// countsSource is what is told over HTTP of one of the two services.
func countsSource(stage string, o service.Options, n config.Counting) monitor.Source {
	build := cli.ThisBuild()
	var rules []string // the totals skip nothing
	if stage == stageWindows {
		rules = counting.Rules(o.Input)
	}
	return monitor.Source{
		Build: monitor.Build{Version: build.Version, Revision: build.Revision, Go: build.Go},
		Settings: monitor.Settings{
			Rules:       rules,
			Fingerprint: n.Settings.Fingerprint(), Mechanism: "counts",
			EncodingSanitized: string(n.Totals.WithDefaults().SanitizedEncoding),
		},
		Service: monitor.NewService(o.Cluster, o.InstanceID),
		Board:   o.Board, Counters: o.Counters, Certificates: o.Connection.Certificates,
		Stage: stage,
	}
}
