// Package modelfit measures how well a model predicts users that it was not trained on, and chooses
// the smoothing with which a model predicts them best.
//
//	modelfit.go  what is asked for, and the measurement
//	held.go      who is held out
//	rebuild.go   the model's training, done again
//	print.go     tables and files of what was found
package modelfit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// seed is fixed, so that the same traces give the same figures.
const seed = 1

// Options say what is measured.
type Options struct {
	Release mechanism.Options
	// MinSegment is the least length of a stretch that is measured, in steps; 0: chosen by the
	// traces.
	MinSegment int
	Steps      int64 // at most so many are measured; 0: no limit
	Runs       int

	// HeldOut says whom a second model is not trained on: the users that are measured. Empty: the
	// traces are of users whom the model itself was not trained on.
	HeldOut string
	Write   bool // store the fit in the model's file
	Select  bool // choose the smoothing instead

	Personal string // folder of users' own models; empty: the popular model for everybody

	JSON, Plot string // files for the fit; empty: none
}

// Validate reports what cannot be used, before anything is read.
func (o Options) Validate() error {
	if err := o.Release.Validate(); err != nil {
		return cli.Usage(err)
	}
	rebuilds := o.HeldOut != "" || o.Select
	switch {
	case o.MinSegment < 0 || o.Steps < 0 || o.Runs < 1:
		return cli.Usagef("lengths and numbers of steps must not be negative, and the runs at " +
			"least one")
	case o.Select && (o.HeldOut != "" || o.Write || o.JSON != "" || o.Plot != ""):
		return cli.Usagef("--select chooses a smoothing and measures no fit: leave --held-out, " +
			"--write, --json and --plot out")
	case o.Write && o.HeldOut == "":
		return cli.Usagef("--write stores how well the model's training predicts users held out: " +
			"say whom with --held-out, such as --held-out 0.1")
	case rebuilds && o.Personal != "":
		return cli.Usagef("--personal measures users' own models as they are: leave --held-out " +
			"and --select out")
	case o.Write && o.Steps > 0 && o.MinSegment > 0 &&
		o.Steps/int64(o.MinSegment) < fit.FewestUsers:
		return cli.Usagef(
			"%d steps in stretches of %d are of %s: %v; allow more steps with --steps", o.Steps,
			o.MinSegment, cli.Quantity(o.Steps/int64(o.MinSegment), "user"), fit.ErrFewHeld)
	}
	for _, path := range []string{o.JSON, o.Plot} {
		if path == "-" {
			return cli.Usagef("the fit's JSON and plot are files, since standard output has the " +
				"text: name one in place of -")
		}
		if path == "" {
			continue
		}
		if err := files.CheckTarget(path); err != nil {
			return err
		}
	}
	return files.CheckPicture(o.Plot)
}

// Result is what was found: a fit, or a selection.
type Result struct {
	Fit       *mobility.Fit
	Selection *fit.Selection
	Skips     traces.Skips // records of the traces that were left out
}

// Run reads the traces, and measures the fit of the model in a file or chooses its smoothing.
func Run(
	ctx context.Context, path string, from gather.Source, o Options, bar *cli.Progress,
) (Result, error) {
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return Result{}, err
	}
	m := measurement{Options: o, ctx: ctx, model: model, path: path, bar: bar}
	switch {
	case o.Select:
		return m.choose(from)
	case o.HeldOut != "":
		return m.heldOut(from)
	}
	return m.others(from)
}

// measurement is one run in progress.
type measurement struct {
	Options
	ctx   context.Context //nolint:containedctx // of one call of Run
	model *mobility.Model
	path  string
	bar   *cli.Progress
}

// read gathers the traces into a trainer with the options.
func (m *measurement) read(
	from gather.Source, o train.Options,
) (*train.Trainer, traces.Skips, error) {
	if _, err := train.New(m.model.Grid, m.model.Step, o); err != nil {
		return nil, traces.Skips{}, cli.Usage(err)
	}
	in, err := from.Read(m.ctx, gather.Into{Grid: m.model.Grid, New: func() *train.Trainer {
		trainer, err := train.New(m.model.Grid, m.model.Step, o)
		if err != nil {
			panic(err) // the same arguments were fine a moment ago
		}
		return trainer
	}}, m.bar)
	if err != nil {
		return nil, traces.Skips{}, err
	}
	return in.Trainer(), in.Skips, nil
}

// others measures the model itself, on traces of other users.
func (m *measurement) others(from gather.Source) (Result, error) {
	// It gathers fixes and makes no model of them: the radius is the smallest, for maps of any
	// size. Whose training is not known takes a step's last fix.
	trained, err := train.OptionsOf(m.model)
	if err != nil {
		trained = train.Options{
			EveryFix: strings.Contains(m.model.Provenance.Options, "every_fix=true"),
		}
	}
	every := trained.EveryFix
	trainer, skips, err := m.read(from, train.Options{
		KernelRadius: 1, EveryFix: every, MaxGap: trained.MaxGap, Interpolate: trained.Interpolate,
	})
	if err != nil {
		return Result{}, err
	}
	o := m.fitOptions(every, trainer.Tracks(nil))
	if m.Personal != "" {
		personals, err := mobility.OpenPersonals(m.Personal, m.model, personalsAtOnce)
		if err != nil {
			return Result{}, err
		}
		defer func() { _ = personals.Close() }() // only read
		o.Personal = personals.Load
	}
	measured, err := m.measure(m.model, trainer.Tracks(nil), o)
	return Result{Fit: measured, Skips: skips}, err
}

// personalsAtOnce is how many bytes of users' own models are kept in memory: of some ten thousand
// users.
const personalsAtOnce = 64 << 20

// fitOptions are those of a measurement on tracks.
func (m *measurement) fitOptions(everyFix bool, tracks iter.Seq[mobility.Track]) fit.Options {
	return fit.Options{
		Release: m.Release, EveryFix: everyFix, MinSegment: m.shortest(tracks), MaxSteps: m.Steps,
		Runs: m.Runs,
		Seed: seed, Workers: runtime.GOMAXPROCS(0), Progress: m.bar.Reporter(m.ctx, "steps"),
	}
}

// measure returns the fit of a model.
func (m *measurement) measure(
	model *mobility.Model, tracks iter.Seq[mobility.Track], o fit.Options,
) (*mobility.Fit, error) {
	m.bar.Phase("measuring", nil)
	measured, err := fit.Measure(model, tracks, o)
	if errors.Is(err, fit.ErrNoTracks) {
		return nil, fmt.Errorf("%w; and see that the traces lie in the model's box", err)
	}
	return &measured, err
}

// segments are the least lengths of a stretch that are tried where the options leave it open: most
// of the time a filter needs to find somebody at a weak ε, and shorter ones where there is too
// little of that.
var segments = []int{60, 30, 15, 8, 4, 2}

// enoughSteps are enough to measure on.
const enoughSteps = 1000

// shortest returns the least length of a stretch that is measured: that of the options, or the
// longest of which enough users have enough steps.
func (m *measurement) shortest(tracks iter.Seq[mobility.Track]) int {
	if m.MinSegment > 0 {
		return m.MinSegment
	}
	users, steps := make([]map[string]bool, len(segments)), make([]int, len(segments))
	for i := range users {
		users[i] = map[string]bool{}
	}
	for t := range tracks {
		for i, least := range segments {
			if len(t.Cells) >= least {
				users[i][t.User] = true
				steps[i] += len(t.Cells)
			}
		}
	}
	for i, least := range segments {
		if len(users[i]) >= fit.EnoughUsers && steps[i] >= enoughSteps {
			return least
		}
	}
	return segments[len(segments)-1]
}
