package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// facts are all that a release may depend on, except the rest of the settings.
type facts struct {
	settings Settings
	state    mechanism.State
	step     int64
	user     string
	cell     grid.Cell
}

// change is one fact that must change the noise.
type change struct {
	name string
	make func(f *facts) // nil: there is no other such fact on this map
}

// otherSet is a change that shows only where the location set or the code points are others.
const otherSet = "location set or code points"

// factJobs test that each fact of a release changes its noise. Equal noise from two cells, say,
// would publish the difference of the cells.
func factJobs(p *plan) (all []job) {
	at := telling(p)
	if at == nil {
		return nil
	}
	for i, c := range changes(p, at) {
		all = append(all, func() (*result, error) { return fact(p, at, c, i) })
	}
	return all
}

// telling returns a situation of a user who was seen before, in which two cells can be told apart.
func telling(p *plan) *situation {
	for i := range p.situations {
		if s := &p.situations[i]; s.scouted && s.law.tells() {
			return s
		}
	}
	return nil
}

// fact releases many users before and after a change. The noise of the one and of the other must
// be independent. A fact that changes nothing here gives no pairs, and is untested. A fix that is
// not released is a failure: these situations have no rule against it.
func fact(p *plan, at *situation, c change, number int) (*result, error) {
	rng := p.rng("fact", number)
	r := &result{checks: newProbeChecks(), changed: c.name}
	if c.make == nil {
		return r, nil
	}
	base := factsOf(at)
	sides := [2]*facts{base, factsOf(at)}
	c.make(sides[1])
	var walkers [2]*walker
	var laws [2]*stated
	for side, f := range sides {
		var err error
		if walkers[side], err = newWalker(p.start, f.settings, rng); err != nil {
			return nil, err
		}
		if laws[side], err = walkers[side].observer.law(f.state.AppendBinary(nil),
			f.step); err != nil {
			return nil, err
		}
	}
	if !laws[1].tells() || c.name == otherSet && lawFacts(laws[0]) == lawFacts(laws[1]) {
		return r, nil
	}
	for i := range p.sizes.Facts {
		var pair [2]draw
		for side, f := range sides {
			d, ok, err := f.release(walkers[side], laws[side], fmt.Sprintf("%06d", i), rng)
			if err != nil {
				return nil, err
			}
			if !ok {
				r.checks.streams.fail("a fix is not released, so the %s is not tested", c.name)
				return r, nil
			}
			pair[side] = d
		}
		r.pairs = append(r.pairs, pair)
		r.checks.fed += 2
	}
	return r, nil
}

// release feeds the facts of one user and reads the noise; ok is false if nothing was released.
func (f *facts) release(w *walker, law *stated, user string, rng *rand.Rand) (
	d draw, ok bool, err error,
) {
	m := w.settings.Model
	fed := fix(m.Grid, user+f.user, f.step*m.Step.Milliseconds(), f.cell, rng)
	effect, err := w.subject.Feed(fed, f.state.AppendBinary(nil))
	if err != nil || effect.Counts.Releases != 1 {
		return d, false, err
	}
	z, err := released(effect)
	if err != nil {
		return d, false, err
	}
	d, _ = law.read(f.cell, z, rng)
	return d, true, nil
}

// factsOf returns the facts of a release in a situation. The id is long, so that a transcript that
// cuts ids would show.
func factsOf(at *situation) *facts {
	f := &facts{
		settings: at.settings, step: at.step,
		user: "-" + strings.Repeat("audit", 20) + "-0", cell: at.law.farthest().cells[0],
	}
	if err := f.state.DecodeBinary(at.state); err != nil {
		panic("audit: the state of a situation cannot be read: " + err.Error())
	}
	return f
}

// changes returns the facts to change.
func changes(p *plan, at *situation) []change {
	far := at.law.farthest().cells
	all := []change{
		{"key", func(f *facts) { f.settings.Key = noise.KeyFromSeed(p.seed + 1) }},
		// In one letter's case alone: a stream that ignores it would be shared too.
		{"beginning of the user's id", func(f *facts) {
			f.user = strings.Replace(f.user, "a", "A", 1)
		}},
		{"end of the user's id", func(f *facts) { f.user = f.user[:len(f.user)-1] + "1" }},
		{"step", func(f *facts) {
			f.state.Step += 1000
			f.step += 1000
		}},
		{"number of the release", func(f *facts) { f.state.Releases++ }},
		{"ε", func(f *facts) {
			f.settings.Release.Epsilon = slightlyMore(f.settings.Release.Epsilon)
		}},
		{"cell", func(f *facts) { f.cell = far[1] }},
		{otherSet, func(f *facts) {
			factor := 20.
			if at.law.code != nil {
				factor = 1.05 // so that there are as many code points
			}
			for i := range len(f.state.Posterior.P) / 2 {
				f.state.Posterior.P[i] *= factor
			}
			f.state.Posterior.Normalize()
		}},
	}
	// A transcript that drops the last bit of a cell or a vote shows between two such cells.
	add := func(name string, possible bool, to func(f *facts)) {
		if !possible {
			to = nil
		}
		all = append(all, change{name, to})
	}
	x, ok := lastBit(at.law, far[0])
	add("last bit of the cell", ok, func(f *facts) { f.cell = x })
	of := at.settings.Model
	other := of.Copy()
	other.Initial = otherInitial(&of.Initial, of.Grid.Cells())
	id, err := mechanism.ParseID(other.ID())
	add("model", err == nil && other.ID() != of.ID(), func(f *facts) {
		f.settings.Model, f.state.Model = other, id
	})
	return all
}

// lastBit returns a cell whose vote, or whose surrogate, differs from that of x in its last bit.
func lastBit(l *stated, x grid.Cell) (grid.Cell, bool) {
	part := func(c grid.Cell) int { return int(l.site(c)) }
	if l.code != nil {
		part = l.code.vote
	}
	for y := range grid.Cell(l.grid.Cells()) {
		if part(y) == part(x)^1 {
			return y, true
		}
	}
	return 0, false
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

// slightlyMore returns an ε that is about a hundredth larger, so that the same words would mostly
// give the same release, with as many decimals as a codebook takes.
func slightlyMore(epsilon float64) float64 {
	const share, unit = 1.01, 1e9 // law.MaxDecimals decimals
	if epsilon*share > law.MaxEpsilon {
		epsilon /= share * share
	}
	return math.Round(epsilon*share*unit) / unit
}

// dayUsers is the number of users of the check of days.
const dayUsers = 16

// days tests that each day has a noise key of its own: under a key whose earlier days were
// destroyed no release of those days is made, and the releases of later days stay the same bytes.
func days(p *plan) (*result, error) {
	s, rng := forced(p, shapes()[0]), p.rng("days", 0)
	first := noise.DayAt(p.firstStep*s.Model.Step.Milliseconds()) + 2
	whole, err := newWalker(p.start, s, rng)
	if err != nil {
		return nil, err
	}
	if s.Key, err = s.Key.From(first); err != nil {
		return nil, err
	}
	restricted, err := p.start(s)
	if err != nil {
		return nil, err
	}
	check, start := &whole.checks.days, first.Start().UnixMilli()
	for i := range dayUsers {
		cell := s.Model.Initial.Cells[rng.IntN(len(s.Model.Initial.Cells))]
		for _, late := range []bool{false, true} {
			step := s.Model.StepAt(start - 1)
			if late {
				step += 2
			}
			f := fix(s.Model.Grid, userName("days", i), step*s.Model.Step.Milliseconds(), cell, rng)
			want, err := whole.feed(f, nil)
			if err != nil {
				return nil, err
			}
			got, err := restricted.Feed(f, nil)
			if err != nil {
				return nil, err
			}
			check.Trials++
			switch what := difference(want, got); {
			case !late && got.Counts.Releases > 0:
				check.fail("a day whose key was destroyed still has releases")
			case late && what != "":
				check.fail("%s of a day depends on the keys of other days", what)
			}
		}
	}
	return &result{checks: whole.checks}, nil
}

// lawFacts is what determines the law.
func lawFacts(l *stated) string {
	if l.code != nil {
		return fmt.Sprint(l.code.points)
	}
	return fmt.Sprint(l.cells)
}
