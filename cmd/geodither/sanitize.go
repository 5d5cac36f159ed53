package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

type sanitizeFlags struct {
	input     cli.InputFlags
	model     config.Models
	out       string
	outFormat string
	keyFile   string
	seed      uint64
	report    string
	release   config.Release
	publish   config.Publish
	outside   string
}

func newSanitize(std cli.Streams) *cobra.Command {
	var f sanitizeFlags
	cmd := &cobra.Command{
		Use:   "sanitize [PATH...]",
		Short: "Sanitize trace files, without Kafka",
		Long: `Sanitize trace files by the same code as the service: a sanitized record for each fix,
in the order of the input, unless the settings of release leave it out (--between skip,
--budget-spent suppress, --same-step drop). Fixes of a step before the user's last one
are late: they are left out and counted, as bad lines are. So are fixes that the service
refuses: further than one cell outside the map (--outside), at exactly 0, 0, and at or
before 1980-01-06T00:00:00Z, which devices without a fix report. A key file without the noise
of past days ("geodither key export") refuses the fixes of those days.

With --models a fix has the version whose start is the last one not after its step's begin: by
its own time alone, since a file has no offsets. With personal models a user who has one is
released under it, and the record says so in model_id.

Without --key-file or --seed the noise has a fresh random key, which is forgotten. A key
file makes a run repeatable and stays as secret as the traces. A seed does so too and
protects nothing: whoever guesses it takes the noise off every record. It is for
experiments on places that are no secret. Its records are marked, the mechanism being
"lattice (seeded, not private)".

At the end the errors of the run go to the standard error stream, with what it cost in ε
and what that means in metres: they are aggregates, but they come from the truth. Keep
them on the trusted side. --report writes the same figures to a file that only its owner
may read; a file that is there already is closed to others.`,
		Example: `  geodither sanitize --model model.avro --in traces.csv --out sanitized.csv --epsilon 1 --delta 0.01
  geodither sanitize --models schedule.yml --in traces.csv --out sanitized.csv --epsilon 1 --delta 0.01
  zcat traces.ndjson.gz | geodither sanitize --model model.avro --in - --out-format json --epsilon 4 --delta 0.3`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.Flags().Changed("seed"), std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	flags.StringVar(&f.model.Model, "model", "", "model `FILE` from \"geodither train\"")
	flags.StringVar(&f.model.Models, "models", "", "in place of --model: a `SCHEDULE` of models (YAML) as of a service; each fix has the version of its time")
	flags.StringVar(&f.model.Personal, "personal", "", "`FOLDER` of users' own models over --model; who has none has the popular one")
	flags.StringVar(&f.out, "out", "-", "`FILE` to write; - is standard output")
	flags.StringVar(&f.outFormat, "out-format", "csv", "csv, json (one object a line) or geojson")
	flags.StringVar(&f.keyFile, "key-file", "", "noise key `FILE` from \"geodither key new\"")
	flags.Uint64Var(&f.seed, "seed", 0, "seed in place of a key, for experiments only: the records are marked as not private")
	flags.StringVar(&f.report, "report", "", "also write the run's summary as JSON to this `FILE`: it comes from the truth, and only the owner may read it")
	f.release.Register(flags, 0, 0)
	f.publish.Register(flags)
	flags.StringVar(&f.outside, "outside", pipeline.OutsideDeadLetter, "fixes further than one cell outside the map: dead_letter leaves them out, clamp takes them as in the nearest cell")
	cli.Required(cmd, "epsilon", "delta")
	return cmd
}

func (f *sanitizeFlags) run(ctx context.Context, args []string, seeded bool, std cli.Streams) error {
	if err := records.CheckFormat(f.outFormat); err != nil {
		return cli.Usage(err)
	}
	if f.model.Model == "" && f.model.Models == "" {
		return cli.Usagef("name a model, --model FILE, or a schedule of them, --models FILE; make a model with \"geodither train\"")
	}
	model, err := f.model.Read()
	if err != nil {
		return err
	}
	release, err := f.release.Options(model.Model)
	if err := errors.Join(err, release.Validate(), f.publish.Options().Validate(), f.admit().Validate()); err != nil {
		return cli.Usage(err)
	}
	key := noise.NewKey()
	switch {
	case seeded && f.keyFile != "":
		return cli.Usagef("--seed and --key-file exclude each other")
	case seeded:
		key = noise.KeyFromSeed(f.seed)
		warnSeeded(std.Err, "the released places")
	case f.keyFile != "":
		if key, err = files.ReadKey(f.keyFile); err != nil {
			return err
		}
		if err := files.RefuseSeeded(key); err != nil {
			return cli.Usagef("--key-file: %w", err)
		}
	}
	if err := files.NotAnInput(f.out, slices.Concat(f.input.Paths, args)); err != nil {
		return err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return err
	}
	out, err := records.NewOutput(f.out, f.outFormat, std.Out)
	if err != nil {
		return err
	}
	run, err := newSanitizeRun(model, pipeline.Settings{
		Model: model.Model, Personals: model.Personals, Key: key,
		Release: release, Publish: f.publish.Options(), Input: f.admit(),
	}, out)
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	progress := cli.NewProgress(std.Err, reader.Progress)
	err = run.all(ctx, reader, progress)
	progress.Done()
	if err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Close(); err != nil {
		return err
	}
	if !seeded && f.keyFile == "" {
		fmt.Fprintln(std.Err, "the noise had a fresh key, which is forgotten: a second run is a second release, and their ε add (--key-file keeps one)")
	}
	return f.summarize(run.summary(reader.Skips()), reader.Skips(), std)
}

// admit says what becomes of fixes outside the map.
func (f *sanitizeFlags) admit() pipeline.Input { return pipeline.Input{Outside: f.outside} }

// sanitizeRun is one pass over traces.
type sanitizeRun struct {
	engine  *pipeline.Engine
	blind   *pipeline.Blind
	model   config.Chosen
	states  map[string]*mechanism.State
	out     *records.Output
	metrics trial.Score

	partial bool   // the key lacks days
	before  []byte // a user's state before the last step, if it does

	fixes   int64
	clamped int64 // fixes outside the map that counted as in its nearest cell
	swapped int64 // fixes outside it that are on it with latitude and longitude swapped
	refused map[schemas.Reason]int64
	kinds   map[mechanism.Kind]int64
	metric  expect.MetricView
	took    time.Duration
}

func newSanitizeRun(model config.Chosen, settings pipeline.Settings, out *records.Output) (*sanitizeRun, error) {
	engine, err := pipeline.NewEngine(settings)
	if err != nil {
		return nil, err
	}
	if err := engine.Follow(model.Later); err != nil {
		return nil, err
	}
	blind, err := pipeline.NewBlind(model.Model, settings.Release)
	if err != nil {
		return nil, err
	}
	blind.Follow(model.Personals, model.Later)
	return &sanitizeRun{
		engine: engine, blind: blind, model: model, out: out, partial: settings.Key.FirstDay() > 0,
		states: map[string]*mechanism.State{}, kinds: map[mechanism.Kind]int64{}, refused: map[schemas.Reason]int64{},
	}, nil
}

func (r *sanitizeRun) all(ctx context.Context, reader *traces.Reader, progress *cli.Progress) error {
	for fix, err := range reader.Fixes() {
		if err != nil {
			return err
		}
		if err := r.one(fix); err != nil {
			return err
		}
		if r.fixes%1024 == 0 {
			progress.Show(r.fixes)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *sanitizeRun) one(fix schemas.Raw) error {
	r.fixes++
	if err := pipeline.Plausible(fix); err != nil {
		return r.refuse(err)
	}
	state := r.states[fix.UserID]
	if state == nil {
		state = new(mechanism.State)
		r.states[fix.UserID] = state
	}
	r.remember(state)
	began := time.Now()
	record, outcome, err := r.engine.Sanitize(fix, state)
	r.took += time.Since(began)
	place := r.engine.Placement()
	if place.Swapped {
		r.swapped++
	}
	if errors.Is(err, noise.ErrDestroyed) {
		err = errors.Join(state.DecodeBinary(r.before), &schemas.Rejection{Reason: schemas.ReasonKeyDestroyed})
	}
	if err != nil {
		return r.refuse(err)
	}
	if place.Outside {
		r.clamped++
	}
	r.kinds[outcome.Kind]++
	if outcome.Kind == mechanism.Late {
		return nil
	}
	if err := r.measure(fix, outcome); err != nil || !outcome.Kind.Published() {
		return err
	}
	return r.out.Write(record)
}

// remember keeps a state as it is before a step, for a fix whose day the key does not have: it
// leaves no trace, as in the service, not even that of a version of the model.
func (r *sanitizeRun) remember(state *mechanism.State) {
	if r.before = r.before[:0]; r.partial && state.Started {
		r.before = state.AppendBinary(r.before)
	}
}

// refuse counts a fix that the service would refuse; any other error stays one.
func (r *sanitizeRun) refuse(cause error) error {
	rejection, ok := errors.AsType[*schemas.Rejection](cause)
	if !ok {
		return cause
	}
	r.refused[rejection.Reason]++
	return nil
}

// measure adds what one fix came to. The distance of a release is counted where
// there is one, of an estimate where there is a record.
func (r *sanitizeRun) measure(fix schemas.Raw, outcome mechanism.Outcome) error {
	if outcome.Kind == mechanism.Released {
		r.metrics.AddRelease(outcome.SetSize, outcome.Drift)
		r.metric.Add(outcome.Metric)
	}
	blind, err := r.blind.Estimate(fix)
	if err != nil || !outcome.Kind.Published() {
		return err
	}
	truth := outcome.Grid.ToMap(fix.Latitude, fix.Longitude)
	if outcome.Kind != mechanism.Predicted {
		r.metrics.Release.Add(outcome.Release.Distance(truth))
	}
	r.metrics.Estimate.Add(outcome.Estimate.Distance(truth))
	r.metrics.Blind.Add(blind.Distance(truth))
	return nil
}
