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
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism/counts"
)

type countsFlags struct {
	input    cli.InputFlags
	config   config.Flags
	section  config.Counts
	from, to string // days
	keyFile  string
	out      string
	accept   []string                // what one start of the service goes on with
	source   func(key string) string // names for errors where a setting came from
}

func newCounts(std cli.Streams) *cobra.Command {
	var f countsFlags
	cmd := &cobra.Command{
		Use:   "counts {-c FILE | --from DAY --to DAY [--epsilon E --per-day N] PATH...}",
		Short: "Where the fleet is, under an ε for a user's whole day, from raw fixes",
		Long: `Count vehicles by window and zone, and publish each count with noise. The input is raw fixes, so
the command belongs to the trusted side. All that one user does in a day changes the odds of
anything published by at most e^ε. Days add up, and so do further editions, zones and windows of
the same day.

A user counts once in each window, in at most --per-day windows of a day. Every zone of every
window is published, with an interval that holds its count in 90 % and an estimate for maps.
Without --per-day the command publishes nothing: it prints which zones, windows and caps are useful
to this fleet.

A key file makes the same counts give the same bytes again, and KEYFILE.counts beside it keeps what
was published. Other counts of a published window are then refused. Without a key file a second run
of the same days is a further ε.

With -c alone the command is a service: raw topic in, topics.counts out.`,
		Example: `  geodither counts --in traces.csv --from 2026-11-23 --to 2026-11-29 --box 51.3,-0.5,51.7,0.3
  geodither counts --in traces.csv --from 2026-12-01 --to 2026-12-31 --time-zone Europe/London \
    --epsilon 1 --per-day 10 --zone 1km --box 51.3,-0.5,51.7,0.3 --key-file noise.key \
    --out counts.csv
  geodither counts -c geodither.yml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.serves(cmd.Flags(), args) {
				return serveCounts(cmd.Context(), f.config.Path, f.accept, std)
			}
			options, trials, err := f.options(cmd.Flags())
			if err != nil {
				return err
			}
			if err := files.NotAnInput(f.out, slices.Concat(f.input.Paths, args)); err != nil {
				return err
			}
			reader, err := f.input.Open(cmd.Context(), args, std.In)
			if err != nil {
				return err
			}
			if trials != nil {
				return chooseCounts(cmd.Context(), reader, trials, std)
			}
			return runCounts(cmd.Context(), reader, options, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	f.config.RegisterConfig(flags, "the section counts, and the map that --zone divides")
	flags.StringVar(&f.from, "from", "", "first `DAY`, such as 2026-12-01")
	flags.StringVar(&f.to, "to", "", "last `DAY`, which is published too")
	flags.StringVar(&f.section.TimeZone, "time-zone", "UTC",
		"time `ZONE` of the days, an IANA name")
	flags.DurationVar(&f.section.Window, "window", time.Hour,
		"length of a window, which divides a day")
	flags.StringVar(&f.section.Zone, "zone", "",
		"`LENGTH` of the side of square zones, such as 1km, or GeoJSON file of polygons with the "+
			"property name")
	flags.StringVar(&f.section.Box, "box", "", "`BOX` that --zone divides, "+
		"south,west,north,east in degrees; default: the map of the config's model")
	flags.Float64Var(&f.section.Epsilon, "epsilon", 0, "ε of all that a user does in a day")
	flags.IntVar(&f.section.PerDay, "per-day", 0,
		"in how many windows of a day a user counts at most")
	flags.IntVar(&f.section.Edition, "edition", 1,
		"raise it to publish the same days again from other fixes, at a further ε")
	flags.StringVar(&f.keyFile, "key-file", "", "noise key `FILE` from \"geodither key new\"")
	flags.StringSliceVar(
		&f.accept,
		"accept",
		nil,
		"of the service, for one start: refused goes on "+
			"where nearly all of the first raw records would be refused (`NAME`)",
	)
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv or .ndjson; - is CSV on standard output")
	return cmd
}

// serves reports whether the command is a service: nothing names files, days or settings.
func (f *countsFlags) serves(flags *pflag.FlagSet, args []string) bool {
	other := false
	flags.Visit(func(flag *pflag.Flag) {
		other = other || flag.Name != "config" && flag.Name != "accept"
	})
	return f.config.Path != "" && !other && len(args) == 0
}

// countsKeys are the flags that stand for keys of the section counts.
var countsKeys = map[string]string{
	"time_zone": "time-zone", "per_day": "per-day", "first": "from", "zones": "zone",
}

// file returns the config, with the flags in the place of its settings.
func (f *countsFlags) file(flags *pflag.FlagSet) (c config.File, err error) {
	if f.config.Path != "" {
		if c, err = config.Read(f.config.Path); err != nil {
			return c, err
		}
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
			return c, err
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
		return c, cli.Usagef("there is no edition 0: the first is 1")
	}
	return c, nil
}

// options returns what to publish; or trials, where no cap is named.
func (f *countsFlags) options(
	flags *pflag.FlagSet,
) (o countsOptions, trials []*countsTrial, err error) {
	format, err := files.FormatOf(f.out)
	switch {
	case err != nil:
		return o, nil, err
	case len(f.accept) > 0:
		return o, nil, cli.Usagef("--accept is for the service")
	case format != "csv" && format != "json":
		return o, nil, cli.Usagef("--out %s: counts are written as .csv or .ndjson", f.out)
	}
	c, err := f.file(flags)
	if err != nil {
		return o, nil, err
	}
	if f.input.Mapping, err = f.config.Mapping(); err != nil {
		return o, nil, err
	}
	f.input.MaxAhead = time.Duration(c.MaxAhead)
	if c.Counts.PerDay == 0 && f.keyFile == "" && !flags.Changed("out") {
		if f.config.Path == "" && !flags.Changed("window") {
			c.Counts.Window = 0 // several
		}
		trials, err = f.trials(c)
		return o, trials, err
	}
	if o, err = f.counted(c); err != nil {
		return o, nil, err
	}
	o.out, o.keyFile, o.format = f.out, f.keyFile, format
	o.key, err = keyOfFile(f.keyFile)
	return o, nil, err
}

// counted returns what a config has counted on the days of the flags.
func (f *countsFlags) counted(c config.File) (o countsOptions, err error) {
	counted, err := c.Counted(f.source)
	if err != nil {
		return o, cli.Usage(err)
	}
	o.settings, o.plan, o.zones = counted.Settings, counted.Plan, counted.Zones
	if f.from == "" || f.to == "" {
		return o, cli.Usagef("name the days to publish: --from DAY --to DAY")
	}
	first, err := counts.ParseDate(f.from)
	if err != nil {
		return o, cli.Usagef("--from: %w", err)
	}
	last, err := counts.ParseDate(f.to)
	if err != nil {
		return o, cli.Usagef("--to: %w", err)
	}
	if o.days, err = o.plan.Between(first, last); err != nil {
		return o, cli.Usage(err)
	}
	return o, nil
}

// mostTried bounds the number of zones that are tried, and with it the time.
const mostTried = 5000

// trials returns what to try: the zones and the window of the settings, or several where they name
// none. The first one has the shortest windows and the smallest zones.
func (f *countsFlags) trials(c config.File) (all []*countsTrial, err error) {
	c.Counts.Epsilon, c.Counts.PerDay = cmp.Or(c.Counts.Epsilon, 1), 1 // the cap is found later
	sides := []string{c.Counts.Zone}
	if c.Counts.Zone == "" && c.Counts.Zones == "" {
		if sides, err = f.sides(c); err != nil {
			return nil, err
		}
	}
	windows := []time.Duration{30 * time.Minute, time.Hour, 3 * time.Hour}
	if c.Counts.Window != 0 {
		windows = []time.Duration{c.Counts.Window}
	}
	for _, window := range windows {
		for _, side := range sides {
			trial := c
			trial.Counts.Window, trial.Counts.Zone = window, side
			o, err := f.counted(trial)
			if err != nil {
				return nil, err
			}
			t := &countsTrial{countsOptions: o, zone: cmp.Or(side, c.Counts.Zones)}
			all = append(all, t)
		}
	}
	return all, nil
}

// sides returns up to four sides of squares that suit the map, the smallest first.
func (f *countsFlags) sides(c config.File) (sides []string, err error) {
	zones := 0
	for side := 64.; side >= .5; side /= 2 {
		c.Counts.Zone = fmt.Sprintf("%gkm", side)
		o, err := f.counted(c)
		if err != nil && len(sides) == 0 {
			return nil, err
		}
		switch {
		case err != nil, o.zones.Count() > mostTried && zones > 4:
			return sides, nil //nolint:nilerr // there are too many small zones for a map
		case o.zones.Count() == zones: // a whole number of a model's cells
			continue
		case zones <= 4:
			sides = nil // two by two squares, and elsewhere, are the least
		}
		zones = o.zones.Count()
		sides = append([]string{c.Counts.Zone}, sides...)
		sides = sides[:min(len(sides), 4)]
	}
	return sides, nil
}

// serveCounts runs an instance of the two services that count, until the context ends or one of
// them fails.
func serveCounts(ctx context.Context, path string, accept []string, std cli.Streams) error {
	n, file, err := config.ReadCounting(path)
	if err != nil {
		return err
	}
	if err := (acceptances{"refused": &n.Windows.AcceptRefused}).accept(accept); err != nil {
		return err
	}
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
