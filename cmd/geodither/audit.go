package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
)

type auditFlags struct {
	input    cli.InputFlags
	settings config.Flags
	model    string
	draws    float64
	seed     uint64
	asJSON   bool
}

func newAudit(std cli.Streams) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit {-c FILE | --model FILE --epsilon E} [PATH...]",
		Short: "Attack the mechanism and the service, and bound the true ε from below",
		Long: `Attack the mechanism and the service like an observer who knows everything but the key and the
place, and run the code with which "run" and "sanitize" turn raw records into encoded records and
states.

The attack draws releases of two places that are as far apart as the location set allows, guesses
from each release which of the two it came from, and concludes from right and wrong guesses how
large ε must be at least. The location sets are forced shapes, and those that the traces of --in
meet, or simulated traces of the model.

Bytes must depend on the releases alone, and on the true cell only through its surrogate or its
vote: under each rule of release (interval, budget, repeats), in long runs, and for fixes outside
the map. An observer recomputes every record and state from the releases alone. The noise of all
releases is compared with the stated law: size, direction, tails, every n-th step, each hour and
user, whether two releases share it, and whether each fact of a release changes it. Exponents of
all pairs of places, and the votes of all cells, are compared with their definitions.

With -c the model and the settings are those of a service. Its key is not read: an audit has
keys of its own. Models of single users are not audited. Without a config and --mechanism the
mechanism is codebook; lattice is the other one.

The exit code is 1 if a bound exceeds ε or a test fails. A run that passes proves nothing: a lower
bound cannot show privacy. mechanism/PROOFS.md has the proofs, and a table of planted faults that
the audit finds or misses.

The same seed, program, model and traces give the same report. A sound program fails in one of a
thousand audits of different seeds.`,
		Example: `  geodither audit -c geodither.yml
  geodither audit --model model.avro --epsilon 1
  geodither audit --model model.avro --mechanism lattice --epsilon 1 --delta 0.01
  geodither audit --model model.avro --epsilon 1 --draws 1e4 --in traces.csv --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.settings.Register(flags, "model, release, publish, input", "codebook or lattice")
	flags.StringVar(&f.model, "model", "",
		"model `FILE` from \"geodither train\", in place of the config's")
	flags.Float64Var(&f.draws, "draws", audit.DefaultDraws,
		"`NUMBER` of releases from the first location set; the rest of the audit grows with it")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the simulated traces and of all draws")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as one JSON object")
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command, args []string, std cli.Streams) error {
	if err := audit.ValidateDraws(f.draws); err != nil {
		return cli.Usage(err)
	}
	service, err := f.service(cmd.Flags())
	if err != nil {
		return err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	options := audit.Options{
		Sizes: audit.SizesFor(int64(f.draws)), Seed: f.seed, Workers: runtime.GOMAXPROCS(0),
		Progress: f.attacking(cmd.Context(), bar),
	}
	if len(f.input.Paths)+len(args) > 0 {
		if f.input.Mapping, err = f.settings.Mapping(); err != nil {
			return err
		}
		if options.Traces, err = f.input.Open(cmd.Context(), args, std.In); err != nil {
			return err
		}
	}
	began := time.Now()
	report, err := audit.Run(cmd.Context(), audit.Engine, service, options)
	if err != nil {
		return err
	}
	bar.Done()
	report.Seconds = time.Since(began).Seconds()
	ended := time.Now().UTC().Truncate(time.Second)
	report.Program, report.Time = cli.Tool(), &ended
	report.Again = f.again(cmd, args)
	return f.tell(report, std)
}

// attacking announces the attacks with the first of them, and shows how far they are.
func (f *auditFlags) attacking(ctx context.Context, bar *cli.Progress) (
	progress func(done, total int64) error,
) {
	report, announced := bar.Reporter(ctx, "records"), false
	return func(done, total int64) error {
		err := report(done, total)
		if err == nil && !announced {
			announced = true
			bar.Announce(fmt.Sprintf("attacking the mechanism and the service, with %g draws ...",
				f.draws))
		}
		return err
	}
}

// tell prints a report. Its error says that something was found.
func (f *auditFlags) tell(report *audit.Report, std cli.Streams) (err error) {
	if f.asJSON {
		err = json.NewEncoder(std.Out).Encode(report)
	} else {
		err = report.Print(std.Out)
	}
	if err == nil && !report.Passed {
		err = fmt.Errorf("the audit of %s did not pass: the report has what was found",
			report.Mechanism)
	}
	return err
}

// service returns the settings that are audited. It leaves the key alone.
func (f *auditFlags) service(flags *pflag.FlagSet) (s audit.Settings, err error) {
	c, err := f.settings.File(flags)
	if err != nil {
		return s, err
	}
	if f.model != "" {
		c.Model, c.Models = f.model, ""
	}
	if c.Model == "" && c.Models == "" {
		return s, cli.Usagef("name a config with -c, or a model with --model")
	}
	chosen, err := c.Chosen()
	if err != nil {
		return s, f.settings.FileError(err)
	}
	s = audit.Settings{
		Model: chosen.Model, Publish: c.Publish.Options(), Input: c.Input.Options(),
		Encoding: c.Encoding.Sanitized,
	}
	s.Release, err = c.Release.Options(s.Model.Step)
	return s, f.settings.Error(
		errors.Join(err, s.Release.Validate(), s.Publish.Validate(), s.Input.Validate()))
}

// again is the command that gives the same report: what was said, and the seed.
func (f *auditFlags) again(cmd *cobra.Command, args []string) string {
	line := []string{cmd.CommandPath()}
	add := func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			line = append(line, "--"+flag.Name+"="+shellWord(value))
		}
	}
	cmd.Flags().Visit(add)
	if seed := cmd.Flags().Lookup("seed"); !seed.Changed {
		add(seed)
	}
	for _, path := range args {
		line = append(line, shellWord(path))
	}
	return strings.Join(line, " ")
}

// shellWord quotes what a shell would take apart.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+,:@%=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
