package main

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/modelview"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
)

// fitFlags say how a model's fit is measured, and where the outcome goes.
type fitFlags struct {
	report     string
	plot       string
	minSegment int
	steps      int64
	runs       int
	seed       uint64
	epsilon    float64
	delta      float64
	deltas     []float64
	estimate   string
}

// register names the flags; they stand behind a prefix where the command has
// other ones too.
func (f *fitFlags) register(flags *pflag.FlagSet, prefix string) {
	flags.StringVar(&f.report, prefix+"json", "", "write the fit into this `FILE`, as JSON")
	flags.StringVar(&f.plot, prefix+"plot", "", "draw drift against δ into this `FILE`, .png or .svg")
	flags.IntVar(&f.minSegment, "min-segment", 0, "measure the fit on stretches of at least this many steps without a gap; 0: 60, or less where too few users have such")
	flags.Int64Var(&f.steps, prefix+"steps", 0, "measure the fit on at most this many steps, taken evenly from users, or from some of them where they are many; 0: no limit")
	flags.IntVar(&f.runs, prefix+"runs", 1, "let the filter go through the traces this many times, each with other noise")
	flags.Uint64Var(&f.seed, prefix+"seed", 1, "seed of the filter's noise and of all random choices")
	flags.Float64Var(&f.epsilon, prefix+"epsilon", 1, "ε of each release of the filter")
	flags.Float64Var(&f.delta, prefix+"delta", 0.01, "δ of the filter's location sets")
	flags.Float64SliceVar(&f.deltas, prefix+"deltas", []float64{.001, .003, .01, .03, .1, .3}, "δs at which drift is measured too; each takes as long as the others")
	flags.StringVar(&f.estimate, prefix+"estimate", mechanism.EstimateMean, "mean, median or mode: the estimate whose error is measured")
}

// check reports what cannot be used, before anything is read.
func (f *fitFlags) check() error {
	if err := f.release().Validate(); err != nil {
		return cli.Usage(err)
	}
	if f.minSegment < 0 || f.steps < 0 || f.runs < 1 {
		return cli.Usagef("lengths and numbers of steps must not be negative, and the runs at least one")
	}
	for _, delta := range f.deltas {
		if err := mechanism.ValidateDelta(delta); err != nil {
			return cli.Usage(err)
		}
	}
	for _, path := range []string{f.report, f.plot} {
		if path == "" {
			continue
		}
		if path == "-" {
			return cli.Usagef("the fit's JSON and plot are files, since standard output has the text: name one in place of -")
		}
		if err := files.CheckTarget(path); err != nil {
			return err
		}
	}
	return files.CheckPicture(f.plot)
}

func (f *fitFlags) release() mechanism.Options {
	return mechanism.Options{Epsilon: f.epsilon, Delta: f.delta, Estimate: f.estimate}
}

// options are the measurement's.
func (f *fitFlags) options(ctx context.Context, bar *cli.Progress) fit.Options {
	return fit.Options{
		Release: f.release(), Deltas: f.deltas, MinSegment: f.minSegment, MaxSteps: f.steps, Runs: f.runs, Seed: f.seed, Workers: runtime.GOMAXPROCS(0),
		Progress: func(done, total int64) error {
			bar.Count(done, total, "steps")
			return ctx.Err()
		},
	}
}

// segments are the least lengths of a stretch that are tried where the flag leaves
// it open: most of the time a filter needs to find somebody at a weak ε, and
// shorter ones where there is too little of that.
var segments = []int{60, 30, 15, 8, 4, 2}

// enoughSteps are enough to measure on.
const enoughSteps = 1000

// segment returns the flag's least length, or the longest of which enough users
// have enough steps.
func (f *fitFlags) segment(tracks iter.Seq[mobility.Track]) int {
	if f.minSegment > 0 {
		return f.minSegment
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

// write writes the report and the plot, if they are asked for: figures over all
// users, which stand in the model too.
func (f *fitFlags) write(fit *mobility.Fit) error {
	if fit == nil {
		return nil
	}
	if f.report != "" {
		data, err := json.MarshalIndent(fit, "", "  ")
		if err != nil {
			return err
		}
		if err := files.WriteWhole(f.report, append(data, '\n')); err != nil {
			return err
		}
	}
	if f.plot == "" {
		return nil
	}
	return modelview.PlotFit(fit, f.plot)
}
