package mobility

import (
	"fmt"
	"math"
	"math/bits"
)

// GapMoves are how many times a user may have moved in a gap, ascending, where it was less often
// than in every step. Powers of two are enough: a mixture of two of them is close to what lies
// between. The last one bounds the cost of a gap.
var GapMoves = [...]int{0, 1, 2, 4, 8, 16, 32, 64}

// GapLaw says where a user is after a gap: two or more steps from one fix to the next. Devices are
// often silent because nobody moves, or they are carried elsewhere while they are silent. So a gap
// of g steps is not always g moves of the chain. It may be fewer moves, or a start from the initial
// distribution:
//
//	prior(g) = Σ_k Moves[k]·posterior·M^GapMoves[k] + Chain·posterior·M^g + Anew·initial
//
// The weights depend on g by powers of two: those of index i are for 2^i < g ≤ 2^(i+1), and know
// at most 2^i moves beside the chain. Chain is 0 for gaps of more than 64 steps. A gap beyond the
// last weights starts at the initial distribution. A nil law is that of the chain alone.
type GapLaw []GapWeights

// GapWeights are the weights of a mixture. They sum to 1.
type GapWeights struct {
	Moves [len(GapMoves)]float64 `json:"moves"` // of each of GapMoves
	Chain float64                `json:"chain"` // of a move in each step
	Anew  float64                `json:"anew"`  // of the initial distribution
}

// longestChain is the longest gap for which Chain may be positive.
const longestChain = 64

// MaxGapWeights is the largest length of a law, for gaps of up to 2^20 steps.
const MaxGapWeights = 20

// GapIndex returns the index of the weights that a gap of two or more steps has, in any law that is
// long enough.
func GapIndex(gap uint64) int { return bits.Len64(gap-1) - 1 }

// Longest returns the longest gap that the law knows, in steps.
func (l GapLaw) Longest() uint64 { return 1 << len(l) }

// Validate returns an error unless all weights are distributions.
func (l GapLaw) Validate() error {
	if len(l) > MaxGapWeights {
		return fmt.Errorf("mobility: %d sets of weights for gaps are more than %d", len(l),
			MaxGapWeights)
	}
	for i := range l {
		total := 0.0
		for part, w := range l[i].all() {
			if !(w >= 0) || w > 0 && !GapPart(i, part) { // NaN too
				return fmt.Errorf("mobility: a weight for gaps of up to %d steps is negative or "+
					"of more moves", uint64(2)<<i)
			}
			total += w
		}
		if !(math.Abs(total-1) <= rowTolerance) {
			return fmt.Errorf("mobility: the weights for gaps of up to %d steps sum to %v",
				uint64(2)<<i, total)
		}
	}
	return nil
}

// GapParts is the number of weights of a mixture: those of GapMoves, then Chain, then Anew.
const GapParts = len(GapMoves) + 2

// Places of the last weights of a mixture.
const (
	GapChain = GapParts - 2
	GapAnew  = GapParts - 1
)

// GapPart says whether the weights of an index may have a positive one at a place.
func GapPart(index, part int) bool {
	switch part {
	case GapChain:
		return 2<<index <= longestChain
	case GapAnew:
		return true
	}
	return GapMoves[part] <= 1<<index
}

// all returns the weights in one row.
func (w *GapWeights) all() (row [GapParts]float64) {
	copy(row[:], w.Moves[:])
	row[GapChain], row[GapAnew] = w.Chain, w.Anew
	return row
}

// GapWeightsOf returns the weights of a row of Moves, Chain and Anew.
func GapWeightsOf(row [GapParts]float64) (w GapWeights) {
	copy(w.Moves[:], row[:])
	w.Chain, w.Anew = row[GapChain], row[GapAnew]
	return w
}

// hash adds the law to a model's hash. A model without a law has the id that it had before there
// were any.
func (l GapLaw) hash(w *hashWriter) {
	if l == nil {
		return
	}
	w.text("gaps 1")
	w.number(uint64(len(l)))
	for i := range l {
		for _, v := range l[i].all() {
			w.number(math.Float64bits(v))
		}
	}
}

// PredictGap sets dst to the distribution after a gap, by the model's law of gaps: from is that of
// step at, which lies gap steps back. It returns false and leaves dst as it is where the law says
// nothing: without a law, for a gap of fewer than two steps, and for one beyond the law. The moves
// are those of the steps that follow at. Each prediction, and their mixture, is pruned at the
// threshold. dst must not be from.
//
// Cost: that of up to 64 predictions, as many as the largest number of moves that has a weight,
// however long the gap is. It does not allocate once dst and p have grown.
func (p *Predictor) PredictGap(
	dst, from *Distribution, at int64, gap uint64, threshold float64,
) bool {
	if gap < 2 || gap > p.model.Gaps.Longest() || len(p.model.Gaps) == 0 {
		return false
	}
	w := &p.model.Gaps[GapIndex(gap)]
	dst.Reset()
	done := 0
	add := func(moves int, weight float64) {
		if weight == 0 {
			return
		}
		p.PredictPruned(&p.moved, from, at+int64(done), moves-done, threshold)
		addInto(dst, &p.moved, weight)
		from, done = &p.moved, moves
	}
	for i, moves := range GapMoves {
		add(moves, w.Moves[i])
	}
	add(int(min(gap, longestChain)), w.Chain)
	if w.Anew > 0 {
		addInto(dst, &p.model.Initial, w.Anew)
	}
	dst.Prune(threshold)
	return true
}

// Sample draws what a gap of two or more steps, within the law, was: so many moves of the chain, or
// a start from the initial distribution. It takes one number from src.
func (l GapLaw) Sample(src Source, gap uint64) (moves int64, restarts bool) {
	w := &l[GapIndex(gap)]
	u := uniform01(src)
	for i, p := range w.Moves {
		if u -= p; u < 0 {
			return int64(GapMoves[i]), false
		}
	}
	return int64(gap), u >= w.Chain
}
