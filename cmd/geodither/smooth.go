package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/schemas"
)

type smoothFlags struct {
	settings config.Flags
	paths    []string
	models   []string // files
	lag      string
	out      string
}

func newSmooth(std cli.Streams) *cobra.Command {
	var f smoothFlags
	cmd := &cobra.Command{
		Use:   "smooth {-c FILE | --model FILE} {PATH... | --in -}",
		Short: "Say where users were, with what was published later taken in",
		Long: `Compute the estimates of sanitized records again, each with the records of its user up to a
later one. "geodither consume ... | geodither smooth ... --in -" smooths a topic up to its end;
other inputs are files of "sanitize" or "consume". The command needs the public model and settings
of the service, and nothing secret. It costs no ε: every reader can do the same, and so can an
attacker.

A record is smoothed by its user's records up to the first release at --lag after it, or later;
"all" takes in everything that follows.

Each record comes out once, with estimate, radius and ellipse of the smoothed posterior, and the
note "smoothed" in mechanism. Records of a user keep their order. They are written when those that
they wait for have come: at most 2,048, or 16,384 with --lag all.

What cannot be followed keeps its estimate, with the note "unsmoothed": records under a model that
is not given, without releases (publish.release: false), or behind a missing record, until a gap
that the filter does not bridge.

The records name ε, δ, the mechanism and the model. Other settings come from the service's config
(-c).`,
		Example: `  geodither consume -c geodither.yml |
    geodither smooth -c geodither.yml --in - --lag all --out smoothed.ndjson
  geodither smooth -c geodither.yml --in sanitized.csv --out smoothed.csv
  geodither smooth --model model.avro --in sanitized.csv --lag 10m --out smoothed.parquet`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paths = append(f.paths, args...)
			f.settings.Path = cli.Config(cmd, len(f.models) == 0)
			return f.run(cmd.Context(), cmd.Flags(), std)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "in", nil, "file of sanitized records, `PATH`: CSV or JSON "+
		"lines, plain or gzip; repeatable; - is standard input")
	flags.StringArrayVar(&f.models, "model", nil,
		"model `FILE` of the releases; repeatable, for several versions")
	flags.StringVar(&f.lag, "lag", "",
		"how long after a record to wait for its user's next release, `DURATION` or all; default: "+
			"the config's release interval")
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv, .ndjson, .geojson or .parquet; - is CSV on standard output")
	return cmd
}

func (f *smoothFlags) run(ctx context.Context, flags *pflag.FlagSet, std cli.Streams) error {
	options, err := f.options(flags)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	in, err := gather.SanitizedFiles(f.paths, std.In)
	if err != nil {
		return err
	}
	out, err := files.NewOutput(f.out, std.Out)
	if err != nil {
		return err
	}
	s := &smoothing{
		input: in, out: out, bar: cli.NewProgress(std.Err, in.Progress),
		before: radii{}, after: radii{},
	}
	err = s.all(ctx, options)
	s.bar.Done()
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Close(); err != nil {
		return err
	}
	files.Wrote(std.Err, f.out, cli.Quantity(s.counts.Records, "record"))
	s.print(std.Err, options)
	return nil
}

// options resolves the flags and the config of the service. It does not read the config's key.
func (f *smoothFlags) options(flags *pflag.FlagSet) (o follow.Options, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return o, err
	}
	if len(f.models) == 0 && c.Model == "" && c.Models == "" {
		return o, cli.Usagef(
			"name the model of the releases with --model, or the service's config with -c")
	}
	if o.Public, err = f.settings.Public(c, f.models); err != nil {
		return o, err
	}
	o.Workers = runtime.GOMAXPROCS(0)
	switch {
	case f.lag == "" && f.settings.Path == "":
		return o, cli.Usagef("name a --lag, such as the interval between two releases, or all; " +
			"with -c it is the config's interval")
	case f.lag == "":
		o.LagSteps = int64(max(o.Public.Release.ReleaseInterval, 1))
		return o, nil
	}
	o.LagSteps, err = lagSteps(f.lag, o.Public.Models[0].Step)
	return o, err
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

// check refuses what cannot be used before anything is read.
func (f *smoothFlags) check() error {
	if len(f.paths) == 0 {
		return cli.Usagef("name the sanitized records to read with --in, - for standard input")
	}
	if _, err := files.FormatOf(f.out); err != nil {
		return err
	}
	return files.NotAnInput(f.out, f.paths)
}

// smoothing is one pass over records.
type smoothing struct {
	input  *gather.Input
	out    *files.Output
	bar    *cli.Progress
	counts follow.Counts
	// before and after are the radii of the records that were smoothed.
	before, after radii
}

// radii count lengths in metres by their leading bits, to 1/2048 of each, so their memory does not
// grow with the records.
type radii map[uint32]int64

const radiusBits = 12 // of a float32, that are left out

func (r radii) add(metres float64) { r[math.Float32bits(float32(metres))>>radiusBits]++ }

func (r radii) median() float64 {
	var n int64
	for _, count := range r {
		n += count
	}
	n /= 2
	for _, bits := range slices.Sorted(maps.Keys(r)) {
		if n -= r[bits]; n < 0 {
			return float64(math.Float32frombits(bits<<radiusBits | 1<<(radiusBits-1)))
		}
	}
	return math.NaN()
}

// all smooths and writes all records, to the end of the input or the first error.
func (s *smoothing) all(ctx context.Context, o follow.Options) error {
	run, err := follow.NewReader(o, follow.PastOf, s.write)
	if err != nil {
		return cli.Usage(err)
	}
	err = s.input.Each(ctx, s.bar, func(record schemas.Sanitized, where string) error {
		return run.Add(engine.Published(record, where), record)
	})
	if err == nil {
		err = run.Finish()
	}
	run.Close()
	s.counts = run.Counts()
	return gather.Explain(err, s.counts)
}

// write writes a record with what the records up to a later one tell; nil: with what it has.
func (s *smoothing) write(record schemas.Sanitized, past *follow.Past, _ follow.Unfollowed) error {
	before := record.RadiusM
	engine.SetPast(&record, past)
	if past != nil {
		s.before.add(before)
		s.after.add(record.RadiusM)
	}
	return s.out.Write(record)
}

// littleGained is the share of the median radius below which smoothing is hardly worth the wait.
const littleGained = .05

// gained says what later records have told, or nothing of no records.
func (s *smoothing) gained() string {
	if len(s.before) == 0 {
		return ""
	}
	before, after := s.before.median(), s.after.median()
	text := fmt.Sprintf("median radius: %s before, %s smoothed\n", cli.Metres(before),
		cli.Metres(after))
	if after > before*(1-littleGained) {
		text += "WARNING: this gains little: few releases lie within the lag. Where the model " +
			"is wrong, estimates can be worse than before and radii too small\n"
	}
	return text
}

// print says what was smoothed, and what was not.
func (s *smoothing) print(log io.Writer, o follow.Options) {
	lag, passed := "all", int64(0)
	if o.LagSteps != mechanism.SmoothAll {
		lag = (time.Duration(o.LagSteps) * o.Public.Models[0].Step).String()
	}
	for _, n := range s.counts.Unfollowed {
		passed += n
	}
	fmt.Fprintf(log, "%s of %s: %d smoothed (lag %s)\n", cli.Quantity(s.counts.Records, "record"),
		cli.Quantity(int64(s.counts.Users), "user"), s.counts.Records-passed, lag)
	fmt.Fprint(log, s.gained())
	for _, reason := range follow.Reasons() {
		n, which := s.counts.Unfollowed[reason], ""
		if reason == follow.NoModel {
			which = fmt.Sprintf(" (%.16s); add its file with --model", s.counts.Foreign)
		}
		if n > 0 {
			fmt.Fprintf(log, "%d unsmoothed: %s%s\n", n, reason, which)
		}
	}
	if s.input.Seeded > 0 {
		fmt.Fprintln(log, files.SeededWords(s.input.Seeded))
	}
}
