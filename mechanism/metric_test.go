package mechanism

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
)

// TestMetricHoldsForPositions draws positions anywhere in the cells of a set and compares the
// releases of the cells they fall into.
func TestMetricHoldsForPositions(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	r := rand.New(rand.NewPCG(83, 1))
	for _, name := range []string{law.PIM, law.Laplace, law.LaplaceTight} {
		s := newSanitizer(t, model, Options{Mechanism: name, Epsilon: 2, Delta: .01})
		var state State
		if out := mustStep(t, s, &state, Input{User: "u", Step: -1}); out.Metric != (law.Metric{}) {
			t.Errorf("%s: a metric before any release", name)
		}
		state = State{}
		moved, most := 0, 0.0
		for i, cell := range walk(model, 4, 40) {
			m := mustStep(t, s, &state, Input{
				User: "u", Step: int64(i), Cell: cell,
				Release: true,
			}).Metric
			if !(m.Within200M >= 1) || m.Within200M > m.Within1KM || m.Within1KM > m.Across ||
				m.Across > math.Exp(2)*(1+rounding) {
				t.Fatalf("%s: %+v", name, m)
			}
			for range 300 {
				a := s.emission.set.Cells[r.IntN(len(s.emission.set.Cells))]
				p := s.model.Grid.Centre(a).Add(grid.Point{
					X: (r.Float64() - .5) * .34,
					Y: (r.Float64() - .5) * .34,
				})
				angle, far := 2*math.Pi*r.Float64(), []float64{.2, 1}[r.IntN(2)]
				b := s.model.Grid.CellAt(p.Add(grid.Point{
					X: far * math.Cos(angle),
					Y: far * math.Sin(angle),
				}))
				if set := s.emission.Set(); set[testcase.Surrogate(s.model.Grid, set, b)] != b {
					continue // outside the set, where no more than e^ε is said
				}
				e := make([]float64, 1)
				x, y := s.model.Grid.Centre(a), s.model.Grid.Centre(b)
				s.emission.mechanism.Exponents(e, x, []convex.Vec{convex.Vec(y)})
				bound := m.Within200M
				if far == 1 {
					bound = m.Within1KM
				}
				if math.Exp(-e[0]) > bound*(1+rounding) {
					t.Fatalf("%s: two positions %g km apart are told apart by %g, above %g", name,
						far, math.Exp(-e[0]), bound)
				}
				if a != b {
					moved++
				}
				most = max(most, math.Exp(-e[0])/bound)
			}
		}
		if moved < 100 || most < .8 {
			t.Errorf("%s: poor cases: %d pairs in two cells, the bound reached up to a factor %g",
				name, moved, most)
		}
		out := mustStep(t, s, &state, Input{User: "u", Step: 39, Release: true})
		if out.Kind != Repeated || out.Metric != (law.Metric{}) {
			t.Errorf("%s: a repeat has a metric", name)
		}
	}
}

// TestNearShare: the share between neighbours is there where it is asked for; it is the mean over
// pairs of what two releases from the two cells' surrogates can differ by; and it changes nothing
// else, nor does it allocate.
func TestNearShare(t *testing.T) {
	model := roadModel(t)
	for _, name := range law.Names() {
		o := Options{Mechanism: name, Epsilon: 2, Delta: .1}
		asked, plain := newSanitizer(t, model, o), newSanitizer(t, model, o)
		var state, other State
		most := 0.0
		for i, cell := range walk(model, 4, 30) {
			in := Input{User: "u", Step: int64(i), Cell: cell, Release: true}
			without := mustStep(t, plain, &other, in)
			in.Near = true
			out := mustStep(t, asked, &state, in)
			got := out.Metric.NearShare
			out.Metric.NearShare = 0
			if out.Metric != without.Metric || out.Release != without.Release ||
				out.Estimate != without.Estimate {
				t.Fatalf("%s: asking changes the outcome", name)
			}
			if want := nearShareByPairs(asked); math.Abs(got-want) > 1e-6 {
				t.Fatalf("%s: the share is %v, not %v", name, got, want)
			}
			most = max(most, got)
		}
		if most < .02 || most > 1 {
			t.Errorf("%s: poor cases, the greatest share is %v", name, most)
		}
		if a := testing.AllocsPerRun(10, func() { asked.emission.NearShare() }); a > 0 {
			t.Errorf("%s: %v allocations", name, a)
		}
	}
}

// nearShareByPairs looks at each pair on its own, for the prior of the last release.
func nearShareByPairs(s *Sanitizer) float64 {
	sum, all := 0.0, 0.0
	g := s.model.Grid
	for x := range int32(g.Cells()) {
		for _, y := range []int32{x + 1, x + int32(g.Width())} {
			if int(y) >= g.Cells() || y == x+1 && g.Column(y) == 0 {
				continue
			}
			mass := s.prior.At(x) + s.prior.At(y)
			all += mass
			if s.emission.codebook != nil {
				if s.emission.codebook.Vote(x) != s.emission.codebook.Vote(y) {
					sum += mass
				}
				continue
			}
			a := g.Centre(s.emission.set.Cells[testcase.Surrogate(g, s.emission.set.Cells, x)])
			b := g.Centre(s.emission.set.Cells[testcase.Surrogate(g, s.emission.set.Cells, y)])
			e := make([]float64, 1)
			s.emission.mechanism.Exponents(e, a, []convex.Vec{convex.Vec(b)})
			sum -= mass * e[0] / s.options.Epsilon
		}
	}
	return sum / all
}

// TestMetricBits holds the factors of a walk to the same bits on every architecture.
func TestMetricBits(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	want := map[string]uint64{
		law.PIM: 0x4ee9624f013230bb, law.KNorm: 0x516c9625f34111cd,
		law.Laplace: 0x43a7efb3ad95052e, law.LaplaceTight: 0x12ce0d88dddb1995,
		law.Lattice: 0xd7a95a366d29c37f, law.Codebook: 0x1179e478db18894e,
	}
	for _, name := range law.Names() {
		s := newSanitizer(t, model, Options{Mechanism: name, Epsilon: 2, Delta: .3})
		var state State
		h := fnv.New64a()
		for i, cell := range walk(model, 4, 40) {
			m := mustStep(t, s, &state, Input{
				User: "u", Step: int64(i), Cell: cell, Release: true, Near: true,
			}).Metric
			for _, v := range []float64{m.Within200M, m.Within1KM, m.Across, m.NearShare} {
				h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
			}
		}
		if got := h.Sum64(); got != want[name] {
			t.Errorf("%s: other bits: %#x", name, got)
		}
	}
}
