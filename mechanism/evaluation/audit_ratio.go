package evaluation

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
)

// RatioReport compares exponents of the law that is stated, for all pairs of places of the location set.
type RatioReport struct {
	Comparisons int64 `json:"comparisons"`
	Failures    int64 `json:"failures"`
	// Worst is the greatest difference of two exponents, in ε; 1 is allowed.
	Worst float64 `json:"worst"`
	// Exact says that pairs were compared in whole numbers: K holds all differences of places. The exponents at single releases, which a mechanism
	// states in float64, are compared with a tolerance of 10⁻⁹ in any case.
	Exact bool `json:"exact"`
}

// ratioTolerance allows for the rounding of some thirty products.
const ratioTolerance = 1e-9

// ratio checks the law that the mechanism states, for it may be another that it draws from: the attack is about that.
func (a *auditor) ratio(report *AuditReport) error {
	if !a.options.Ratio {
		return nil
	}
	m, err := a.release.NewMechanism()
	if err != nil {
		return err
	}
	r := &RatioReport{Exact: a.release.Mechanism == mechanism.Lattice || a.release.Mechanism == mechanism.KNorm || a.release.Mechanism == mechanism.PIM}
	streams := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed))
	for i, s := range a.situations {
		if r.Exact {
			r.pairs(s)
		}
		m.Prepare(&s.hull, a.release.Epsilon)
		src := streams.Stream(fmt.Appendf(nil, "geodither audit, ratio %d", i))
		r.releases(s, m, src, a.release.Epsilon)
	}
	report.Ratio = r
	return nil
}

// pairs checks that no two members differ by more than K, in whole numbers: for each edge of K with the normal n and the support h, n·x over the members
// has a range of h at most. That is ‖x1 - x2‖_K ≤ 1 for all pairs, hence a ratio of e^ε at most for every release. O(members·edges).
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

// releasesLooked is how many releases of each situation the stated exponents are compared at.
const releasesLooked = 50

func (r *RatioReport) releases(s *Situation, m mechanism.Mechanism, src noise.Source, epsilon float64) {
	places, exponents := s.places(), make([]float64, len(s.cells))
	for i := range releasesLooked {
		z := m.Sample(src, s.cells[i*len(s.cells)/releasesLooked])
		m.Exponents(exponents, z, places)
		low, high := math.Inf(1), math.Inf(-1)
		for _, e := range exponents {
			low, high = min(low, e), max(high, e)
		}
		r.Comparisons++
		r.Worst = max(r.Worst, clamp((high-low)/epsilon))
		if !(high-low <= epsilon*(1+ratioTolerance)) {
			r.Failures++
		}
	}
}
