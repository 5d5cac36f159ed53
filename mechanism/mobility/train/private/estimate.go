package private

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// estimate is what is known of a level once its noise has been reduced.
type estimate struct {
	level
	// moves is the expected number of moves of each block.
	moves []float64
	// heights is the height of each block's kernel at one offset of each ring, at block·rings +
	// ring. Over all offsets the heights add up to 1.
	heights []float64
}

func (l level) newEstimate() *estimate {
	n := l.blocks() * len(l.rings)
	return &estimate{level: l, moves: make([]float64, l.blocks()), heights: make([]float64, n)}
}

// count returns the number of the users' moves for every block and ring, at block·rings + ring.
func (l level) count(tallies []tally) []int64 {
	counts := make([]int64, l.blocks()*len(l.rings))
	for _, t := range tallies {
		ring, _ := l.ringOf(train.Displacement(l.grid, t.from, t.to))
		counts[l.block(t.class, t.from)*len(l.rings)+ring] += t.n
	}
	return counts
}

// first estimates the first level, the whole map. The counts that it expects are a curve with two
// parameters (see [level.curve]), fitted to the noisy counts. After that the weight of a move may
// not grow with its length (see package train).
func (l level) first(counts []float64, s scale) *estimate {
	e := l.newEstimate()
	pairs := make([]float64, len(l.rings))
	l.pairs(pairs, 0)
	total := 0.0
	for _, n := range counts {
		total += n
	}
	total = max(total, s.value())
	shrink(counts, counts, l.curve(counts, pairs, total, s), func(int) int { return 0 }, 1, s.law())
	classes := make([]train.Ring, len(l.rings))
	area := float64(l.grid.Cells())
	for i, r := range l.rings {
		classes[i] = train.Ring{
			Cells: r.Cells,
			Mass:  float64(r.Cells) / float64(len(l.offsets)),
		}
		if pairs[i] > 0 { // as if there were no edges
			classes[i].Mass += float64(float64(counts[i]*area) / pairs[i] * float64(r.Cells))
		}
	}
	sum := 0.0
	heights := train.Monotone(classes)
	for i, height := range heights {
		e.moves[0] += float64(height / area * pairs[i])
		sum += float64(height * float64(l.rings[i].Cells))
	}
	for i, height := range heights {
		e.heights[i] = height / sum
	}
	return e
}

// curve returns the expected counts of the rings under the most probable of many curves. In a curve
// a pair of cells at the distance d > 0 has the weight exp(-decay·d), and the pair of a cell with
// itself exp(stay). On real traces with cells of 340 m and steps of a minute, stay is near 0. So
// the share of moves that stay, which is known best, determines the others well.
//
// The most probable curve has the smallest sum of three terms: the distances to the counts in units
// of the noise's scale (minus the logarithm of the likelihood), |stay|/0.3, and |ln decay|.
func (l level) curve(counts, pairs []float64, total float64, s scale) []float64 {
	best, least := make([]float64, len(counts)), math.Inf(1)
	weights, tried := make([]float64, len(counts)), make([]float64, len(counts))
	for decay := 0.1; decay < 8; decay *= 1.05 {
		longer := 0.0 // weight of all moves that do not stay
		for i, squared := range l.squared[1:] {
			distance := math.Sqrt(float64(squared))
			weights[1+i] = float64(pairs[1+i] * math.Exp(-float64(decay*distance)))
			longer += weights[1+i]
		}
		for stay := -20; stay <= 20; stay++ {
			weights[0] = float64(pairs[0] * math.Exp(float64(stay)/10))
			misfit := math.Abs(float64(stay))/3 + math.Abs(math.Log(decay))
			for i, w := range weights {
				tried[i] = w * total / (weights[0] + longer)
				misfit += math.Abs(counts[i]-tried[i]) / s.value()
			}
			if misfit < least {
				least = misfit
				copy(best, tried)
			}
		}
	}
	return best
}

// next estimates a level from its noisy counts and the estimate of the coarser level: first how
// many moves leave each block, then how they spread over the rings.
func (l level) next(coarser *estimate, counts []float64, s scale, backoff float64) *estimate {
	e := l.newEstimate()
	rings := len(l.rings)
	pairs := make([]float64, len(counts))
	for b := range l.blocks() {
		l.pairs(pairs[b*rings:(b+1)*rings], b)
	}
	expected, number, precision := make([]float64, len(counts)), make([]float64, l.blocks()), 0.0
	for b := range l.blocks() {
		above := coarser.heights[l.parent(coarser.level, b)*rings:][:rings]
		weights := expected[b*rings : (b+1)*rings]
		l.shape(weights, above, pairs[b*rings:(b+1)*rings])
		n, squares := numberOf(weights, counts[b*rings:(b+1)*rings])
		number[b] = n
		precision += squares / float64(l.blocks())
	}
	e.moves = l.numbers(coarser, number, s.law().over(precision))
	for i := range expected {
		expected[i] *= e.moves[i/rings]
	}
	shrink(counts, counts, expected, func(i int) int { return i % rings }, rings, s.law())
	for b := range l.blocks() {
		above := coarser.heights[l.parent(coarser.level, b)*rings:][:rings]
		e.settle(b, counts[b*rings:(b+1)*rings], pairs[b*rings:(b+1)*rings], above, backoff)
	}
	return e
}

// shape sets weights to the distribution of the moves of a block over the rings under a kernel, for
// moves that stay on the map.
func (l level) shape(weights, heights, pairs []float64) {
	sum := 0.0
	for i, h := range heights {
		weights[i] = float64(h * pairs[i])
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
}

// numberOf estimates the number of moves of a block from its noisy counts. The moves are expected
// to spread over the counts by the weights w. The estimate is Σ w·count / Σ w², and its noise
// has 1/precision times the variance of a single count's, with precision = Σ w².
func numberOf(weights, counts []float64) (number, precision float64) {
	for i, w := range weights {
		number += float64(w * counts[i])
		precision += float64(w * w)
	}
	return number / precision, precision
}

// numbers estimates the number of moves of each block of a level. noisy are the numbers that
// [numberOf] returned, with noise of the law.
func (l level) numbers(coarser *estimate, noisy []float64, noise law) []float64 {
	expected, area := make([]float64, len(noisy)), make([]float64, coarser.blocks())
	for b := range noisy {
		area[l.parent(coarser.level, b)] += l.area(b)
	}
	for b := range noisy {
		above := l.parent(coarser.level, b)
		expected[b] = float64(coarser.moves[above]*l.area(b)) / area[above]
	}
	estimated := make([]float64, len(noisy))
	shrink(estimated, noisy, expected, func(int) int { return 0 }, 1, noise)

	// The number of the coarser level is known better than the sum of its parts, which has more
	// noise.
	sums := make([]float64, coarser.blocks())
	for b, n := range estimated {
		sums[l.parent(coarser.level, b)] += n
	}
	for b := range estimated {
		above := l.parent(coarser.level, b)
		if sums[above] > 0 {
			estimated[b] *= coarser.moves[above] / sums[above]
		} else {
			estimated[b] = expected[b]
		}
	}
	return estimated
}

// settle turns the estimated moves of a block into a kernel, as if the map had no edges, and backs
// it off to the kernel of the coarser level.
func (e *estimate) settle(block int, moves, pairs, above []float64, backoff float64) {
	heights := e.heights[block*len(e.rings) : (block+1)*len(e.rings)]
	weight, sum := 0.0, 0.0
	for i, r := range e.rings {
		if pairs[i] > 0 {
			heights[i] = moves[i] / pairs[i]
		}
		weight += moves[i]
		sum += float64(heights[i] * float64(r.Cells))
	}
	for i := range heights {
		if sum > 0 {
			own := float64(weight*heights[i]) / sum
			heights[i] = (own + float64(backoff*above[i])) / (weight + backoff)
		} else {
			heights[i] = above[i]
		}
	}
}

// moved returns the popularity of cells, moved on by the kernel of the first level.
func (e *estimate) moved(popularity []train.Pair) *mobility.Distribution {
	p := make([]float64, e.grid.Cells())
	for _, seen := range popularity {
		total := 0.0
		for i, o := range e.offsets {
			if _, ok := e.reached(seen.From, o); ok {
				total += e.heights[e.ring[i]]
			}
		}
		for i, o := range e.offsets {
			if to, ok := e.reached(seen.From, o); ok {
				p[to] += float64(seen.Weight * e.heights[e.ring[i]] / total)
			}
		}
	}
	d := new(mobility.Distribution)
	for c, v := range p {
		if v > 0 {
			d.Cells, d.P = append(d.Cells, grid.Cell(c)), append(d.P, v)
		}
	}
	return d
}

// heightsOf returns the heights of the block that holds a cell.
func (e *estimate) heightsOf(class int, c grid.Cell) []float64 {
	at := e.block(class, c) * len(e.rings)
	return e.heights[at : at+len(e.rings)]
}
