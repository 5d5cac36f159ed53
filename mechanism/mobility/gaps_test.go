package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// gapModel has a law of gaps of up to 256 steps, and two classes.
func gapModel(t testing.TB) *Model {
	t.Helper()
	m := neighbourModel(t, 12, 9, 1, false, 3)
	m.Calendar = Calendar{Weekend: true}
	m.Matrices = append(m.Matrices, neighbourModel(t, 12, 9, 1, true, 4).Matrices[0])
	m.Gaps = GapLaw{
		{Moves: moves(.25, .25), Chain: .5},
		{Moves: moves(.5, 0, .125), Chain: .25, Anew: .125},
		{Chain: 1},
		{Anew: 1},
		{Moves: moves(0, 0, 0, 0, 0, 1)},
		{Moves: moves(.5), Chain: .5},
		{Moves: moves(.125, 0, 0, .125, 0, .125, 0, .125), Anew: .5},
		{Moves: moves(0, 0, 0, 0, 0, 0, 0, 1)},
	}
	return m
}

func moves(weights ...float64) (row [len(GapMoves)]float64) {
	copy(row[:], weights)
	return row
}

func TestGapIndex(t *testing.T) {
	for gap, want := range map[uint64]int{
		2: 0, 3: 1, 4: 1, 5: 2, 8: 2, 9: 3, 64: 5, 65: 6, 1 << 20: 19,
	} {
		if got := GapIndex(gap); got != want {
			t.Errorf("gap %d has index %d, want %d", gap, got, want)
		}
	}
	if got := gapModel(t).Gaps.Longest(); got != 256 {
		t.Errorf("a law of eight sets of weights covers %d steps", got)
	}
}

// TestPredictGap compares with the mixture over every cell as the definition writes it.
func TestPredictGap(t *testing.T) {
	m := gapModel(t)
	cells, random := m.Grid.Cells(), rand.New(rand.NewPCG(2, 7))
	p := NewPredictor(m)
	const friday = 60*24 - 20 // steps of a minute: the classes change within the gap
	for _, gap := range []uint64{2, 3, 4, 7, 12, 20, 33, 64, 65, 128, 129, 256} {
		from := scattered(random, cells)
		w := m.Gaps[GapIndex(gap)]
		want := make([]float64, cells)
		add := func(d []float64, weight float64) {
			for c := range want {
				want[c] += weight * d[c]
			}
		}
		at := dense(from, cells)
		for done := range int(gap) + 1 {
			if i := slices.Index(GapMoves[:], done); i >= 0 {
				add(at, w.Moves[i])
			}
			if done == int(gap) {
				add(at, w.Chain)
			}
			at = densePredict(m, friday+int64(done), at)
		}
		add(dense(&m.Initial, cells), w.Anew)
		var got Distribution
		if !p.PredictGap(&got, from, friday, gap, 0) {
			t.Fatalf("the law says nothing of a gap of %d", gap)
		}
		checkClose(t, &got, want)
		checkClean(t, p)
	}
}

// TestGapSample: what is drawn has the law's weights, those of the chain as moves in each step.
func TestGapSample(t *testing.T) {
	law := GapLaw{{}, {}, {}}
	law[2].Moves[2], law[2].Chain, law[2].Anew = .5, .2, .3
	const draws, gap = 20_000, 7
	counts, starts := map[int64]int{}, 0
	rng := rand.New(rand.NewPCG(1, 2))
	for range draws {
		if moves, restarts := law.Sample(rng, gap); restarts {
			starts++
		} else {
			counts[moves]++
		}
	}
	for name, c := range map[string][2]float64{
		"two moves": {float64(counts[2]), .5}, "the chain": {float64(counts[gap]), .2},
		"a start": {float64(starts), .3},
	} {
		if share := c[0] / draws; math.Abs(share-c[1]) > .015 {
			t.Errorf("%s: %.3f of the draws, want %g", name, share, c[1])
		}
	}
}

func TestPredictGapLeavesTheRestToTheChain(t *testing.T) {
	m := gapModel(t)
	var got Distribution
	for _, gap := range []uint64{0, 1, 257, 1 << 40} {
		if NewPredictor(m).PredictGap(&got, &m.Initial, 0, gap, 0) || got.Len() > 0 {
			t.Errorf("the law says something of a gap of %d", gap)
		}
	}
	m.Gaps = nil
	if NewPredictor(m).PredictGap(&got, &m.Initial, 0, 2, 0) {
		t.Error("a model without a law has one")
	}
}

func TestGapLawValidate(t *testing.T) {
	for says, law := range map[string]GapLaw{
		"":               gapModel(t).Gaps,
		"sum to 0.5":     {{Chain: .5}},
		"negative":       {{Chain: 1.5, Anew: -.5}},
		"of more moves":  {{Moves: moves(0, 0, 1)}},
		"21 sets":        make(GapLaw, 21),
		"of up to 128 s": slices.Repeat(GapLaw{{Chain: 1}}, 7),
	} {
		m := gapModel(t)
		m.Gaps = law
		err := m.Validate()
		if says == "" && err != nil ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v: error %v, want one that says %q", law, err, says)
		}
	}
}

// TestGapsAreInTheID changes each part of a law.
func TestGapsAreInTheID(t *testing.T) {
	seen := map[string]bool{}
	for _, change := range []func(m *Model){
		func(*Model) {},
		func(m *Model) { m.Gaps = nil },
		func(m *Model) { m.Gaps = m.Gaps[:7] },
		func(m *Model) { m.Gaps[1].Moves[0], m.Gaps[1].Moves[2] = .125, .5 },
		func(m *Model) { m.Gaps[1].Chain, m.Gaps[1].Anew = .125, .25 },
	} {
		m := gapModel(t)
		change(m)
		if id := m.ID(); seen[id] {
			t.Errorf("two laws have one id")
		} else {
			seen[id] = true
		}
	}
}
