package audit

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// shape is a location set that the audit forces. New users start at the model's initial
// distribution, so under a model that starts on these cells they are the location set of every
// first release. The transitions are those of the real model.
type shape struct {
	name        string
	cells       [][2]int // column and row from the middle of the map
	minCells    int
	radiusCells float64
}

// shapes returns the sets that the audit tries. The first gets most of the users.
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
		{"a row with a gap", [][2]int{{-3, 0}, {-2, 0}, {0, 0}, {3, 0}}, unpadded, 0},
		{"a column", [][2]int{{0, -2}, {0, -1}, {0, 0}, {0, 1}}, unpadded, 0},
		{"a slanting line", [][2]int{{-2, -1}, {0, 0}, {2, 1}}, unpadded, 0},
		{"two cells far apart", [][2]int{{-4, -3}, {4, 3}}, unpadded, 0},
		{"a thin triangle", [][2]int{{-4, -1}, {3, 0}, {4, 1}}, unpadded, 0},
		{"a cell", [][2]int{{0, 0}}, unpadded, 0},
		{"a cell, padded", [][2]int{{0, 0}}, 3, 0},
		{"two cells, padded", [][2]int{{0, 0}, {1, 1}}, 6, 0},
		{"a cell in a disc of padding", [][2]int{{1, 0}}, unpadded, 2},
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
	of := p.settings.Model
	model := &mobility.Model{Grid: g, Step: of.Step, Calendar: of.Calendar, Matrices: of.Matrices}
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
	settings.Release.MinRadiusKM = s.radiusCells * g.CellKM()
	return settings
}

// finest raises the subdivision of the lattice as far as possible: the more points it has, the less
// often two releases share their noise by chance.
func finest(s Settings) Settings {
	if s.Release.Mechanism != law.Lattice {
		return s
	}
	for n := law.MaxSubdivision; n > s.Release.Subdivision; n /= 2 {
		o := s.Release
		o.Subdivision = n
		if _, err := mechanism.NewSanitizer(s.Model, noise.NewKeyed(s.Key), o); err == nil {
			s.Release = o
			return s
		}
	}
	return s
}

// crowd is a part of the users of one shape.
type crowd struct {
	shape, part, users int
	settings           Settings
}

// crowdSize is the number of users of one job.
const crowdSize = 4096

func shapeJobs(p *plan) (all []job) {
	for i, s := range shapes() {
		if p.settings.coded() && (s.minCells > 0 || s.radiusCells > 0) {
			continue // nothing to pad
		}
		settings, users := forced(p, s), p.sizes.Shapes
		if i == 0 {
			settings, users = finest(settings), p.sizes.Users
		}
		for part := 0; part*crowdSize < users; part++ {
			c := crowd{i, part, min(crowdSize, users-part*crowdSize), settings}
			all = append(all, job{c.users, func() (*result, error) { return c.release(p) }})
		}
	}
	return all
}

// release releases each user once. Half of the users are at one of two places of the set, chosen by
// a coin, which are as far apart as places of the set can be. A quarter are in any cell of the set,
// and the others are anywhere on the map. Every other "user" is the same one in another step.
func (c crowd) release(p *plan) (*result, error) {
	rng := p.rng("shape", c.shape*1_000_000+c.part)
	w, err := newWalker(p.start, c.settings, rng)
	if err != nil {
		return nil, err
	}
	if c.settings.coded() {
		return c.answers(p, w, rng)
	}
	found, err := w.observer.set(nil, p.firstStep)
	if err != nil {
		return nil, err
	}
	g, cells := c.settings.Model.Grid, slices.Clone(found)
	k := ball(g, c.settings.Release, cells)
	duel := farthest(g, k, cells)
	r := &result{checks: w.checks, shape: c.shape}
	for i := range c.users {
		number := c.part*crowdSize + i
		coin := rng.IntN(2)
		cell := c.place(number, duel[coin], cells, rng)
		first := c.fix(p, number, cell, rng)
		after, noise, err := releaseOnce(w, first, cell, cells, number)
		if err != nil {
			return nil, err
		}
		if after == nil || k.Dim() == 0 || c.shape != 0 {
			continue
		}
		if number%eachSeparate == 0 {
			again := c.fix(p, number, cell, rng)
			if err := separate(w, again, cells, noise); err != nil {
				return nil, err
			}
		}
		r.shifts = append(r.shifts, shift{
			int64(math.Round(noise.X * shiftUnit)), int64(math.Round(noise.Y * shiftUnit)),
		})
		if number%8 < 4 {
			r.guess(g, k, duel, coin, after.Release)
		}
	}
	r.pool, r.settings, r.area = w.draws, c.settings, area(k)
	return r, nil
}

// place returns where a user of a crowd is: at the place of the duel, or elsewhere.
func (c crowd) place(number int, duel grid.Cell, cells []grid.Cell, rng *rand.Rand) grid.Cell {
	switch number % 8 {
	case 4, 5:
		return cells[rng.IntN(len(cells))]
	case 6, 7:
		return grid.Cell(rng.IntN(c.settings.Model.Grid.Cells()))
	}
	return duel
}

// fix returns a user's only fix.
func (c crowd) fix(p *plan, number int, cell grid.Cell, rng *rand.Rand) Fix {
	user, step := userName("crowd", number), p.firstStep
	if number%2 == 1 {
		user, step = userName("crowd", -1), p.firstStep+int64(number)
	}
	m := c.settings.Model
	return fix(m.Grid, user, step*m.Step.Milliseconds(), cell, rng)
}

// eachSeparate is the number of users of the first shape for each user that is also released from
// another place.
const eachSeparate = 16

// releaseOnce feeds a new user's first fix. It returns the state after it and the noise of the
// release in cells, or no state if there was no release, which is a failure.
func releaseOnce(w *walker, f Fix, cell grid.Cell, cells []grid.Cell,
	number int,
) (*mechanism.State, grid.Point, error) {
	after, err := firstState(w, f)
	if err != nil || after == nil {
		return nil, grid.Point{}, err
	}
	x, y := w.draw(cells, cell, after, number)
	return after, grid.Point{X: x, Y: y}, nil
}

// firstState feeds a new user's first fix. It returns the state after it, or none if there was no
// release, which is a failure.
func firstState(w *walker, f Fix) (*mechanism.State, error) {
	effect, err := w.feed(f, nil)
	if err != nil {
		return nil, err
	}
	if effect.Counts.Releases != 1 {
		w.checks.rules.fail("a new user's first record is not a release")
		return nil, nil
	}
	after := new(mechanism.State)
	return after, after.DecodeBinary(effect.State)
}

// separate releases the same user in the same step from another place of the set. The noise
// must differ: equal noise would publish the difference of the two places.
func separate(w *walker, f Fix, cells []grid.Cell, noise grid.Point) error {
	g, known := w.settings.Model.Grid, len(w.draws)
	truth := attack.NearestMember(g, cells, g.Locate(f.Latitude, f.Longitude))
	other := cells[w.rng.IntN(len(cells))]
	if other == truth {
		return nil
	}
	effect, err := w.feed(placed(f, g, other, w.rng), nil)
	if err != nil {
		return err
	}
	var after mechanism.State
	if err := after.DecodeBinary(effect.State); err != nil {
		return err
	}
	w.checks.streams.Trials++
	const chance = 1e-9 // two sums of kilometres round differently
	otherX, otherY := w.draw(cells, other, &after, 0)
	w.draws = w.draws[:known] // one release of a user is enough for the law
	if math.Abs(noise.X-otherX)+math.Abs(noise.Y-otherY) < chance &&
		(noise.X != 0 || noise.Y != 0) {
		w.checks.streams.fail("two places of one record share their noise")
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
			if err := told(w, c.fix(p, number, cell, rng)); err != nil {
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
	after, err := firstState(w, f)
	if err != nil || after == nil {
		return 0, false, err
	}
	cell := w.settings.Model.Grid.Locate(f.Latitude, f.Longitude)
	if j, ok = w.answer(code, cell, after, number); ok && r.shape == 0 && number%eachSeparate == 0 {
		err = r.separateVotes(w, f, code, j == code.Vote(cell))
	}
	return j, ok, err
}

// told tests that the record of a new user's fix is what public facts say.
func told(w *walker, f Fix) error {
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

// separateVotes releases the same user in the same step from a cell that votes otherwise. If both
// drew from the same words, both answers would be the own code point or neither.
func (r *result) separateVotes(w *walker, f Fix, code *attack.Codebook, own bool) error {
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
	p := code.Law(g.Locate(f.Latitude, f.Longitude))[truth]
	q := code.Law(cell)[code.Vote(cell)]
	r.agreed.pairs++
	r.agreed.expected += p*q + (1-p)*(1-q)
	return nil
}

// farthest returns two cells of a set whose difference has the greatest gauge.
func farthest(g *grid.Grid, k *attack.Span, cells []grid.Cell) [2]grid.Cell {
	best, most := [2]grid.Cell{cells[0], cells[0]}, 0.0
	for _, a := range cells {
		for _, b := range cells {
			if norm := k.Gauge(float64(g.Column(a)-g.Column(b)),
				float64(g.Row(a)-g.Row(b))); norm > most {
				best, most = [2]grid.Cell{a, b}, norm
			}
		}
	}
	return best
}

// guess is the closed-form attack on a record: if a release is nearer to one place than to the
// other by their whole distance, the attacker guesses the nearer one.
func (r *result) guess(g *grid.Grid, k *attack.Span, places [2]grid.Cell, truth int, z grid.Point) {
	var gauge [2]float64
	for i, c := range places {
		d := z.Sub(g.Centre(c))
		gauge[i] = k.Gauge(d.X/g.CellKM(), d.Y/g.CellKM())
	}
	apart := places[0] - places[1]
	if apart == 0 {
		return
	}
	whole := k.Gauge(float64(g.Column(places[0])-g.Column(places[1])),
		float64(g.Row(places[0])-g.Row(places[1])))
	const tolerance = 1e-6
	switch {
	case gauge[1]-gauge[0] > whole-tolerance:
		r.guesses[truth]++
	case gauge[0]-gauge[1] > whole-tolerance:
		r.guesses[1-truth]++
	}
}

// area returns the area of K in cells.
func area(k *attack.Span) float64 {
	sum, corners := int64(0), k.Corners()
	for i, c := range corners {
		d := corners[(i+1)%len(corners)]
		sum += c.X*d.Y - c.Y*d.X
	}
	return float64(sum) / 2
}

// duplicates counts pairs of releases with the same noise, and allows as many as the lattice gives
// by chance: with the density p of noise a pair has the probability ∫p², which is ε²/(8·area)
// divided by the points of a cell.
func duplicates(t *tests, check *Check, all []shift, settings Settings, area float64) {
	seen := map[shift]int64{}
	pairs := int64(0)
	for _, s := range all {
		pairs += seen[s]
		seen[s]++
	}
	points := float64(shiftUnit)
	if settings.Release.Mechanism == law.Lattice {
		points = float64(settings.Release.Subdivision)
	}
	n, epsilon := float64(len(all)), settings.Release.Epsilon
	expected := n * (n - 1) / 2 * epsilon * epsilon / (8 * area * points * points)
	p := 1.0
	if pairs > 0 {
		p = 1 - distuv.Poisson{Lambda: expected}.CDF(float64(pairs-1))
	}
	check.Trials += int64(len(all))
	t.add(check, p, "%d pairs of releases share their noise; %.2g are expected", pairs, expected)
}
