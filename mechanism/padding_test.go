package mechanism

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// paddedByDefinition sorts the whole map three times: by probability, by distance, and through the disc.
func paddedByDefinition(g *grid.Grid, prior *mobility.Distribution, delta float64, p Padding) []grid.Cell {
	members := map[grid.Cell]bool{}
	for _, c := range sortedPrefix(prior, delta) {
		members[c] = true
	}
	order := make([]int, len(prior.P))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case prior.P[a] > prior.P[b]:
			return -1
		case prior.P[a] < prior.P[b]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		if len(members) < p.MinCells {
			members[prior.Cells[i]] = true
		}
	}
	top := prior.Cells[order[0]]
	square := func(c grid.Cell) int {
		dx, dy := g.Column(c)-g.Column(top), g.Row(c)-g.Row(top)
		return dx*dx + dy*dy
	}
	all := allCells(g)
	slices.SortStableFunc(all, func(a, b grid.Cell) int { return square(a) - square(b) })
	for _, c := range all {
		if len(members) < p.MinCells {
			members[c] = true
		}
	}
	for _, c := range all {
		if p.RadiusKM > 0 && math.Sqrt(float64(square(c)))*g.CellKM() <= p.RadiusKM+1e-9 {
			members[c] = true
		}
	}
	var set []grid.Cell
	for c := range members {
		set = append(set, c)
	}
	slices.Sort(set)
	return set
}

func TestPaddingByDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(71, 1))
	var s LocationSet
	padded, completed, discs := 0, 0, 0
	for i := range 3000 {
		g := plainGrid(t, 1+r.IntN(25), 1+r.IntN(25), .34)
		d := randomPrior(r, g.Cells())
		if i%2 == 0 { // a prior of few cells
			d = &mobility.Distribution{}
			for _, c := range randomCells(r, g.Cells(), 3/float64(g.Cells())) {
				d.Cells, d.P = append(d.Cells, c), append(d.P, float64(1+r.IntN(2)))
			}
			if len(d.Cells) == 0 {
				d.Cells, d.P = []grid.Cell{grid.Cell(r.IntN(g.Cells()))}, []float64{1}
			}
			d.Normalize()
		}
		delta := []float64{0, .01, .3, .7}[r.IntN(4)]
		p := Padding{MinCells: []int{0, 1, 2, 5, 9, 40, 700}[r.IntN(7)], RadiusKM: []float64{0, .1, .34, .68, 1.02, 2.5, 100}[r.IntN(7)]}
		s.ChoosePadded(g, d, delta, p)
		if want := paddedByDefinition(g, d, delta, p); !slices.Equal(s.Cells, want) {
			t.Fatalf("case %d, map of %d×%d, δ = %g, %+v, prior %v: got %v, want %v", i, g.Width(), g.Height(), delta, p, d, s.Cells, want)
		}
		plain := sortedPrefix(d, delta)
		if len(plain) < p.MinCells {
			padded++
			if len(d.Cells) < p.MinCells {
				completed++
			}
		}
		if p.RadiusKM > 0 && len(s.Cells) > max(len(plain), p.MinCells) {
			discs++
		}
		if s.ChoosePadded(g, d, delta, Padding{}); !slices.Equal(s.Cells, plain) {
			t.Fatalf("case %d: no padding gives %v, want %v", i, s.Cells, plain)
		}
	}
	if padded < 100 || completed < 100 || discs < 100 {
		t.Errorf("poor cases: %d sets padded, %d beyond the prior, %d by a disc", padded, completed, discs)
	}
}

// TestPaddingOnALine asks for more cells than one is wide: the square has to grow along the map.
func TestPaddingOnALine(t *testing.T) {
	t.Parallel()
	var s LocationSet
	for _, size := range [][2]int{{200, 1}, {1, 200}} {
		g := plainGrid(t, size[0], size[1], 1)
		s.ChoosePadded(g, &mobility.Distribution{Cells: []grid.Cell{3}, P: []float64{1}}, .1, Padding{MinCells: 100})
		if len(s.Cells) != 100 || s.Cells[0] != 0 || s.Cells[99] != 99 {
			t.Errorf("%v: %v", size, s.Cells)
		}
	}
}

// TestPaddedSetHasARadius checks what the disc is for: K holds every vector up to the radius wherever the map has room for the disc, for priors of
// any shape.
func TestPaddedSetHasARadius(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(72, 1))
	g := plainGrid(t, 60, 60, .25)
	var s LocationSet
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
		s.ChoosePadded(g, d, .05, Padding{RadiusKM: radius})
		h.OfCells(g, s.Cells)
		// The disc's cells miss its rim by less than a cell's side, and K has twice its reach.
		if inner := 1 / h.normRate(); inner < 2*(radius-.25) {
			t.Fatalf("K has the inner radius %g km", inner)
		}
		h.OfCells(g, sortedPrefix(d, .05))
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
			s.set.ChoosePadded(s.grid, s.prior, .5, Padding{MinCells: 1 + r.IntN(9), RadiusKM: []float64{0, .7}[r.IntN(2)]})
			s.hull.OfCells(s.grid, s.set.Cells)
			s.search.Reset(s.grid, s.set.Cells)
			m := mustMechanism(t, name)
			m.Prepare(&s.hull, s.epsilon)
			centre := centres(nil, s.grid, s.set.Cells)
			emission := centre[:0:0]
			for _, member := range s.search.All(nil, allCells(s.grid)) {
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
