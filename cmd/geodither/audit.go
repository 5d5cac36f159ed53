package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

type auditFlags struct {
	input      cli.InputFlags
	settings   config.Flags
	model      string
	draws      float64
	seed       uint64
	confidence float64
	exact      bool
	asJSON     bool
}

func newAudit(std cli.Streams) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit {-c FILE | --model FILE --epsilon E --delta D} [PATH...]",
		Short: "Attack the mechanism and the service, and bound the true ε from below",
		Long: `Attack the mechanism and the service as somebody would who knows everything but the key and
the place.

First the mechanism. The attack shows itself releases of two places that are as far apart as
the location set has them, guesses which of the two each came from, and concludes from its
hits and misses how large ε must be at least. Its location sets are met along the traces of
--in, or along simulated ones of the model. It also tests the low bits of releases, that the
same facts give the same bytes, that each fact of a release changes its noise, and the
exponents of all pairs of places, with the hull K built by brute force.

Then the service: the code that "run" and "sanitize" use turns records into encoded records
and states. Bytes must not depend on the true cell beyond its surrogate, nor on anything but
the releases: under each rule of release (interval, adaptive, budget, same step), in long
runs, and in location sets of forced shapes. An observer recomputes every record and state
from the releases alone. A fix outside the map must have the bytes of one in the cell that it
is clamped to, or as a dead letter leave no record and no state. The noise of all releases is
held against the stated law: size, direction, tails, every n-th step, and whether two releases
share it.

With -c the model and the settings are those of a service. Its key is not read: an audit has
keys of its own. Users' own models are not audited.

The command exits with 1 if a bound exceeds ε or a test fails. What passes has not been
proved private: a lower bound cannot do that. mechanism/PROOFS.md has the proofs, and a
table of planted faults that the audit finds or misses.

The same seed, program, model and traces give the same report. A sound program fails in one
of 1/(1-confidence) audits of different seeds.`,
		Example: `  geodither audit -c geodither.yml
  geodither audit --model model.avro --epsilon 1 --delta 0.01
  geodither audit --model model.avro --mechanism pim --epsilon 1 --delta 0.01 --draws 1e5 --in traces.csv --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags, "in")
	f.settings.Register(flags, "model, release, publish, input")
	flags.StringVar(&f.model, "model", "", "model `FILE` from \"geodither train\", in place of the config's")
	flags.Float64Var(&f.draws, "draws", audit.DefaultDraws, "`NUMBER` of releases that the attack draws; the audit of the service grows with it")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the simulated traces and of all draws")
	flags.Float64Var(&f.confidence, "confidence", audit.DefaultConfidence, "one minus the rate of false alarms, over all tests together")
	flags.BoolVar(&f.exact, "exact", true, "also compare the exponents of all pairs of places")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as one JSON object")
	return cmd
}

func (f *auditFlags) options() (audit.Options, error) {
	if f.draws != math.Trunc(f.draws) || math.Abs(f.draws) > 1e15 {
		return audit.Options{}, fmt.Errorf("--draws %g is not a number of draws: write 1e6 or 1000000", f.draws)
	}
	o := audit.Options{
		Draws: int64(f.draws), Seed: f.seed, Confidence: halfOf(f.confidence), Ratio: f.exact, Workers: runtime.GOMAXPROCS(0),
	}
	if o.Draws == 0 || f.confidence == 0 { // the library would take its defaults
		return o, errors.New("--draws and --confidence must not be 0: leave them out for the defaults")
	}
	given := o
	given.Confidence = f.confidence // errors name the number that was given
	return o, given.Validate()
}

// halfOf is the confidence of one of two audits that share the rate of false alarms.
func halfOf(confidence float64) float64 { return (1 + confidence) / 2 }

func (f *auditFlags) run(cmd *cobra.Command, args []string, std cli.Streams) error {
	ctx := cmd.Context()
	options, err := f.options()
	if err != nil {
		return cli.Usage(err)
	}
	service, err := f.service(cmd.Flags())
	if err != nil {
		return err
	}
	model, release := service.Model, serviceaudit.PlainRules(service.Release)
	began := time.Now()
	scout, err := audit.NewScout(model, release, f.seed)
	if err != nil {
		return err
	}
	traced := len(f.input.Paths)+len(args) > 0
	visits := 0
	if traced {
		visits, err = f.follow(ctx, args, scout, model, std)
	} else {
		visits, err = f.simulate(ctx, scout, model)
	}
	if err != nil {
		return err
	}
	situations := scout.Situations()
	if len(situations) == 0 {
		return errors.New("no location set of more than one place was met: give longer traces with --in, or a smaller --delta")
	}
	bar := cli.NewProgress(std.Err, nil)
	options.Progress = func(done, total int64) error {
		bar.Count(done, total, "draws")
		return ctx.Err()
	}
	report, err := audit.Run(audit.Sanitizers{}, model, release, situations, options)
	bar.Done()
	if err != nil {
		return err
	}
	attacked, err := f.attackService(ctx, service, std)
	if err != nil {
		return err
	}
	report.Findings = append(report.Findings, serviceFindings(attacked)...)
	report.Passed = report.Passed && attacked.Passed
	printed := auditReport{Report: report, Service: attacked, Visits: visits, Met: scout.Met(), Simulated: !traced, Again: f.again(cmd, args), Seconds: time.Since(began).Seconds()}
	if f.asJSON {
		err = json.NewEncoder(std.Out).Encode(printed)
	} else {
		err = printed.print(std.Out)
	}
	if err == nil && !report.Passed {
		err = fmt.Errorf("the audit of %s did not pass: the report has what was found", report.Mechanism)
	}
	return err
}

// How many steps of the traces are followed: sets repeat themselves, and no
// user is to have them all.
const (
	mostVisits  = 2000
	mostOfAUser = 200
)

// follow sends the fixes of the input past the scout.
func (f *auditFlags) follow(ctx context.Context, args []string, scout *audit.Scout, model *mobility.Model, std cli.Streams) (visits int, err error) {
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return 0, err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	seen := map[string]int{}
	for fix, err := range reader.Fixes() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return visits, err
		}
		if seen[fix.UserID] == mostOfAUser {
			continue
		}
		fresh, err := scout.Visit(fix.UserID, model.StepAt(fix.Timestamp), model.Grid.Locate(fix.Latitude, fix.Longitude))
		if err != nil {
			return visits, err
		}
		if !fresh {
			continue
		}
		seen[fix.UserID]++
		visits++
		bar.Show(int64(visits))
		if visits == mostVisits {
			break
		}
	}
	return visits, nil
}

// simulate sends vehicles past the scout that move by the model.
func (f *auditFlags) simulate(ctx context.Context, scout *audit.Scout, model *mobility.Model) (visits int, err error) {
	const vehicles, steps = 20, mostVisits / 20
	rng := rand.New(rand.NewPCG(f.seed, 0x6175646974)) // any second word: it names the stream
	for v := range vehicles {
		walker := trial.NewWalker(model, rng)
		for step := range steps {
			if err := ctx.Err(); err != nil {
				return visits, err
			}
			if _, err := scout.Visit(fmt.Sprintf("sim-%06d", v), int64(step), walker.Cell); err != nil {
				return visits, err
			}
			visits++
			walker.Move(int64(step))
		}
	}
	return visits, nil
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
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
