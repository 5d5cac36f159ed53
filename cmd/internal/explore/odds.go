package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// The adversaries of "geodither evaluate" that need no further traces. All of them see every
// release and the times of reports, and know how releases are made.
const (
	// standard knows the model.
	standard = "standard"
	// strongStart knows the model, and the cell of the first fix.
	strongStart = "strong-start"
	// weakWalk knows no model, and takes people to walk at random.
	weakWalk = "weak-walk"
	// weakUniform takes every cell to be as likely as any other at each time.
	weakUniform = "weak-uniform"
)

// adversaries are all of them; the first one is the guarantee's.
func adversaries() []string { return []string{standard, strongStart, weakWalk, weakUniform} }

// Odds is what an adversary learns about two places over time, who has all releases: those of the
// Course under the same settings. Columns have a number for each fix; natural logarithms
// throughout.
//
// Learned is ln(posterior odds) - ln(odds without any release): what the releases have added.
// It lies between -Spent and Spent: under two tracks the probability of all releases
// differs by a factor of e^Σε at most, and those under two places at one time are means over
// tracks. The adversary rounds masses to float32 alone. A gap that starts a filter again at the
// model's initial distribution forgets earlier releases. So what is computed here may be off by as
// little. An observer without a model does not know from which code points, or which location set,
// a release was drawn, and takes those that follow from its own prior.
type Odds struct {
	Adversary string `json:"adversary"`
	A         Place  `json:"a"` // centres of the two cells
	B         Place  `json:"b"`

	Total int `json:"total"` // as in Course
	From  int `json:"from"`
	Done  int `json:"done"`

	TimeMS    []int64  `json:"time_ms"`
	Blind     []number `json:"blind"`     // ln odds of A against B without any release
	Posterior []number `json:"posterior"` // with all releases; null where a place is ruled out
	Learned   []number `json:"learned"`
	Spent     []number `json:"spent"` // Σε: the bound of |Learned|

	// Worst is the largest |Learned| so far, and WorstAt the fix at which it was reached; -1
	// without any.
	Worst   float64 `json:"worst"`
	WorstAt int     `json:"worst_at"`
}

// asked is what a question about odds names.
type asked struct {
	user      string
	settings  Settings
	adversary string
	a, b      grid.Cell
}

// keptOdds is how many answers about odds are kept at most. The page asks for those of all
// adversaries at a time, so as many are always kept.
const keptOdds = 6

// odds computes an Odds fix by fix, as far as somebody asked for. The holder of its turn may use
// it.
type odds struct {
	Odds
	growing
	asked
	run *attack // nil when all fixes are computed

	// follow returns the course. Odds that wait for the next question keep none: Truth does.
	follow func() (*course, error)
}

// attack is an adversary who watches a user, and the sanitizer that is watched.
type attack struct {
	user      string
	sanitizer *mechanism.Sanitizer
	state     mechanism.State // the sanitizer's
	// emission is the law that follows from the adversary's own prior; nil: the sanitizer's.
	emission *mechanism.Emission

	// filter predicts by the adversary's model, and draws nothing.
	filter        *mechanism.Sanitizer
	with, without mechanism.State
	forgets       bool // between steps
	knowsStart    bool
}

// oddsOf are answers about odds.
type oddsOf struct {
	truth *Truth
	kept  shelf[asked, *odds]
}

func newOddsOf(truth *Truth) *oddsOf {
	return &oddsOf{truth, shelf[asked, *odds]{least: len(adversaries()), most: keptOdds}}
}

// odds returns the odds that a question names, kept ones if there are some.
func (k *oddsOf) odds(q asked) (*odds, error) {
	follow := func() (*course, error) { return k.truth.course(q.user, q.settings) }
	return k.kept.get(q, func() (*odds, int, error) {
		c, err := follow()
		if err != nil {
			return nil, 0, err
		}
		if q.a == q.b {
			return nil, 0, errOther("both places lie in one cell, and a release never tells two " +
				"places of a cell apart: pick another one")
		}
		run, err := newAttack(c, q)
		if err != nil {
			return nil, 0, err
		}
		g := c.model.Grid
		o := &odds{asked: q, growing: newGrowing(), run: run, follow: follow}
		o.A, o.B = placeOf(g.Centre(q.a)), placeOf(g.Centre(q.b))
		o.Adversary, o.Total, o.WorstAt = q.adversary, c.Total, -1
		return o, g.Cells(), nil
	})
}

func newAttack(c *course, q asked) (*attack, error) {
	key := noise.NewKeyed(noise.KeyFromSeed(q.settings.Seed))
	x := &attack{user: q.user}
	var err error
	if x.sanitizer, err = mechanism.NewSanitizer(c.model, key, c.options); err != nil {
		return nil, err
	}
	knows := c.model
	switch q.adversary {
	case standard:
	case strongStart:
		x.knowsStart = true
	case weakWalk, weakUniform:
		knows, x.forgets = c.model.RandomWalk(), q.adversary == weakUniform
		if x.emission, err = mechanism.NewEmission(c.model.Grid, c.options); err != nil {
			return nil, err
		}
	default:
		return nil, errOther(fmt.Sprintf("adversary is none of %q", adversaries()))
	}
	exact := c.options
	exact.Prune = -1
	x.filter, err = mechanism.NewSanitizer(knows, key, exact)
	return x, err
}

// part returns the fixes from one on, maxRows at most, as course.part does.
func (o *odds) part(ctx context.Context, from int, within time.Duration) (part *Odds, err error) {
	var c *course // of this question alone
	next := func(ctx context.Context) error {
		if c == nil {
			if c, err = o.follow(); err != nil {
				return err
			}
		}
		return o.next(ctx, c)
	}
	err = o.grow(ctx, &o.Done, min(from+maxRows, o.Total), within, next, func() {
		rows, to := o.Odds, min(from+maxRows, o.Done)
		rows.From = min(from, to)
		rows.TimeMS = rows.TimeMS[rows.From:to]
		for _, column := range []*[]number{
			&rows.Blind, &rows.Posterior, &rows.Learned, &rows.Spent,
		} {
			*column = (*column)[rows.From:to]
		}
		part = &rows
	})
	return part, err
}

// next takes one fix of the course.
func (o *odds) next(ctx context.Context, c *course) error {
	i := o.Done
	row, err := c.row(ctx, i)
	if err != nil {
		return err
	}
	fix, x := c.Fixes[i], o.run
	if kind := row.Kind[0]; kind != kindRefused && kind != mechanism.Late.String() {
		cell := c.model.Grid.Locate(fix.Latitude, fix.Longitude)
		if err := x.see(fix, c.model.StepAt(fix.Timestamp), cell); err != nil {
			return err
		}
	}
	ratio := func(s *mechanism.State) float64 {
		if !s.Started {
			return math.NaN()
		}
		return math.Log(s.Posterior.At(o.a)) - math.Log(s.Posterior.At(o.b))
	}
	after, blind := ratio(&x.with), ratio(&x.without)
	learned := after - blind
	o.TimeMS = append(o.TimeMS, fix.Timestamp)
	o.Blind, o.Posterior = append(o.Blind, number(blind)), append(o.Posterior, number(after))
	o.Learned = append(o.Learned, number(learned))
	o.Spent = append(o.Spent, row.SpentEps[0])
	if l := math.Abs(learned); l > o.Worst && !math.IsInf(l, 0) {
		o.Worst, o.WorstAt = l, i
	}
	if i+1 == o.Total {
		o.run = nil
	}
	return nil
}

// errOdds is a step of the sanitizer that is none of the course.
var errOdds = errors.New("explore: the watched sanitizer differs from the course")

// see takes a report that was published, from the sanitizer to the adversary.
func (x *attack) see(fix schemas.Raw, step int64, cell grid.Cell) error {
	out, err := x.sanitizer.Step(&x.state, mechanism.Input{
		User: x.user, Step: step, Cell: cell, Release: true,
	})
	if err != nil {
		return err
	}
	if !out.Kind.Published() {
		return errOdds
	}
	for _, state := range []*mechanism.State{&x.with, &x.without} {
		if err := x.foresee(state, fix.UserID, step, cell); err != nil {
			return err
		}
	}
	if out.Kind != mechanism.Released {
		return nil
	}
	belief, emission := &x.with.Posterior, x.sanitizer.Emission()
	if x.emission != nil {
		emission = x.emission
		emission.Prepare(belief)
	}
	mobility.Update(belief, belief, emission.Likelihoods(out.Release, belief.Cells))
	belief.Round()
	return nil
}

// foresee predicts one of the adversary's beliefs. The cell counts at the first fix alone, for who
// knows that.
func (x *attack) foresee(s *mechanism.State, user string, step int64, cell grid.Cell) error {
	first := !s.Started
	if x.forgets && s.Started && s.Step < step {
		*s = mechanism.State{Posterior: s.Posterior}
	}
	if _, err := x.filter.Step(s, mechanism.Input{User: user, Step: step}); err != nil {
		return err
	}
	if first && x.knowsStart {
		s.Posterior.Reset()
		s.Posterior.Cells = append(s.Posterior.Cells, cell)
		s.Posterior.P = append(s.Posterior.P, 1)
	}
	return nil
}
