package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// silences returns the fixes of users who drive along a row of the map, a cell in each step, and
// stop reporting now and then. After most of these gaps they go on where they were, or anywhere.
func silences(g *grid.Grid, users int, steps []int64, stay float64) (all []Fix) {
	random := rand.New(rand.NewPCG(3, 9))
	for u := range users {
		x, y, step := 0, random.IntN(g.Height()), int64(u)*1_000_000 // no two report the same
		for trip := range 24 {
			for range 10 {
				x = (x + 1) % g.Width()
				all = append(all, fixesAt(g, fmt.Sprint("user", u), []int64{step * 60},
					[]grid.Cell{grid.Cell(y*g.Width() + x)})...)
				step++
			}
			step += steps[trip%len(steps)] - 1
			if random.Float64() >= stay {
				x, y = random.IntN(g.Width()), random.IntN(g.Height())
			}
			x = (x + g.Width() - 1) % g.Width() // the next fix is one further
		}
	}
	return all
}

// TestLearnGaps finds the shares with which gaps were made.
func TestLearnGaps(t *testing.T) {
	g := plainGrid(t, 14, 14)
	for _, stay := range []float64{.25, .75} {
		m, _ := finished(t, trainer(t, g, Options{UserCap: 1000},
			silences(g, 30, []int64{2, 7, 500}, stay)))
		for _, gap := range []uint64{2, 7, 500} {
			w := m.Gaps[mobility.GapIndex(gap)]
			// A user who appears anywhere may appear nearby too.
			if w.Moves[0] < stay-.15 || w.Moves[0] > stay+.15 || w.Anew+w.Chain < 1-stay-.15 {
				t.Errorf("of gaps of %d steps, %v of which end where they began: %+v", gap, stay, w)
			}
		}
		if w := m.Gaps[mobility.GapIndex(20)]; w.Chain != 1 {
			t.Errorf("gaps that nobody has: %+v", w)
		}
		if got := m.Gaps.Longest(); got != 512 {
			t.Errorf("gaps of up to 500 steps give a law of up to %d", got)
		}
	}
}

// TestLearnGapsOfNothing: without gaps that tell anything there is no law, so the model is what it
// was before there were laws.
func TestLearnGapsOfNothing(t *testing.T) {
	g := plainGrid(t, 14, 14)
	for name, c := range map[string]struct {
		o     Options
		fixes []Fix
	}{
		"no gap":        {Options{}, silences(g, 5, []int64{1}, 1)},
		"gaps of weeks": {Options{}, silences(g, 5, []int64{5000}, 1)},
		"few gaps":      {Options{}, silences(g, 3, []int64{2}, 1)},
		"left out":      {Options{NoGapLaw: true}, silences(g, 5, []int64{2}, 1)},
		"check-ins":     {Options{EveryFix: true}, silences(g, 5, []int64{2}, 1)},
	} {
		if m, _ := finished(t, trainer(t, g, c.o, c.fixes)); m.Gaps != nil {
			t.Errorf("%s: %+v", name, m.Gaps)
		}
	}
}

// TestGapsAreCapped: a user with many gaps does not speak for the others.
func TestGapsAreCapped(t *testing.T) {
	g := plainGrid(t, 14, 14)
	share := func(limit int) float64 {
		fixes := silences(g, 30, []int64{500}, 0)
		for _, f := range silences(g, 1, slices.Repeat([]int64{500}, 24), 1) {
			for day := range int64(40) {
				f.User, f.TimeMS = "homebody", f.TimeMS+day*60_000*20_000
				fixes = append(fixes, f)
			}
		}
		m, _ := finished(t, trainer(t, g, Options{UserCap: limit}, fixes))
		return m.Gaps[mobility.GapIndex(500)].Moves[0]
	}
	if all, few := share(100_000), share(10); all < .4 || few > .2 {
		t.Errorf("weight of no move: %v of all gaps, %v with a cap", all, few)
	}
}

// TestFittedClimbs: the weights maximize what they are said to.
func TestFittedClimbs(t *testing.T) {
	g := plainGrid(t, 14, 14)
	tr := trainer(t, g, Options{}, silences(g, 10, []int64{6, 8, 5}, .5))
	m, _ := finished(t, tr)
	gaps, err := likely(m, gapsOf(m, tr.Tracks(nil), 12, 30), &parallel.Progress{})
	if err != nil || len(gaps) == 0 {
		t.Fatalf("%d gaps, error %v", len(gaps), err)
	}
	const index = 2
	goal := func(w [mobility.GapParts]float64) float64 {
		sum := gapPseudo * math.Log(w[mobility.GapChain])
		for _, g := range gaps {
			p := 0.0
			for part, l := range g.likelihoods {
				p += w[part] * l
			}
			sum += g.weight * math.Log(p)
		}
		return sum
	}
	row, _ := fitted(index, 64, gaps)
	for part := range row {
		if !mobility.GapPart(index, part) {
			continue
		}
		other := row
		other[part] += .05
		normalize(&other)
		if got := goal(other); got > goal(row)+1e-2 {
			t.Errorf("more of part %d: %v is above %v", part, got, goal(row))
		}
	}
}

// TestFewMoves: a set has no more moves than make its gaps likelier by what predictions are worth.
func TestFewMoves(t *testing.T) {
	const index = 2 // of gaps of 5 to 8 steps, of which GapMoves[:4] and the chain may be
	gaps := make([]gap, 200)
	for i := range gaps {
		gaps[i] = gap{index: index, weight: 1, steps: 8}
		gaps[i].likelihoods = [mobility.GapParts]float64{.01, .2, .25, .2505}
	}
	w := weigh(index, gaps)
	if w.Moves[2] < .95 || w.Moves[3] > 0 || w.Chain > 0 {
		t.Errorf("two moves are nearly as likely as four: %+v", w)
	}
	for i := range gaps {
		gaps[i].likelihoods[3] = .25 * math.Exp(20*gapWorth)
	}
	if w := weigh(index, gaps); w.Moves[3] < .9 {
		t.Errorf("four moves are likelier: %+v", w)
	}
}
