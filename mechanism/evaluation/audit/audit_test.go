package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Each test of the attack has a fixed seed. With fresh ones a right mechanism would fail once in a
// thousand audits, the default confidence.

// roads is a map with a street every sixth row and column, along which most go on; so location sets
// are lines, crosses and patches.
func roads(tb testing.TB, width, height int) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(width, height, .34)
	if err != nil {
		tb.Fatal(err)
	}
	street := func(x, y int) bool { return x%6 == 3 || y%6 == 3 }
	m := &mobility.Matrix{RowStart: []int64{0}}
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}}
	for c := range width * height {
		x, y := c%width, c/width
		first, total := len(m.Values), 0.0
		for to := range width * height {
			dx, dy := to%width-x, to/width-y
			d := max(dx, -dx) + max(dy, -dy)
			weight := 0.0
			switch {
			case d == 0:
				weight = 2
			case d <= 3 && (dx == 0 || dy == 0) && street(to%width, to/width):
				weight = 2
			case d <= 2:
				weight = .02
			}
			if weight > 0 {
				m.Columns = append(m.Columns, grid.Cell(to))
				m.Values = append(m.Values, weight)
				total += weight
			}
		}
		for i := first; i < len(m.Values); i++ {
			m.Values[i] /= total
		}
		m.RowStart = append(m.RowStart, int64(len(m.Values)))
		if street(x, y) {
			model.Initial.Cells = append(model.Initial.Cells, grid.Cell(c))
		}
	}
	for range model.Initial.Cells {
		model.Initial.P = append(model.Initial.P, 1/float64(len(model.Initial.Cells)))
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// scouted returns a model, options and situations of a few simulated users. Without padding, and
// after releases that told more than those of the options, there are lines and slivers among them.
func scouted(tb testing.TB, name string) (*mobility.Model, mechanism.Options, []*Situation) {
	tb.Helper()
	m := roads(tb, 24, 24)
	var situations []*Situation
	o := mechanism.Options{Mechanism: name, Delta: .3, MinCells: -1}
	for _, o.Epsilon = range []float64{20, 1} {
		scout, err := NewScout(m, o, 3)
		if err != nil {
			tb.Fatal(err)
		}
		src := rand.NewPCG(5, 1)
		for user := range 4 {
			cell := m.SampleInitial(src)
			for step := range int64(60) {
				if fresh, err := scout.Visit(
					fmt.Sprint("u", user), step, cell,
				); err != nil || !fresh {
					tb.Fatal(fresh, err)
				}
				if fresh, err := scout.Visit(
					fmt.Sprint("u", user), step, cell,
				); err != nil || fresh {
					tb.Fatal(fresh, err)
				}
				cell = m.SampleNext(src, cell, step)
			}
		}
		situations = append(situations, scout.Situations()...)
		if name == law.Codebook { // the same priors have other codebooks at the last ε
			situations = recoded(tb, situations, 1)
		}
		if o.Epsilon == 1 {
			return m, scout.lookout.options, situations
		}
	}
	panic("unreachable")
}

// recoded returns situations with the codebooks of an ε, and not those of one code point.
func recoded(tb testing.TB, all []*Situation, epsilon float64) (some []*Situation) {
	tb.Helper()
	for _, s := range all {
		q, err := s.quantizer(epsilon)
		if err != nil {
			tb.Fatal(err)
		}
		if s.code = NewCodebook(s.grid, epsilon, q); s.code.Len() > 1 {
			some = append(some, s)
		}
	}
	return some
}

const testDraws = 200_000

func audited(tb testing.TB, name string, subject Subject) *Report {
	tb.Helper()
	m, o, situations := scouted(tb, name)
	report, err := Run(subject, m, o, situations,
		Options{Draws: testDraws, Seed: 3, Ratio: true, Workers: 2})
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

func TestAuditPassesTheLattice(t *testing.T) {
	t.Parallel()
	r := audited(t, law.Lattice, Sanitizers{})
	if !r.Passed || len(r.Findings) > 0 {
		t.Errorf("findings on the lattice: %q", r.Findings)
	}
	if r.Attack.Bound < .95 || r.Attack.Bound > 1 {
		t.Errorf("the bound is %v, want it between .95 and 1", r.Attack.Bound)
	}
	kinds := map[string]bool{}
	for _, s := range r.Situations {
		kind, _, _ := strings.Cut(s.Name, "-")
		kinds[kind] = true
	}
	if !kinds["line"] || !kinds["thin"] || !kinds["fat"] {
		t.Errorf("situations are %+v: want lines, thin and fat hulls", r.Situations)
	}
	if r.Repeat.Trials == 0 || r.Surrogates.Trials == 0 || r.Estimates.Trials < 20 ||
		r.Separation.Trials != 11 || r.Bits.Draws == 0 || !r.Bits.Lattice ||
		r.Ratio.Comparisons == 0 {
		t.Errorf("a test has not run: %+v", r)
	}
	if math.Abs(r.Ratio.Worst-1) > 1e-9 {
		t.Errorf("exponents differ by %v ε, want ε exactly", r.Ratio.Worst)
	}
	outside := 0
	for _, result := range r.Attack.Survey {
		if result.Places == "outside" {
			outside++
		}
	}
	if outside < len(r.Situations)-1 {
		t.Errorf("cells outside were attacked in %d of %d situations", outside, len(r.Situations))
	}
	if data, err := json.Marshal(r); err != nil || strings.Contains(string(data), "u0") {
		t.Errorf("as JSON: %v, %s", err, data)
	}
}

// TestAuditOfFloats: the laws are right, the numbers are not. Their bits are found out, and nothing
// else.
func TestAuditOfFloats(t *testing.T) {
	t.Parallel()
	for _, name := range []string{law.PIM, law.KNorm, law.Laplace, law.LaplaceTight} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := audited(t, name, Sanitizers{})
			if r.Passed || len(r.Findings) != 1 || !strings.Contains(r.Findings[0], "low bits") {
				t.Errorf("findings are %q, want the low bits", r.Findings)
			}
			if r.Attack.Bound > 1 || r.Attack.Bound < .9*r.Attack.Worst.Reach {
				t.Errorf("the bound is %v with a reach of %v", r.Attack.Bound, r.Attack.Worst.Reach)
			}
			t.Logf("certainty in %.2g of releases, bound %.3f of %.3f",
				r.Bits.Share(), r.Attack.Bound, r.Attack.Worst.Reach)
		})
	}
}

func TestAuditIsReproducible(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Lattice)
	var reports [2]string
	for i, workers := range []int{1, 3} {
		r, err := Run(Sanitizers{}, m, o, situations,
			Options{Draws: 20_000, Seed: 9, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		reports[i] = string(data)
	}
	if reports[0] != reports[1] {
		t.Errorf("one worker and three differ:\n%s\n%s", reports[0], reports[1])
	}
}

func TestAuditEnds(t *testing.T) {
	t.Parallel()
	m, o, situations := scouted(t, law.Lattice)
	enough := errors.New("enough")
	last := int64(0)
	_, err := Run(Sanitizers{}, m, o, situations, Options{
		Draws: 100_000, Workers: 2,
		Progress: func(done, total int64) error {
			if done <= last || total != 100_000 {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			if last = done; done > 30_000 {
				return enough
			}
			return nil
		},
	})
	if !errors.Is(err, enough) || last > 40_000 {
		t.Errorf("%v after %d draws", err, last)
	}
	if _, err := Run(Sanitizers{}, m, o, nil, Options{}); err == nil {
		t.Error("an audit without a situation")
	}
	for _, bad := range []Options{
		{Draws: 3}, {Draws: -1}, {Confidence: 1}, {Confidence: math.NaN()},
	} {
		if _, err := Run(Sanitizers{}, m, o, situations, bad); err == nil {
			t.Errorf("options %+v", bad)
		}
	}
}
