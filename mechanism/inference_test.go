package mechanism

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestStoreIsUpdatePruneAndRound compares the three passes with the operations they stand for.
func TestStoreIsUpdatePruneAndRound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(63, 1))
	var got mobility.Distribution
	for i := range 2000 {
		cells := 1 + r.IntN(300)
		if i%40 == 0 { // more than pruning takes at the threshold alone
			cells += 2 * mobility.PruneCells
		}
		prior := testcase.Prior(r, cells)
		likelihood := make([]float64, prior.Len())
		for j := range likelihood {
			likelihood[j] = math.Exp(-10 * r.Float64())
			if i%5 == 0 && i%40 != 0 && r.IntN(2) == 0 {
				likelihood[j] = 0
			}
		}
		if i%50 == 0 {
			clear(likelihood)
		}
		prune := []float64{-1, 1e-7, 1e-4}[i%3]
		var want mobility.Distribution
		mobility.Update(&want, prior, likelihood)
		if prune > 0 {
			want.Prune(prune)
		}
		want.Round()
		if i%7 == 0 {
			likelihood = nil
			want.CopyFrom(prior)
			if prune > 0 {
				want.Prune(prune)
			}
			want.Round()
		}
		store(&got, prior, likelihood, prune)
		if got.Len() != want.Len() {
			t.Fatalf("case %d: %d cells, want %d", i, got.Len(), want.Len())
		}
		for j, p := range got.P {
			// Other roundings on the way may end at the neighbouring float32.
			if got.Cells[j] != want.Cells[j] || math.Abs(p-want.P[j]) > 1.3e-7*p ||
				float64(float32(p)) != p || !(p > 0) {
				t.Fatalf("case %d: cell %d has %g, want %g", i, got.Cells[j], p, want.P[j])
			}
		}
	}
}

// TestStoreShortIsUpdateAndShort compares it with Bayes' rule: every mass is one of the two short
// ones beside it, or 0, the least one or twice that, and never is nothing left.
func TestStoreShortIsUpdateAndShort(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(64, 1))
	var got, exact mobility.Distribution
	for i := range 2000 {
		prior := testcase.Prior(r, 1+r.IntN(3000))
		likelihood := make([]float64, prior.Len())
		for j := range likelihood {
			likelihood[j] = math.Exp(-10 * r.Float64())
		}
		if i%50 == 0 {
			clear(likelihood)
		}
		mobility.Update(&exact, prior, likelihood)
		if i%7 == 0 {
			likelihood = nil
			exact.CopyFrom(prior)
			exact.Normalize()
		}
		storeShort(&got, prior, likelihood, int64(i))
		if got.Len() == 0 {
			t.Fatalf("case %d: nothing is left", i)
		}
		for j, p := range exact.P {
			const unit = 1 + 1./8 + 1e-9 // from one short mass to the next, and other roundings
			q := got.At(exact.Cells[j])
			if fine := q >= p/unit && q <= p*unit; !fine && (p >= LeastMass*(1+1e-9) ||
				q != 0 && q != LeastMass && q != 2*LeastMass) {
				t.Fatalf("case %d: cell %d has %g, want %g", i, exact.Cells[j], q, p)
			}
		}
	}
}

// TestStoreShortBoundsAFlatDistribution: of a flat prior of a million cells as many are kept as the
// least mass has room for, give or take five standard deviations, and their mean stays.
func TestStoreShortBoundsAFlatDistribution(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	d, middle := mobility.Distribution{}, 0.0
	for i := range n {
		d.Cells, d.P = append(d.Cells, grid.Cell(i)), append(d.P, 1.0/n)
	}
	var got mobility.Distribution
	storeShort(&got, &d, nil, 0)
	for _, c := range got.Cells {
		middle += float64(c) / float64(got.Len())
	}
	room := 1 / LeastMass
	if math.Abs(float64(got.Len())-room) > 5*math.Sqrt(room) ||
		math.Abs(middle-n/2) > 5*n/math.Sqrt(12*room) {
		t.Errorf("%d cells are left, around %g", got.Len(), middle)
	}
}

// TestStoreKeepsAFlatDistribution has more cells than the threshold allows for: none may be
// dropped.
func TestStoreKeepsAFlatDistribution(t *testing.T) {
	t.Parallel()
	const n = 20000
	d := mobility.Distribution{}
	for i := range n {
		d.Cells, d.P = append(d.Cells, grid.Cell(i)), append(d.P, 1.0/n)
	}
	var got mobility.Distribution
	if store(&got, &d, nil, MaxPrune); got.Len() != n {
		t.Errorf("%d of %d cells are left", got.Len(), n)
	}
}

// TestShortMassesFlow: where a user leaves a cell once in a thousand steps, rounding step after
// step lets that mass flow as an exact filter does, and the radii of users who move so hold. The
// same chance in each step would leave nearly all mass where it is. Without rounding 97 % of the
// radii hold, of 40 users by 4,000 steps.
func TestShortMassesFlow(t *testing.T) {
	t.Parallel()
	const leave, side, users = 1e-3, 31, 40
	m := weightedModel(t, side, side, 1, .34, func(_, _, dx, dy int) float64 {
		switch {
		case dx == 0 && dy == 0:
			return 1 - leave
		case dx == 0 || dy == 0:
			return leave / 4
		}
		return 0
	})
	stays := map[string]float64{}
	for _, name := range []string{law.Codebook, law.Lattice} {
		s, state := newSanitizer(t, m, Options{Mechanism: name, Epsilon: 2}), State{}
		for step := range int64(700) {
			mustStep(t, s, &state, Input{User: "u", Step: step, Cell: 3})
		}
		stays[name] = state.Posterior.At(m.Initial.Cells[0]) / state.Posterior.Total()
	}
	if math.Abs(stays[law.Codebook]-stays[law.Lattice]) > .1 {
		t.Errorf("after 700 steps %v stay", stays)
	}
	s := newSanitizer(t, m, Options{Epsilon: 10, ReleaseInterval: 2000})
	random := rand.New(rand.NewPCG(5, 6))
	held, n := 0, 0
	for user := range users {
		var state State
		at := [2]int{side / 2, side / 2}
		for step := range int64(4000) {
			if random.Float64() < leave {
				axis := random.IntN(2)
				at[axis] = min(max(at[axis]+2*random.IntN(2)-1, 0), side-1)
			}
			cell := grid.Cell(at[1]*side + at[0])
			mustStep(t, s, &state, Input{
				User: strconv.Itoa(user), Step: step, Cell: cell, Release: true,
			})
			if n++; state.Estimate.Distance(m.Grid.Centre(cell)) <= state.RadiusKM {
				held++
			}
		}
	}
	if share := float64(held) / float64(n); share < .93 {
		t.Errorf("radii of 95 %% hold %.3f", share)
	}
}
