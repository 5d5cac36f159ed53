package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Sizes of the tests of a codebook's answers, and the rate of false alarms of each of the two.
const (
	answerCells  = 8
	answerDraws  = 20_000
	answerUsers  = 600
	answerPairs  = 192
	answerAlarms = 1e-6
)

// draws tests that the sampler, and what is published, follow a codebook's law: for one of two
// neighbours that vote otherwise, and for cells anywhere.
func draws(a *auditor, report *Report) error {
	if report.Law == nil {
		return nil
	}
	r, rng := report.Law, a.rng("law")
	alpha := answerAlarms / float64(len(a.situations)*answerCells+1)
	src := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed)).Stream([]byte("geodither audit, law"))
	for _, s := range a.situations {
		sample, err := a.subject.Sampler(s, a.release)
		if err != nil {
			return err
		}
		cell := s.code.Border()[0]
		for range answerCells {
			counts := make([]int64, s.code.Len())
			for range answerDraws {
				if j, ok := s.code.Find(sample(src, cell)); ok { // BitsReport has the others
					counts[j]++
				}
			}
			r.Trials++
			if !(s.code.Fit(counts, s.code.Vote(cell)) >= alpha) {
				r.fail("a cell's draws have another law than is stated")
			}
			cell = grid.Cell(rng.IntN(s.grid.Cells()))
		}
	}
	return a.publishedAnswers(r, alpha)
}

// publishedAnswers tests the law of what is published in a situation.
func (a *auditor) publishedAnswers(r *CheckReport, alpha float64) error {
	at := a.situations[0]
	cell, counts := at.code.Border()[0], make([]int64, at.code.Len())
	r.Trials++
	for i := range answerUsers {
		out, _, err := a.subject.Publish(a.facts(at, fmt.Sprintf("audit-law-%d", i), cell))
		if err != nil {
			return err
		}
		j, ok := at.code.Find(out.Release)
		if !ok {
			r.fail("what is published is no code point")
			return nil
		}
		counts[j]++
	}
	if !(at.code.Fit(counts, at.code.Vote(cell)) >= alpha) {
		r.fail("what is published has another law than the sampler that the attack looks at")
	}
	return nil
}

// answers is the test that each fact of a codebook's release changes its noise. All noise that a
// release has is whether the answer is the own code point, and which other one it is. So releases
// before and after a change are compared in whether they are the own one: if they are independent
// they agree in a binomial number of users. The mechanism is not changed: no other one draws from
// the same words in a way that would show.
type answers struct {
	*auditor
	at      *Situation
	code    *Codebook // of epsilon
	epsilon float64
	cells   [2]grid.Cell // vote otherwise
}

func separateAnswers(a *auditor, report *Report) error {
	at := a.situations[0]
	for _, s := range a.situations { // whose posterior can be changed a little, if there is one
		if s.state.Posterior.Len() > at.state.Posterior.Len() {
			at = s
		}
	}
	epsilon, err := at.mildEpsilon(a.release.Epsilon)
	if err != nil {
		return err
	}
	q, err := at.quantizer(epsilon)
	if err != nil {
		return err
	}
	code := NewCodebook(at.grid, epsilon, q)
	t := answers{a, at, code, epsilon, code.Border()}
	base, p, err := t.owned(func(*Facts) {})
	if err != nil {
		return err
	}
	changes, err := t.changes()
	if err != nil {
		return err
	}
	for _, c := range changes {
		changed, q, err := t.owned(c.make)
		if err != nil {
			return err
		}
		agree := 0.0
		for i := range base {
			if base[i] == changed[i] {
				agree++
			}
		}
		report.Separation.Trials++
		if tails(answerPairs, p*q+(1-p)*(1-q), agree) < answerAlarms/float64(len(changes)) {
			report.Separation.fail("noise does not depend on the %s", c.name)
		}
	}
	return nil
}

// owned says of some users whether the release was the own code point, and how probable that is.
func (t answers) owned(change func(f *Facts)) (own []bool, p float64, err error) {
	var code *Codebook
	for i := range answerPairs {
		f := t.facts(t.at, fmt.Sprintf("audit-%d", i), t.cells[0])
		f.Options.Epsilon = t.epsilon
		change(&f)
		if code == nil {
			if code, err = NewLookout(f.Model, f.Options).Codebook(f.State, f.Step); err != nil {
				return nil, 0, err
			}
		}
		out, _, err := t.subject.Publish(f)
		if err != nil {
			return nil, 0, err
		}
		own = append(own, out.Release == code.Place(code.Vote(f.Cell)))
	}
	return own, code.P(0, 0), nil
}

// changes returns the facts to change, which are those of other mechanisms but for the set, which
// is the code points here, and the surrogate, which is the vote.
func (t answers) changes() ([]change, error) {
	all := []change{
		{"key", func(f *Facts) { f.Key = noise.KeyFromSeed(t.options.Seed + 1) }},
		{"user", func(f *Facts) { f.User += "x" }},
		{"vote", func(f *Facts) { f.Cell = t.cells[1] }},
		laterStep, laterNumber,
		// Little enough that the same words would mostly give the same answer.
		{"ε", func(f *Facts) { f.Options.Epsilon = slightlyMore(f.Options.Epsilon) }},
	}
	if cell, ok := t.nextVote(); ok { // a key that drops the last bit of the vote
		all = append(all, change{"vote", func(f *Facts) { f.Cell = cell }})
	}
	if !t.at.state.Started {
		return all, nil
	}
	if other, ok, err := t.otherPoints(); err != nil {
		return nil, err
	} else if ok {
		all = append(all, change{"code points", func(f *Facts) { f.State = other }})
	}
	other := &mobility.Model{
		Grid: t.model.Grid, Step: t.model.Step, Calendar: t.model.Calendar,
		Matrices: t.model.Matrices,
		Initial:  otherInitial(&t.model.Initial, t.model.Grid.Cells()),
	}
	if id, err := mechanism.ParseID(other.ID()); err == nil && other.ID() != t.model.ID() {
		all = append(all, change{"model", func(f *Facts) {
			f.Model, f.State = other, copied(f.State)
			f.State.Model = id
		}})
	}
	return all, nil
}

// otherPoints returns a state whose posterior leads to code points slightly beside the present
// ones, if there is more than one cell in it.
func (t answers) otherPoints() (*mechanism.State, bool, error) {
	other := copied(t.at.state)
	for i := range len(other.Posterior.P) / 2 {
		other.Posterior.P[i] *= 1.05
	}
	other.Posterior.Normalize()
	options := t.release
	options.Epsilon = t.epsilon
	code, err := NewLookout(t.model, options).Codebook(other, t.at.step)
	if err != nil {
		return nil, false, err
	}
	return other, code.Len() == t.code.Len() && !slices.Equal(code.points, t.code.points), nil
}

// slightlyMore returns an ε that is about a hundredth larger, with as many decimals as a codebook
// takes.
func slightlyMore(epsilon float64) float64 {
	const share, unit = 1.01, 1e9 // law.MaxDecimals decimals
	if epsilon*share > law.MaxEpsilon {
		epsilon /= share * share
	}
	return math.Round(epsilon*share*unit) / unit
}

// nextVote returns a cell whose vote differs in the last bit.
func (t answers) nextVote() (grid.Cell, bool) {
	want := t.code.Vote(t.cells[0]) ^ 1
	for c := range grid.Cell(t.at.grid.Cells()) {
		if t.code.Vote(c) == want {
			return c, true
		}
	}
	return 0, false
}
