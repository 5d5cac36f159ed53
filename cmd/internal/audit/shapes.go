package audit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// shape is a location set that is forced: new users start at the model's initial
// distribution, so a model that starts on these cells has them as the location set of
// everybody's first release. The transitions are the model's own.
type shape struct {
	name        string
	cells       [][2]int // column and row from the middle of the map
	minCells    int
	radiusCells float64
}

// shapes are the sets that are tried. The first gets most of the users.
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
func (a *auditor) forced(s shape) Settings {
	g := a.settings.Model.Grid
	initial := map[grid.Cell]bool{}
	for _, at := range s.cells {
		column := min(max(g.Width()/2+at[0], 0), g.Width()-1)
		row := min(max(g.Height()/2+at[1], 0), g.Height()-1)
		initial[grid.Cell(row*g.Width()+column)] = true
	}
	of := a.settings.Model
	model := &mobility.Model{Grid: g, Step: of.Step, Calendar: of.Calendar, Matrices: of.Matrices}
	for c := range grid.Cell(g.Cells()) {
		if initial[c] {
			model.Initial.Cells = append(model.Initial.Cells, c)
			model.Initial.P = append(model.Initial.P, 1)
		}
	}
	model.Initial.Normalize()
	settings := a.settings
	settings.Model, settings.Release, settings.Publish = model, a.plain, published(settings.Publish, 0)
	settings.Release.Delta, settings.Release.MinCells = 0, s.minCells
	settings.Release.MinRadiusKM = s.radiusCells * g.CellKM()
	return settings
}

// finest raises the subdivision of the lattice as far as it goes: the more points it has,
// the less often two releases share their noise by chance.
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

// crowdSize is how many users one goroutine takes at a time.
const crowdSize = 4096

func (a *auditor) crowds() []crowd {
	var all []crowd
	for i, s := range shapes() {
		settings, users := a.forced(s), a.sizes.Shapes
		if i == 0 {
			settings, users = finest(settings), a.sizes.Users
		}
		for part := 0; part*crowdSize < users; part++ {
			all = append(all, crowd{i, part, min(crowdSize, users-part*crowdSize), settings})
		}
	}
	return all
}

// run releases each user once. Half of the users are in one of two places of the set that
// are as far apart as it has them, by a coin; a quarter in any of its cells; the rest
// anywhere on the map. Every other "user" is the same one in another step.
func (a *auditor) crowd(c crowd) (*result, error) {
	rng := a.rng("shape", c.shape*1_000_000+c.part)
	w, err := newWalker(a.start, c.settings, rng)
	if err != nil {
		return nil, err
	}
	found, err := w.observer.set(nil, a.firstStep)
	if err != nil {
		return nil, err
	}
	g, cells := c.settings.Model.Grid, slices.Clone(found)
	k := ball(g, c.settings.Release, cells)
	duel := farthest(g, k, cells)
	r := &result{checks: w.checks, shape: c.shape}
	stepMS := c.settings.Model.Step.Milliseconds()
	for i := range c.users {
		number := c.part*crowdSize + i
		coin := rng.IntN(2)
		cell := duel[coin]
		switch number % 8 {
		case 4, 5:
			cell = cells[rng.IntN(len(cells))]
		case 6, 7:
			cell = grid.Cell(rng.IntN(g.Cells()))
		}
		user, step := userName("crowd", number), a.firstStep
		if number%2 == 1 {
			user, step = userName("crowd", -1), a.firstStep+int64(number)
		}
		effect, err := w.feed(fix(g, user, step*stepMS, cell, rng), nil)
		if err != nil {
			return nil, err
		}
		if effect.Counts.Releases != 1 {
			w.checks.rules.fail("a new user's first record is not a release")
			continue
		}
		var after mechanism.State
		if err := after.DecodeBinary(effect.State); err != nil {
			return nil, err
		}
		x, y := w.draw(cells, cell, &after, number)
		if k.Dim() == 0 {
			continue
		}
		if c.shape == 0 {
			if number%eachSeparate == 0 {
				if err := w.separate(fix(g, user, step*stepMS, cell, rng), cells, x, y); err != nil {
					return nil, err
				}
			}
			r.shifts = append(r.shifts, shift{int64(math.Round(x * shiftUnit)), int64(math.Round(y * shiftUnit))})
			if number%8 < 4 {
				r.guess(g, k, duel, coin, after.Release)
			}
		}
	}
	r.pool, r.settings, r.area = w.draws, c.settings, area(k)
	return r, nil
}

// eachSeparate is how many users of the first shape come to one that is also released from
// another place.
const eachSeparate = 16

// separate releases the same user in the same step from another place of the set. The noise
// must be another one: equal noise would publish the difference of the two places.
func (w *walker) separate(f Fix, cells []grid.Cell, x, y float64) error {
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
	if math.Abs(x-otherX)+math.Abs(y-otherY) < chance && (x != 0 || y != 0) {
		w.checks.streams.fail("two places of one record share their noise")
	}
	return nil
}

// shift is the noise of a release, in so many parts of a cell.
type shift struct{ x, y int64 }

const shiftUnit = law.MaxSubdivision

// farthest returns two cells of a set whose difference has the greatest gauge.
func farthest(g *grid.Grid, k *attack.Span, cells []grid.Cell) [2]grid.Cell {
	best, most := [2]grid.Cell{cells[0], cells[0]}, 0.0
	for _, a := range cells {
		for _, b := range cells {
			if norm := k.Gauge(float64(g.Column(a)-g.Column(b)), float64(g.Row(a)-g.Row(b))); norm > most {
				best, most = [2]grid.Cell{a, b}, norm
			}
		}
	}
	return best
}

// guess is the closed-form attack on a record: where a release is nearer to one place than
// to the other by all that they are apart, the attacker guesses the nearer one.
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
	whole := k.Gauge(float64(g.Column(places[0])-g.Column(places[1])), float64(g.Row(places[0])-g.Row(places[1])))
	const tolerance = 1e-6
	switch {
	case gauge[1]-gauge[0] > whole-tolerance:
		r.guesses[truth]++
	case gauge[0]-gauge[1] > whole-tolerance:
		r.guesses[1-truth]++
	}
}

// area of K in cells.
func area(k *attack.Span) float64 {
	sum, corners := int64(0), k.Corners()
	for i, c := range corners {
		d := corners[(i+1)%len(corners)]
		sum += c.X*d.Y - c.Y*d.X
	}
	return float64(sum) / 2
}

// duplicates counts pairs of releases with the same noise. As many as the lattice has by
// chance are allowed: with the density p of noise they have the probability ∫p², which is
// ε²/(8·area) over the points of a cell.
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
