package mechanism

import (
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/noise"
)

// latticeSet is a random location set, hull, ε and subdivision.
type latticeSet struct {
	grid    *grid.Grid
	cells   []grid.Cell
	hull    *SensitivityHull
	epsilon float64
	parts   int
}

// randomSet returns the i-th set of a kind that goes round: scattered cells, patches, lines, slivers, pairs, large maps, one cell.
func randomSet(tb testing.TB, r *rand.Rand, i int) *latticeSet {
	tb.Helper()
	width, height := 2+r.IntN(30), 2+r.IntN(30)
	if i%8 == 6 {
		width, height = 200+r.IntN(800), 200+r.IntN(800)
	}
	g := testcase.Grid(tb, width, height, .05+r.Float64())
	chosen := map[grid.Cell]bool{}
	add := func(x, y int) {
		if x >= 0 && y >= 0 && x < width && y < height {
			chosen[grid.Cell(y*width+x)] = true
		}
	}
	x0, y0 := r.IntN(width), r.IntN(height)
	switch i % 8 {
	case 0, 6:
		for range 1 + r.IntN(25) {
			add(r.IntN(width), r.IntN(height))
		}
	case 1:
		for range 60 {
			add(x0+r.IntN(5)-2, y0+r.IntN(5)-2)
		}
	case 2: // a line of any slope
		dx, dy := r.IntN(7)-3, r.IntN(7)-3
		for k := range 1 + r.IntN(12) {
			add(x0+k*dx, y0+k*dy)
		}
	case 3, 4: // a sliver: near a line of any slope
		dx, dy := r.Float64()*float64(width), r.Float64()*float64(height)
		wide := 1 + float64(i%8-3)*2*r.Float64()
		for range 3 + r.IntN(20) {
			t := r.Float64()
			add(int(t*dx+wide*r.Float64()), int(t*dy+wide*r.Float64()))
		}
	case 5:
		add(r.IntN(width), r.IntN(height))
	}
	add(x0, y0)
	s := &latticeSet{
		grid: g, epsilon: []float64{.01, .1, .5, 1, 2.5, 12, 100}[r.IntN(7)],
		parts: []int{1, 2, 3, 16, DefaultSubdivision, 1000}[r.IntN(6)],
	}
	if s.epsilon > float64(s.parts) { // noise of less than a step: rare here
		s.epsilon = float64(s.parts) * r.Float64()
		s.epsilon = max(math.Round(s.epsilon*1000)/1000, .001)
	}
	s.cells = slices.Sorted(maps.Keys(chosen))
	s.hull = hullOf(g, s.cells...)
	return s
}

// at returns a cell's centre in steps.
func (s *latticeSet) at(c grid.Cell) convex.Lattice {
	return convex.Lattice{X: int64(s.grid.Column(c) * s.parts), Y: int64(s.grid.Row(c) * s.parts)}
}

// worstDifference returns the greatest difference of exponents ‖z-x‖_K over all pairs of places, each times n, as an exact fraction, and
// whether all or none of the places can emit z.
func worstDifference(k []convex.Lattice, z convex.Lattice, places []convex.Lattice) (*big.Rat, bool) {
	var low, high [2]int64
	for i, x := range places {
		n, d := exactGauge(k, z.Sub(x))
		if i == 0 {
			low, high = [2]int64{n, d}, [2]int64{n, d}
		}
		if d == 0 || low[1] == 0 {
			if d != low[1] {
				return nil, false
			}
			continue
		}
		if less([2]int64{n, d}, low) {
			low = [2]int64{n, d}
		}
		if less(high, [2]int64{n, d}) {
			high = [2]int64{n, d}
		}
	}
	if low[1] == 0 {
		return new(big.Rat), true
	}
	return new(big.Rat).Sub(big.NewRat(high[0], high[1]), big.NewRat(low[0], low[1])), true
}

// less compares two fractions of positive denominators exactly.
func less(a, b [2]int64) bool {
	return noise.Product(uint64(a[0]), uint64(b[1])).Less(noise.Product(uint64(b[0]), uint64(a[1])))
}

// releases returns points of the lattice around a set: at and beyond the vertices of K from every place, where differences are greatest,
// near every place, and drawn ones.
func (s *latticeSet) releases(tb testing.TB, r *rand.Rand, m *lattice) []convex.Lattice {
	tb.Helper()
	n := int64(s.parts)
	base := s.at(s.cells[r.IntN(len(s.cells))])
	var z []convex.Lattice
	for _, v := range s.hull.exact {
		z = append(z, base.Add(convex.Lattice{X: 3 * n * v.X, Y: 3 * n * v.Y}))
	}
	for range 3 {
		z = append(z, m.steps(tb, m.Sample(r, s.cells[0])))
		if s.hull.body.Dim() == 2 {
			z = append(z, base.Add(convex.Lattice{X: r.Int64N(41) - 20, Y: r.Int64N(41) - 20}))
		}
	}
	return append(z, base)
}

// checkExact checks the definition for one set in whole numbers: P(z|x) is e^{-(ε/n)·n‖z-x‖_K}/Z, so a ratio is at most e^ε where the
// gauges of z - x1 and z - x2 differ by n at most. For all z at once that is ‖x1 - x2‖_K ≤ 1 for all pairs, by the triangle
// inequality; and for some z it is looked at itself. The places are the surrogates of all cells of the map where
// they are few, which are all members of the set. It returns the greatest difference over n.
func checkExact(tb testing.TB, r *rand.Rand, s *latticeSet, k []convex.Lattice) (*big.Rat, bool) {
	tb.Helper()
	m := newLattice(tb, s.parts)
	m.Prepare(s.hull, s.epsilon)
	var places []convex.Lattice
	if s.grid.Cells() <= 1000 {
		var search locationset.Surrogates
		search.Reset(s.grid, s.cells)
		for _, member := range search.All(nil, testcase.AllCells(s.grid)) {
			places = append(places, s.at(s.cells[member]))
		}
	} else {
		for _, c := range s.cells {
			places = append(places, s.at(c))
		}
	}
	one := big.NewRat(1, 1)
	for i, a := range s.cells {
		for _, b := range s.cells[:i] {
			if n, d := exactGauge(k, s.at(a).Sub(s.at(b))); d == 0 || n > d*int64(s.parts) {
				return one, false
			}
		}
	}
	worst := new(big.Rat)
	for _, z := range s.releases(tb, r, m) {
		difference, together := worstDifference(k, z, places)
		if !together {
			return one, false
		}
		if difference.Quo(difference, big.NewRat(int64(s.parts), 1)); difference.Cmp(worst) > 0 {
			worst = difference
		}
	}
	return worst, worst.Cmp(one) <= 0
}

// TestLatticeIsPrivateExactly is the definition of ε-differential privacy on ΔX, and through the surrogates on all cells, compared in
// whole numbers for 10,000 sets: no tolerance.
func TestLatticeIsPrivateExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(81, 1))
	reached, dims := 0, [3]int{}
	for i := range 10_000 {
		s := randomSet(t, r, i)
		dims[s.hull.body.Dim()]++
		worst, ok := checkExact(t, r, s, s.hull.exact)
		if !ok {
			t.Fatalf("case %d, cells %v on %d×%d: exponents differ by %v·ε", i, s.cells, s.grid.Width(), s.grid.Height(), worst)
		}
		if worst.Cmp(big.NewRat(1, 1)) == 0 {
			reached++
		}
	}
	if reached < 5000 || dims[0] < 300 || dims[1] < 500 || dims[2] < 5000 {
		t.Errorf("ε is reached exactly in %d cases only, of the dimensions %v", reached, dims)
	}
}

// TestExactPrivacyTestNoticesFaults plants smaller hulls: half of K, K without one difference, and K of a set that lacks a vertex.
func TestExactPrivacyTestNoticesFaults(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(82, 1))
	noticed := map[string]int{}
	cases := 0
	for i := range 400 {
		s := randomSet(t, r, i)
		if s.hull.body.Dim() < 2 {
			continue
		}
		cases++
		shrunk := func(by int64) []convex.Lattice { // K·by/16, with everything else 16 times as large
			k := make([]convex.Lattice, len(s.hull.exact))
			for j, v := range s.hull.exact {
				k[j] = convex.Lattice{X: by * v.X, Y: by * v.Y}
			}
			return k
		}
		for name, k := range map[string][]convex.Lattice{"half K": shrunk(8), "15/16 of K": shrunk(15), "K itself": shrunk(16)} {
			ok := true
			for a := range s.cells {
				for b := range a {
					d := s.at(s.cells[a]).Sub(s.at(s.cells[b]))
					n, den := exactGauge(k, convex.Lattice{X: 16 * d.X, Y: 16 * d.Y})
					ok = ok && n <= den*int64(s.parts)
				}
			}
			if !ok {
				noticed[name]++
			}
		}
		var without SensitivityHull
		corner := s.hull.hull[0]
		var rest []grid.Cell
		for _, c := range s.cells {
			if int64(s.grid.Column(c)) != corner.X || int64(s.grid.Row(c)) != corner.Y {
				rest = append(rest, c)
			}
		}
		without.OfCells(s.grid, rest)
		if _, ok := checkExact(t, r, s, without.exact); !ok {
			noticed["a vertex less"]++
		}
	}
	if cases < 150 || noticed["K itself"] != 0 || noticed["half K"] != cases || noticed["15/16 of K"] != cases || noticed["a vertex less"] != cases {
		t.Errorf("noticed of %d cases: %v", cases, noticed)
	}
}

func TestLatticeIsPrivateOnGoldenCases(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(83, 1))
	cases := 0
	for _, c := range goldenCases(t) {
		if c.Grid == nil {
			continue
		}
		cases++
		g := prepareGolden(t, c)
		for _, parts := range []int{1, 7, DefaultSubdivision} {
			s := &latticeSet{grid: g.grid, cells: g.set.Cells, hull: &g.hull, epsilon: c.Eps, parts: parts}
			if worst, ok := checkExact(t, r, s, s.hull.exact); !ok {
				t.Errorf("%s: exponents differ by %v·ε", c.Name, worst)
			}
		}
	}
	if cases < 25 {
		t.Errorf("only %d golden cases have a grid", cases)
	}
}

// TestLatticeExponent takes the sampler apart: for every proposal, the exponent of proposing it and that of keeping it are together
// exactly ε‖λ‖_K/n, with the gauge by its definition. So what is kept has the law, given exact draws.
func TestLatticeExponent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(84, 1))
	for i := range 3000 {
		s := randomSet(t, r, i)
		if s.hull.body.Dim() == 0 {
			continue
		}
		m := newLattice(t, s.parts)
		m.Prepare(s.hull, s.epsilon)
		p, q, err := exactEpsilon(s.epsilon)
		if err != nil {
			t.Fatal(err)
		}
		rate := new(big.Rat).SetFrac(new(big.Int).SetUint64(p), new(big.Int).SetUint64(q*uint64(s.parts)))
		for range 10 {
			a, b := r.Int64N(2000)-1000, r.Int64N(2000)-1000
			shift, exponent := convex.Lattice{X: a * m.step.X, Y: a * m.step.Y}, proposing(m, 0, a)
			if s.hull.body.Dim() == 2 {
				shift = convex.Lattice{X: a*m.base[0].X + b*m.base[1].X, Y: a*m.base[0].Y + b*m.base[1].Y}
				exponent.Add(exponent, proposing(m, 1, b))
				exponent.Add(exponent, keeping(m, a, b))
			}
			n, d := exactGauge(s.hull.exact, shift)
			want := new(big.Rat).Mul(rate, big.NewRat(n, d))
			if exponent.Cmp(want) != 0 {
				t.Fatalf("case %d, (%d, %d): the exponent %v, want %v", i, a, b, exponent, want)
			}
		}
	}
}

func proposing(m *lattice, i int, k int64) *big.Rat {
	scale := new(big.Rat).SetFrac(new(big.Int).SetUint64(m.scale[i][1]), new(big.Int).SetUint64(m.scale[i][0]))
	return scale.Mul(scale, big.NewRat(max(k, -k), 1))
}

// keeping is the exponent of keeping a proposal, as try computes it.
func keeping(m *lattice, a, b int64) *big.Rat {
	norm, support := m.gauge(a, b)
	proposed := absolute(a)*m.width[1] + absolute(b)*m.width[0]
	excess := noise.Product(norm, m.most).Minus(noise.Product(proposed, support)).Times(m.num)
	return new(big.Rat).SetFrac(excess.Big(), noise.Product(m.most, support).Times(m.den).Big())
}

// TestLatticeReleasesShareOneLattice: the releases of two cells lie on the same numbers, bit for bit, so no bit tells them apart by itself.
// A sum in kilometres, which rounds in another way for each cell, is caught.
func TestLatticeReleasesShareOneLattice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(85, 1))
	off, total := 0, 0
	for i := range 400 {
		s := randomSet(t, r, i)
		m := newLattice(t, s.parts)
		m.Prepare(s.hull, s.epsilon)
		pitch := s.hull.scale / float64(s.parts)
		for range 10 {
			x := s.cells[r.IntN(len(s.cells))]
			z := m.Sample(r, x)
			shift := m.steps(t, z).Sub(s.at(x))
			centre := s.grid.Centre(x)
			naive := grid.Point{X: centre.X + float64(shift.X)*pitch, Y: centre.Y + float64(shift.Y)*pitch}
			total++
			if naive != z {
				off++
			}
			if m.place(m.hull.site(x), convex.Lattice{}) != centre {
				t.Fatalf("cell %d without noise is not at its centre", x)
			}
		}
	}
	if off < total/10 {
		t.Errorf("sums in kilometres leave the lattice in %d of %d cases only: the test shows nothing", off, total)
	}
}

// TestLatticeIgnoresThePlace: from one stream every cell takes the same draws, and as many words; only the place they are added to differs.
func TestLatticeIgnoresThePlace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(86, 1))
	for i := range 400 {
		s := randomSet(t, r, i)
		m := newLattice(t, s.parts)
		m.Prepare(s.hull, s.epsilon)
		a, b := rand.NewPCG(uint64(i), 2), rand.NewPCG(uint64(i), 2)
		x, y := s.cells[0], s.cells[len(s.cells)-1]
		for range 10 {
			v, w := m.steps(t, m.Sample(a, x)).Sub(s.at(x)), m.steps(t, m.Sample(b, y)).Sub(s.at(y))
			if v != w {
				t.Fatalf("case %d: two places have the displacements %v and %v", i, v, w)
			}
		}
		if a.Uint64() != b.Uint64() {
			t.Fatalf("case %d: two places take another number of words", i)
		}
	}
}
