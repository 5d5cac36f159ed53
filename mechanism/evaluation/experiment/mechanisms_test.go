package experiment

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestNeighbourFactors compares the factors of neighbouring cells with the greatest ratio over all
// releases: of the codebook over its code points, of the lattice over places of the map and around.
// A cell outside the location set counts as its surrogate.
func TestNeighbourFactors(t *testing.T) {
	d := testData(t)
	g := d.Grid
	prior := &mobility.Distribution{}
	for c := range grid.Cell(g.Cells()) {
		if g.Column(c) > 1 && g.Column(c) < 9 && g.Row(c) > 2 && g.Row(c) < 8 {
			prior.Cells = append(prior.Cells, c)
			prior.P = append(prior.P, math.Exp(-math.Abs(float64(g.Column(c))-5)))
		}
	}
	prior.Normalize()
	for _, v := range []Variant{Codebook, Lattice} {
		e, err := mechanism.NewEmission(g, d.Release(v, 3, .1))
		if err != nil {
			t.Fatal(err)
		}
		e.Prepare(prior)
		apart := 0
		for _, a := range prior.Cells {
			for _, b := range around(g, a) {
				got, want := logFactor(e, a, b), greatest(e, prior, a, b)
				if math.Abs(got-want) > 1e-6 || got > 3+1e-9 {
					t.Errorf("%s: cells %d and %d: ln factor %g, found %g", v.Label(), a, b, got,
						want)
				}
				if got > 0 {
					apart++
				}
			}
		}
		if apart == 0 {
			t.Errorf("%s tells no two neighbours apart", v.Label())
		}
	}
}

// greatest returns the greatest ln(P(z|a)/P(z|b)) over many releases z: places of the prior and
// beside them, which a codebook takes for the nearest code point.
func greatest(e *mechanism.Emission, prior *mobility.Distribution, a, b grid.Cell) (most float64) {
	g := e.Grid()
	for _, c := range prior.Cells {
		for _, shift := range []float64{0, g.CellKM() / 4} {
			z := g.Centre(c)
			z.X += shift
			p := e.Likelihoods(z, []grid.Cell{min(a, b), max(a, b)})
			ratio := math.Log(p[0] / p[1])
			if a > b {
				ratio = -ratio
			}
			most = max(most, ratio)
		}
	}
	return most
}

// TestAround: cells at the map's corner, side and inside have two, three and four beside them.
func TestAround(t *testing.T) {
	g := wanderGrid(t)
	for cell, want := range map[grid.Cell]int{0: 2, 5: 3, side: 3, 30: 4, 143: 2} {
		list := around(g, cell)
		if len(list) != want {
			t.Errorf("cell %d has %v beside it, want %d", cell, list, want)
		}
		for _, other := range list {
			if !near(g.Centre(other).Distance(g.Centre(cell)), g.CellKM()) {
				t.Errorf("cell %d is not beside %d", other, cell)
			}
		}
	}
}

// TestMechanismsBestDelta: a mechanism is shown at the δ of its least error, and a codebook's
// factor between neighbours is ε for the share that votes differently.
func TestMechanismsBestDelta(t *testing.T) {
	s := testStudy(t)
	r, err := s.Measure([]Experiment{mechanisms}, Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	section, err := mechanisms.section(s, r)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]*report.Table{}
	for _, part := range section.Parts {
		if table, ok := part.(*report.Table); ok {
			tables[table.Name] = table
		}
	}
	all, best := tables["mechanisms"], tables["mechanisms-wander"]
	value := func(row report.Row) float64 { return row[len(row)-1].(report.Band).Value }
	for _, epsilon := range s.Options.MechanismEpsilons {
		at := all.Where("epsilon", epsilon)
		for _, label := range []string{"lattice", "PIM", "LM, tight", "LM"} {
			rows := at.Where("mechanism", label).Where("metric", estimateScore.name).Rows
			least := slices.MinFunc(rows, func(a, b report.Row) int {
				return cmp.Compare(value(a), value(b))
			})
			shown := best.Where("ε", report.Short(epsilon)).Where("mechanism", label).Rows
			if len(shown) != 1 || shown[0][2] != report.Short(least[3].(float64)) {
				t.Errorf("%s at ε = %g is shown as %q, want δ = %v", label, epsilon, shown,
					least[3])
			}
		}
		codebook := at.Where("mechanism", "codebook")
		factor := value(codebook.Where("metric", factorScore.name).Rows[0])
		apart := value(codebook.Where("metric", apartScore.name).Rows[0])
		if !near(factor, epsilon*apart) {
			t.Errorf("a codebook's factor between neighbours is %g at a share of %g", factor, apart)
		}
	}
}
