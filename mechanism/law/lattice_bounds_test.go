package law

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestLatticeFarDraws sends every draw the way of those that outgrow words: from the same stream
// they come to the same place, and to the same next word.
func TestLatticeFarDraws(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(73, 1))
	for i := range 300 {
		s := randomSet(t, r, i)
		near, beyond := newLattice(t, s.Parts), newLattice(t, s.Parts)
		near.Prepare(s.hull, s.Epsilon)
		beyond.Prepare(s.hull, s.Epsilon)
		if s.hull.body.Dim() > 0 && (near.limit[0] < 1000*near.scale[0][0]/near.scale[0][1] ||
			s.hull.body.Dim() == 2 && near.limit[1] < 1000*near.scale[1][0]/near.scale[1][1]) {
			t.Fatalf("case %d: the limits %v are within 1000 scales %v", i, near.limit, near.scale)
		}
		beyond.limit = [2]uint64{}
		a, b := rand.NewPCG(uint64(i), 1), rand.NewPCG(uint64(i), 1)
		for range 20 {
			x := s.Cells[r.IntN(len(s.Cells))]
			if v, w := near.Sample(a, x), beyond.Sample(b, x); v != w {
				t.Fatalf("case %d: %v in words, %v in numbers of any size", i, v, w)
			}
		}
		if a.Uint64() != b.Uint64() {
			t.Fatalf("case %d: another number of words", i)
		}
	}
}

// script is a source that begins with given words.
type script struct {
	words []uint64
	then  noise.Source
}

func (s *script) Uint64() uint64 {
	if len(s.words) == 0 {
		return s.then.Uint64()
	}
	first := s.words[0]
	s.words = s.words[1:]
	return first
}

// TestLatticeBeyondWords writes the words of a draw 40,000 scales away, which chance never gives:
// it comes to the place that the numbers say. u is 0; each turn of the geometric loop takes a 0
// below 2 and a 1 below 3, its end a 1 below 2; then the sign, and b = 0. On a diamond every
// proposal is kept.
func TestLatticeBeyondWords(t *testing.T) {
	t.Parallel()
	const turns = 40_000
	words := []uint64{1}
	for range turns {
		words = append(words, 1, 1<<63)
	}
	words = append(words, 1<<63, 0, 1, 1<<63, 0)
	g := testcase.Grid(t, 1001, 1001, .34)
	for name, h := range map[string]*SensitivityHull{
		"line":    hullOf(g, 0, 1000),
		"diamond": hullOf(g, 500, 500*1001, 501*1001-1, 1001*1000+500),
	} {
		m := newLattice(t, MaxSubdivision)
		m.Prepare(h, 1e-6)
		if size, _ := noise.DiscreteLaplace(&script{words, nil}, m.scale[0][0],
			m.scale[0][1]); size.Hi == 0 && size.Lo <= m.limit[0] {
			t.Fatalf("%s: the draw is within the limit", name)
		}
		// what follows only fills the last block
		z := m.Sample(&script{words, rand.NewPCG(1, 1)}, 0)
		got, want := max(math.Abs(z.X), math.Abs(z.Y)), turns*1000/1e-6*.34
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: the draw ends at %v, want %g km from the corner", name, z, want)
		}
	}
}

// TestLatticeBounds asks for what no set may reach: the coarse bound of a sanitizer covers every
// set of its grid.
func TestLatticeBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height int
		epsilon       float64
		parts         int
		ok            bool
	}{
		{1000, 1000, 1, DefaultSubdivision, true},
		{1000, 1000, 1e-6, DefaultSubdivision, true},
		{1000, 1000, .123456789, DefaultSubdivision, true},
		{1000, 1000, 699.999999999, 4096, true},
		{1000, 1000, 1.5, MaxSubdivision, true},
		{4000, 4000, .123456789, DefaultSubdivision, true},
		{46340, 46340, 1.25, DefaultSubdivision, true},
		{46340, 46340, .123456789, DefaultSubdivision, false},
		{1 << 30, 1, 1, DefaultSubdivision, true},
		{1, 1 << 20, .001, MaxSubdivision, true},
	} {
		g := testcase.Grid(t, c.width, c.height, 1e-5)
		err := Options{Name: Lattice, Subdivision: c.parts}.CheckGrid(c.epsilon, g)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		last := grid.Cell(g.Cells() - 1)
		column := grid.Cell(c.width - 1)
		for _, cells := range [][]grid.Cell{
			{0, last},
			{0, column, last},
			{0, last - column, last},
			{0, column, last - column, last},
			{0, min(column, 1), last},
		} {
			set := cells[:0:0]
			for _, cell := range cells {
				if len(set) == 0 || cell > set[len(set)-1] {
					set = append(set, cell)
				}
			}
			m := newLattice(t, c.parts)
			m.Prepare(hullOf(g, set...), c.epsilon) // panics if a scale does not fit
			for i := range 50 {
				z := m.Sample(rand.NewPCG(uint64(i), 9), last)
				if math.IsNaN(z.X+z.Y) || math.IsInf(z.X+z.Y, 0) {
					t.Fatalf("%+v: a release at %v", c, z)
				}
			}
		}
	}
}
