package law

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

// The functions below bound E[s^W] for the number W of words that an exact draw takes, for a fixed
// s > 1. PROOFS.md (theorem 8) has the derivation; the names and the order are the same. A bound
// on E[s^W; an outcome] is called the outcome's weight.

// belowMoment is for Below, whose word is drawn again with the probability again at most.
func belowMoment(s, again float64) float64 {
	if again*s >= 1 {
		return math.Inf(1)
	}
	return s * (1 - again) / (1 - again*s)
}

// wideMoment is for BelowWide: two words a turn, at most half of which are in vain, or Below.
func wideMoment(s float64) float64 { return max(belowMoment(s*s, .5), belowMoment(s, .5)) }

// expMoment returns the weights of both outcomes of BernoulliExp for γ < 1. A word below den has
// the moment g; stay(k) and stop(k) are the means of γ^(k-1) and of γ^(k-1)·(1-γ).
func expMoment(s, g float64, stay, stop func(k int) float64) (yes, no float64) {
	if g > 8 {
		return math.Inf(1), math.Inf(1) // what is left after 60 turns might count
	}
	weight := 1.0 // of turn k, without its power of γ
	for k := 1; k <= 60; k++ {
		n := float64(k)
		word := s * (1 + 0x1p-40) // Below(k) draws again with a probability below k/2⁶⁴
		if k == 1 {
			word = 1 // Bernoulli(1/1) needs none
		}
		ends := weight * word * ((1-1/n)*stay(k) + g/n*stop(k))
		if k%2 == 1 {
			yes += ends
		} else {
			no += ends
		}
		weight *= word * g / n
	}
	return yes + 1e-12, no + 1e-12 // what is left after 60 turns is less
}

// overMoment returns the weights of both outcomes of bernoulliOverE.
func overMoment(s float64) (yes, no float64) {
	weight := 1.0
	for k := 2; k <= 60; k++ {
		weight *= s * (1 + 0x1p-40)
		ends := weight * (1 - 1/float64(k))
		if k%2 == 1 {
			yes += ends
		} else {
			no += ends
		}
		weight /= float64(k)
	}
	return yes + 1e-12, no + 1e-12
}

func one(int) float64 { return 1 }

// uniformStay and uniformStop bound the means over γ = 0, 1/num … (num-1)/num. (1 - γ has the
// mean ½ + 1/(2·num); for k = 2 and 3 the sums are (num² - 1)/(6·num²) and (num² -
// 1)/(12·num²).)
func uniformStay(k int) float64 { return 1 / float64(k) }

func uniformStop(num float64) func(k int) float64 {
	return func(k int) float64 {
		switch k {
		case 1:
			return .5 + .5/num
		case 2:
			return 1. / 6
		case 3:
			return 1. / 12
		}
		return 1 / float64(k)
	}
}

// laplaceMoment bounds E[s^W] of DiscreteLaplace for numerators whose words are drawn again with
// the probability again at most, and for scales of at least steps, where a zero needs u < den and v
// = 0. For steps 0 it is for all scales: every result may be zero, and half of them start over.
func laplaceMoment(s, again, steps float64) float64 {
	g := belowMoment(s, again)
	turn, end := overMoment(s)
	if turn >= 1 || math.IsInf(g, 1) {
		return math.Inf(1)
	}
	loop := end / (1 - turn)
	total := func(yes, over float64) float64 {
		if over >= 1 {
			return math.Inf(1)
		}
		return g * yes * loop * s / (1 - over)
	}
	if steps > 0 {
		yes, no := expMoment(s, g, uniformStay, uniformStop(steps)) // num ≥ steps·den
		most, _ := expMoment(s, g, one, one)
		return total(yes, g*(no+.5/steps*most*end*s))
	}
	worst := 0.0
	for num := 1; num <= 64; num++ { // small numerators one by one, all others by the bounds
		stay, stop := uniformStay, uniformStop(64)
		if num < 64 {
			stay = func(k int) float64 { return powerMeans[num][k-1] }
			stop = func(k int) float64 { return powerMeans[num][k-1] - powerMeans[num][k] }
		}
		yes, no := expMoment(s, g, stay, stop)
		worst = max(worst, total(yes, g*(no+.5*yes*loop*s)))
	}
	return worst
}

// powerMeans holds the means of γ^k over γ = 0, 1/num … (num-1)/num.
var powerMeans = func() (means [64][61]float64) {
	for num := 1; num < 64; num++ {
		for u := range num {
			power := 1 / float64(num)
			for k := range means[num] {
				means[num][k] += power
				power *= float64(u) / float64(num)
			}
		}
	}
	return means
}()

// keepMoment bounds E[s^W] of BernoulliExpWide for every rate: some turns of bernoulliOverE, and
// the part below 1, whose moment grows with γ.
func keepMoment(s float64) float64 {
	zero := func(int) float64 { return 0 }
	yes, no := expMoment(s, wideMoment(s), one, zero) // γ = 1
	turn, end := overMoment(s)
	if turn >= 1 {
		return math.Inf(1)
	}
	return max(yes+no, end/(1-turn)+turn*(yes+no))
}

// excess bounds, by Markov's inequality for s^W, the probability that the kept proposal takes more
// than a block of words. A ninth of all proposals or more are kept (theorem 3).
func excess(block, again, steps float64, line bool) float64 {
	best := 1.0
	for s := 1.002; s < 1.41; s += .002 {
		moment := laplaceMoment(s, again, steps)
		if math.IsInf(moment, 1) {
			break
		}
		if !line {
			moment *= 9 * moment * keepMoment(s)
		}
		best = min(best, moment*math.Pow(s, -block-1))
	}
	return best
}

// TestBlocksHoldProposals computes the bound that PROOFS.md states for both blocks: 2⁻⁶⁴ for
// each kept proposal. Blocks of an eighth less do not have it.
func TestBlocksHoldProposals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ block, again, steps float64 }{
		"usual":   {usualBlock, usualNumerator / 0x1p64, usualSteps},
		"largest": {largestBlock, .5, 0},
	} {
		for _, line := range []bool{false, true} {
			if p := excess(c.block, c.again, c.steps, line); p > 0x1p-64 {
				t.Errorf("%s, line %t: more than a block with probability %g", name, line, p)
			}
		}
		if p := excess(c.block*7/8, c.again, c.steps, false); p <= 0x1p-64 {
			t.Errorf("%s: the block is larger than it has to be: %g for 7/8 of it", name, p)
		}
	}
}

func TestWordBlock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scales [][2]uint64
		want   uint64
	}{
		{[][2]uint64{{16, 1}}, usualBlock},
		{[][2]uint64{{15, 1}}, largestBlock},
		{[][2]uint64{{1<<56 - 1, 1 << 52}}, largestBlock},
		{[][2]uint64{{1 << 56, 1 << 52}}, usualBlock},
		{[][2]uint64{{1<<56 + 1, 1}}, largestBlock},
		{[][2]uint64{{1, 1 << 63}}, largestBlock},
		{[][2]uint64{{1000, 7}, {15, 1}}, largestBlock},
		{[][2]uint64{{15, 1}, {1000, 7}}, largestBlock},
		{[][2]uint64{{1000, 7}, {1000, 3}}, usualBlock},
	} {
		if got := wordBlock(c.scales...); got != c.want {
			t.Errorf("%v: a block of %d words, want %d", c.scales, got, c.want)
		}
	}
}

// TestWordMoments compares the bounds with draws, for scales at the edges of both blocks: a bound
// below the mean of s^W would be wrong, and one far above it would belong to another sampler. At
// these s the mean of 200,000 draws is within a few percent of its expectation.
func TestWordMoments(t *testing.T) {
	t.Parallel()
	small, large := testcase.Grid(t, 40, 40, 1), testcase.Grid(t, 999, 999, 1)
	for name, c := range map[string]struct {
		hull    *SensitivityHull
		epsilon float64
		parts   int
		s       float64
		again   float64
		steps   float64
		slack   float64
	}{
		"usual, least scale": {
			hullOf(small, 0, 1), 1, 16, 1.06, 0x1p-8, 16, 1.3,
		},
		"usual, large scale": {
			hullOf(small, 0, 30), .1, 256, 1.06, 0x1p-8, 1e9, 1.3,
		},
		"usual, polygon": {
			hullOf(small, 0, 5, 81, 300), 1, 256, 1.05, 0x1p-20, 1e3, 12,
		},
		"usual, wide": {
			hullOf(large, 0, 5, 998*999, 998*999+700), .123456789, 256, 1.05, 0x1p-8, 1e3, 12,
		},
		"zeros": {
			hullOf(small, 0, 1), 30, 1, 1.03, 0x1p-8, 0, 3.5,
		},
		"zeros, large numerator": {
			hullOf(small, 0, 1), 29.123456789, 1, 1.03, 0x1p-8, 0, 3.5,
		},
	} {
		m := newLattice(t, c.parts)
		m.Prepare(c.hull, c.epsilon)
		src := &countedSource{Source: rand.NewPCG(87, uint64(c.parts))}
		const n = 200_000
		mean := 0.0
		for range n {
			src.words = 0
			m.propose(src, convex.Lattice{})
			mean += math.Pow(c.s, float64(src.words)) / n
		}
		bound := laplaceMoment(c.s, c.again, c.steps)
		if c.hull.body.Dim() == 2 {
			bound *= bound * keepMoment(c.s)
		}
		if mean > bound*1.02 || mean < bound/c.slack {
			t.Errorf("%s: the mean of %g^W is %.3f, the bound %.3f", name, c.s, mean, bound)
		}
	}
}

// TestKeptProposalsTakeOneBlock counts the words of 150,000 draws: those of the rejected
// proposals, rounded up, and one block. It finds the rejected ones by making the proposals again.
func TestKeptProposalsTakeOneBlock(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(88, 1))
	for i := range 600 {
		s := randomSet(t, r, i)
		m := newLattice(t, s.Parts)
		m.Prepare(s.hull, s.Epsilon)
		a := &countedSource{Source: rand.NewPCG(uint64(i), 5)}
		for range 250 {
			a.words = 0
			again := &countedSource{Source: rand.NewPCG(r.Uint64(), r.Uint64())}
			a.Source = again.Source
			state := *again.Source.(*rand.PCG)
			x := s.Cells[r.IntN(len(s.Cells))]
			z := m.Sample(a, x)
			if len(s.Cells) == 1 {
				if a.words != 0 {
					t.Fatalf("case %d: a single place takes %d words", i, a.words)
				}
				continue
			}
			again.Source = &state
			rejected := 0
			kept, ok := m.propose(again, m.hull.site(x))
			for ; !ok; kept, ok = m.propose(again, m.hull.site(x)) {
				rejected = again.words
			}
			if want := (rejected+31)/32*32 + int(m.block); a.words != want || z != kept {
				t.Fatalf("case %d: %d words, want %d; release %v, want %v", i, a.words, want, z,
					kept)
			}
		}
	}
}
