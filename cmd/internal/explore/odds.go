package explore

import (
	"context"
	"math"
	"net/url"
	"time"

	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/moment"
)

// Odds is what an attacker learns about two places over time, who has all releases: those of the
// Course under the same settings. The attacker knows the model, the settings and the times of
// reports, as everybody does. Columns have a number for each fix; natural logarithms throughout.
//
// Learned is ln(odds given the records up to the fix) - ln(odds without any release), and Later the
// same given all records. Each lies between -Σε and Σε of the releases that it takes in: under two
// tracks the probability of these releases differs by a factor of e^Σε at most, and that under two
// places at one time is a mean over tracks. Passes are exact (mechanism.Teller). A gap that starts
// a filter again at the model's initial distribution forgets earlier releases.
type Odds struct {
	A Place `json:"a"` // centres of the two cells
	B Place `json:"b"`

	Total int `json:"total"` // as in Past
	From  int `json:"from"`
	Done  int `json:"done"`

	TimeMS  []int64  `json:"time_ms"`
	Learned []number `json:"learned"` // null where the model rules a place out
	Later   []number `json:"later"`
	Spent   []number `json:"spent"` // Σε of the releases up to the fix
}

// asked is what a question about odds names.
type asked struct {
	courseOf
	a, b grid.Cell
}

// keptOdds is how many answers about odds are kept at most.
const keptOdds = 4

// odds is an Odds, as far as somebody asked for. The holder of its turn may use it.
type odds struct {
	Odds
	asked
	*hindsight
	at int64 // moment of the last record
}

// attacks are answers about odds, by their questions.
type attacks = shelf[asked, *odds]

// of returns the odds that a question names, kept ones if there are some.
func (q asked) of(t *Truth, kept *attacks) (*odds, error) {
	return kept.get(q, func() (*odds, int, error) {
		if q.a == q.b {
			return nil, 0, errOther("both places lie in one cell, and a release never tells two " +
				"places of a cell apart: pick another one")
		}
		h, err := newHindsight(t, q.courseOf)
		if err != nil {
			return nil, 0, err
		}
		o, g := &odds{asked: q, hindsight: h}, h.model.Grid
		o.A, o.B = placeOf(g.Centre(q.a)), placeOf(g.Centre(q.b))
		o.Total = len(h.fixes.Fixes)
		teller, block := mechanism.NewTeller(h.run.Options()), new(mechanism.ToldBlock)
		h.note = func(seen mechanism.Seen, linked bool) int64 {
			o.at = max(o.at, momentOf(seen.Step, seen.Kind == mechanism.Released))
			teller.Note(block, h.observer, &h.state, seen, linked, o.told)
			return o.at
		}
		h.finish = func() { teller.Finish(block, o.told) }
		h.taken = func(timeMS int64, spent float64) {
			o.TimeMS, o.Spent = append(o.TimeMS, timeMS), append(o.Spent, number(spent))
		}
		h.nothing = func(int) { o.add(math.NaN(), math.NaN()) }
		return o, g.Cells(), nil
	})
}

// momentOf numbers the moments of a Teller: a step as its first record left it, and the release
// that may follow in it.
func momentOf(step int64, released bool) int64 {
	if released {
		return 2*step + 1
	}
	return 2 * step
}

// part returns the fixes from one on that are done, maxRows at most, as course.part does.
func (o *odds) part(ctx context.Context, from int, within time.Duration) (part *Odds, err error) {
	err = o.look(ctx, within, func() {
		rows := o.Odds
		rows.Done = len(o.Later)
		rows.From = cut(from, rows.Done, &rows.TimeMS, &rows.Learned, &rows.Later, &rows.Spent)
		part = &rows
	})
	return part, err
}

// told keeps what is learned about a moment for its fixes.
func (o *odds) told(t mechanism.Told) {
	then, all := t.Learned(o.a, o.b)
	o.closed[momentOf(t.Step, t.Released)] = func(int) { o.add(then, all) }
}

func (o *odds) add(then, all float64) {
	o.Learned, o.Later = append(o.Learned, number(then)), append(o.Later, number(all))
}

// Habit is what the records of any user tell under some settings: about one moment, and about a
// home.
type Habit struct {
	// Moment bounds ln of what any number of records adds to the odds of two places at one moment;
	// null: nothing but Σε bounds it.
	Moment number `json:"moment"`
	// Homes are what some simulated users' releases tell about where they sleep (expect.Homes).
	Homes []expect.Home `json:"homes"`
}

// habitCells is the largest map that habits are computed for: a bound takes the third power of the
// cells. habitUsers are simulated. Both take half a minute at most.
const (
	habitCells, habitUsers = 1000, 4
	keptHabits             = 16
)

// habits computes habits, one at a time.
type habits struct{ computing[Settings, *Habit] }

func (*Habit) rowsDone() int64 { return 0 }

// habit returns what is told under settings, a kept answer if there is one.
func (k *habits) habit(ctx context.Context, _ url.Values, s Settings) (any, error) {
	return k.get(ctx, s, func(m *mobility.Model) (*Habit, error) {
		if m.Grid.Cells() > habitCells {
			return nil, errOther("the map has too many cells for a page to compute what is told " +
				"of a home and of a moment: \"geodither statement\" does")
		}
		homes, err := expect.Homes(ctx, m, s.options(m.Step), []int{1, 7, 14},
			expect.Options{Seed: s.Seed, Tracks: habitUsers})
		if err != nil {
			return nil, err
		}
		forgetting, err := moment.New(m, s.Interval, ctx.Err)
		if err != nil {
			return nil, err
		}
		return &Habit{number(forgetting.Most(s.Epsilon).Between), homes}, nil
	})
}
