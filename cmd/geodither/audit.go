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
	"github.com/geodither/geodither/mechanism/law"
)

type auditFlags struct {
	settings config.Flags
	model    string
	draws    float64
	seed     uint64
	asJSON   bool
}

func newAudit(std cli.Streams) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit {-c FILE | --model FILE --epsilon E}",
		Short: "Attack the mechanism and the service, and bound the true ε from below",
		Long: `Report a lower bound on the ε that the service really has, and whether anything but
the releases depends on a place.

The sweep is exact. In whole numbers it checks the law of a release for all cells of the map: the
votes and weights of the codebook, or the surrogates and the hull of the lattice. No two cells may
differ by more than e^ε.

The duel runs the code with which "run" and "sanitize" turn raw records into encoded records and
states. Two users have the same history, and only the places of their next fixes differ. An attacker
guesses from each release which of two places it came from; right and wrong guesses give the bound.
All bytes beside the release must be the same for both users, under
your intervals, hours and budgets. The history is that of users who move as the model says.

Exit code 1 means a finding: a check failed, or the bound exceeds ε. A sound program has one in one
of a thousand audits of different seeds. An audit without a finding proves nothing: PROOFS.md has
the proofs, and says which planted faults this command finds and which only tests find.

With -c the settings are those of a service, whose key is not read.`,
		Example: `  geodither audit -c geodither.yml
  geodither audit --model model.avro --epsilon 1
  geodither audit --model model.avro --mechanism lattice --epsilon 1 --delta 0.01 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, std) },
	}
	flags := cmd.Flags()
	f.settings.Register(flags, "codebook or lattice")
	cli.Values(cmd, "mechanism", law.Codebook, law.Lattice)
	flags.StringVar(&f.model, "model", "",
		"model `FILE` from \"geodither train\", in place of the config's")
	flags.Float64Var(&f.draws, "draws", audit.DefaultDraws,
		"`NUMBER` of releases in the duel")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all places and draws")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as one JSON object")
	return cmd
}

func (f *auditFlags) run(cmd *cobra.Command, std cli.Streams) error {
	if err := audit.ValidateDraws(f.draws); err != nil {
		return cli.Usage(err)
	}
	f.settings.Path = cli.Config(cmd, f.model == "")
	service, err := f.service(cmd.Flags())
	if err != nil {
		return err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	began := time.Now()
	report, err := audit.Run(cmd.Context(), audit.Engine, service, audit.Options{
		Draws: int64(f.draws), Seed: f.seed, Workers: runtime.GOMAXPROCS(0),
		Progress: f.attacking(cmd.Context(), bar),
	})
	if err != nil {
		return err
	}
	bar.Done()
	report.Seconds = time.Since(began).Seconds()
	ended := time.Now().UTC().Truncate(time.Second)
	report.Program, report.Time = cli.Tool(), &ended
	report.Again = f.again(cmd)
	return f.tell(report, std)
}

// attacking announces the attacks with the first of them, and shows how far they are.
func (f *auditFlags) attacking(ctx context.Context, bar *cli.Progress) (
	progress func(done, total int64) error,
) {
	report, announced := bar.Reporter(ctx, "releases"), false
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
func (f *auditFlags) again(cmd *cobra.Command) string {
	line := []string{cmd.CommandPath()}
	add := func(flag *pflag.Flag) {
		line = append(line, "--"+flag.Name+"="+shellWord(flag.Value.String()))
	}
	cmd.Flags().Visit(add)
	if seed := cmd.Flags().Lookup("seed"); !seed.Changed {
		add(seed)
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
