package fit

import (
	"errors"
	"fmt"
	"iter"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Weight says how much of a measurement comes from the user with most of it. A fit's figures are
// means over steps and over moves, not over users: a single user with most of the steps determines
// them, however many others there are.
type Weight struct {
	Users                int64
	Steps, Moves         int64 // of all users; a move is from one step of a track to the next
	MostSteps, MostMoves int64 // of the user with most
}

// Weigh returns the weight of what [Measure] would measure with the same arguments, cut so that no
// user has more than all others together where that is possible: o.MaxSteps is then smaller. It
// costs no release: 12 bytes a step for as long as it runs.
func Weigh(tracks iter.Seq[mobility.Track], o *Options) Weight {
	w, shortest := weigh(tracks, *o)
	if !w.Dominated() {
		return w
	}
	// At this bound the user with most has no more than all others together.
	o.MaxSteps = max(2*(w.Moves-w.MostMoves), w.Users*int64(shortest))
	w, _ = weigh(tracks, *o)
	return w
}

func weigh(tracks iter.Seq[mobility.Track], o Options) (w Weight, shortest int) {
	var steps, moves int64 // of the user so far
	last := ""
	held, shortest := gather(tracks, o)
	for _, t := range held {
		if w.Users == 0 || t.User != last {
			w.Users, last, steps, moves = w.Users+1, t.User, 0, 0
		}
		n := int64(len(t.Cells))
		steps, moves = steps+n, moves+n-1
		w.Steps, w.Moves = w.Steps+n, w.Moves+n-1
		w.MostSteps, w.MostMoves = max(w.MostSteps, steps), max(w.MostMoves, moves)
	}
	return w, shortest
}

// Dominated says whether one user has more than half of the steps, or of the moves. It is the
// dominance rule by which statistical offices suppress figures that come mostly from one respondent
// (Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4, for n = 1 and k = 50
// %).
func (w Weight) Dominated() bool { return 2*w.MostSteps > w.Steps || 2*w.MostMoves > w.Moves }

// FewestUsers is how many users a fit that others may read must be of, and how many others the
// model that is measured must be trained on. See [Disclosable].
const FewestUsers = 5

// What [Disclosable] says against a fit.
var (
	ErrFewHeld   = fmt.Errorf("a fit of fewer than %d would tell about these few", FewestUsers)
	ErrFewOthers = fmt.Errorf("a fit of a model that fewer than %d users trained would reveal "+
		"how these few move",
		FewestUsers)
	ErrDominated = errors.New("the fit would tell about this one")
)

// Disclosable says whether a fit may be stored in a model's file, which everybody may read who has
// the model: nil, or an error that wraps [ErrFewHeld], [ErrFewOthers] or [ErrDominated]. held is
// the weight of what is measured, and others is how many users with a transition the measured model
// is trained on.
//
// Three rules hold, since figures are of both groups. The fit is of at least [FewestUsers] users:
// that of one user tells how this user moves, and in the fit of a few somebody who knows all but
// one of them can take them off. The model is trained on at least as many others. And no user has
// more than half of what is measured ([Weight.Dominated]). Five is in the middle of what
// statistical offices ask for behind a published figure, three to ten. The rules prove nothing, as
// the rest of a model that was learned without differential privacy does not.
func Disclosable(held Weight, others int64) error {
	switch {
	case held.Users < FewestUsers:
		return fmt.Errorf("of the users held out %d would be measured: %w", held.Users, ErrFewHeld)
	case others < FewestUsers:
		return fmt.Errorf("of the users who are not held out %d have two steps without a gap: %w",
			others, ErrFewOthers)
	case held.Dominated():
		what, most, all := "steps", held.MostSteps, held.Steps
		if 2*most <= all {
			what, most, all = "moves", held.MostMoves, held.Moves
		}
		return fmt.Errorf("one of the users held out has %d of the %d %s that would be measured, "+
			"more than half: %w", most, all, what, ErrDominated)
	}
	return nil
}
