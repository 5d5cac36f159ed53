package audit

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// RatioReport compares exponents of the law that is stated, for all pairs of places of the location
// set. Under the codebook mechanism it compares the two weights of the law with e^ε, and the votes
// and likelihoods of all cells of the map with their definitions.
type RatioReport struct {
	Comparisons int64 `json:"comparisons"`
	Failures    int64 `json:"failures"`
	// Worst is the greatest difference of two exponents, in ε; 1 is allowed.
	Worst float64 `json:"worst"`
	// Exact says that K was built by brute force and compared with the hull that the mechanism
	// draws with, that all pairs were compared in whole numbers, and that exponents were
	// compared with the gauge of that K. Exponents are float64, so for them and for the
	// mechanisms without K there is a tolerance of 10⁻⁹. Under the codebook mechanism there is
	// none.
	Exact bool `json:"exact"`
}

// ratioTolerance allows for the rounding of some thirty products.
const ratioTolerance = 1e-9

// exponents checks the law that the mechanism states, for it may be another that it draws from: the
// attack is about that.
func exponents(a *auditor, report *Report) error {
	if !a.options.Ratio {
		return nil
	}
	if a.release.Mechanism == law.Codebook {
		return codeExponents(a, report)
	}
	m, err := a.release.NewMechanism()
	if err != nil {
		return err
	}
	r := &RatioReport{
		Exact: a.release.Mechanism == law.Lattice || a.release.Mechanism == law.KNorm ||
			a.release.Mechanism == law.PIM,
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed))
	for i, s := range a.situations {
		if r.Exact {
			r.hull(s)
			r.pairs(s)
		}
		m.Prepare(&s.hull, a.release.Epsilon)
		src := streams.Stream(fmt.Appendf(nil, "geodither audit, ratio %d", i))
		r.releases(s, m, src, a.release.Epsilon)
	}
	report.Ratio = r
	return nil
}

// pairs checks that no two members differ by more than K, in whole numbers: for each edge of K with
// the normal n and the support h, n·x over the members has a range of h at most. That is ‖x1 -
// x2‖_K ≤ 1 for all pairs, hence a ratio of e^ε at most for every release. O(members·edges).
func (r *RatioReport) pairs(s *Situation) {
	for i := range len(s.k) / 2 {
		corner, edge := s.vertex(i), s.vertex(i+1).Sub(s.vertex(i))
		support := s.area2(i)
		if len(s.k) == 2 { // along the line only: u·x over |u|²
			edge.X, edge.Y = corner.Y, -corner.X
			support = corner.X*corner.X + corner.Y*corner.Y
		}
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for _, c := range s.cells {
			at := s.site(c)
			n := at.X*edge.Y - at.Y*edge.X
			low, high = min(low, n), max(high, n)
		}
		r.Comparisons += int64(len(s.cells)) * int64(len(s.cells)-1) / 2
		r.Worst = max(r.Worst, float64(high-low)/float64(support))
		if high-low > support {
			r.Failures++
		}
	}
}

// hull checks that the hull that the mechanism draws with is K as Span finds it, corner by
// corner.
func (r *RatioReport) hull(s *Situation) {
	r.Comparisons++
	vertices, side := s.hull.Body().Vertices(), s.grid.CellKM()
	if len(s.k) > 1 && len(vertices) != len(s.k) {
		r.Failures++
		return
	}
	for _, corner := range s.k {
		nearest := math.Inf(1)
		for _, v := range vertices {
			nearest = min(nearest, math.Hypot(v.X-float64(float64(corner.X)*side),
				v.Y-float64(float64(corner.Y)*side)))
		}
		if len(s.k) > 1 &&
			nearest > ratioTolerance*side*(1+math.Hypot(float64(corner.X), float64(corner.Y))) {
			r.Failures++
			return
		}
	}
}

// states checks the exponents that a mechanism with K-norm noise states at a release against
// the gauge of K as Span finds it.
func (r *RatioReport) states(s *Situation, z grid.Point, exponents []float64, epsilon float64) {
	k := newSpan(s.k)
	for i, c := range s.cells {
		d := z.Sub(s.grid.Centre(c))
		want := -epsilon * k.Gauge(d.X/s.grid.CellKM(), d.Y/s.grid.CellKM())
		if !(math.Abs(exponents[i]-want) <= ratioTolerance*(1+math.Abs(want))) {
			r.Failures++
			return
		}
	}
}

// releasesLooked is how many releases of each situation the stated exponents are compared at.
const releasesLooked = 50

func (r *RatioReport) releases(s *Situation, m law.Mechanism, src noise.Source, epsilon float64) {
	places, exponents := s.places(), make([]float64, len(s.cells))
	for i := range releasesLooked {
		z := m.Sample(src, s.cells[i*len(s.cells)/releasesLooked])
		m.Exponents(exponents, z, places)
		low, high := math.Inf(1), math.Inf(-1)
		for _, e := range exponents {
			low, high = min(low, e), max(high, e)
		}
		if r.Exact {
			r.states(s, z, exponents, epsilon)
		}
		r.Comparisons++
		r.Worst = max(r.Worst, clamp((high-low)/epsilon))
		if !(high-low <= epsilon*(1+ratioTolerance)) {
			r.Failures++
		}
	}
}

// codeExponents is exponents under the codebook mechanism.
func codeExponents(a *auditor, report *Report) error {
	report.Ratio = &RatioReport{Exact: true}
	for _, s := range a.situations {
		q, err := s.quantizer(a.release.Epsilon)
		if err != nil {
			return err
		}
		report.Ratio.votes(s, q, a.release.Epsilon)
	}
	return nil
}

// votes checks the law that a quantizer states, in whole numbers: that T is ⌈2⁶⁴·e^-ε⌉,
// so that no two cells differ by more than e^ε at any code point; that every cell of the map votes
// for the code point that is nearest by definition; and that the likelihoods are 1 and T/2⁶⁴.
// With a near factor see blurred.
func (r *RatioReport) votes(s *Situation, q *law.Quantizer, epsilon float64) {
	r.Comparisons++
	r.Worst = max(r.Worst, (64*math.Ln2-math.Log(float64(q.Other())))/epsilon)
	if new(big.Int).SetUint64(q.Other()).Cmp(otherWeight(epsilon)) != 0 {
		r.Failures++
	}
	width := s.grid.Width()
	cells, weight := make([]grid.Cell, width), [2]float64{float64(q.Other()) * 0x1p-64, 1}
	var votes []uint8
	var likelihoods []float64
	var above [][]uint64
	for row := range s.grid.Height() {
		for x := range cells {
			cells[x] = grid.Cell(row*width + x)
		}
		answer := row % s.code.Len()
		votes = q.Votes(votes, cells)
		likelihoods = q.Likelihoods(likelihoods, answer, cells)
		if s.code.Blurred() {
			above = r.blurred(s, q, answer, cells, likelihoods, above)
			continue
		}
		for i, c := range cells {
			own, same := s.code.Vote(c), 0
			if own == answer {
				same = 1
			}
			r.Comparisons += int64(s.code.Len())
			if q.Vote(c) != own || int(votes[i]) != own || likelihoods[i] != weight[same] {
				r.Failures++
			}
		}
	}
}

// blurred checks a row of the map with a near factor: the likelihoods of an answer, by the
// definition of tallies; and for all answers, in whole numbers, that no two neighbours exceed the
// factor. above are the tallies of the row before, and it returns those of this one.
func (r *RatioReport) blurred(
	s *Situation, q *law.Quantizer, answer int, cells []grid.Cell, likelihoods []float64,
	above [][]uint64,
) [][]uint64 {
	least := float64(q.Other()) * 0x1p-64
	var row [][]uint64
	for i, c := range cells {
		tallies := s.code.Tallies(c)
		want := least + (1-least)*(float64(tallies[answer])/float64(s.code.total))
		r.Comparisons += int64(len(tallies))
		if math.Abs(likelihoods[i]-want) > ratioTolerance*want {
			r.Failures++
		}
		beside := row[max(0, i-1):]
		if len(above) > 0 {
			beside = slices.Concat(beside, above[max(0, i-1):min(i+2, len(above))])
		}
		for _, other := range beside {
			r.Comparisons += int64(len(tallies))
			if s.exceeds(q.Other(), tallies, other) || s.exceeds(q.Other(), other, tallies) {
				r.Failures++
			}
		}
		row = append(row, tallies)
	}
	return row
}
