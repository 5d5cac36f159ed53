package law

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// setTolerance is how far the sum of a location set may stay below 1-δ. Probabilities come from
// float sums of at most millions of terms of size 1 at most. Their order costs about
// √n·2⁻⁵³ < 10⁻¹³. Ten times that keeps a set from growing by a cell only because
// .4+.3+.2 is .8999… in binary.
const setTolerance = 1e-12

// LocationSet is the paper's δ-location set ΔX (definition 3.1): the fewest cells whose prior
// probabilities sum to at least 1-δ. Among cells of equal probability the lower index is taken
// first. With δ = 0 it is every cell of positive probability.
//
// Everything here and of Surrogates is a function of the prior, the options and the map, hence of
// earlier releases and the model. Only Surrogates.Nearest is ever given the true cell. Ties are
// decided by the index of a cell and distances are compared as whole numbers, so the same prior
// gives the same set on every architecture.
//
// A LocationSet keeps its memory between calls of Choose. It is public given the releases so far.
type LocationSet struct {
	// Cells are the members, ascending.
	Cells []grid.Cell

	mass  [buckets]float64
	count [buckets]int32
	cut   []candidate

	nearby []nearCell // for padding
}

// nearCell is a cell with its squared distance to another, in cells.
type nearCell struct {
	square int64
	cell   grid.Cell
}

// candidate is a cell of the bucket in which the set ends.
type candidate struct {
	p        float64
	position int32
}

// buckets of the histogram: four per power of two, down to 2⁻⁶⁴; smaller probabilities share
// the last one.
const (
	bucketsPerOctave = 4
	buckets          = 64 * bucketsPerOctave
)

// bucketOf orders probabilities: a lower bucket holds larger ones. It reads the exponent and two
// bits of the fraction.
func bucketOf(p float64) int {
	const one = 1023*bucketsPerOctave + bucketsPerOctave - 1
	return min(max(one-int(math.Float64bits(p)>>50), 0), buckets-1)
}

// Choose fills s with the location set of a prior that is not empty and sums to 1. The work is
// linear: a histogram over the exponents of the probabilities finds the bucket in which the sum
// reaches 1-δ, and only that bucket is sorted.
func (s *LocationSet) Choose(prior *mobility.Distribution, delta float64) {
	s.choose(prior, delta, 0)
}

// Size returns how many cells Choose would fill s with, or nearly so, in one pass: the cells of a
// bucket count as equally likely, though one may be a quarter likelier than another one.
func (s *LocationSet) Size(prior *mobility.Distribution, delta float64) int {
	if delta == 0 {
		s.chooseAll(prior)
		return len(s.Cells)
	}
	b, before, missing := s.cutAt(prior, 1-delta-setTolerance, 0)
	n := float64(s.count[b])
	return before + int(math.Ceil(min(n, n*missing/max(s.mass[b], math.SmallestNonzeroFloat64))))
}

// choose is Choose for a set of at least so many cells, as far as the prior has them.
func (s *LocationSet) choose(prior *mobility.Distribution, delta float64, least int) {
	if delta == 0 {
		s.chooseAll(prior)
		return
	}
	b, before, missing := s.cutAt(prior, 1-delta-setTolerance, least)
	s.collect(prior, s.sortCut(prior.P, b, missing, least-before))
}

// cutAt fills in the buckets of a prior. It returns the one in which the members, likely ones
// first, reach a mass and a number, how many are before it, and what of the mass is missing there.
func (s *LocationSet) cutAt(
	prior *mobility.Distribution, mass float64, least int,
) (b, before int, missing float64) {
	if len(prior.Cells) == 0 {
		panic("law: the prior is empty")
	}
	clear(s.mass[:])
	clear(s.count[:])
	for _, p := range prior.P {
		b := bucketOf(p)
		s.mass[b] += p
		s.count[b]++
	}
	for b < buckets-1 && (s.mass[b] < mass || before+int(s.count[b]) < least) {
		mass -= s.mass[b]
		before += int(s.count[b])
		b++
	}
	return b, before, mass
}

func (s *LocationSet) chooseAll(prior *mobility.Distribution) {
	if len(prior.Cells) == 0 {
		panic("law: the prior is empty")
	}
	s.Cells = s.Cells[:0]
	for i, p := range prior.P {
		if p > 0 {
			s.Cells = append(s.Cells, prior.Cells[i])
		}
	}
}

// sortCut returns the last member by probability: of bucket b, as many cells in order as have the
// missing mass, and at least so many.
func (s *LocationSet) sortCut(p []float64, b int, missing float64, least int) (last candidate) {
	s.cut = s.cut[:0]
	for i, q := range p {
		if bucketOf(q) == b {
			s.cut = append(s.cut, candidate{q, int32(i)})
		}
	}
	slices.SortFunc(s.cut, byProbability)
	for i, c := range s.cut {
		if missing -= c.p; missing <= 0 && i+1 >= least {
			return c
		}
	}
	// Added one by one the cells stayed below what their bucket's sum reached, by a rounding error,
	// or the whole prior does.
	if len(s.cut) > 0 {
		return s.cut[len(s.cut)-1]
	}
	return candidate{0, math.MaxInt32}
}

// byProbability orders by probability descending, then by index ascending. No two candidates are
// equal, so the order is unique.
func byProbability(a, b candidate) int {
	switch {
	case a.p > b.p:
		return -1
	case a.p < b.p:
		return 1
	}
	return int(a.position - b.position)
}

// collect takes the cells up to and including last in the order of byProbability, ascending by
// index.
func (s *LocationSet) collect(prior *mobility.Distribution, last candidate) {
	s.Cells = s.Cells[:0]
	for i, p := range prior.P {
		if p > last.p || (p == last.p && int32(i) <= last.position && p > 0) {
			s.Cells = append(s.Cells, prior.Cells[i])
		}
	}
}
