package audit

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism"
	attack "github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// Sizes say how much an audit tests.
type Sizes struct {
	Users     int // in the first forced location set; each has one release
	Shapes    int // users in each other forced location set
	Vehicles  int // long runs
	Steps     int // records of each long run; from codebooks four times as many
	RuleSteps int // records under each set of rules
}

// DefaultSizes take some 15 seconds of one core for any model, unless its location sets have
// thousands of cells.
var DefaultSizes = Sizes{Users: 1 << 17, Shapes: 2048, Vehicles: 16, Steps: 512, RuleSteps: 64}

// SizesFor returns the sizes that go with a number of draws for the attack on the mechanism: the
// default sizes for its default, and in proportion for others, from a 64th to 16 times the default.
func SizesFor(draws int64) Sizes {
	scale := min(max(float64(draws)/attack.DefaultDraws, 1./64), 16)
	d := DefaultSizes
	of := func(n, least int) int { return max(int(scale*float64(n)), least) }
	return Sizes{
		Users: of(d.Users, 1), Shapes: of(d.Shapes, 256), Vehicles: d.Vehicles,
		Steps: of(d.Steps, 32), RuleSteps: of(d.RuleSteps, 24),
	}
}

// plan is what the tasks of an audit share. None of it changes.
type plan struct {
	start     Maker
	settings  Settings          // with the given rules of release
	plain     mechanism.Options // with a release in every step
	sizes     Sizes
	seed      uint64
	firstStep int64
}

// steps returns the number of records of a long run. An answer from a codebook says less about ε
// than noise does: it has a few bits.
func (p *plan) steps() int {
	if p.settings.coded() {
		return 4 * p.sizes.Steps
	}
	return p.sizes.Steps
}

// result is what one job has found.
type result struct {
	checks *checks
	walk   []draw

	shape    int
	pool     []draw
	shifts   []shift
	guesses  [2]int64 // right, wrong
	agreed   agreement
	settings Settings
	area     float64
}

// agreement counts pairs of releases of one record from cells that vote otherwise: how many of them
// are both the own code point, or both another one, and how many should be.
type agreement struct {
	pairs, agree, expected float64
}

// shift is the noise of a release in units of 1/shiftUnit of a cell.
type shift struct{ x, y int64 }

const shiftUnit = law.MaxSubdivision

// job is a part of an audit that runs by itself, on instances of its own.
type job struct {
	records int // that it feeds, roughly
	do      func() (*result, error)
}

// rng returns the randomness of a job, which depends on the seed and the job alone.
func (p *plan) rng(kind string, number int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "geodither audit of the service, %s %d", kind, number)
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// walker feeds an instance and checks what it does.
type walker struct {
	settings Settings
	subject  Subject
	observer *observer
	codec    *schemas.Codec
	rng      *rand.Rand
	checks   *checks
	draws    []draw
}

func newWalker(start Maker, s Settings, rng *rand.Rand) (*walker, error) {
	subject, err := start(s)
	if err != nil {
		return nil, err
	}
	observer, err := newObserver(s)
	if err != nil {
		return nil, err
	}
	codec, err := schemas.NewCodec(s.encoding())
	return &walker{
		settings: s, subject: subject, observer: observer, codec: codec, rng: rng,
		checks: newChecks(s),
	}, err
}

func (w *walker) feed(f Fix, before []byte) (Effect, error) {
	w.checks.fed++
	return w.subject.Feed(f, before)
}

// draw reads the noise of a release from the state.
func (w *walker) draw(cells []grid.Cell, cell grid.Cell, after *mechanism.State,
	user int,
) (x, y float64) {
	g := w.settings.Model.Grid
	site := attack.NearestMember(g, cells, cell)
	noise := after.Release.Sub(g.Centre(site))
	x, y = noise.X/g.CellKM(), noise.Y/g.CellKM()
	if w.settings.Release.Mechanism == law.Lattice {
		// These are whole steps of the lattice, up to the rounding of kilometres.
		n := float64(w.settings.Release.Subdivision)
		x, y = math.Round(x*n)/n, math.Round(y*n)/n
	}
	k := ball(g, w.settings.Release, cells)
	if k.Dim() == 0 {
		w.checks.point.Trials++
		if x != 0 || y != 0 {
			w.checks.point.fail("the release of a single cell is not that cell")
		}
		return x, y
	}
	d := draw{
		drift: site != cell, even: cell%2 == 0, fresh: after.Releases == 1,
		step: after.ReleaseStep, number: int64(after.Releases), user: user,
	}
	d.measure(k, w.settings.Release.Epsilon, x, y, w.rng)
	w.draws = append(w.draws, d)
	return x, y
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
	d.rank(code, cell, j, w.settings.Release.Epsilon, w.rng)
	w.draws = append(w.draws, d)
	return j, true
}

// draw is one release as the tests of the law see it. Radius and sector have the same law, and are
// independent, for every location set, so the tests pool the releases of many sets.
type draw struct {
	// radius is ε times the gauge of the noise. It has the Gamma law of this shape: 2 under a
	// polygon K and 1 along a line. So has that of an answer from a codebook, see rank.
	radius, shape float64
	// moves is by how much the radius of an answer from a codebook grows with the logarithm of ε.
	moves float64
	// beyond is the probability of a larger radius, sector a share of K's area. Both are
	// uniform and independent.
	beyond, sector float64
	drift          bool // the true cell is none of the location set, or of a codebook's prior
	even           bool // the parity of the true cell's number
	fresh          bool // the user's first release
	step, number   int64
	user           int
}

// ball returns the unit ball of the noise's norm.
func ball(g *grid.Grid, o mechanism.Options, cells []grid.Cell) *attack.Span {
	switch o.Mechanism {
	case law.Laplace:
		return attack.DiamondOf(cells, g.Width(), false)
	case law.LaplaceTight:
		return attack.DiamondOf(cells, g.Width(), true)
	}
	return attack.SpanOf(cells, g.Width())
}

// measure fills in the coordinates of noise in cells. If the noise has no direction, rng gives one.
func (d *draw) measure(k *attack.Span, epsilon, x, y float64, rng *rand.Rand) {
	d.radius = epsilon * k.Gauge(x, y)
	switch {
	case k.Dim() == 1:
		side := 0.0
		if u := k.Corners()[1]; x*float64(u.X)+y*float64(u.Y) < 0 ||
			x == 0 && y == 0 && rng.IntN(2) == 0 {
			side = 1
		}
		d.shape, d.beyond, d.sector = 1, math.Exp(-d.radius), (side+rng.Float64())/2
	case x == 0 && y == 0:
		d.shape, d.beyond, d.sector = 2, 1, rng.Float64()
	default:
		d.shape, d.beyond, d.sector = 2, (1+d.radius)*math.Exp(-d.radius), k.Cone(x, y)
	}
	if math.IsInf(d.radius, 1) {
		d.beyond = 0
	}
}

// rank fills in the coordinates of an answer. The code points are ordered by their distance from
// the own one, and where in its own part of the law an answer lies is left to rng. That makes
// beyond uniform, and the radius exponential, for every codebook: so the tests pool the releases of
// all of them. Another ε shows in how often the own point is drawn, a tail that is cut in the last
// ones. An answer has no direction.
func (d *draw) rank(
	code *attack.Codebook, cell grid.Cell, j int, epsilon float64, rng *rand.Rand,
) {
	law, ranks := code.Law(cell), code.Ranks(code.Vote(cell))
	d.beyond = law[j] * (1 - rng.Float64())
	for i := len(ranks) - 1; ranks[i] != j; i-- {
		d.beyond += law[ranks[i]]
	}
	d.shape, d.radius, d.sector = 1, -math.Log(d.beyond), rng.Float64()
	d.moves = moves(law, ranks, code.Slopes(cell), epsilon)
}
