package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/trial"
)

func newModel(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Look at mobility models, check and measure them",
		Example: `  geodither model inspect model.avro
  geodither model fit model.avro --in other-users.csv`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelInspect(std), newModelFit(std))
	return cmd
}

type inspectFlags struct {
	json     bool
	settings config.Flags
}

func newModelInspect(std cli.Streams) *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect [-c FILE] MODEL",
		Short: "Print what a model holds, what is suspicious about it, and what to expect of it",
		Long: `Print what a model file holds, how it was made, what its readers may learn about the traces behind
it, and how well it predicts others, if "geodither model fit" has measured that. A model is
suspicious if releases under it will probably disappoint.

With -c the command also simulates tracks, and prints what to expect of releases: the errors of
release and estimate, beside those of the model alone; how many cells are possible; and the ε that a
user spends in an hour and a day. Real people move otherwise: "geodither sanitize" measures the same
on traces.`,
		Example: `  geodither model inspect model.avro
  geodither model inspect -c geodither.yml model.avro
  geodither model inspect --json model.avro | jq -e '.suspicious == null'`,
		Args: cli.OneFile("model file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.settings.Path = cli.Config(cmd, false)
			return f.run(cmd, args[0], std)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (f *inspectFlags) run(cmd *cobra.Command, path string, std cli.Streams) error {
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return err
	}
	summary := expect.Describe(model)
	if summary.Expected, err = f.simulate(cmd, model, std); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		summary.FileBytes = info.Size()
	}
	if f.json {
		return json.NewEncoder(std.Out).Encode(summary)
	}
	return summary.Print(std.Out)
}

// simulate returns what error to expect of releases, nil if none were asked for.
func (f *inspectFlags) simulate(
	cmd *cobra.Command, model *mobility.Model, std cli.Streams,
) (*expect.Summary, error) {
	if f.settings.Path == "" {
		return nil, nil
	}
	c, err := f.settings.File(cmd.Flags())
	if err != nil {
		return nil, err
	}
	release, err := c.Release.Options(model.Step)
	if err := f.settings.Error(errors.Join(err, release.Validate())); err != nil {
		return nil, err
	}
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	bar.Phase("simulating", nil)
	x, err := expect.Simulate(cmd.Context(), model, release, expect.Options{
		Tracks: std.Tracks, Seed: expect.Seed, Progress: bar.Reporter(cmd.Context(), "steps"),
	})
	if err != nil {
		return nil, fmt.Errorf("simulating: %w", err)
	}
	expected := x.Summary()
	return &expected, nil
}

func newModelFit(std cli.Streams) *cobra.Command {
	o := fitOptions{Release: mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 1, Delta: .01, Estimate: mechanism.EstimateMean,
	}}
	var input cli.InputFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fit MODEL PATH...",
		Short: "Measure how well a model predicts users that it has not seen",
		Long: `Measure how well a model predicts users that it has not seen. Give traces of other users than those
it was trained on. Or give the traces that it was trained on, with --held-out: the command
then trains a second model without some of the users, and measures on them.

Drift is the share of releases whose true cell lies outside the location set, under lattice at
ε = 1 and δ = 0.01: far above δ, the model is too sure; far below, too unsure. Intervals are over
users. The same traces give the same figures.

The figures of a few users tell about these few: keep them as you keep the traces. --write stores
the fit in the model's file, where every reader sees it, so it takes at least five users to measure
and five others.`,
		Example: `  geodither model fit model.avro --in other-users.csv
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 0.1
  geodither model fit model.avro --in the-traces-it-was-trained-on.csv --held-out 20 --write
  geodither model fit model.avro --in test/ --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			reader, err := input.Open(cmd.Context(), args[1:], std.In)
			if err != nil {
				return err
			}
			bar := cli.NewProgress(std.Err, nil)
			measured, err := measureFit(cmd.Context(), args[0], reader, o, bar)
			bar.Done()
			if err != nil {
				return err
			}
			if skips := reader.Skips(); skips.Total > 0 {
				fmt.Fprintln(std.Err, skips)
			}
			if asJSON {
				return json.NewEncoder(std.Out).Encode(measured)
			}
			var text strings.Builder
			expect.PrintFit(&text, measured, trial.FitVerdict(*measured))
			_, err = io.WriteString(std.Out, text.String())
			return err
		},
	}
	flags := cmd.Flags()
	input.Register(flags)
	input.RegisterColumns(flags)
	flags.StringVar(&o.HeldOut, "held-out", "", "`USERS` that a second model is not trained on: "+
		"a share such as 0.1, a number, or a file with one user a line")
	flags.BoolVar(&o.Write, "write", false,
		"store the fit of --held-out in the model's file; the model itself stays the same")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

const (
	fitSeed = 1 // fixed, so that the same input gives the same figures
	// mostSteps bounds what is measured: more steps, taken evenly from users, take minutes and tell
	// hardly more.
	mostSteps = 20_000
)

// fitOptions say what is measured.
type fitOptions struct {
	Release mechanism.Options
	// HeldOut says which users are measured, under a second model that is not trained on them. If
	// it is empty, the traces are of users whom the model itself was not trained on.
	HeldOut string
	Write   bool // store the fit in the model's file
}

// Validate reports what cannot be used, before anything is read.
func (o fitOptions) Validate() error {
	if err := o.Release.Validate(); err != nil {
		return cli.Usage(err)
	}
	if o.Write && o.HeldOut == "" {
		return cli.Usagef("--write needs --held-out, such as --held-out 0.1")
	}
	return nil
}

// measureFit reads the traces and measures how well the model in a file predicts users that it was
// not trained on.
func measureFit(
	ctx context.Context, path string, from *traces.Reader, o fitOptions, bar *cli.Progress,
) (*mobility.Fit, error) {
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return nil, err
	}
	m := fitMeasurement{fitOptions: o, ctx: ctx, model: model, path: path, from: from, bar: bar}
	if o.HeldOut != "" {
		return m.heldOut()
	}
	return m.others()
}

// fitMeasurement is one run in progress.
type fitMeasurement struct {
	fitOptions
	ctx   context.Context //nolint:containedctx // of one call of measureFit
	model *mobility.Model
	path  string
	from  *traces.Reader
	bar   *cli.Progress
}

// read gathers the traces into a trainer with the options.
func (m *fitMeasurement) read(o train.Options) (*train.Trainer, error) {
	if _, err := train.New(m.model.Grid, m.model.Step, o); err != nil {
		return nil, cli.Usage(err)
	}
	in, err := gather.Files{Reader: m.from}.Read(m.ctx, gather.Into{
		Grid: m.model.Grid, New: func() *train.Trainer {
			trainer, err := train.New(m.model.Grid, m.model.Step, o)
			if err != nil {
				panic(err) // the same arguments were fine a moment ago
			}
			return trainer
		},
	}, m.bar)
	if err != nil {
		return nil, err
	}
	return in.Trainer(), nil
}

// others measures the model itself, on traces of other users.
func (m *fitMeasurement) others() (*mobility.Fit, error) {
	// It gathers fixes and makes no model of them: the radius is the smallest, for maps of any
	// size. A model whose training is not known takes a step's last fix.
	trained, err := train.OptionsOf(m.model)
	if err != nil {
		trained = train.Options{
			EveryFix: strings.Contains(m.model.Provenance.Options, "every_fix=true"),
		}
	}
	trainer, err := m.read(train.Options{
		KernelRadius: 1, EveryFix: trained.EveryFix, MaxGap: trained.MaxGap,
		Interpolate: trained.Interpolate,
	})
	if err != nil {
		return nil, err
	}
	return m.measure(m.model, trainer.Tracks(nil), m.options(trained.EveryFix))
}

// heldOut measures a second model, which was not trained on the users held out, on these users. It
// refuses a private model: figures of its own users would tell about them what no ε covers.
func (m *fitMeasurement) heldOut() (*mobility.Fit, error) {
	if m.model.Provenance.Privacy != nil {
		return nil, errors.New("the model was trained with differential privacy, which covers no " +
			"figures of its users (held-out)")
	}
	options, err := train.OptionsOf(m.model)
	if err != nil {
		return nil, fmt.Errorf("%w (held-out)", err)
	}
	trainer, err := m.read(options)
	if err != nil {
		return nil, err
	}
	if err := m.requireTraces(trainer); err != nil {
		return nil, err
	}
	words, held, err := holding(m.HeldOut, trainer)
	if err != nil {
		return nil, err
	}
	tracks, o := trainer.Tracks(held), m.options(options.EveryFix)
	m.bar.Phase("holding out", nil)
	second, _, err := trainer.Without(held).FinishWithProgress(m.bar.Reporter(m.ctx, ""))
	if err != nil {
		return nil, fmt.Errorf("a model without those held out: %w", err)
	}
	measured, err := m.measure(second, tracks, o)
	if err != nil {
		return nil, err
	}
	measured.Held = words
	if !m.Write {
		return measured, nil
	}
	others := trainer.Tracks(func(user string) bool { return !held(user) })
	if err := disclosable(measured.Users, movers(others)); err != nil {
		return nil, err
	}
	return measured, m.store(measured)
}

func (m *fitMeasurement) options(everyFix bool) trial.FitOptions {
	return trial.FitOptions{
		Release: m.Release, EveryFix: everyFix, MaxSteps: mostSteps, Seed: fitSeed,
		Workers: runtime.GOMAXPROCS(0), Progress: m.bar.Reporter(m.ctx, "steps"),
	}
}

func (m *fitMeasurement) measure(
	model *mobility.Model, tracks iter.Seq[mobility.Track], o trial.FitOptions,
) (*mobility.Fit, error) {
	m.bar.Phase("measuring", nil)
	measured, err := trial.MeasureFit(model, tracks, o)
	if errors.Is(err, trial.ErrNoTracks) {
		return nil, fmt.Errorf("%w; do the traces lie in the model's box?", err)
	}
	return &measured, err
}

// requireTraces returns an error unless training on all that was read gives the model.
func (m *fitMeasurement) requireTraces(trainer *train.Trainer) error {
	m.bar.Phase("training", nil)
	again, _, err := trainer.FinishWithProgress(m.bar.Reporter(m.ctx, ""))
	if err == nil && again.ID() != m.model.ID() {
		return fmt.Errorf("training on these traces gives model %s and not %s (held-out)",
			again.ID(), m.model.ID())
	}
	return err
}

// disclosable returns an error unless the fit may be stored, with what to do.
func disclosable(held, others int64) error {
	err := trial.Disclosable(held, others)
	if err == nil {
		return nil
	}
	remedy := "more"
	if errors.Is(err, trial.ErrFewOthers) {
		remedy = "fewer"
	}
	return fmt.Errorf("%w: hold out %s users, or leave --write out", err, remedy)
}

// movers counts the users with a transition. Tracks come by user.
func movers(tracks iter.Seq[mobility.Track]) (number int64) {
	last := ""
	for t := range tracks {
		if len(t.Cells) > 1 && (number == 0 || t.User != last) {
			number, last = number+1, t.User
		}
	}
	return number
}

// store puts the fit into the model's file. The model stays the same: a fit is no part of its id.
func (m *fitMeasurement) store(measured *mobility.Fit) error {
	m.model.Provenance.Fit = measured
	file, err := files.Prepare(m.ctx, m.path, m.model)
	if err != nil {
		return err
	}
	defer file.Discard()
	return file.Commit()
}

// holding returns who is held out, in words that name nobody and as a test: a share of the users, a
// number of them, or those that a file lists, one a line. The first users by a hash of their ids
// are a sample that depends on nothing else.
func holding(who string, trainer *train.Trainer) (string, func(user string) bool, error) {
	users := slices.SortedFunc(trainer.Users(), func(a, b string) int {
		return cmp.Or(cmp.Compare(trial.Unit(a, 0), trial.Unit(b, 0)), cmp.Compare(a, b))
	})
	set := map[string]bool{}
	number, err := strconv.ParseFloat(who, 64)
	if err != nil {
		list, err := os.ReadFile(who)
		if err != nil {
			return "", nil, fmt.Errorf("--held-out: %w", err)
		}
		for line := range strings.Lines(string(list)) {
			set[strings.TrimSpace(line)] = true
		}
	}
	if number < 1 {
		number = math.Round(number * float64(len(users)))
	}
	if number != math.Trunc(number) {
		return "", nil, cli.Usagef("--held-out %s is no number, share or file", who)
	}
	held := 0
	for i, user := range users {
		if set[user] = set[user] || float64(i) < number; set[user] {
			held++
		}
	}
	if held < 1 || held >= len(users) {
		return "", nil, cli.Usagef("--held-out %s: of the traces' %d users %d would be held out "+
			"(held-out)", who, len(users), held)
	}
	return fmt.Sprintf("%d of %d users held out", held, len(users)),
		func(user string) bool { return set[user] }, nil
}
