package explore

import (
	"context"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// Odds is what an adversary learns about two places over time, who has the public model and all
// releases. Columns have a number for each fix; natural logarithms throughout.
//
// Learned is ln(posterior odds) - ln(odds by the model alone): what the releases have added.
// It lies between -Spent and Spent: under two tracks the probability of all releases
// differs by a factor of e^Σε at most, and those under two places at one time are means over
// tracks. Under codebook the filter keeps masses as float32, where "sanitize" rounds them to short
// ones, which would blur the odds; so the releases here are others than those of a Course. The
// filter of the other mechanisms prunes masses below 10⁻⁷. A gap that starts a filter again at the
// model's initial distribution forgets earlier releases. So what is computed here may be off by as
// little.
type Odds struct {
	A Place `json:"a"` // centres of the two cells
	B Place `json:"b"`

	TimeMS    []int64  `json:"time_ms"`
	Blind     []number `json:"blind"`     // ln odds of A against B by the model alone
	Posterior []number `json:"posterior"` // with all releases; null where a place is ruled out
	Learned   []number `json:"learned"`
	Spent     []number `json:"spent"` // Σε: the bound of |Learned|

	// Worst is the largest |Learned|, and WorstAt the fix at which it was reached; -1 without any.
	Worst   float64 `json:"worst"`
	WorstAt int     `json:"worst_at"`
}

// oddsOf follows two cells through a user's course.
func oddsOf(
	ctx context.Context, t *Truth, name string, s Settings, a, b Place,
) (*Odds, error) {
	u, err := t.user(name)
	if err != nil {
		return nil, err
	}
	release := s.options()
	if s.Mechanism == law.Codebook {
		release.Prune = -1 // see Odds
	}
	run, model, err := t.runUnder(s, release)
	if err != nil {
		return nil, err
	}
	g := model.Grid
	first, second := g.CellAt(grid.Point(a)), g.CellAt(grid.Point(b))
	if first == second {
		return nil, errOther("both places lie in one cell, and a release never tells two places " +
			"of a cell apart: pick another one")
	}
	o := &Odds{A: placeOf(g.Centre(first)), B: placeOf(g.Centre(second)), WorstAt: -1}
	ratio := func(state *mechanism.State) float64 {
		return math.Log(state.Posterior.At(first)) - math.Log(state.Posterior.At(second))
	}
	for i, fix := range u.Fixes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := run.Next(fix); err != nil {
			return nil, err
		}
		after, blind := ratio(run.State()), ratio(run.BlindState())
		learned := after - blind
		o.TimeMS = append(o.TimeMS, fix.Timestamp)
		o.Blind = append(o.Blind, number(blind))
		o.Posterior = append(o.Posterior, number(after))
		o.Learned = append(o.Learned, number(learned))
		o.Spent = append(o.Spent, number(run.State().EpsilonSpent))
		if x := math.Abs(learned); x > o.Worst && !math.IsInf(x, 0) {
			o.Worst, o.WorstAt = x, i
		}
	}
	return o, nil
}
