package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

type sanitizeFlags struct {
	input     inputFlags
	model     string
	out       string
	outFormat string
	keyFile   string
	seed      uint64
	report    string
	release   mechanism.Options
}

func newSanitize(std streams) *cobra.Command {
	var f sanitizeFlags
	cmd := &cobra.Command{
		Use:   "sanitize [PATH...]",
		Short: "Sanitize trace files, without Kafka",
		Long: `Sanitize trace files by the same code as the service: a sanitized record for each fix,
in the order of the input. Fixes of a step before the user's last one are late: they are
left out and counted, as bad lines are.

Without --key-file or --seed the noise has a fresh random key, which is forgotten. A seed
makes an experiment repeatable and protects nothing.

At the end the errors of the run go to the standard error stream: they are aggregates,
but they come from the truth. Keep them on the trusted side.`,
		Example: `  geodither sanitize --model model.avro --in traces.csv --out sanitized.csv --epsilon 1 --delta 0.01
  zcat traces.ndjson.gz | geodither sanitize --model model.avro --in - --out-format json --epsilon 4 --delta 0.3`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.Flags().Changed("seed"), std)
		},
	}
	flags := cmd.Flags()
	f.input.register(flags)
	flags.StringVar(&f.model, "model", "", "model `FILE` from \"geodither train\"")
	flags.StringVar(&f.out, "out", "-", "`FILE` to write; - is standard output")
	flags.StringVar(&f.outFormat, "out-format", "csv", "csv, json (one object a line) or geojson")
	flags.StringVar(&f.keyFile, "key-file", "", "noise key `FILE` from \"geodither key new\"")
	flags.Uint64Var(&f.seed, "seed", 0, "seed in place of a key, for experiments only")
	flags.StringVar(&f.report, "report", "", "also write the run's summary as JSON to this `FILE`")
	flags.StringVar(&f.release.Mechanism, "mechanism", mechanism.PIM, "pim, knorm, laplace or laplace-tight")
	flags.StringVar(&f.release.Inference, "inference", mechanism.InferenceSurrogate, "surrogate or paper")
	flags.StringVar(&f.release.Isotropy, "isotropy", mechanism.IsotropyClosedForm, "transform of pim: closed-form or sampled")
	flags.Float64Var(&f.release.Epsilon, "epsilon", 0, "privacy budget of one release; no default")
	flags.Float64Var(&f.release.Delta, "delta", 0, "prior mass that the location set may leave out; no default")
	required(cmd, "model", "epsilon", "delta")
	return cmd
}

func (f *sanitizeFlags) run(ctx context.Context, args []string, seeded bool, std streams) error {
	if err := errors.Join(f.release.Validate(), knownFormat(f.outFormat)); err != nil {
		return usageError{err}
	}
	model, err := mobility.ReadModelFile(f.model)
	if err != nil {
		return err
	}
	key := noise.NewKey()
	switch {
	case seeded && f.keyFile != "":
		return usagef("--seed and --key-file exclude each other")
	case seeded:
		key = noise.KeyFromSeed(f.seed)
	case f.keyFile != "":
		if key, err = readKey(f.keyFile); err != nil {
			return err
		}
	}
	if err := notAnInput(f.out, slices.Concat(f.input.paths, args)); err != nil {
		return err
	}
	reader, err := f.input.open(ctx, args, std)
	if err != nil {
		return err
	}
	out, err := newOutput(f.out, f.outFormat, std)
	if err != nil {
		return err
	}
	run, err := newSanitizeRun(model, key, f.release, out.records)
	if err != nil {
		return errors.Join(err, out.discard())
	}
	progress := newProgress(std.err, reader.Progress)
	err = run.all(ctx, reader, progress)
	progress.done()
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.close(); err != nil {
		return err
	}
	return f.summarize(run.summary(reader.Skips()), reader.Skips(), std)
}

// sanitizeRun is one pass over traces.
type sanitizeRun struct {
	engine  *pipeline.Engine
	blind   *pipeline.Blind
	model   *mobility.Model
	states  map[string]*mechanism.State
	out     recordWriter
	metrics evaluation.Metrics

	options            mechanism.Options
	fixes, late, fresh int64
	outside            int64
	epsilon            float64
	took               time.Duration
}

func newSanitizeRun(model *mobility.Model, key noise.Key, options mechanism.Options, out recordWriter) (*sanitizeRun, error) {
	engine, err := pipeline.NewEngine(model, key, options)
	if err != nil {
		return nil, err
	}
	blind, err := pipeline.NewBlind(model)
	if err != nil {
		return nil, err
	}
	return &sanitizeRun{
		engine: engine, blind: blind, model: model, options: options, out: out,
		states: map[string]*mechanism.State{},
	}, nil
}

func (r *sanitizeRun) all(ctx context.Context, reader *traces.Reader, progress *progress) error {
	for fix, err := range reader.Fixes() {
		if err != nil {
			return err
		}
		if err := r.one(fix); err != nil {
			return err
		}
		if r.fixes%1024 == 0 {
			progress.show(r.fixes)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *sanitizeRun) one(fix schemas.Raw) error {
	r.fixes++
	state := r.states[fix.UserID]
	if state == nil {
		state = new(mechanism.State)
		r.states[fix.UserID] = state
	}
	began := time.Now()
	record, outcome, err := r.engine.Sanitize(fix, state)
	r.took += time.Since(began)
	if err != nil {
		return err
	}
	if outcome.Kind == mechanism.Late {
		r.late++
		return nil
	}
	if err := r.measure(fix, outcome); err != nil {
		return err
	}
	return r.out.write(record)
}

// measure adds one record's errors.
func (r *sanitizeRun) measure(fix schemas.Raw, outcome mechanism.Outcome) error {
	if outcome.Kind == mechanism.Released {
		r.fresh++
		r.epsilon += outcome.Epsilon
		r.metrics.AddRelease(outcome.SetSize, outcome.Drift)
	}
	g := r.model.Grid
	if !g.Contains(fix.Latitude, fix.Longitude) {
		r.outside++
	}
	blind, err := r.blind.Estimate(fix)
	if err != nil {
		return err
	}
	truth := g.ToMap(fix.Latitude, fix.Longitude)
	r.metrics.AddDistances(outcome.Release.Distance(truth), outcome.Estimate.Distance(truth), blind.Distance(truth))
	return nil
}

// sanitizeSummary is the run's report. Errors are in metres; "blind" is the
// same filter without any release.
type sanitizeSummary struct {
	Fixes           int64   `json:"fixes"`
	Skipped         int64   `json:"skipped_lines"`
	Late            int64   `json:"late"`
	OutsideMap      int64   `json:"outside_map"`
	Users           int     `json:"users"`
	Releases        int64   `json:"releases"`
	EpsilonPerUser  float64 `json:"epsilon_per_user_mean"`
	LocationSetMean float64 `json:"location_set_mean"`
	DriftRatio      float64 `json:"drift_ratio"`

	Release  errorSummary `json:"release_m"`
	Estimate errorSummary `json:"estimate_m"`
	Blind    errorSummary `json:"blind_m"`

	MicrosPerRelease float64 `json:"microseconds_per_release"`
	Mechanism        string  `json:"mechanism"`
	Inference        string  `json:"inference"`
	Epsilon          float64 `json:"epsilon"`
	Delta            float64 `json:"delta"`
	ModelID          string  `json:"model_id"`
}

type errorSummary struct {
	RMS    float64 `json:"rms"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
}

func errorsOf(d *evaluation.Distances) errorSummary {
	return errorSummary{RMS: d.RMS(), Mean: d.Mean(), Median: d.Median()}
}

func (r *sanitizeRun) summary(skips *traces.Skips) sanitizeSummary {
	s := sanitizeSummary{
		Fixes: r.fixes, Skipped: skips.Total, Late: r.late, OutsideMap: r.outside, Users: len(r.states), Releases: r.fresh,
		LocationSetMean: r.metrics.LocationSetMean(), DriftRatio: r.metrics.DriftRatio(),
		Release: errorsOf(&r.metrics.Release), Estimate: errorsOf(&r.metrics.Estimate), Blind: errorsOf(&r.metrics.Blind),
		Mechanism: r.options.Mechanism, Inference: r.options.Inference,
		Epsilon: r.options.Epsilon, Delta: r.options.Delta, ModelID: r.model.ID(),
	}
	if s.Users > 0 {
		s.EpsilonPerUser = r.epsilon / float64(s.Users)
	}
	if s.Releases > 0 {
		s.MicrosPerRelease = float64(r.took.Nanoseconds()) / 1000 / float64(s.Releases)
	}
	return s
}

func (f *sanitizeFlags) summarize(s sanitizeSummary, skips *traces.Skips, std streams) error {
	line := func(name string, e errorSummary) string {
		return fmt.Sprintf("  %-9s %10s %10s %10s\n", name, metres(e.RMS), metres(e.Mean), metres(e.Median))
	}
	fmt.Fprintf(std.err, `%d fixes of %d users: %d releases (ε = %g each, %.0f a user on average), %d late, %d outside the map
|ΔX| %.1f cells on average, true cell outside it in %.2f %% of releases; %.1f µs a release
  distance         rms       mean     median
%s%s%s`, s.Fixes, s.Users, s.Releases, s.Epsilon, s.EpsilonPerUser, s.Late, s.OutsideMap,
		s.LocationSetMean, 100*s.DriftRatio, s.MicrosPerRelease,
		line("release", s.Release), line("estimate", s.Estimate), line("blind", s.Blind))
	if s.Skipped > 0 {
		fmt.Fprintln(std.err, skips)
	}
	if f.report == "" {
		return nil
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.report, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("the records are written, but not the report: %w", err)
	}
	return nil
}
