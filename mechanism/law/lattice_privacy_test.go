package law

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/noise"
)

// latticeSet is a set with its hull.
type latticeSet struct {
	testcase.ExactSet
	hull *SensitivityHull
}

// randomSet returns the i-th set of a kind that goes round.
func randomSet(tb testing.TB, r *rand.Rand, i int) *latticeSet {
	tb.Helper()
	s := testcase.RandomExactSet(tb, r, i)
	return &latticeSet{s, hullOf(s.Grid, s.Cells...)}
}

// checkSet checks the definition of ε-differential privacy for one set, with the gauges of a hull
// k, over all cells of the map where they are few.
func checkSet(tb testing.TB, r *rand.Rand, s *latticeSet, k []convex.Lattice) (*big.Rat, bool) {
	tb.Helper()
	m := newLattice(tb, s.Parts)
	m.Prepare(s.hull, s.Epsilon)
	emitting := s.Cells
	if s.Grid.Cells() <= 1000 {
		var search Surrogates
		search.Reset(s.Grid, s.Cells)
		emitting = nil
		for _, member := range search.All(nil, testcase.AllCells(s.Grid)) {
			emitting = append(emitting, s.Cells[member])
		}
	}
	return s.Check(tb, r, m, k, emitting)
}

// TestLatticeIsPrivateExactly is the definition of ε-differential privacy on ΔX, and through the
// surrogates on all cells, compared in whole numbers for 10,000 sets: no tolerance.
func TestLatticeIsPrivateExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(81, 1))
	reached, dims := 0, [3]int{}
	for i := range 10_000 {
		s := randomSet(t, r, i)
		dims[s.hull.body.Dim()]++
		worst, ok := checkSet(t, r, s, s.hull.exact)
		if !ok {
			t.Fatalf("case %d, cells %v on %d×%d: exponents differ by %v·ε", i, s.Cells,
				s.Grid.Width(), s.Grid.Height(), worst)
		}
		if worst.Cmp(big.NewRat(1, 1)) == 0 {
			reached++
		}
	}
	if reached < 5000 || dims[0] < 300 || dims[1] < 500 || dims[2] < 5000 {
		t.Errorf("ε is reached exactly in %d cases only, of the dimensions %v", reached, dims)
	}
}

// TestExactPrivacyTestNoticesFaults plants smaller hulls: half of K, K without one difference, and
// K of a set that lacks a vertex.
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
		// K·by/16, with everything else 16 times as large
		shrunk := func(by int64) []convex.Lattice {
			k := make([]convex.Lattice, len(s.hull.exact))
			for j, v := range s.hull.exact {
				k[j] = convex.Lattice{X: by * v.X, Y: by * v.Y}
			}
			return k
		}
		for name, k := range map[string][]convex.Lattice{
			"half K":     shrunk(8),
			"15/16 of K": shrunk(15), "K itself": shrunk(16),
		} {
			ok := true
			for a := range s.Cells {
				for b := range a {
					d := s.At(s.Cells[a]).Sub(s.At(s.Cells[b]))
					n, den := testcase.ExactGauge(k, convex.Lattice{X: 16 * d.X, Y: 16 * d.Y})
					ok = ok && n <= den*int64(s.Parts)
				}
			}
			if !ok {
				noticed[name]++
			}
		}
		var without SensitivityHull
		corner := s.hull.hull[0]
		var rest []grid.Cell
		for _, c := range s.Cells {
			if int64(s.Grid.Column(c)) != corner.X || int64(s.Grid.Row(c)) != corner.Y {
				rest = append(rest, c)
			}
		}
		without.OfCells(s.Grid, rest)
		if _, ok := checkSet(t, r, s, without.exact); !ok {
			noticed["a vertex less"]++
		}
	}
	if cases < 150 || noticed["K itself"] != 0 || noticed["half K"] != cases ||
		noticed["15/16 of K"] != cases || noticed["a vertex less"] != cases {
		t.Errorf("noticed of %d cases: %v", cases, noticed)
	}
}

// TestLatticeExponent takes the sampler apart: for every proposal, the exponent of proposing it and
// that of keeping it are together exactly ε‖λ‖_K/n, with the gauge by its definition. So what
// is kept has the law, given exact draws.
func TestLatticeExponent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(84, 1))
	for i := range 3000 {
		s := randomSet(t, r, i)
		if s.hull.body.Dim() == 0 {
			continue
		}
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		p, q, err := exactEpsilon(s.Epsilon)
		if err != nil {
			t.Fatal(err)
		}
		rate := new(big.Rat).SetFrac(new(big.Int).SetUint64(p),
			new(big.Int).SetUint64(q*uint64(s.Parts)))
		for range 10 {
			a, b := r.Int64N(2000)-1000, r.Int64N(2000)-1000
			shift, exponent := convex.Lattice{X: a * m.step.X, Y: a * m.step.Y}, proposing(m, 0, a)
			if s.hull.body.Dim() == 2 {
				shift = convex.Lattice{
					X: a*m.base[0].X + b*m.base[1].X,
					Y: a*m.base[0].Y + b*m.base[1].Y,
				}
				exponent.Add(exponent, proposing(m, 1, b))
				exponent.Add(exponent, keeping(m, a, b))
			}
			n, d := testcase.ExactGauge(s.hull.exact, shift)
			want := new(big.Rat).Mul(rate, big.NewRat(n, d))
			if exponent.Cmp(want) != 0 {
				t.Fatalf("case %d, (%d, %d): the exponent %v, want %v", i, a, b, exponent, want)
			}
		}
	}
}

func proposing(m *lattice, i int, k int64) *big.Rat {
	scale := new(big.Rat).SetFrac(new(big.Int).SetUint64(m.scale[i][1]),
		new(big.Int).SetUint64(m.scale[i][0]))
	return scale.Mul(scale, big.NewRat(max(k, -k), 1))
}

// keeping is the exponent of keeping a proposal, as try computes it.
func keeping(m *lattice, a, b int64) *big.Rat {
	norm, support := m.gauge(a, b)
	proposed := absolute(a)*m.width[1] + absolute(b)*m.width[0]
	excess := noise.Product(norm, m.most).Minus(noise.Product(proposed, support)).Times(m.num)
	return new(big.Rat).SetFrac(excess.Big(), noise.Product(m.most, support).Times(m.den).Big())
}

// TestLatticeReleasesShareOneLattice: the releases of two cells lie on the same numbers, bit for
// bit, so no bit tells them apart by itself. A sum in kilometres, which rounds in another way for
// each cell, is caught.
func TestLatticeReleasesShareOneLattice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(85, 1))
	off, total := 0, 0
	for i := range 400 {
		s := randomSet(t, r, i)
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		pitch := s.hull.scale / float64(s.Parts)
		for range 10 {
			x := s.Cells[r.IntN(len(s.Cells))]
			z := m.Sample(r, x)
			shift := m.steps(t, z).Sub(s.At(x))
			centre := s.Grid.Centre(x)
			naive := grid.Point{
				X: centre.X + float64(shift.X)*pitch,
				Y: centre.Y + float64(shift.Y)*pitch,
			}
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
		t.Errorf("sums in kilometres leave the lattice in %d of %d cases only: the test shows "+
			"nothing", off, total)
	}
}

// TestLatticeIgnoresThePlace: from one stream every cell takes the same draws, and as many words;
// only the place they are added to differs.
func TestLatticeIgnoresThePlace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(86, 1))
	for i := range 400 {
		s := randomSet(t, r, i)
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		a, b := rand.NewPCG(uint64(i), 2), rand.NewPCG(uint64(i), 2)
		x, y := s.Cells[0], s.Cells[len(s.Cells)-1]
		for range 10 {
			v, w := m.steps(t, m.Sample(a, x)).Sub(s.At(x)), m.steps(t, m.Sample(b, y)).Sub(s.At(y))
			if v != w {
				t.Fatalf("case %d: two places have the displacements %v and %v", i, v, w)
			}
		}
		if a.Uint64() != b.Uint64() {
			t.Fatalf("case %d: two places take another number of words", i)
		}
	}
}
