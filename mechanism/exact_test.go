package mechanism

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// checkExact checks the definition of ε-differential privacy in whole numbers, over all pairs of
// the map's cells.
func checkExact(
	tb testing.TB, r *rand.Rand, s *testcase.ExactSet, h *law.SensitivityHull,
) (*big.Rat, bool) {
	tb.Helper()
	m, err := law.New(law.Options{Name: law.Lattice, Subdivision: s.Parts})
	if err != nil {
		tb.Fatal(err)
	}
	m.Prepare(h, s.Epsilon)
	var search law.Surrogates
	search.Reset(s.Grid, s.Cells)
	var emitting []grid.Cell
	for _, member := range search.All(nil, testcase.AllCells(s.Grid)) {
		emitting = append(emitting, s.Cells[member])
	}
	return s.Check(tb, r, m, s.Hull(), emitting)
}

func TestLatticeIsPrivateOnGoldenCases(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(83, 1))
	cases := 0
	for _, c := range testcase.Golden(t, goldenFolder) {
		if c.Grid == nil {
			continue
		}
		cases++
		g := prepareGolden(t, c)
		for _, parts := range []int{1, 7, law.DefaultSubdivision} {
			s := testcase.ExactSet{Grid: g.grid, Cells: g.set.Cells, Epsilon: c.Eps, Parts: parts}
			if worst, ok := checkExact(t, r, &s, &g.hull); !ok {
				t.Errorf("%s: exponents differ by %v·ε", c.Name, worst)
			}
		}
	}
	if cases < 25 {
		t.Errorf("only %d golden cases have a grid", cases)
	}
}
