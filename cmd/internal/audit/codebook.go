package audit

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
)

// The codebook mechanism has no location set, no surrogates and no hull. In their place the audit
// computes the code points from public facts and the votes of cells by their definition. A release
// is an answer: the code point that the true cell votes for, its own one, or another.

// coded says that the settings have codebooks.
func (s Settings) coded() bool { return s.Release.Mechanism == law.Codebook }

// code returns the codebook of a fix after a state.
func (o *observer) code(before []byte, step int64) (*attack.Codebook, error) {
	var state mechanism.State
	if err := state.DecodeBinary(before); err != nil {
		return nil, err
	}
	return o.lookout.Codebook(&state, step)
}

// examineAnswer makes the checks of one release from a codebook.
func (w *walker) examineAnswer(f Fix, cell grid.Cell, user int, before []byte,
	after *mechanism.State,
) error {
	code, err := w.observer.code(before, w.settings.Model.StepAt(f.Timestamp))
	if err != nil {
		return err
	}
	j, ok := w.answer(code, cell, after, user)
	if ok && f.Offset%eachBayes == 0 {
		w.bayesOfVotes(code, j, after)
	}
	if f.Offset%eachPlaces == 0 {
		return w.votes(f, before, code)
	}
	return nil
}

// answer reads a release from the state: the index of its code point.
func (w *walker) answer(code *attack.Codebook, cell grid.Cell, after *mechanism.State,
	user int,
) (j int, ok bool) {
	w.checks.point.Trials++
	if j, ok = code.Find(after.Release); !ok {
		w.checks.point.fail("a release is none of the code points that public facts give")
		return j, false
	}
	d := draw{
		drift: w.observer.lookout.Prior().At(cell) == 0, even: cell%2 == 0,
		fresh: after.Releases == 1, step: after.ReleaseStep, number: int64(after.Releases),
		user: user,
	}
	d.rank(code, code.Vote(cell), j, w.settings.Release.Epsilon, w.rng)
	w.draws = append(w.draws, d)
	return j, true
}

// rank fills in the coordinates of an answer. The code points are ordered by their distance from
// the own one, and where in its own part of the law an answer lies is left to rng. That makes
// beyond uniform, and the radius exponential, for every codebook: so the tests pool the releases of
// all of them. Another ε shows in how often the own point is drawn, a tail that is cut in the last
// ones. An answer has no direction.
func (d *draw) rank(code *attack.Codebook, own, j int, epsilon float64, rng *rand.Rand) {
	d.beyond = code.P(j, own) * (1 - rng.Float64())
	ranks := code.Ranks(own)
	for i := len(ranks) - 1; ranks[i] != j; i-- {
		d.beyond += code.P(ranks[i], own)
	}
	d.shape, d.radius, d.sector = 1, -math.Log(d.beyond), rng.Float64()
	d.moves = moves(code, epsilon)
}

// moves returns by how much the mean radius of an answer grows with the logarithm of ε, as the law
// goes from own to other points. With p = P(own|own) and u the beyond of an answer that is p(1-p)·ε
// times the difference of the means of -ln u, which are 1 - ln(1-p) for other points, where u is
// uniform below 1-p, and what makes it 1 in all for the own one.
func moves(code *attack.Codebook, epsilon float64) float64 {
	p := code.P(0, 0)
	if p >= 1 {
		return 0
	}
	others := 1 - math.Log1p(-p)
	own := (1 - (1-p)*others) / p
	return epsilon * p * (1 - p) * (others - own)
}

// bayesOfVotes tests that a posterior follows from a release by Bayes' rule, with votes by their
// definition.
func (w *walker) bayesOfVotes(code *attack.Codebook, j int, after *mechanism.State) {
	check, prior := &w.checks.inference, w.observer.lookout.Prior()
	check.Trials++
	total, posterior := 0.0, make(map[grid.Cell]float64, prior.Len())
	for i, c := range prior.Cells {
		posterior[c] = prior.P[i] * code.P(j, code.Vote(c))
		total += posterior[c]
	}
	// Pruning drops at most 10⁻⁴ of the mass and float32 rounds by 10⁻⁷.
	for i, c := range after.Posterior.Cells {
		if want, p := posterior[c]/total, after.Posterior.P[i]; !(math.Abs(p-want) <= 1e-3*want) {
			check.fail("the posterior is not that of Bayes' rule under the stated law")
			return
		}
	}
}

// votes tests that two cells that vote alike have the same effect, byte for byte. The fixes are
// anywhere within their cells and have different accuracies. If records carry only the step, times
// within the step must not matter either.
func (w *walker) votes(f Fix, before []byte, code *attack.Codebook) error {
	g, check := w.settings.Model.Grid, &w.checks.places
	for range placesEach {
		cell := grid.Cell(w.rng.IntN(g.Cells()))
		twin, ok := code.Twin(w.rng, cell)
		if !ok {
			twin = cell
		}
		base, err := w.feed(placed(f, g, cell, w.rng), before)
		if err != nil {
			return err
		}
		effect, err := w.feed(w.anyTime(placed(f, g, twin, w.rng)), before)
		if err != nil {
			return err
		}
		check.Trials++
		if what := difference(base, effect); what != "" {
			check.fail("%s depends on more than the vote", what)
		}
	}
	return nil
}

// answers is crowd.release under the codebook mechanism. Half of the users are at one of two places
// that vote otherwise, chosen by a coin, a quarter anywhere among the cells of the shape, and the
// others anywhere on the map. Every other "user" is the same one in another step. From a codebook
// of one point nothing is drawn: then every record must be what public facts say.
func (c crowd) answers(p *plan, w *walker, rng *rand.Rand) (*result, error) {
	code, err := w.observer.code(nil, p.firstStep)
	if err != nil {
		return nil, err
	}
	r := &result{checks: w.checks, shape: c.shape, settings: c.settings}
	cells := w.settings.Model.Initial.Cells
	if code.Len() == 1 {
		for i := range c.users {
			number := c.part*crowdSize + i
			cell := c.place(number, cells[0], cells, rng)
			if err := w.told(c.fix(p, number, cell, rng)); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	duel, ok := code.Farthest(cells)
	if !ok {
		duel = code.Border()
	}
	for i := range c.users {
		number, coin := c.part*crowdSize+i, rng.IntN(2)
		cell := c.place(number, duel[coin], cells, rng)
		j, ok, err := r.answer(w, code, c.fix(p, number, cell, rng), number)
		if err != nil {
			return nil, err
		}
		if !ok || c.shape != 0 || number%8 >= 4 {
			continue
		}
		switch j {
		case code.Vote(duel[coin]):
			r.guesses[0]++
		case code.Vote(duel[1-coin]):
			r.guesses[1]++
		}
	}
	r.pool = w.draws
	return r, nil
}

// answer releases a new user once: the index of the code point, and false where there was none.
func (r *result) answer(w *walker, code *attack.Codebook, f Fix, number int) (
	j int, ok bool, err error,
) {
	after, err := w.first(f)
	if err != nil || after == nil {
		return 0, false, err
	}
	cell := w.settings.Model.Grid.Locate(f.Latitude, f.Longitude)
	if j, ok = w.answer(code, cell, after, number); ok && r.shape == 0 && number%eachSeparate == 0 {
		err = r.separate(w, f, code, j == code.Vote(cell))
	}
	return j, ok, err
}

// told tests that the record of a new user's fix is what public facts say.
func (w *walker) told(f Fix) error {
	got, err := w.feed(f, nil)
	if err != nil {
		return err
	}
	want, err := w.observer.expected(f, nil, got)
	if err != nil {
		return err
	}
	w.checks.point.Trials++
	if what := difference(want, got); what != "" {
		w.checks.point.fail("%s from a codebook of one point is not what public facts say", what)
	}
	return nil
}

// agreement counts pairs of releases of one record from cells that vote otherwise: how many of them
// are both the own code point, or both another one, and how many should be.
type agreement struct {
	pairs, agree, chance float64
}

// separate releases the same user in the same step from a cell that votes otherwise. If both drew
// from the same words, both answers would be the own code point or neither.
func (r *result) separate(w *walker, f Fix, code *attack.Codebook, own bool) error {
	g := w.settings.Model.Grid
	truth, other := code.Vote(g.Locate(f.Latitude, f.Longitude)), code.Border()
	cell := other[0]
	if code.Vote(cell) == truth {
		cell = other[1]
	}
	effect, err := w.feed(placed(f, g, cell, w.rng), nil)
	if err != nil {
		return err
	}
	z, err := released(effect)
	if err != nil {
		return err
	}
	if (z == code.Place(code.Vote(cell))) == own {
		r.agreed.agree++
	}
	p := code.P(0, 0)
	r.agreed.pairs++
	r.agreed.chance = p*p + (1-p)*(1-p)
	return nil
}

// agreements tests that pairs agree as often as chance has it.
func (t *tests) agreements(check *Check, a agreement) {
	check.Trials += int64(a.pairs)
	if a.pairs == 0 {
		return
	}
	b := distuv.Binomial{N: a.pairs, P: a.chance}
	p := min(1, 2*min(b.CDF(a.agree), b.CDF(a.pairs)-b.CDF(a.agree-1)))
	t.add(check, p, "two places of one record share their noise: %.0f of %.0f pairs agree, and "+
		"%.0f should", a.agree, a.pairs, a.pairs*a.chance)
}

// powersOfAnswers describes what the checks of a codebook's answers would have found, where that is
// not what the checks of noise would have.
func (c *checks) powersOfAnswers(walk []draw) {
	c.equal.Power = "any such difference in what was compared; releases are made equal at ε = 2"
	// As in powers, a normal quantile covers the share of one test and its power.
	const quantile = 6
	moved := 0.0
	for i := range walk {
		moved += walk[i].moves
	}
	n := float64(len(walk))
	off := 100 * quantile * math.Sqrt(n) / math.Max(moved, 1e-9)
	c.law.Power = fmt.Sprintf("another ε in all long runs that is off by %.1f %%, and far code "+
		"points that are left out where %.1g of the releases should be", off, 18/math.Max(n, 1))
	c.periods.Power = fmt.Sprintf("another ε in every 16th step that is off by %.0f %%, and "+
		"nothing slower than every %dth", 4*off, longestPeriod)
	c.streams.Power = "words that two places of one record share; equal words of different " +
		"users or steps are looked for in long runs only, by the check law"
	c.attack.Power = "what tells two places with far code points apart"
}
