package mechanism

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/locationset"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestPaddedSetHasARadius checks what the disc is for: K holds every vector up to the radius wherever the map has room for the disc, for priors of
// any shape.
func TestPaddedSetHasARadius(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(72, 1))
	g := testcase.Grid(t, 60, 60, .25)
	var s locationset.Set
	var h SensitivityHull
	for range 300 {
		const radius = 1.5
		d := &mobility.Distribution{}
		row := 10 + r.IntN(40)
		for x := range 1 + r.IntN(40) { // along a street
			x += 10
			d.Cells, d.P = append(d.Cells, grid.Cell(row*60+x)), append(d.P, r.Float64())
		}
		d.Normalize()
		s.ChoosePadded(g, d, .05, locationset.Padding{RadiusKM: radius})
		h.OfCells(g, s.Cells)
		// The disc's cells miss its rim by less than a cell's side, and K has twice its reach.
		if inner := 1 / h.normRate(); inner < 2*(radius-.25) {
			t.Fatalf("K has the inner radius %g km", inner)
		}
		h.OfCells(g, testcase.LocationSet(d, .05))
		if h.Body().Dim() > 1 {
			t.Fatal("the prior is no line")
		}
	}
}

// TestOneCellIsNeverReleased runs all mechanisms where the model is sure of one cell: under the defaults the release is not that cell's centre,
// and with padding off it is, which shows that the test can tell.
func TestOneCellIsNeverReleased(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	middle := model.Initial.Cells[0]
	for _, name := range mechanismNames {
		out := mustStep(t, newSanitizer(t, model, Options{Mechanism: name, Epsilon: 1, Delta: .1}), new(State), Input{User: "u", Cell: middle, Release: true})
		if out.SetSize != DefaultMinCells || out.Release == model.Grid.Centre(middle) {
			t.Errorf("%s: %+v", name, out)
		}
		off := mustStep(t, newSanitizer(t, model, Options{Mechanism: name, Epsilon: 1, Delta: .1, MinCells: -1}), new(State), Input{User: "u", Cell: middle, Release: true})
		if off.SetSize != 1 || off.Release != model.Grid.Centre(middle) {
			t.Errorf("%s without padding: %+v", name, off)
		}
	}
}

// TestPaddingNeverLooksAtTheCell releases every cell of the map from one state: one set for all of them.
func TestPaddingNeverLooksAtTheCell(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, MinCells: 30, MinRadiusKM: 1})
	var first []grid.Cell
	for cell := range grid.Cell(model.Grid.Cells()) {
		mustStep(t, s, new(State), Input{User: "u", Cell: cell, Release: true})
		if first == nil {
			first = slices.Clone(s.set.Cells)
		}
		if !slices.Equal(s.set.Cells, first) || len(first) < 30 {
			t.Fatalf("cell %d: %d cells, not the %d of another", cell, len(s.set.Cells), len(first))
		}
	}
}

// TestPaddedReleasesArePrivate is TestEveryReleaseIsPrivate on padded sets.
func TestPaddedReleasesArePrivate(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(73, 1))
	src := noise.NewKeyed(noise.KeyFromSeed(73)).Stream(nil)
	for _, name := range mechanismNames {
		greatest := 0.0
		for i := range 60 {
			s := randomScene(t, r)
			s.set.ChoosePadded(s.grid, s.prior, .5, locationset.Padding{MinCells: 1 + r.IntN(9), RadiusKM: []float64{0, .7}[r.IntN(2)]})
			s.hull.OfCells(s.grid, s.set.Cells)
			s.search.Reset(s.grid, s.set.Cells)
			m := mustMechanism(t, name)
			m.Prepare(&s.hull, s.epsilon)
			centre := centres(nil, s.grid, s.set.Cells)
			emission := centre[:0:0]
			for _, member := range s.search.All(nil, testcase.AllCells(s.grid)) {
				emission = append(emission, centre[member])
			}
			ratio := worstRatio(m, s.epsilon, s.releases(src, m), emission)
			if ratio > 1+rounding {
				t.Fatalf("%s, scene %d: a log ratio of %g ε", name, i, ratio)
			}
			greatest = max(greatest, ratio)
		}
		if greatest < .99 {
			t.Errorf("%s: the test never comes near the bound: %g ε", name, greatest)
		}
	}
}
