package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// trainFitFlags say whom a model is tried on, and whether its smoothing is chosen
// on them.
type trainFitFlags struct {
	fitFlags
	held   string
	choose bool
}

func (f *trainFitFlags) register(flags *pflag.FlagSet) {
	f.fitFlags.register(flags, "fit-")
	flags.StringVar(&f.held, "held-out", "", "`WHO` a second model is not trained on, to measure the fit: a share of the users such as 0.1, a number of them, or a file with a user in each line; five at least, and five others; 0: nobody. Unset: some, if there are enough")
	flags.BoolVar(&f.choose, "select", false, "choose kernel radius, backoff, user cap and jumps by what the filter foretells of users left out")
}

// asked says whether any flag asks for a choice or a measurement on the traces'
// users.
func (f *trainFitFlags) asked() bool {
	return f.choose || f.held != "" && f.held != "0" || f.report != "" || f.plot != ""
}

// measure returns the fit of a model of the users that are not held out; nil: it
// was not measured.
func (f *trainFitFlags) measure(ctx context.Context, trainer *train.Trainer, h *holding, every bool, bar *cli.Progress) (*mobility.Fit, error) {
	if h == nil {
		return nil, nil
	}
	bar.Phase("holding out", nil)
	model, _, err := trainer.Without(h.held).FinishWithProgress(func(done, total int64) error {
		bar.Count(done, total, "")
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("a model without the users held out: %w", err)
	}
	bar.Phase("measuring", nil)
	o := f.options(ctx, bar)
	o.EveryFix, o.MinSegment = every, h.segment
	if h.auto && o.MaxSteps == 0 {
		if o.MaxSteps = affordable(model); o.MaxSteps == 0 {
			if f.unasked(h) {
				return nil, nil
			}
			return nil, errors.New("the map is so large that to measure the fit takes long: ask for it with --held-out")
		}
		if err := enoughPeople(fit.Weigh(trainer.Tracks(h.held), o), o); err != nil {
			if f.unasked(h) {
				return nil, nil
			}
			return nil, err
		}
	}
	fit, err := fit.Measure(model, trainer.Tracks(h.held), o)
	if err != nil {
		return nil, err
	}
	fit.Held = h.words
	return &fit, nil
}

// chosen returns a trainer with the smoothing that serves the filter best, and
// what to note in the model. It prints every candidate.
func (f *trainFitFlags) chosen(ctx context.Context, trainer *train.Trainer, start train.Options, bar *cli.Progress, out io.Writer) (*train.Trainer, string, error) {
	if !f.choose {
		return trainer, "", nil
	}
	bar.Phase("choosing", nil)
	selection, err := fit.Select(trainer, start, fit.SelectOptions{
		Release: f.release(), MinSegment: f.segment(trainer.Tracks(nil)), MaxSteps: f.steps, Seed: f.seed, Runs: f.runs,
		Workers: runtime.GOMAXPROCS(0), EveryFix: start.EveryFix,
		Progress: func(done, total int64) error {
			bar.Count(done, total, "candidates")
			return ctx.Err()
		},
	})
	if err != nil {
		return nil, "", err
	}
	bar.Done()
	if err := printSelection(out, selection, f.release().Delta); err != nil {
		return nil, "", err
	}
	better, err := trainer.With(selection.Options)
	note := fmt.Sprintf(" selected_of=%d selected_at_epsilon=%g selected_at_delta=%g", len(selection.Candidates), f.epsilon, f.delta)
	return better, note, err
}

// printSelection is the table of candidates.
func printSelection(out io.Writer, s fit.Selection, delta float64) error {
	_, err := fmt.Fprintf(out, "candidates, each measured on users that its models were not trained on (δ = %g):\n  radius backoff user cap   jumps   ln prior        behind   drift   |ΔX|  estimate\n", delta)
	for _, c := range s.Candidates {
		if err != nil {
			return err
		}
		mark := " "
		if c.Chosen {
			mark = "*"
		}
		o := c.Options
		_, err = fmt.Fprintf(out, "%s %6d %7g %8d %7.4f %10.3f %6.3f ±%.3f %7.4f %6.0f %6.2f km\n",
			mark, o.KernelRadius, o.Backoff, o.UserCap, max(o.Jumps, 0), c.LogPrior, c.Behind, c.Error, c.Drift, c.SetMean, c.EstimateM/1000)
	}
	return err
}

// mostUnasked is how many steps a measurement that nobody asked for takes at most.
const mostUnasked = 10_000

// affordable returns how many steps a measurement that nobody asked for may take,
// to end in half a minute or so on one core: a step costs up to all transitions
// of a matrix and some fixed work, once for each δ. 0: so few that they tell
// nothing.
func affordable(model *mobility.Model) int64 {
	const (
		seconds       = 25
		perTransition = 1.2e-9
		perStep       = 1.5e-4
		deltas        = 6
		least         = 500
	)
	transitions := float64(model.Transitions() / len(model.Matrices))
	steps := int64(min(mostUnasked, seconds/(deltas*(perStep+float64(perTransition*transitions)))))
	if steps < least {
		return 0
	}
	return steps
}
