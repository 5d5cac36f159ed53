package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// noiseSource is a noise.Source as a rand.Source.
type noiseSource struct{ noise.Source }

const (
	repeatTrials = 8
	placeTrials  = 24
	equalTrials  = 64
	keyTrials    = 96
	lawTrials    = 600
)

// change is one fact that must change the noise.
type change struct {
	name string
	make func(f *Facts)
}

// Changes that all mechanisms are tested with.
var (
	laterStep = change{"step", func(f *Facts) {
		f.State = copied(f.State)
		f.State.Step += 1000 // the same prior, later
		f.Step += 1000
	}}
	laterNumber = change{"release number", func(f *Facts) {
		f.State = copied(f.State)
		f.State.Releases++
	}}
)

// separation is the test that each fact of a release changes its noise.
type separation struct{ *auditor }

func separate(a *auditor, report *Report) error { return separation{a}.test(report) }

// test looks for noise that is the same although a fact has changed: over many users the noise
// before and after the change is compared, as equality and as rank correlation. Equal noise under
// two cells, say, would publish the difference of the cells.
func (a separation) test(report *Report) error {
	at := a.roomiest()
	r := &report.Separation
	base := make([]convex.Vec, keyTrials)
	cell, _ := at.neighbours()
	for i := range base {
		var err error
		if base[i], err = a.noiseOf(at, a.facts(at, fmt.Sprintf("audit-%d", i), cell)); err != nil {
			return err
		}
	}
	for _, c := range a.changes(at) {
		changed := make([]convex.Vec, keyTrials)
		for i := range changed {
			f := a.facts(at, fmt.Sprintf("audit-%d", i), cell)
			c.make(&f)
			var err error
			if changed[i], err = a.noiseOf(at, f); err != nil {
				return err
			}
		}
		r.Trials++
		if related(base, changed) {
			r.fail("noise does not depend on the %s", c.name)
		}
	}
	r.Trials++
	match, err := a.sameLaw(at)
	if err == nil && !match {
		r.fail("what is published has another law than the sampler that the attack looks at")
	}
	return err
}

// roomiest returns a situation of the largest K, among those of users that have been seen before,
// if there are any: there a chance of equal noise is least.
func (a separation) roomiest() *Situation {
	best := a.situations[0]
	for _, s := range a.situations[1:] {
		if s.state.Started != best.state.Started {
			if s.state.Started {
				best = s
			}
			continue
		}
		if s.hull.Body().Dim() > best.hull.Body().Dim() ||
			s.hull.Body().Dim() == best.hull.Body().Dim() &&
				s.hull.Body().Measure() > best.hull.Body().Measure() {
			best = s
		}
	}
	return best
}

// noiseOf is what a release adds to a member's centre. Under other options the member is still the
// cell's surrogate, for the set of those options holds it, or the difference is as good as noise.
func (a separation) noiseOf(at *Situation, f Facts) (convex.Vec, error) {
	out, _, err := a.subject.Publish(f)
	return convex.Vec(out.Release.Sub(at.grid.Centre(f.Cell))), err
}

func (a separation) changes(at *Situation) []change {
	other := &mobility.Model{
		Grid: a.model.Grid, Step: a.model.Step, Matrices: a.model.Matrices,
		Initial: otherInitial(&a.model.Initial, a.model.Grid.Cells()),
	}
	all := []change{
		{"key", func(f *Facts) { f.Key = noise.KeyFromSeed(a.options.Seed + 1) }},
		{"user", func(f *Facts) { f.User += "x" }},
		{"cell", func(f *Facts) { f.Cell = at.cells[len(at.cells)-1] }},
		// a key that drops some bits of the cell
		{"cell", func(f *Facts) { _, f.Cell = at.neighbours() }},
		laterStep,
		laterNumber,
		{"ε", func(f *Facts) {
			if f.Options.Epsilon *= 2; f.Options.Epsilon > law.MaxEpsilon {
				f.Options.Epsilon = law.MaxEpsilon / 2
			}
		}},
		{"mechanism", func(f *Facts) {
			f.Options.Mechanism = law.KNorm
			if a.release.Mechanism == law.KNorm {
				f.Options.Mechanism = law.PIM
			}
		}},
	}
	if radius, ok := a.otherSet(at); ok {
		all = append(all, change{"location set", func(f *Facts) { f.Options.MinRadiusKM = radius }})
	}
	if id, err := mechanism.ParseID(other.ID()); err == nil && other.ID() != a.model.ID() &&
		at.state.Started {
		all = append(all, change{"model", func(f *Facts) {
			f.Model, f.State = other, copied(f.State)
			f.State.Model = id
		}})
	}
	return all
}

// otherSet returns a radius of padding that makes another location set of the same state, if the
// set is not the whole map already.
func (a separation) otherSet(at *Situation) (radiusKM float64, ok bool) {
	l := NewLookout(a.model, a.release)
	for cells := 1.0; cells < 2*float64(a.model.Grid.Width()+a.model.Grid.Height()); cells *= 2 {
		l.options.MinRadiusKM = cells * a.model.Grid.CellKM()
		if set := l.Cells(at.state, at.step); !slices.Equal(set, at.cells) {
			return l.options.MinRadiusKM, true
		}
	}
	return 0, false
}

func copied(s *mechanism.State) *mechanism.State {
	c := new(mechanism.State)
	c.CopyFrom(s)
	return c
}

// otherInitial moves half of the first cell's mass to another one.
func otherInitial(d *mobility.Distribution, cells int) mobility.Distribution {
	var other mobility.Distribution
	other.CopyFrom(d)
	if len(other.P) == 1 && cells > 1 {
		second := (other.Cells[0] + 1) % grid.Cell(cells)
		other.Cells = []grid.Cell{min(other.Cells[0], second), max(other.Cells[0], second)}
		other.P = []float64{1, 0}
	}
	if len(other.P) > 1 {
		other.P[1] += other.P[0] / 2
		other.P[0] /= 2
	}
	return other
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

// separateAnswers is separate under the codebook mechanism, with a test of the law of answers.
func separateAnswers(a *auditor, report *Report) error {
	t, err := steadiest(a)
	if err != nil {
		return err
	}
	report.Law = new(CheckReport)
	if err := (separation{a}).answersLaw(report.Law); err != nil {
		return err
	}
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

// steadiest returns the answers of a situation whose codebook keeps its size when ε or the
// posterior changes a little, so that the same words would mostly give the same answer. If there is
// none, it is another situation, and fewer facts are told apart. The cells are corners of the map,
// whose votes stay: that of a cell on a border would often be another one.
func steadiest(a *auditor) (t answers, err error) {
	for _, at := range a.situations {
		epsilon, err := at.mildEpsilon(a.release.Epsilon)
		if err != nil {
			return t, err
		}
		q, err := at.quantizer(epsilon)
		if err != nil {
			return t, err
		}
		code := NewCodebook(at.grid, epsilon, q)
		t = answers{a, at, code, epsilon, code.corners()}
		if q, err = at.quantizer(slightlyMore(epsilon)); err != nil {
			return t, err
		}
		_, ok, err := t.otherPoints()
		if err != nil || ok && len(q.Points()) == code.Len() {
			return t, err
		}
	}
	return t, nil
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
	f := t.facts(t.at, "", t.cells[0])
	change(&f)
	return own, code.Law(f.Cell)[code.Vote(f.Cell)], nil
}

// changes lists the facts to vary: those of the other mechanisms, except for the set, which
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
