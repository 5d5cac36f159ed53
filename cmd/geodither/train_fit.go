package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/mechanism/evaluation"
	"github.com/geodither/geodither/mechanism/mobility"
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
	flags.StringVar(&f.held, "held-out", "", "`WHO` a second model is not trained on, to measure the fit: a share of the users such as 0.1, a number of them, or a file with a user in each line; five at least; 0: nobody. Unset: some, if there are enough")
	flags.BoolVar(&f.choose, "select", false, "choose kernel radius, backoff, user cap and jumps by what the filter foretells of users left out")
}

// asked says whether any flag asks for a choice or a measurement on the traces'
// users.
func (f *trainFitFlags) asked() bool {
	return f.choose || f.held != "" && f.held != "0" || f.report != "" || f.plot != ""
}

const (
	// fewestUsers is how many users traces must have for some to be held out unasked.
	fewestUsers = 30
	// fewestHeld is how many users the fit in a model must be of. That of one tells how
	// this one moves, and where figures of a few are published, whoever knows all but one
	// of them can take them off. Five is in the middle of what statistical offices ask for
	// behind a published figure, three to ten. It proves nothing, as the rest of a model that
	// was learned without --dp-epsilon does not.
	fewestHeld = 5
)

// holding is who is held out, in words and as a test.
type holding struct {
	words string
	held  func(user string) bool
	auto  bool // nobody asked for it
}

// holding returns nil where nobody is held out, or there is nobody.
func (f *trainFitFlags) holding(trainer *mobility.Trainer) (*holding, error) {
	users := usersOf(trainer)
	number := 0
	switch v, err := strconv.ParseFloat(f.held, 64); {
	case len(users) == 0:
		return nil, nil
	case f.held == "" && len(users) < fewestUsers:
		if f.report != "" || f.plot != "" {
			return nil, usagef("%d users are too few to hold some out unasked: say how many with --held-out", len(users))
		}
		return nil, nil
	case f.held == "":
		number = max(evaluation.EnoughUsers, len(users)/10)
	case err != nil:
		return holdingOf(f.held, users)
	case v == 0:
		return nil, nil
	case v > 0 && v < 1:
		number = int(math.Round(v * float64(len(users))))
	case v == math.Trunc(v) && v > 0 && v < 1e9:
		number = int(v)
	default:
		return nil, usagef("--held-out %s is neither a share below 1 nor a number of users nor a file", f.held)
	}
	if number < 1 || number >= len(users) {
		return nil, usagef("--held-out %s: of %d users %d would be held out; there must be one at least to try the model on, and one to train it on", f.held, len(users), number)
	}
	if number < fewestHeld {
		return nil, usagef("--held-out %s: of %d users %d would be held out, and %s", f.held, len(users), number, tooFew())
	}
	set := map[string]bool{}
	for _, user := range users[:number] {
		set[user] = true
	}
	return &holding{words: fmt.Sprintf("%d of %d users held out", number, len(users)), held: func(user string) bool { return set[user] }, auto: f.held == ""}, nil
}

// tooFew says why a fit of few users is refused, and what to do.
func tooFew() string {
	return fmt.Sprintf("a fit of fewer than %d, which stands in the model, would tell about these few: hold out more, or nobody with --held-out 0, "+
		`and measure with "geodither model fit", which tells only you`, fewestHeld)
}

// holdingOf reads users from a file; those of the traces are counted.
func holdingOf(path string, users []string) (*holding, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--held-out: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	set := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if user := strings.TrimSpace(lines.Text()); user != "" {
			set[user] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--held-out: %w", err)
	}
	number := 0
	for _, user := range users {
		if set[user] {
			number++
		}
	}
	if number < fewestHeld {
		return nil, usagef("--held-out %s: %d of its users are in the traces, and %s", path, number, tooFew())
	}
	return &holding{words: "users of a list held out", held: func(user string) bool { return set[user] }}, nil
}

// measure returns the fit of a model of the users that are not held out; nil: it
// was not measured.
func (f *trainFitFlags) measure(ctx context.Context, trainer *mobility.Trainer, h *holding, every bool, bar *progress) (*mobility.Fit, error) {
	if h == nil {
		return nil, nil
	}
	segment := f.segment(trainer.Tracks(h.held))
	if number := usersWith(segment, trainer.Tracks(h.held)); number < fewestHeld {
		if h.auto && f.report == "" && f.plot == "" && f.minSegment == 0 {
			return nil, nil // nobody has asked for a fit
		}
		return nil, fmt.Errorf("%d of the users held out have a stretch of %d steps without a gap, and %s; or allow shorter stretches with --min-segment, or longer gaps",
			number, segment, tooFew())
	}
	bar.phase("holding out", nil)
	model, _, err := trainer.Without(h.held).FinishWhile(func(done, total int64) error {
		bar.count(done, total, "")
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("a model without the users held out: %w", err)
	}
	bar.phase("measuring", nil)
	o := f.options(ctx, bar)
	o.EveryFix = every
	o.MinSegment = segment
	if h.auto && o.MaxSteps == 0 {
		if o.MaxSteps = affordable(model); o.MaxSteps == 0 {
			return nil, nil // a map so large that it takes a decision: --held-out
		}
	}
	fit, err := evaluation.MeasureFit(model, trainer.Tracks(h.held), o)
	if err != nil {
		return nil, err
	}
	if fit.Users < fewestHeld {
		return nil, fmt.Errorf("%d steps in stretches of %d are of %s, and %s; or allow more steps with --fit-steps",
			o.MaxSteps, segment, quantity(fit.Users, "user"), tooFew())
	}
	fit.Held = h.words
	return &fit, nil
}

// chosen returns a trainer with the smoothing that serves the filter best, and
// what to note in the model. It prints every candidate.
func (f *trainFitFlags) chosen(ctx context.Context, trainer *mobility.Trainer, start mobility.TrainOptions, bar *progress, out io.Writer) (*mobility.Trainer, string, error) {
	if !f.choose {
		return trainer, "", nil
	}
	bar.phase("choosing", nil)
	selection, err := evaluation.Select(trainer, start, evaluation.SelectOptions{
		Release: f.release(), MinSegment: f.segment(trainer.Tracks(nil)), MaxSteps: f.steps, Seed: f.seed, Runs: f.runs,
		Workers: runtime.GOMAXPROCS(0), EveryFix: start.EveryFix,
		Progress: func(done, total int64) error {
			bar.count(done, total, "candidates")
			return ctx.Err()
		},
	})
	if err != nil {
		return nil, "", err
	}
	bar.done()
	if err := printSelection(out, selection, f.release().Delta); err != nil {
		return nil, "", err
	}
	better, err := trainer.With(selection.Options)
	note := fmt.Sprintf(" selected_of=%d selected_at_epsilon=%g selected_at_delta=%g", len(selection.Candidates), f.epsilon, f.delta)
	return better, note, err
}

// printSelection is the table of candidates.
func printSelection(out io.Writer, s evaluation.Selection, delta float64) error {
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
		most, least   = 10_000, 500
	)
	transitions := float64(model.Transitions() / len(model.Matrices))
	steps := int64(min(most, seconds/(deltas*(perStep+float64(perTransition*transitions)))))
	if steps < least {
		return 0
	}
	return steps
}

// usersWith counts the users with a stretch of at least so many steps. Tracks come by
// user.
func usersWith(steps int, tracks iter.Seq[mobility.Track]) (number int) {
	last := ""
	for t := range tracks {
		if len(t.Cells) >= steps && (number == 0 || t.User != last) {
			number, last = number+1, t.User
		}
	}
	return number
}

// usersOf returns the users with a fix, ordered by a hash of their ids: the first of
// them are a sample that depends on nothing else.
func usersOf(trainer *mobility.Trainer) []string {
	return slices.SortedFunc(trainer.Users(), func(a, b string) int {
		return cmp.Or(cmp.Compare(evaluation.Unit(a, 0), evaluation.Unit(b, 0)), cmp.Compare(a, b))
	})
}
