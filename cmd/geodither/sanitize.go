package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
)

type sanitizeFlags struct {
	settings config.Flags
	input    cli.InputFlags
	model    string
	out      string
	keyFile  string
	seed     uint64
	ownKey   bool // no config was named, so its key is not taken
	report   string
	// serviceKey is the key_file of the config.
	serviceKey string
}

func newSanitize(std cli.Streams) *cobra.Command {
	var f sanitizeFlags
	cmd := &cobra.Command{
		Use:   "sanitize {-c FILE | --model FILE --epsilon E} PATH...",
		Short: "Sanitize trace files, without Kafka",
		Long: `Sanitize trace files by the code of the service: each fix gives a sanitized record, in the order of
the input, unless a setting leaves it out. Fixes that the service refuses are left out and counted.

-c takes the settings of a service and its key_file, but not its topics. A config that -c does not
name gives no key. Without a config the mechanism is codebook. The paper's mechanisms (pim, knorm,
laplace, laplace-tight) have no proof: they are for experiments, and each record is marked.

A key file makes a run repeatable and stays as secret as the traces. Without it the noise has a
fresh key, which is forgotten. A seed protects nothing: anybody who guesses it takes the noise off.

A budget holds within one run, in which every user starts at 0: files of one period belong into one
run.

At the end the run's cost in ε and its errors, beside those of the model alone, go to the standard
error stream. --report also writes them to a file, with the errors of later smoothing.
They come from the truth: keep them on the trusted side.`,
		Example: `  geodither sanitize --model model.avro --in traces.csv --epsilon 1 --out sanitized.csv
  geodither sanitize -c geodither.yml --in traces.csv --key-file noise.key --out sanitized.csv
  zcat traces.gz |
    geodither sanitize --model model.avro --in - --mechanism lattice --epsilon 4 --delta 0.3 \
    --out sanitized.ndjson`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			named := cmd.Flag("config").Changed
			f.settings.Path = cli.Config(cmd, f.model == "")
			f.ownKey = !named
			return f.run(cmd.Context(), cmd.Flags(), args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	f.settings.Register(flags, "codebook, lattice, pim, knorm, laplace or laplace-tight")
	f.settings.RegisterInterval(flags)
	cli.Values(cmd, "mechanism", "codebook", "lattice", "pim", "knorm", "laplace", "laplace-tight")
	flags.StringVar(&f.model, "model", "",
		"model `FILE` from \"geodither train\", in place of the config's")
	flags.StringVar(&f.keyFile, "key-file", "",
		"noise key `FILE` from \"geodither key new\"; default: key_file of the config of -c")
	flags.Uint64Var(&f.seed, "seed", 0,
		"seed in place of a key: the records are marked as not private")
	flags.StringVar(&f.out, "out", "-",
		"`FILE` to write: .csv, .ndjson, .geojson or .parquet; - is CSV on standard output")
	flags.StringVar(&f.report, "report", "",
		"also write the summary as JSON to this `FILE`, for its owner alone")
	return cmd
}

func (f *sanitizeFlags) run(
	ctx context.Context, flags *pflag.FlagSet, args []string, std cli.Streams,
) error {
	if _, err := files.FormatOf(f.out); err != nil {
		return err
	}
	settings, err := f.read(flags, std.Err)
	if err != nil {
		return err
	}
	settings.Brief = f.report == ""
	seeded := flags.Changed("seed")
	if f.keyFile == "" && !seeded && !f.ownKey && f.serviceKey != "" {
		f.keyFile = f.serviceKey
		cli.Say(std.Err, "WARNING: the noise has the key of the config, %s. If a service uses it "+
			"for other fixes, take another key: under one key the records show whether two fixes "+
			"of a user and step lie in one place. The service does not know what this run "+
			"releases. Unless fixes and settings are the same, both add up.", f.keyFile)
	}
	if settings.Key, err = f.key(seeded, std.Err); err != nil {
		return err
	}
	if err := files.NotAnInput(f.out, slices.Concat(f.input.Paths, args)); err != nil {
		return err
	}
	if f.input.Mapping, err = f.settings.Mapping(); err != nil {
		return err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return err
	}
	out, err := files.NewOutput(f.out, std.Out)
	if err != nil {
		return err
	}
	run, err := sanitize.New(settings, out)
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	progress := cli.NewProgress(std.Err, reader.Progress)
	err = run.All(ctx, reader, progress)
	progress.Done()
	if err == nil {
		err = reader.Skips().Nothing(run.Fixes())
	}
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Close(); err != nil {
		return err
	}
	progress = cli.NewProgress(std.Err, nil)
	progress.Phase("looking back", nil)
	err = run.LookBack(ctx, progress)
	progress.Done()
	if err != nil {
		return fmt.Errorf("the records are written, but not the report: %w", err)
	}
	if !seeded && f.keyFile == "" {
		cli.Say(std.Err, "The noise had a fresh key, which is forgotten. A second run is a second "+
			"release, and what both reveal adds up (--key-file keeps a key).")
	}
	summary := run.Summary(reader.Skips())
	files.Wrote(std.Err, f.out,
		cli.Quantity(summary.Releases+summary.Repeats+summary.Predictions, "record"))
	summary.Print(std.Err, reader.Skips())
	warnOfADay(settings, f.settings.Path != "", std.Err)
	if b := settings.Release.Budget; b.Epsilon > 0 || b.Lifetime > 0 {
		cli.Say(std.Err, "WARNING: the budget holds within this run, where every user starts at "+
			"0. Put all files of one period into one run.")
	}
	return f.writeReport(summary, std.Err)
}

// read reads the settings of the config and of the flags, and the models. It warns of what has no
// proof.
func (f *sanitizeFlags) read(
	flags *pflag.FlagSet, log io.Writer,
) (s sanitize.Settings, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return s, err
	}
	if f.model != "" {
		c.Model, c.Models = f.model, ""
	}
	if c.Model == "" && c.Models == "" {
		return s, cli.Usagef("name a model: --model FILE, or -c FILE")
	}
	f.input.MaxAhead, f.serviceKey = time.Duration(c.MaxAhead), c.KeyFile
	bar := cli.NewProgress(log, nil)
	bar.Phase("reading the model", nil)
	model, err := c.Chosen()
	bar.Done()
	if err != nil {
		return s, f.settings.FileError(err)
	}
	s.Model, s.Later = model.Model, model.Later
	s.Publish, s.Input = c.Publish.Options(), c.Input.Options()
	s.Release, err = c.Release.Options(s.Model.Step)
	err = f.settings.Error(
		errors.Join(err, s.Release.Validate(), s.Publish.Validate(), s.Input.Validate()))
	if warning := c.Release.ProofWarning(); err == nil && warning != "" {
		fmt.Fprintf(log, "WARNING: %s.\n", warning)
	}
	return s, err
}

// key returns the key of the noise: a file's, a seed's or a fresh one.
func (f *sanitizeFlags) key(seeded bool, log io.Writer) (noise.Key, error) {
	switch {
	case seeded && f.keyFile != "":
		return noise.Key{}, cli.Usagef("--seed and --key-file exclude each other")
	case seeded:
		warnSeeded(log)
		return noise.KeyFromSeed(f.seed), nil
	}
	return keyOfFile(f.keyFile)
}

// keyOfFile returns the key of a file that no seed gives, and without a file a fresh one.
func keyOfFile(path string) (noise.Key, error) {
	if path == "" {
		return noise.NewKey(), nil
	}
	key, err := files.ReadKey(path)
	if err != nil {
		return key, err
	}
	if err := files.RefuseSeeded(key); err != nil {
		return key, cli.Usagef("--key-file: %w", err)
	}
	return key, nil
}

// warnOfADay warns as "geodither run" does, where the settings let a day cost much. It says nothing
// of no budget alone, because files end.
func warnOfADay(s sanitize.Settings, configured bool, log io.Writer) {
	if most := engine.MostEpsilonDay(s.Release, s.Model.Step); most > mechanism.HighEpsilonDay {
		text, _ := engine.BudgetAdvice(s.Release, s.Model.Step)
		if !configured { // no key of a config means anything to the user
			text = fmt.Sprintf("a user's releases of a day add up to at most ε = %s. More than %d "+
				"a day hardly protects where somebody was that day: choose a longer --interval or "+
				"a smaller --epsilon", engine.Grouped(most), mechanism.HighEpsilonDay)
		}
		cli.Say(log, "WARNING: %s.", text)
	}
}

// warnSeeded says what it means to publish under a seed's key.
func warnSeeded(log io.Writer) {
	fmt.Fprint(log, "WARNING: NOT PRIVATE. The noise comes from a seed, and anybody can try all "+
		`seeds. With the model
and the seed the noise comes off the released places, exactly. The records are marked
as "seeded, not private". For places of people use --key-file, or neither.
`)
}

func (f *sanitizeFlags) writeReport(s sanitize.Summary, log io.Writer) error {
	if f.report == "" {
		return nil
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := files.WriteSecret(f.report, append(data, '\n')); err != nil {
		return fmt.Errorf("the records are written, but not the report: %w",
			files.Unwritten(f.report, err))
	}
	files.Wrote(log, f.report, "the report")
	return nil
}
