package audit

import (
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// shape is a location set that a probe forces. New users start at the model's initial
// distribution, so under a model that starts on these cells they are the location set of every
// first release. The transitions are those of the real model.
type shape struct {
	name     string
	cells    [][2]int // column and row from the middle of the map
	minCells int
}

// shapes returns the sets that a probe tries. The first gets most of the users.
func shapes() []shape {
	const unpadded = -1
	disc := shape{name: "a disc", minCells: unpadded}
	for dy := -2; dy <= 2; dy++ {
		for dx := -2; dx <= 2; dx++ {
			if dx*dx+dy*dy <= 5 {
				disc.cells = append(disc.cells, [2]int{dx, dy})
			}
		}
	}
	return []shape{
		disc,
		{"a row with a gap", [][2]int{{-3, 0}, {-2, 0}, {0, 0}, {3, 0}}, unpadded},
		{"a column", [][2]int{{0, -2}, {0, -1}, {0, 0}, {0, 1}}, unpadded},
		{"a slanting line", [][2]int{{-2, -1}, {0, 0}, {2, 1}}, unpadded},
		{"two cells far apart", [][2]int{{-4, -3}, {4, 3}}, unpadded},
		{"a thin triangle", [][2]int{{-4, -1}, {3, 0}, {4, 1}}, unpadded},
		{"a cell", [][2]int{{0, 0}}, unpadded},
		{"a cell, padded", [][2]int{{0, 0}}, 3},
		{"two cells, padded", [][2]int{{0, 0}, {1, 1}}, 6},
	}
}

// everywhere is the set of the corners of the map: its noise has the most values.
func everywhere() shape {
	const far = 1 << 20
	return shape{
		"the map's corners", [][2]int{{-far, -far}, {far, -far}, {-far, far}, {far, far}}, -1,
	}
}

// forced returns the settings under which a new user's location set is the shape.
func forced(p *plan, s shape) Settings {
	g := p.settings.Model.Grid
	initial := map[grid.Cell]bool{}
	for _, at := range s.cells {
		column := min(max(g.Width()/2+at[0], 0), g.Width()-1)
		row := min(max(g.Height()/2+at[1], 0), g.Height()-1)
		initial[grid.Cell(row*g.Width()+column)] = true
	}
	model := p.settings.Model.Copy()
	model.Initial, model.Gaps = mobility.Distribution{}, nil
	for c := range grid.Cell(g.Cells()) {
		if initial[c] {
			model.Initial.Cells = append(model.Initial.Cells, c)
			model.Initial.P = append(model.Initial.P, 1)
		}
	}
	model.Initial.Normalize()
	settings := p.settings
	settings.Model, settings.Release, settings.Publish = model, p.plain,
		published(settings.Publish, 0)
	settings.Release.Delta, settings.Release.MinCells = 0, s.minCells
	return settings
}

// finest returns the settings with a lattice that is as fine and noise that is as large as
// possible: then hardly two releases have equal noise by chance, and one pair is a finding. Which
// streams there are does not depend on the mechanism.
func finest(s Settings) Settings {
	o := mechanism.Options{
		Mechanism: law.Lattice, Epsilon: .001, MinCells: -1, MaxGap: s.Release.MaxGap,
		Subdivision: law.MaxSubdivision,
	}
	for ; o.Subdivision > 1; o.Subdivision /= 2 {
		if _, err := mechanism.NewEmission(s.Model.Grid, o); err == nil {
			break
		}
	}
	s.Release = o
	return s
}

// forcedSituations returns the situations of new users.
func forcedSituations(p *plan) (all []situation, err error) {
	for i, s := range shapes() {
		if p.settings.coded() && s.minCells > 0 {
			continue // nothing to pad
		}
		at := situation{name: s.name, settings: forced(p, s), users: p.sizes.Shapes}
		if i == 0 {
			at.users = p.sizes.Users
		}
		all = append(all, at)
	}
	all = append(all, situation{
		name: everywhere().name, settings: finest(forced(p, everywhere())),
		users: p.sizes.Streams, streams: true,
	})
	for i := range all {
		all[i].step = p.firstStep
		if all[i].law, err = lawOf(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// crowd is a part of the users of one situation. It has a copy of that, whose law belongs to the
// goroutine: a law remembers what it has computed.
type crowd struct {
	situation
	index, part, users int
}

const (
	// crowdSize is the number of releases of one job.
	crowdSize = 4096
	// releasesEach is how many first releases a user makes, each in another step: an instance that
	// treats one user otherwise shows. In a situation of a user who was seen before, the step is
	// given, and each user makes one.
	releasesEach = 64
)

func crowdJobs(p *plan) (all []job) {
	for i := range p.situations {
		at := p.situations[i]
		for part := 0; part*crowdSize < at.users; part++ {
			c := crowd{at, i, part, min(crowdSize, at.users-part*crowdSize)}
			all = append(all, func() (*result, error) { return c.release(p) })
		}
	}
	return all
}

// release makes the releases. Half of them are from one of two places of the set, chosen by a coin,
// which are as far apart as places of the set can be. A quarter are from any cell of the set, and
// the others from anywhere on the map. From a codebook of one point nothing is drawn: then every
// record must be what public facts say.
func (c crowd) release(p *plan) (*result, error) {
	rng := p.rng("crowd", c.index*1_000_000+c.part)
	w, err := newWalker(p.start, c.settings, rng)
	if err != nil {
		return nil, err
	}
	if c.law, err = w.observer.law(c.state, c.step); err != nil {
		return nil, err
	}
	r := &result{checks: w.checks, situation: c.index}
	far := c.law.farthest()
	moments := p.moments(c.part * 2 * crowdSize)
	for i := range c.users {
		number, coin := c.part*crowdSize+i, rng.IntN(2)
		cell, ofPair := c.place(number, far.cells[coin], rng)
		user := number
		step := c.step
		if len(c.state) == 0 {
			user, step = number/releasesEach, moments.next()
		}
		m := c.settings.Model
		f := fix(m.Grid, userName("crowd", user), step*m.Step.Milliseconds(), cell, rng)
		effect, err := w.feed(f, c.state)
		if err != nil {
			return nil, err
		}
		if effect.Counts.Releases != 1 {
			if err := c.unreleased(w, f, effect); err != nil {
				return nil, err
			}
			continue
		}
		after, ok, err := w.read(c.law, cell, c.state, effect, user)
		if err != nil {
			return nil, err
		}
		if ok && ofPair {
			w.draws[len(w.draws)-1].place = coin + 1
			r.guess(coin, c.law.guess(far, after.Release))
		}
	}
	c.sort(r, w)
	return r, nil
}

// place returns where a user of a crowd is, and whether that is the given cell of the pair.
func (c crowd) place(number int, far grid.Cell, rng *rand.Rand) (cell grid.Cell, ofPair bool) {
	switch which := number % 8; {
	case which < 4:
		return far, true
	case which < 6:
		return c.law.cells[rng.IntN(len(c.law.cells))], false
	}
	return grid.Cell(rng.IntN(c.settings.Model.Grid.Cells())), false
}

// unreleased tests the record of a fix that is no release: only a codebook of one point makes
// none, and then public facts determine the record.
func (c crowd) unreleased(w *walker, f Fix, got Effect) error {
	if c.law.tells() {
		w.checks.rules.fail("a record in the situation %q is not a release", c.name)
		return nil
	}
	want, err := w.observer.expected(f, c.state, got)
	if err != nil {
		return err
	}
	w.checks.point.Trials++
	if what := difference(want, got); what != "" {
		w.checks.point.fail("%s from a codebook of one point is not what public facts say", what)
	}
	return nil
}

// sort takes down the releases of a crowd.
func (c crowd) sort(r *result, w *walker) {
	if !c.streams {
		r.pool = w.draws
		return
	}
	r.guesses = [2]int64{} // of another ε
	n := float64(c.law.options.Subdivision)
	for i := range w.draws {
		r.shifts = append(r.shifts, w.draws[i].noise.Scale(n))
	}
}

// guess counts a guess, right or wrong.
func (r *result) guess(truth, guessed int) {
	switch guessed {
	case truth:
		r.guesses[0]++
	case 1 - truth:
		r.guesses[1]++
	}
}
