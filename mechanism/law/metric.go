package law

import (
	"math"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/internal/portable"
)

// Factor returns the largest factor by which one release can tell two places of the location set
// apart that are at most so many kilometres from each other: the greatest
// density(z|x1)/density(z|x2) over all releases z and all such places. It is 1 for the same place,
// grows with the distance, and ends at e^ε or below.
//
// Guarantee: under K-norm noise the ratio for x1 and x2 is at most exp(ε‖x1-x2‖_K), and
// reaches it at z = x1. In K no norm exceeds 1. The greatest norm of a vector of length d is
//
//	d/r    in a polygon K, with r the radius of the largest disc around 0 in K,
//	d/|u|  along a segment from -u to u, the only direction in which places of its set differ.
//
// Under Laplace noise the same goes for ‖·‖₁/S: it is at most √2·d/S, and in the set at
// most the greatest ℓ1 distance over S. A set of one place has the factor 1: its release is the
// same for all.
//
// The places are the centres of the set's cells. Two positions within such cells have centres up to
// a cell's diagonal further apart than the positions themselves: ask for that much more, as Metric
// does. A cell outside the set is released from its surrogate, and the surrogates of two near cells
// can be far apart, on two sides of the set. For pairs with such a cell nothing better holds than
// the factor for the distance of their surrogates, and e^ε in any case.
//
// The bound looks at directions and not at pairs, so all pairs that a set has may stay below it.
// O(vertices).
func (h *SensitivityHull) Factor(mechanism string, epsilon, km float64) float64 {
	if !(km > 0) || h.body.Dim() == 0 {
		return 1
	}
	rate, most := h.rate(mechanism)
	return portable.Exp(epsilon * min(rate*km, most))
}

// rate returns the greatest norm of a vector of one kilometre, and of any that joins two places of
// the set: the norm that the mechanism's noise falls with.
func (h *SensitivityHull) rate(mechanism string) (perKM, most float64) {
	if sensitivity := h.sensitivity(mechanism); sensitivity > 0 {
		return h.sumRate() / sensitivity, h.ell1 / sensitivity
	}
	return h.normRate(), 1
}

// sensitivity returns S of Laplace noise and 0 of K-norm noise.
func (h *SensitivityHull) sensitivity(mechanism string) float64 {
	switch mechanism {
	case Laplace:
		return h.sum
	case LaplaceTight:
		return h.ell1
	}
	return 0
}

// Share returns which share of ε is between two places of the location set, at most: under K-norm
// noise ‖v‖_K of their difference v in kilometres, under Laplace noise ‖v‖₁ over the
// sensitivity. A release at one of the places comes to it.
func (h *SensitivityHull) Share(mechanism string, v convex.Vec) float64 {
	if h.body.Dim() == 0 {
		return 0
	}
	if sensitivity := h.sensitivity(mechanism); sensitivity > 0 {
		return (math.Abs(v.X) + math.Abs(v.Y)) / sensitivity
	}
	return min(h.body.Gauge(v), 1)
}

// normRate returns the greatest ‖v‖_K of a vector of one kilometre: of any in a polygon, of
// those along a segment.
func (h *SensitivityHull) normRate() float64 {
	v := h.body.Vertices()
	if len(v) == 2 {
		return 1 / math.Sqrt(float64(v[1].X*v[1].X)+float64(v[1].Y*v[1].Y))
	}
	rate := 0.0
	if len(h.exact) > 0 { // whole numbers, whose cross products lose nothing where K is thin
		for i, a := range h.exact[:len(h.exact)/2] {
			b := h.exact[i+1]
			dx, dy := float64(b.X-a.X), float64(b.Y-a.Y)
			rate = max(rate, math.Sqrt(float64(dx*dx)+float64(dy*dy))/float64(a.X*b.Y-a.Y*b.X))
		}
		return rate / h.scale
	}
	for i, a := range v[:len(v)/2] {
		dx, dy := v[i+1].X-a.X, v[i+1].Y-a.Y
		rate = max(rate, math.Sqrt(float64(dx*dx)+float64(dy*dy))/(float64(a.X*dy)-float64(a.Y*dx)))
	}
	return rate
}

// sumRate returns the greatest ‖v‖₁ of the same vectors.
func (h *SensitivityHull) sumRate() float64 {
	if v := h.body.Vertices(); len(v) == 2 {
		return (math.Abs(v[1].X) + math.Abs(v[1].Y)) * h.normRate()
	}
	return math.Sqrt2
}

// WidthKM returns the greatest distance of two places of the set in kilometres: the length of the
// longest vector of K.
func (h *SensitivityHull) WidthKM() float64 {
	most := 0.0
	for _, v := range h.body.Vertices() {
		most = max(most, float64(v.X*v.X)+float64(v.Y*v.Y))
	}
	return math.Sqrt(most)
}

// Metric says in kilometres what ε meant for one release: by which factor at most it told two
// positions apart. It holds for any two positions within cells of the location set, not only for
// their centres. Where a position lies outside the set only e^ε holds. All of it may be published.
type Metric struct {
	// Within200M and Within1KM are for positions at most so far apart.
	Within200M, Within1KM float64
	// Across is for any two of the set, whose most distant cells lie WidthKM apart: e^ε or, with
	// Laplace noise, less.
	Across, WidthKM float64
	// NearShare is the mean of the factor's logarithm over pairs of neighbouring cells of the map,
	// in shares of ε. Pairs count as Neighbours says. Under Codebook it is the share of the pairs
	// that the release tells apart, by e^ε each. It is 0 where it was not asked for.
	NearShare float64
}

// Metric describes a release from the set of cells that the hull is of.
func (h *SensitivityHull) Metric(mechanism string, epsilon float64) Metric {
	if h.body.Dim() == 0 {
		return Metric{Within200M: 1, Within1KM: 1, Across: 1}
	}
	rate, most := h.rate(mechanism)
	// The centres of two positions' cells can be a cell's diagonal further apart than the
	// positions.
	diagonal := float64(math.Sqrt2 * h.scale)
	within := func(km float64) float64 {
		return portable.Exp(epsilon * min(rate*(km+diagonal), most))
	}
	width := h.WidthKM()
	return Metric{
		Within200M: within(.2), Within1KM: within(1), Across: within(width),
		WidthKM: width,
	}
}
