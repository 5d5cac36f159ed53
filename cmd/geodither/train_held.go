package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

const (
	// fewestUsers is how many users traces must have for some to be held out unasked.
	fewestUsers = 30
	// fewestHeld is how many users the fit in a model must be of, and how many others the
	// model that is measured must be trained on: figures are of both. That of one tells how
	// this one moves, and where figures of a few are published, whoever knows all but one
	// of them can take them off. Five is in the middle of what statistical offices ask for
	// behind a published figure, three to ten; as they ask
	// that no one stands behind most of it, see [fit.Weight.Dominated]. It proves nothing, as the rest of a model that
	// was learned without --dp-epsilon does not.
	fewestHeld = 5
)

// holding is who is held out, in words and as a test.
type holding struct {
	words string
	held  func(user string) bool
	auto  bool // nobody asked for it
	// segment is the least length of a stretch that is measured.
	segment int
}

// holding returns who is held out and refuses what must not be measured, before anything
// is trained: nil where nobody is held out, or there is nobody. every says that steps are
// successive fixes.
func (f *trainFitFlags) holding(trainer *train.Trainer, every bool) (*holding, error) {
	if usersWith(2, trainer.Tracks(nil)) == 0 {
		return nil, nil // training says what is wrong with the traces
	}
	h, err := f.whom(trainer)
	if h == nil || err != nil {
		return nil, err
	}
	h.segment = f.segment(trainer.Tracks(h.held))
	o := fit.Options{MinSegment: h.segment, MaxSteps: f.steps, Seed: f.seed, EveryFix: every}
	if h.auto && f.steps == 0 {
		o.MaxSteps = mostUnasked
	}
	if err := enoughPeople(fit.Weigh(trainer.Tracks(h.held), o), o); err != nil {
		if f.unasked(h) {
			return nil, nil
		}
		return nil, err
	}
	others := func(user string) bool { return !h.held(user) }
	if number := usersWith(2, trainer.Tracks(others)); number < fewestHeld {
		if f.unasked(h) {
			return nil, nil
		}
		return nil, fmt.Errorf("of the users who are not held out %d have two steps without a gap, and %s", number, tooFewOthers())
	}
	return h, nil
}

// unasked says whether nobody has asked for the fit, which may then be left out.
func (f *trainFitFlags) unasked(h *holding) bool {
	return h.auto && f.report == "" && f.plot == "" && f.minSegment == 0 && f.steps == 0
}

// check reports what cannot be used, before anything is read.
func (f *trainFitFlags) check() error {
	if err := f.fitFlags.check(); err != nil {
		return err
	}
	share, err := strconv.ParseFloat(f.held, 64)
	nobody, wanted := err == nil && share == 0, f.report != "" || f.plot != ""
	if nobody && wanted {
		return cli.Usagef("--held-out %s holds nobody out, and there is no fit to write or to draw: hold some out, or leave --fit-json and --fit-plot out", f.held)
	}
	if most := f.steps / int64(max(f.minSegment, 1)); f.minSegment > 0 && f.steps > 0 && most < fewestHeld && !nobody && (f.held != "" || wanted) {
		return cli.Usagef("%s", tooFewSteps(f.steps, f.minSegment, most))
	}
	return nil
}

// enoughPeople refuses the measurement of too few users, or of one above all.
func enoughPeople(w fit.Weight, o fit.Options) error {
	fits := o.MaxSteps / int64(max(o.MinSegment, 1))
	switch {
	case o.MaxSteps > 0 && fits < fewestHeld:
		return errors.New(tooFewSteps(o.MaxSteps, o.MinSegment, fits))
	case w.Users < fewestHeld:
		return fmt.Errorf("%d of the users held out have a stretch of %d steps without a gap, and %s; or allow shorter stretches with --min-segment, or longer gaps",
			w.Users, o.MinSegment, tooFew())
	case w.Dominated():
		what, most, all := "steps", w.MostSteps, w.Steps
		if 2*most <= all {
			what, most, all = "moves", w.MostMoves, w.Moves
		}
		fair := max(2*(w.Moves-w.MostMoves), w.Users*int64(o.MinSegment))
		return fmt.Errorf("one of the users held out has %d of the %d %s that would be measured, more than half, and the fit, which stands in the model, would tell about this one: "+
			"hold out more, or measure fewer steps, which are taken evenly from users, with --fit-steps %d, or hold out nobody with --held-out 0, "+
			`and measure with "geodither model fit", which tells only you`, most, all, what, fair)
	}
	return nil
}

// tooFewSteps refuses a bound of steps that leaves few users.
func tooFewSteps(steps int64, segment int, users int64) string {
	return fmt.Sprintf("%d steps in stretches of %d are of %s, and %s; or allow more steps with --fit-steps", steps, segment, cli.Quantity(users, "user"), tooFew())
}

// tooFewOthers says why a fit of a model of few users is refused, and what to do.
func tooFewOthers() string {
	return fmt.Sprintf("the fit of a model of fewer than %d, which stands in the model, would tell how well these few foretell the others: hold out fewer, or nobody with --held-out 0, "+
		`and measure with "geodither model fit", which tells only you`, fewestHeld)
}

// tooFewInAll refuses traces of which no number of users can be held out.
func tooFewInAll(held string, users int) error {
	return cli.Usagef("--held-out %s: the traces have %s, and a fit, which stands in the model, takes %d to hold out and %d others, or it would tell about few: hold out nobody with --held-out 0, "+
		`and measure with "geodither model fit", which tells only you`, held, cli.Quantity(int64(users), "user"), fewestHeld, fewestHeld)
}

// whom returns who is held out by the flag, and without it, by the number of users.
func (f *trainFitFlags) whom(trainer *train.Trainer) (*holding, error) {
	users := usersOf(trainer)
	number := 0
	switch v, err := strconv.ParseFloat(f.held, 64); {
	case len(users) == 0:
		return nil, nil
	case f.held == "" && len(users) < fewestUsers:
		if f.report != "" || f.plot != "" {
			return nil, cli.Usagef("%d users are too few to hold some out unasked: say how many with --held-out", len(users))
		}
		return nil, nil
	case f.held == "":
		number = max(fit.EnoughUsers, len(users)/10)
	case err != nil:
		return holdingOf(f.held, users)
	case v == 0:
		return nil, nil
	case v > 0 && v < 1:
		number = int(math.Round(v * float64(len(users))))
	case v == math.Trunc(v) && v > 0 && v < 1e9:
		number = int(v)
	default:
		return nil, cli.Usagef("--held-out %s is neither a share below 1 nor a number of users nor a file", f.held)
	}
	if number < 1 || number >= len(users) {
		return nil, cli.Usagef("--held-out %s: of %d users %d would be held out; there must be one at least to try the model on, and one to train it on", f.held, len(users), number)
	}
	if len(users) < 2*fewestHeld {
		return nil, tooFewInAll(f.held, len(users))
	}
	if number < fewestHeld {
		return nil, cli.Usagef("--held-out %s: of %d users %d would be held out, and %s", f.held, len(users), number, tooFew())
	}
	if left := len(users) - number; left < fewestHeld {
		return nil, cli.Usagef("--held-out %s: of %d users %d would not be held out, and %s", f.held, len(users), left, tooFewOthers())
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
	if len(users) < 2*fewestHeld {
		return nil, tooFewInAll(path, len(users))
	}
	if number < fewestHeld {
		return nil, cli.Usagef("--held-out %s: %d of its users are in the traces, and %s", path, number, tooFew())
	}
	if left := len(users) - number; left < fewestHeld {
		return nil, cli.Usagef("--held-out %s: of the traces' %d users %d are not in it, and %s", path, len(users), left, tooFewOthers())
	}
	return &holding{words: "users of a list held out", held: func(user string) bool { return set[user] }}, nil
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
func usersOf(trainer *train.Trainer) []string {
	return slices.SortedFunc(trainer.Users(), func(a, b string) int {
		return cmp.Or(cmp.Compare(fit.Unit(a, 0), fit.Unit(b, 0)), cmp.Compare(a, b))
	})
}
