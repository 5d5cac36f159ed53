package fit

import (
	"iter"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Weight is how much of a measurement belongs to whom. A fit's figures are means over steps and
// over moves, not over users: one user with most of them is who the figures tell about, however
// many others there are.
type Weight struct {
	Users                int64
	Steps, Moves         int64 // of all users; a move is from one step of a track to the next
	MostSteps, MostMoves int64 // of the user with most
}

// Weigh returns the weight of what [Measure] would measure with the same arguments. It costs no
// release: 12 bytes a step for as long as it runs.
func Weigh(tracks iter.Seq[mobility.Track], o Options) Weight {
	var w Weight
	var steps, moves int64 // of the user so far
	last := ""
	for _, t := range gather(tracks, o.withDefaults()) {
		if w.Users == 0 || t.User != last {
			w.Users, last, steps, moves = w.Users+1, t.User, 0, 0
		}
		n := int64(len(t.Cells))
		steps, moves = steps+n, moves+n-1
		w.Steps, w.Moves = w.Steps+n, w.Moves+n-1
		w.MostSteps, w.MostMoves = max(w.MostSteps, steps), max(w.MostMoves, moves)
	}
	return w
}

// Dominated says whether one user has more than half of the steps, or of the moves. It is the
// dominance rule by which statistical offices suppress figures that come mostly from one respondent
// (Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4, for n = 1 and k = 50
// %).
func (w Weight) Dominated() bool { return 2*w.MostSteps > w.Steps || 2*w.MostMoves > w.Moves }
