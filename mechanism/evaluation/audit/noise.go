package audit

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
)

// Limits of separation. Equal noise of independent draws on a hull whose likeliest release has a
// probability below 5 % happens in a quarter of the trials with probability below 10⁻⁹; a rank
// correlation of .55 over 96 independent pairs is 5.3 standard deviations off.
const (
	equalShare  = 4
	correlation = .55
)

// related says that two rows of noise are not independent: too many are equal or opposite, or a
// coordinate of one goes with that of the other.
func related(a, b []convex.Vec) bool {
	equal, opposite := 0, 0
	rows := [2][2][]float64{}
	for i := range a {
		if close2(a[i], b[i]) {
			equal++
		}
		if close2(a[i], b[i].Neg()) {
			opposite++
		}
		rows[0][0], rows[1][0] = append(rows[0][0], a[i].X), append(rows[1][0], b[i].X)
		rows[0][1], rows[1][1] = append(rows[0][1], a[i].Y), append(rows[1][1], b[i].Y)
	}
	if max(equal, opposite)*equalShare > len(a) {
		return true
	}
	for axis := range 2 {
		if math.Abs(trial.RankCorrelation(rows[0][axis], rows[1][axis])) > correlation {
			return true
		}
	}
	return false
}

// close2 allows for the rounding of a sum with two different centres.
func close2(a, b convex.Vec) bool {
	const tolerance = 1e-9
	size := 1 + math.Abs(a.X) + math.Abs(a.Y)
	return math.Abs(a.X-b.X)+math.Abs(a.Y-b.Y) <= tolerance*size
}

// lawLimit bounds the scaled distance of two distribution functions: P(√n D > x) ≤ 2e^{-2x²}
// (Massart 1990, doi 10.1214/aop/1176990746), 10⁻⁶ for 2.7. The larger sample is so much larger
// that it counts as the law itself, for which the limit is given a tenth more.
const lawLimit = 3

// sameLaw compares the size of published noise with that of the sampler's. It sees a scale that is
// off by a third.
func (a separation) sameLaw(at *Situation) (bool, error) {
	sample, err := a.subject.Sampler(at, a.release)
	if err != nil {
		return false, err
	}
	size := func(v convex.Vec) float64 { return math.Hypot(v.X, v.Y) }
	var drawn, seen []float64
	src := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed)).Stream([]byte("geodither audit, law"))
	for range 100 * lawTrials {
		drawn = append(drawn, size(
			convex.Vec(sample(src, at.cells[0]).Sub(at.grid.Centre(at.cells[0])))))
	}
	for i := range lawTrials {
		v, err := a.noiseOf(at, a.facts(at, fmt.Sprintf("audit-law-%d", i), at.cells[0]))
		if err != nil {
			return false, err
		}
		seen = append(seen, size(v))
	}
	slices.Sort(drawn)
	slices.Sort(seen)
	n, m, most := float64(len(seen)), float64(len(drawn)), 0.0
	for i, v := range seen {
		below, _ := slices.BinarySearch(drawn, v)
		atMost, _ := slices.BinarySearch(drawn, math.Nextafter(v, math.Inf(1)))
		most = max(most, float64(below)/m-float64(i)/n, float64(i+1)/n-float64(atMost)/m)
	}
	return most*math.Sqrt(n) <= lawLimit, nil
}

// Sizes of the tests of a codebook's answers, and the rate of false alarms of each of the two.
const (
	answerCells  = 8
	answerDraws  = 20_000
	answerUsers  = 600
	answerPairs  = 192
	answerAlarms = 1e-6
)

// answersLaw tests that the sampler, and what is published, follow a codebook's law: for one of two
// neighbours that vote otherwise, and for cells anywhere.
func (a separation) answersLaw(r *CheckReport) error {
	rng := a.rng("law")
	alpha := answerAlarms / float64(len(a.situations)*answerCells+1)
	src := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed)).Stream([]byte("geodither audit, law"))
	for _, s := range a.situations {
		sample, err := a.subject.Sampler(s, a.release)
		if err != nil {
			return err
		}
		cell := s.code.Border()[0]
		for range answerCells {
			counts := make([]int64, s.code.Len())
			for range answerDraws {
				if j, ok := s.code.Find(sample(src, cell)); ok { // BitsReport has the others
					counts[j]++
				}
			}
			r.Trials++
			if !(s.code.Fit(counts, cell) >= alpha) {
				r.fail("a cell's draws have another law than is stated")
			}
			cell = grid.Cell(rng.IntN(s.grid.Cells()))
		}
	}
	return a.publishedAnswers(r, alpha)
}

// publishedAnswers tests the law of what is published in a situation.
func (a separation) publishedAnswers(r *CheckReport, alpha float64) error {
	at := a.situations[0]
	cell, counts := at.code.Border()[0], make([]int64, at.code.Len())
	r.Trials++
	for i := range answerUsers {
		out, _, err := a.subject.Publish(a.facts(at, fmt.Sprintf("audit-law-%d", i), cell))
		if err != nil {
			return err
		}
		j, ok := at.code.Find(out.Release)
		if !ok {
			r.fail("what is published is no code point")
			return nil
		}
		counts[j]++
	}
	if !(at.code.Fit(counts, cell) >= alpha) {
		r.fail("what is published has another law than the sampler that the attack looks at")
	}
	return nil
}
