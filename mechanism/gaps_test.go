package mechanism

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// gapModel is roadModel with a law of gaps of up to 32 steps.
func gapModel(tb testing.TB) *mobility.Model {
	tb.Helper()
	m := roadModel(tb)
	var stay, some [len(mobility.GapMoves)]float64
	stay[0], some[0], some[2], some[4] = .5, .25, .25, .125
	m.Gaps = mobility.GapLaw{
		{Moves: stay, Chain: .5},
		{Moves: stay, Chain: .25, Anew: .25},
		{Chain: .75, Anew: .25},
		{Moves: some, Chain: .125, Anew: .25},
		{Moves: some, Chain: .25, Anew: .125},
	}
	return m
}

// TestPriorAfterAGap: the prior is the mixture that the law says, within the law, and the initial
// distribution beyond. It is that of the chain where reports may leave no record.
func TestPriorAfterAGap(t *testing.T) {
	t.Parallel()
	m := gapModel(t)
	initial := func() *mobility.Distribution {
		d := new(mobility.Distribution)
		d.CopyFrom(&m.Initial)
		return d
	}
	for _, c := range []struct {
		name         string
		o            Options
		byLaw, byOld []int64
		anew         []int64
	}{
		{"plain", Options{MaxGap: 4}, []int64{2, 3, 4, 5, 32}, []int64{1}, []int64{33, 1 << 40}},
		{"budget, estimates", Options{
			MaxGap: 4, Budget: Budget{Lifetime: 9, Spent: SpentPredict},
		}, []int64{2, 32}, []int64{1}, []int64{33}},
		{
			"budget, silence",
			Options{MaxGap: 4, Budget: Budget{Lifetime: 9, Spent: SpentSuppress}},
			nil,
			[]int64{1, 2, 4},
			[]int64{5, 32},
		},
		{
			"interval, silence",
			Options{MaxGap: 4, ReleaseInterval: 2, Between: BetweenSkip},
			nil,
			[]int64{1, 2, 4},
			[]int64{5, 32},
		},
	} {
		for _, mechanism := range []string{law.Lattice, law.Codebook} {
			o := c.o
			o.Mechanism, o.Epsilon, o.Delta, o.Prune = mechanism, 2, .05, -1
			s := newSanitizer(t, m, o)
			predictor := mobility.NewPredictor(m)
			type distribution = mobility.Distribution
			check := func(gap int64, want func(from *distribution) *distribution) {
				var state State
				mustStep(t, s, &state, Input{User: "u", Step: 7, Cell: 500, Release: true})
				wanted := want(&state.Posterior)
				wanted.Normalize()
				out := mustStep(t, s, &state, Input{User: "u", Step: 7 + gap, Prior: true})
				if !slices.Equal(out.Prior.Cells, wanted.Cells) {
					t.Fatalf("%s, %s, gap %d: other cells", mechanism, c.name, gap)
				}
				for i, p := range out.Prior.P {
					if d := p - wanted.P[i]; d > 1e-7 || d < -1e-7 {
						t.Fatalf("%s, %s, gap %d: %v, want %v", mechanism, c.name, gap, p,
							wanted.P[i])
					}
				}
			}
			for _, gap := range c.byLaw {
				check(gap, func(from *mobility.Distribution) *mobility.Distribution {
					d := new(mobility.Distribution)
					if !predictor.PredictGap(d, from, 7, uint64(gap), 0) {
						t.Fatalf("no law for a gap of %d", gap)
					}
					return d
				})
			}
			for _, gap := range c.byOld {
				check(gap, func(from *mobility.Distribution) *mobility.Distribution {
					d := new(mobility.Distribution)
					predictor.Predict(d, from, 7, int(gap))
					return d
				})
			}
			for _, gap := range c.anew {
				check(gap, func(*mobility.Distribution) *mobility.Distribution { return initial() })
			}
		}
	}
}

// TestLawOfTheChain: a law that says what the chain says gives the chain's releases.
func TestLawOfTheChain(t *testing.T) {
	t.Parallel()
	plain, lawful := roadModel(t), roadModel(t)
	lawful.Gaps = slices.Repeat(mobility.GapLaw{{Chain: 1}}, 6)
	o := Options{Mechanism: law.Codebook, Epsilon: 2, MaxGap: 64}
	for gap := int64(1); gap <= 64; gap++ {
		var priors []mobility.Distribution
		for _, m := range []*mobility.Model{plain, lawful} {
			s, state := newSanitizer(t, m, o), new(State)
			mustStep(t, s, state, Input{User: "u", Step: 7, Cell: 500})
			out := mustStep(t, s, state, Input{User: "u", Step: 7 + gap, Cell: 500, Prior: true})
			priors = append(priors, *out.Prior)
		}
		if !slices.Equal(priors[0].Cells, priors[1].Cells) {
			t.Fatalf("gap %d: other cells", gap)
		}
		for i, p := range priors[0].P {
			if math.Abs(p-priors[1].P[i]) > 1e-9 {
				t.Errorf("gap %d: a cell has %g and %g", gap, p, priors[1].P[i])
			}
		}
	}
}

// TestMigrateIntoALaw: a state of a model without a law goes on under one with a law, which then
// bridges its gap, for an observer too.
func TestMigrateIntoALaw(t *testing.T) {
	t.Parallel()
	before, after := roadModel(t), gapModel(t)
	o := Options{Mechanism: law.Codebook, Epsilon: 2, MaxGap: 4}
	old, next, observer := newSanitizer(t, before, o), newSanitizer(t, after, o),
		newSanitizer(t, after, o)
	var state, seen State
	mustStep(t, old, &state, Input{User: "u", Step: 7, Cell: 500, Release: true})
	seen.CopyFrom(&state)
	for _, s := range []struct {
		sanitizer *Sanitizer
		state     *State
	}{{next, &state}, {observer, &seen}} {
		if got := s.sanitizer.Migrate(s.state); got != PosteriorKept {
			t.Fatalf("migration: %v", got)
		}
	}
	out := mustStep(t, next, &state, Input{User: "u", Step: 27, Cell: 510, Release: true})
	if err := observer.Observe(&seen,
		Seen{Step: 27, Kind: out.Kind, Release: out.Release, Carried: true}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(state.AppendBinary(nil), seen.AppendBinary(nil)) {
		t.Error("the observer's state differs")
	}
}

// TestGapsDoNotAllocate: a step after a gap takes no memory.
func TestGapsDoNotAllocate(t *testing.T) {
	m := gapModel(t)
	s := newSanitizer(t, m, Options{Mechanism: law.Codebook, Epsilon: 2})
	path := walk(m, 3, 400)
	var state State
	step := int64(0)
	next := func() {
		step += 1 + step%32
		mustStep(t, s, &state, Input{User: "u", Step: step, Cell: path[step%400], Release: true})
	}
	const steps = 150
	for range steps {
		next()
	}
	// The same steps again: the keys of their days are there, and all memory has grown.
	state, step = State{Posterior: state.Posterior}, 0
	if n := testing.AllocsPerRun(steps-1, next); n != 0 {
		t.Errorf("a step after a gap allocates %v times", n)
	}
}
