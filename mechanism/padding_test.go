package mechanism

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestOneCellIsNeverReleased runs all mechanisms where the model is sure of one cell: under the
// defaults the release is not that cell's centre, and with padding off it is, which shows that the
// test can tell.
func TestOneCellIsNeverReleased(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	middle := model.Initial.Cells[0]
	for _, name := range law.HullNames() {
		out := mustStep(t, newSanitizer(t, model, Options{Mechanism: name, Epsilon: 1, Delta: .1}),
			new(State), Input{User: "u", Cell: middle, Release: true})
		if out.SetSize != DefaultMinCells || out.Release == model.Grid.Centre(middle) {
			t.Errorf("%s: %+v", name, out)
		}
		off := mustStep(t, newSanitizer(t, model,
			Options{Mechanism: name, Epsilon: 1, Delta: .1, MinCells: -1}), new(State),
			Input{User: "u", Cell: middle, Release: true})
		if off.SetSize != 1 || off.Release != model.Grid.Centre(middle) {
			t.Errorf("%s without padding: %+v", name, off)
		}
	}
}

// TestPaddingNeverLooksAtTheCell releases every cell of the map from one state: one set for all of
// them.
func TestPaddingNeverLooksAtTheCell(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	s := newSanitizer(t, model, Options{Epsilon: 1, Delta: .1, MinCells: 30})
	var first []grid.Cell
	for cell := range grid.Cell(model.Grid.Cells()) {
		mustStep(t, s, new(State), Input{User: "u", Cell: cell, Release: true})
		if first == nil {
			first = slices.Clone(s.emission.set.Cells)
		}
		if !slices.Equal(s.emission.set.Cells, first) || len(first) < 30 {
			t.Fatalf("cell %d: %d cells, not the %d of another",
				cell, len(s.emission.Set()), len(first))
		}
	}
}

// TestPaddedReleasesArePrivate is TestEveryReleaseIsPrivate on padded sets.
func TestPaddedReleasesArePrivate(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(73, 1))
	src := noise.NewKeyed(noise.KeyFromSeed(73)).Stream(nil)
	for _, name := range law.HullNames() {
		greatest := 0.0
		for i := range 60 {
			s := randomScene(t, r)
			s.set.ChoosePadded(s.grid, s.prior, .5, 1+r.IntN(9))
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
