package audit

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// BitsReport is the outcome of the test of low bits (Mironov 2012, doi 10.1145/2382196.2382264):
// what the last bits of a published float64 tell.
//
// A mechanism that adds noise n to a place x in float64 publishes the rounded sum. All n of the
// size of z - x are multiples of their last bit's value, x is one of its own, and so must the sum
// be of the smaller one. A z with lower bits than that comes from another place: with certainty,
// whatever n's law is. It is a proof and not a statistic, so one such release is a finding, and
// there are no false alarms. It is not all that bits can tell: a mechanism without a finding may
// still leak.
//
// A release of the lattice must be the one float64 that stands for its point of the lattice, which
// is the same for all places. A release of a codebook must be one of its code points.
type BitsReport struct {
	Draws int64 `json:"draws"`
	// Certain are releases that prove that they do not come from the other place.
	Certain    int64 `json:"certain"`
	OffLattice int64 `json:"off_lattice"` // releases beside the lattice, or beside all code points
	Lattice    bool  `json:"lattice"`     // there must be a lattice, or a codebook
}

// Share returns the share of releases that give certainty.
func (b BitsReport) Share() float64 { return float64(b.Certain) / float64(max(b.Draws, 1)) }

// mostBitDraws is as many as it takes to see certainty that one in ten thousand releases gives.
const mostBitDraws = 60_000

func lowBits(a *auditor, report *Report) error {
	f := newFrame(a.model.Grid, a.release)
	r := &report.Bits
	r.Lattice = f.n > 0 || a.release.Mechanism == law.Codebook
	streams := noise.NewKeyed(noise.KeyFromSeed(a.options.Seed))
	total := min(mostBitDraws, a.options.Draws)
	for i, s := range a.situations {
		sample, err := a.subject.Sampler(s, a.release)
		if err != nil {
			return err
		}
		pairs := s.extremes()
		each := max(1, total/int64(len(a.situations)*len(pairs)*2))
		src := streams.Stream(fmt.Appendf(nil, "geodither audit, bits %d", i))
		for _, pair := range pairs {
			for side := range 2 {
				for range each {
					r.look(s, f, sample(src, pair[side]), a.model.Grid.Centre(pair[1-side]))
				}
			}
		}
	}
	return nil
}

// look judges one release, given the place that it was not drawn for.
func (b *BitsReport) look(s *Situation, f frame, z, other grid.Point) {
	b.Draws++
	if s.code != nil {
		if _, ok := s.code.Find(z); !ok {
			b.OffLattice++
		}
		return
	}
	if f.n > 0 {
		if f.beside(z.X) || f.beside(z.Y) {
			b.OffLattice++
		}
		return
	}
	if impossible(z.X, other.X) || impossible(z.Y, other.Y) {
		b.Certain++
	}
}

// impossible says that z is not the rounded sum x + n for any float64 n. It returns false where it
// does not know.
//
// The exact sum differs from z by half of z's last bit at most, so |n| is at least d = |z - x|
// minus that, less the error of computing it. Hence n is a multiple of the value u of d's last bit,
// and x + n one of the smaller of u and x's lowest set bit; what rounding makes of it is one too,
// as rounding takes lower bits away.
func impossible(z, x float64) bool {
	if z == 0 || x == 0 {
		return false
	}
	d := float64(math.Abs(z-x)*(1-0x1p-50)) - ulp(z)
	if !(d > 0x1p-900) {
		return false
	}
	return lowestBit(z) < min(ulp(d), lowestBit(x))
}

// ulp returns the value of the last bit of a normal float64.
func ulp(x float64) float64 { return math.Ldexp(1, exponent(x)-52) }

// lowestBit returns the value of the lowest bit that is set.
func lowestBit(x float64) float64 {
	mantissa := math.Float64bits(x)&(1<<52-1) | 1<<52
	return math.Ldexp(1, exponent(x)-52+bits.TrailingZeros64(mantissa))
}

func exponent(x float64) int { return int(math.Float64bits(x)>>52&0x7ff) - 1023 }
