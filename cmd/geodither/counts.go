package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

type countsFlags struct {
	input    cli.InputFlags
	from, to string // days
	timeZone string
	window   time.Duration
	zone     string // length
	zones    string // file
	model    string // file
	box      string
	epsilon  float64
	perDay   int
	edition  uint32
	keyFile  string
	out      string
}

func newCounts(std cli.Streams) *cobra.Command {
	var f countsFlags
	cmd := &cobra.Command{
		Use:   "counts --from DAY --to DAY --epsilon E --per-day N PATH...",
		Short: "Where the fleet is, under an ε for a user's whole day, from raw fixes in files",
		Long: `Count vehicles by window and zone, and publish each count with noise. The input is raw fixes, so
the command belongs to the trusted side. For the question where a fleet is, these counts are far
better than records that protect each vehicle by itself.

In each window a user counts once, at the first fix, in at most --per-day windows of a day: the
first ones. Each number is a count plus discrete Laplace noise of scale per-day / ε, and can be
negative. Every zone of every window is published, empty ones too. low and high are an interval
that holds the count of a zone in 90 %.

The guarantee: all that one user does in a day changes the odds of anything published by at most
e^ε. In place of another day, or in part, it is 2ε. Days add up: a month costs 30 ε. So does every
further --edition, set of zones and length of windows of the same day. The guarantee is not about
people who travel together: they share what is published. It holds against those who do not have
the key, and not for true counts, such as those in the summary of this command.

Few windows a day need little noise, but the windows after the first --per-day of a user's day are
not counted. The summary says which share that is, by hour. --per-day has to cover a shift.

A day is the windows that start on it by the clock of --time-zone. Windows start at whole
multiples of their length, and where the clock is changed. --zone cuts the map of a model, or a
box, into squares; of a model's map the side is rounded to whole cells, as in "aggregate". --zones
are polygons with names. What lies in none is the zone "elsewhere".

Without --key-file the noise has a fresh key, and a second run of the same days is a further ε.
With one, the same counts give the same bytes again. The file KEYFILE.counts beside the key keeps
a keyed digest of what was published: other counts of the same window are refused, because the
same noise would show the difference. Keep it with the key. Another fleet needs a key of its own.

Fixes may come in any order. Memory: some 500 bytes for each user and day.`,
		Example: `  geodither counts --in traces.csv --from 2026-12-01 --to 2026-12-31 --time-zone Europe/London \
    --epsilon 1 --per-day 10 --zone 1km --model model.avro --key-file noise.key --out counts.csv
  geodither counts --in traces.csv --from 2026-12-01 --to 2026-12-01 --epsilon 1 --per-day 4 \
    --window 30m --zones districts.geojson --out counts.ndjson`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := f.options()
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
			return runCounts(cmd.Context(), reader, options, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags, "in")
	f.input.RegisterColumns(flags)
	flags.StringVar(&f.from, "from", "", "first `DAY`, such as 2026-12-01")
	flags.StringVar(&f.to, "to", "", "last `DAY`, which is published too")
	flags.StringVar(&f.timeZone, "time-zone", "UTC", "time `ZONE` of the days, an IANA name")
	flags.DurationVar(&f.window, "window", time.Hour, "length of a window, which divides a day")
	flags.StringVar(&f.zone, "zone", "", "`LENGTH` of the side of square zones, such as 1km")
	flags.StringVar(&f.zones, "zones", "",
		"GeoJSON `FILE` of polygons with the property name, instead of --zone")
	flags.StringVar(&f.model, "model", "", "model `FILE` whose map --zone divides")
	flags.StringVar(&f.box, "box", "",
		"`BOX` that --zone divides, south,west,north,east in degrees, instead of --model")
	flags.Float64Var(&f.epsilon, "epsilon", 0, "ε of all that a user does in a day")
	flags.IntVar(&f.perDay, "per-day", 0, "in how many windows of a day a user counts at most")
	flags.Uint32Var(&f.edition, "edition", 1,
		"raise it to publish the same days again from other fixes, at a further ε")
	flags.StringVar(&f.keyFile, "key-file", "", "noise key `FILE` from \"geodither key new\"")
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv or .ndjson; - is CSV on standard output")
	return cmd
}

// countsSource names the data of files in the transcript of the noise. A key is for one fleet.
const countsSource = "files"

func (f *countsFlags) options() (o countsOptions, err error) {
	o.out, o.keyFile = f.out, f.keyFile
	switch o.format, err = files.FormatOf(f.out); {
	case err != nil:
		return o, err
	case o.format != "csv" && o.format != "json":
		return o, cli.Usagef("--out %s: counts are written as .csv or .ndjson", f.out)
	}
	o.settings = counts.Settings{
		Source: countsSource, Edition: f.edition, Epsilon: f.epsilon, PerDay: f.perDay,
	}
	if err := o.settings.Validate(); err != nil {
		return o, cli.Usage(err)
	}
	if o.plan, err = counts.NewPlan(f.timeZone, f.window); err != nil {
		return o, cli.Usage(err)
	}
	if most := int(24 * time.Hour / f.window); f.perDay > most {
		return o, cli.Usagef("--per-day %d: a day has %d windows of %v, and more noise than for "+
			"these protects nobody: choose %[2]d or fewer", f.perDay, most, f.window)
	}
	if f.from == "" || f.to == "" {
		return o, cli.Usagef("name the days to publish, --from DAY and --to DAY: which they are " +
			"must not depend on the fixes")
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
	if o.zones, err = f.place(); err != nil {
		return o, err
	}
	o.key, err = keyOfFile(f.keyFile)
	return o, err
}

// place returns the zones.
func (f *countsFlags) place() (*counts.Zones, error) {
	switch {
	case (f.zone == "") == (f.zones == ""):
		return nil, cli.Usagef("name the zones: --zone LENGTH or --zones FILE")
	case f.zones != "" && f.model+f.box != "":
		return nil, cli.Usagef("--zones needs no map: leave --model and --box out")
	case f.zones != "":
		areas, err := readZones(f.zones)
		if err != nil {
			return nil, err
		}
		list := make([]counts.Area, len(areas))
		for i, a := range areas {
			list[i] = counts.Area(a)
		}
		zones, err := counts.Polygons(list)
		if err != nil {
			return nil, cli.Usagef("--zones %s: %w", f.zones, err)
		}
		return zones, nil
	case (f.model == "") == (f.box == ""):
		return nil, cli.Usagef("name what --zone divides: --model FILE or --box BOX")
	}
	g, err := f.squares()
	if err != nil {
		return nil, err
	}
	zones, err := counts.Squares(g)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return zones, nil
}

// squares returns the grid whose cells are the zones.
func (f *countsFlags) squares() (*grid.Grid, error) {
	if f.model == "" {
		g, err := cli.ParseMap(f.box, f.zone)
		if err != nil {
			return nil, cli.Usage(err)
		}
		return g, nil
	}
	km, err := cli.Kilometres("zone", f.zone)
	if err != nil {
		return nil, cli.Usage(err)
	}
	model, err := mobility.ReadModelFile(f.model)
	if err != nil {
		return nil, err
	}
	whole := float64(aggregate.BlockOf(model.Grid, km))
	return grid.New(model.Grid.Box(), whole*model.Grid.CellM())
}
