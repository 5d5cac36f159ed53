package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// denseBack is the oracle: M·f as it is written, over every cell.
func denseBack(m *Model, step int64, f []float64) []float64 {
	before := make([]float64, len(f))
	var row Distribution
	for from := range before {
		m.Row(&row, m.ClassAt(step), grid.Cell(from))
		for j, to := range row.Cells {
			before[from] += row.P[j] * f[to]
		}
	}
	return before
}

func TestBackEqualsDense(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	for _, m := range []*Model{
		neighbourModel(t, 1, 1, 2, false, 1),
		neighbourModel(t, 70, 5, 2, false, 3),
		jumpModel(t, 30, 30, 5),
		gapModel(t),
		structuredModel(t, 24, 36, 5, 3), structuredModel(t, 3, 2, 5, 2),
	} {
		cells := m.Grid.Cells()
		p := NewBackward(m)
		var got []float64
		for k := range 6 {
			from, f := scattered(random, cells), scattered(random, cells)
			const at = 60*24 - 2 // steps of a minute: the class changes
			want := dense(f, cells)
			for i := k - 1; i >= 0; i-- {
				want = denseBack(m, at+int64(i), want)
			}
			got = p.Back(got, from, at, k, 0, f)
			checkBack(t, got, from, want)
			checkClean(t, p.predictor)
		}
	}
}

// checkBack wants what is expected to be as dense, up to rounding.
func checkBack(t *testing.T, got []float64, from *Distribution, want []float64) {
	t.Helper()
	if len(got) != from.Len() {
		t.Fatalf("%d values of %d cells", len(got), from.Len())
	}
	for i, c := range from.Cells {
		if math.Abs(got[i]-want[c]) > 1e-14 {
			t.Fatalf("cell %d: %v, want %v", c, got[i], want[c])
		}
	}
}

// TestBackGap: what is expected after a gap has the law's weights, and ⟨p·T, f⟩ = ⟨p, T·f⟩ where T
// is the prediction over the gap. With a threshold that keeps nearly everything it nearly holds.
func TestBackGap(t *testing.T) {
	m := gapModel(t)
	cells, random := m.Grid.Cells(), rand.New(rand.NewPCG(2, 8))
	p, forward := NewBackward(m), NewPredictor(m)
	const friday = 60*24 - 20 // the classes change within the gap
	for _, gap := range []uint64{2, 3, 4, 7, 12, 20, 33, 64, 65, 128, 129, 256} {
		from, f := scattered(random, cells), scattered(random, cells)
		w, want := m.Gaps[GapIndex(gap)], make([]float64, cells)
		for k := range int(min(gap, longestChain)) + 1 {
			weight := 0.0
			if i := slices.Index(GapMoves[:], k); i >= 0 {
				weight += w.Moves[i]
			}
			if k == int(gap) {
				weight += w.Chain
			}
			later := dense(f, cells)
			for i := k - 1; i >= 0; i-- {
				later = denseBack(m, friday+int64(i), later)
			}
			for c := range want {
				want[c] += weight * later[c]
			}
		}
		for c := range want {
			want[c] += w.Anew * expectation(f, &m.Initial)
		}
		got, ok := p.BackGap(nil, from, friday, gap, 0, f)
		if !ok {
			t.Fatalf("the law says nothing of a gap of %d", gap)
		}
		checkBack(t, got, from, want)
		checkClean(t, p.predictor)

		for _, threshold := range []float64{0, 1e-9} {
			var later Distribution
			forward.PredictGap(&later, from, friday, gap, threshold)
			got, _ = p.BackGap(got, from, friday, gap, threshold, f)
			back := Distribution{Cells: from.Cells, P: got}
			a, b := expectation(f, &later), expectation(&back, from)
			if math.Abs(a-b) > 1e-13+1e5*threshold*a {
				t.Errorf("gap %d, threshold %g: %v forward, %v back", gap, threshold, a, b)
			}
		}
	}
	for _, gap := range []uint64{0, 1, 257} {
		if _, ok := p.BackGap(nil, &m.Initial, 0, gap, 0, &m.Initial); ok {
			t.Errorf("the law says something of a gap of %d", gap)
		}
	}
}
