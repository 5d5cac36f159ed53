package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/mechanism/aggregate"
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
		Use:   "smooth {-c FILE | --model FILE} [PATH...]",
		Short: "Say where users were, with what was published later taken in",
		Long: `Compute the estimates of sanitized records again, each with the records of its user up to a
later one: for readers who can wait. The input is files of "sanitize" or "consume". The command
needs the public model and the public settings of the service, and nothing secret. It costs no ε,
because every reader of the records can do the same. An attacker can too: the smoothed error is
what the records show of the past.

A record is smoothed by all records of its user up to the user's first release at --lag after it,
or later. "all" takes in everything that follows. Most of the gain comes with one release
interval, and where the model is wrong far ahead "all" is worse than that.

Each record comes out once, with estimate, radius and ellipse of the smoothed posterior. The
mechanism has the note "smoothed". Records of a user keep their order. They are written when the
records that they wait for have come, so those of different users are in another order than in the
input; the last ones wait for the end. A user waits for at most 2,048 records,
or 16,384 with --lag all.

What cannot be followed keeps its estimate, with the note "unsmoothed": records under a model that
is not given or of a user's own, without their releases (publish.release: false), or behind a
missing record, until a gap that the filter does not bridge. The summary counts them.

The records name ε, δ, the mechanism and the model. The other settings of the release come from
the service's config (-c), where they are not the defaults.

With -c alone the command is a service, as "run" is: sanitized topic in, topics.smoothed out, each
record once, until SIGTERM or Ctrl-C. It reads no key. Its group is smooth.group, from which its
other topics have their names, its lag smooth.lag, and its folder lies beside state_dir. The last
records of a user who falls silent wait for the user's next one. A record under a model that the
config lacks passes unsmoothed; with models it waits for that model, which the log names. No account
of ε is in its changelog: if that is lost, or other settings come after a kill, start with another
smooth.group and topics.smoothed, and the sanitized topic fills them.`,
		Example: `  geodither smooth -c geodither.yml --in sanitized.csv --out smoothed.csv
  geodither smooth --model model.avro --in sanitized.csv --lag 10m --out smoothed.parquet
  geodither smooth -c geodither.yml
  geodither consume --topic fleet.sanitized |
    geodither smooth -c geodither.yml --in - --lag all --out smoothed.ndjson`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paths = append(f.paths, args...)
			return f.run(cmd.Context(), cmd.Flags(), std)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.paths, "in", nil, "file of sanitized records, `PATH`: CSV or JSON "+
		"lines, plain or gzip; repeatable; - is standard input")
	f.settings.RegisterConfig(flags, "models, release")
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
	if f.serves(flags) {
		return f.serve(ctx, std)
	}
	options, err := f.options(flags)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	in, err := aggregateFiles(f.paths, std.In)
	if err != nil {
		return err
	}
	out, err := files.NewOutput(f.out, std.Out)
	if err != nil {
		return err
	}
	s := &smoothing{input: in, out: out, bar: cli.NewProgress(std.Err, in.progress)}
	err = s.all(ctx, options)
	s.bar.Done()
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Close(); err != nil {
		return err
	}
	s.print(std.Err, options)
	return nil
}

// serves reports whether the command is a service: nothing names a file.
func (f *smoothFlags) serves(flags *pflag.FlagSet) bool {
	return f.settings.Path != "" && len(f.paths)+len(f.models) == 0 && f.lag == "" &&
		!flags.Changed("out")
}

// serve runs an instance of the service.
func (f *smoothFlags) serve(ctx context.Context, std cli.Streams) error {
	o, file, err := config.ReadSmoothing(f.settings.Path)
	if err != nil {
		return err
	}
	if o.Logger, err = file.Log.Logger(std.Err); err != nil {
		return config.Error(f.settings.Path, err)
	}
	o.Logger = slog.New(monitor.NameEvents(o.Logger.Handler()))
	create := func(options service.Options) (*service.Service, error) {
		return service.NewFollowing(options, service.Smoothing(o.Smooth))
	}
	host := hosting{f.settings.Path, o.Options, file}
	return host.serve(ctx, create, func() (stop func()) { return func() {} })
}

// options resolves the flags and the config of the service. It does not read the config's key.
func (f *smoothFlags) options(flags *pflag.FlagSet) (o aggregate.SmoothOptions, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return o, err
	}
	if len(f.models) == 0 && c.Model == "" && c.Models == "" {
		return o, cli.Usagef(
			"name the model of the releases with --model, or the service's config with -c")
	}
	if o.Read, err = publicOf(&f.settings, c, f.models); err != nil {
		return o, err
	}
	o.Workers = runtime.GOMAXPROCS(0)
	switch {
	case f.lag == "" && f.settings.Path == "":
		return o, cli.Usagef("name a --lag, such as the interval between two releases, or all; " +
			"with -c it is the config's interval")
	case f.lag == "":
		o.LagSteps = int64(max(o.Read.Release.ReleaseInterval, 1))
		return o, nil
	}
	o.LagSteps, err = lagSteps(f.lag, o.Read.Models[0].Step)
	return o, err
}

// check refuses what cannot be used before anything is read.
func (f *smoothFlags) check() error {
	if len(f.paths) == 0 {
		return cli.Usagef("name the sanitized records to read with --in, - for standard input; " +
			"-c FILE alone runs the service")
	}
	if _, err := files.FormatOf(f.out); err != nil {
		return err
	}
	return files.NotAnInput(f.out, f.paths)
}
