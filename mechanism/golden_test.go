package mechanism

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

const goldenFolder = "testdata/golden"

// near checks a relative tolerance of 1e-9 of the larger value or of a given scale.
func near(t *testing.T, what string, got, want, scale float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > 1e-9*max(math.Abs(got), math.Abs(want), scale) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// goldenSetting is one case with everything computed up to the hull.
type goldenSetting struct {
	testcase.GoldenCase
	prior     mobility.Distribution
	grid      *grid.Grid // nil for free points
	set       law.LocationSet
	nearest   []int32 // of every cell of the map
	hull      law.SensitivityHull
	places    []convex.Vec // of every cell of the map
	setPlaces []convex.Vec
}

func TestGolden(t *testing.T) {
	t.Parallel()
	releases := 0
	for _, c := range testcase.Golden(t, goldenFolder) {
		releases += len(c.Z)
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s := prepareGolden(t, c)
			s.checkSurrogates(t)
			s.checkGeometry(t)
			s.checkNoise(t)
			for _, z := range c.Z {
				s.checkRelease(t, z)
			}
		})
	}
	if releases == 0 {
		t.Error("the golden cases hold no release")
	}
}

func prepareGolden(t *testing.T, c testcase.GoldenCase) *goldenSetting {
	t.Helper()
	s := &goldenSetting{GoldenCase: c}
	for i, p := range c.Prior {
		if p > 0 {
			s.prior.Cells, s.prior.P = append(s.prior.Cells, grid.Cell(i)), append(s.prior.P, p)
		}
	}
	for _, p := range c.Coords {
		s.places = append(s.places, convex.Vec{X: p[0], Y: p[1]})
	}
	s.set.Choose(&s.prior, c.Delta)
	if !slices.Equal(s.set.Cells, c.DeltaSet) {
		t.Fatalf("location set: got %v, want %v", s.set.Cells, c.DeltaSet)
	}
	near(t, "mass of the set", testcase.Mass(&s.prior, s.set.Cells), c.DeltaSetSum, 0)
	members := slices.Clone(s.set.Cells)
	slices.SortFunc(members, func(a, b grid.Cell) int {
		return cmp.Or(cmp.Compare(c.Prior[b], c.Prior[a]), cmp.Compare(a, b))
	})
	if !slices.Equal(members, c.DeltaSetByProb) {
		t.Errorf("location set by probability: got %v, want %v", members, c.DeltaSetByProb)
	}
	for _, cell := range s.set.Cells {
		s.setPlaces = append(s.setPlaces, s.places[cell])
	}
	if c.Grid == nil {
		var places []grid.Point
		for _, p := range s.setPlaces {
			places = append(places, grid.Point(p))
		}
		s.hull.OfPoints(places)
		return s
	}
	g, err := grid.Plain(c.Grid.W, c.Grid.H, c.Grid.Cell)
	if err != nil {
		t.Fatal(err)
	}
	s.grid = g
	s.hull.OfCells(g, s.set.Cells)
	all := make([]grid.Cell, c.M)
	for i := range all {
		all[i] = grid.Cell(i)
	}
	for i, p := range centres(nil, g, all) {
		near(t, "x of a centre", p.X, s.places[i].X, 0)
		near(t, "y of a centre", p.Y, s.places[i].Y, 0)
		if p != convex.Vec(g.Centre(grid.Cell(i))) {
			t.Errorf("cell %d: two centres", i)
		}
	}
	return s
}

func (s *goldenSetting) checkSurrogates(t *testing.T) {
	t.Helper()
	if s.grid == nil { // free points have no search of ours; what follows needs their surrogates
		for _, want := range s.Surrogate {
			i, _ := slices.BinarySearch(s.set.Cells, want)
			s.nearest = append(s.nearest, int32(i))
		}
		return
	}
	var search law.Surrogates
	search.Reset(s.grid, s.set.Cells)
	all := make([]grid.Cell, s.M)
	for i := range all {
		all[i] = grid.Cell(i)
	}
	s.nearest = search.All(nil, all)
	for i, want := range s.Surrogate {
		if got := s.set.Cells[s.nearest[i]]; got != want {
			t.Errorf("surrogate of %d: got %d, want %d", i, got, want)
		}
	}
	effective := s.set.Cells[search.Nearest(s.TrueCell)]
	if effective != s.EffectiveCell || (effective != s.TrueCell) != s.Drift {
		t.Errorf("effective cell: got %d, want %d, drift %t", effective, s.EffectiveCell, s.Drift)
	}
}

func (s *goldenSetting) checkGeometry(t *testing.T) {
	t.Helper()
	if s.grid != nil {
		var corners []convex.Vec
		for _, v := range convex.HullOfCells(nil, s.set.Cells, s.grid.Width()) {
			corners = append(corners,
				convex.Vec(s.grid.Centre(grid.Cell(v.Y*int64(s.grid.Width())+v.X))))
		}
		checkVertices(t, "hull", corners, s.Hull)
	}
	body := s.hull.Body()
	checkVertices(t, "K", body.Vertices(), s.K)
	if body.Dim() != s.Dim {
		t.Fatalf("dimension: got %d, want %d", body.Dim(), s.Dim)
	}
	near(t, "measure", body.Measure(), s.Measure, 0)
	m := body.Moment()
	near(t, "moment xx", m.XX, s.SecondMoment[0][0], m.Trace())
	near(t, "moment xy", m.XY, s.SecondMoment[0][1], m.Trace())
	near(t, "moment yx", m.XY, s.SecondMoment[1][0], m.Trace())
	near(t, "moment yy", m.YY, s.SecondMoment[1][1], m.Trace())
	transform, ok := law.Isotropy(&s.hull)
	if ok != (s.T != nil) {
		t.Fatalf("isotropic position: got %t, want %t", ok, s.T != nil)
	}
	if !ok {
		return
	}
	size := transform.XX + transform.YY
	near(t, "T xx", transform.XX, s.T[0][0], size)
	near(t, "T xy", transform.XY, s.T[0][1], size)
	near(t, "T yx", transform.XY, s.T[1][0], size)
	near(t, "T yy", transform.YY, s.T[1][1], size)
	near(t, "isotropic constant", math.Sqrt(m.Determinant)/body.Measure(), *s.IsotropicConst, 0)
	near(t, "anisotropy", m.Trace()/(2*math.Sqrt(m.Determinant)), *s.Anisotropy, 0)
}

func checkVertices(t *testing.T, what string, got []convex.Vec, want [][2]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i, v := range got {
		size := math.Abs(v.X) + math.Abs(v.Y)
		near(t, what+" x", v.X, want[i][0], size)
		near(t, what+" y", v.Y, want[i][1], size)
	}
}

func (s *goldenSetting) checkNoise(t *testing.T) {
	t.Helper()
	near(t, "Δ1+Δ2", s.hull.Extents(), s.LaplaceS, 0)
	near(t, "greatest ℓ1 distance", s.hull.Diameter1(), s.LaplaceTightS, 0)
	squared := func(name string) float64 {
		m := mustMechanism(t, name)
		m.Prepare(&s.hull, s.Eps)
		return m.SquaredError()
	}
	near(t, "squared error of PIM", squared(law.PIM), s.SquaredPIM, 0)
	near(t, "squared error of K-norm noise", squared(law.KNorm), s.SquaredPIM, 0)
	near(t, "squared error of Laplace", squared(law.Laplace), s.SquaredLaplace, 0)
	tight := s.LaplaceTightS / s.Eps
	near(t, "squared error of tight Laplace", squared(law.LaplaceTight), 4*tight*tight, 0)
}

func (s *goldenSetting) checkRelease(t *testing.T, r testcase.GoldenRelease) {
	t.Helper()
	z := grid.Point{X: r.Z[0], Y: r.Z[1]}
	body := s.hull.Body()
	reached := false
	for i, want := range r.Norm {
		got := body.GaugeFrom(convex.Vec(z), s.places[i])
		if want == nil {
			if !math.IsInf(got, 1) {
				t.Errorf("%s: norm of cell %d: got %g, want infinity", r.Kind, i, got)
			}
			continue
		}
		near(t, r.Kind+": norm", got, *want, 1e-3)
	}
	for _, member := range s.set.Cells {
		reached = reached || !math.IsInf(body.GaugeFrom(convex.Vec(z), s.places[member]), 1)
	}
	if reached != r.OnSupport {
		t.Errorf("%s: some cell reaches the release: got %t, want %t", r.Kind, reached, r.OnSupport)
	}
	for _, c := range []struct {
		mechanism                string
		paper, exact             []float64
		postPaper, postExact     []float64
		nextPaper, nextSurrogate []float64
	}{
		{
			law.PIM, r.PIMPaper, r.PIMExact, r.PostPIMPaper, r.PostPIMExact, r.NextPIMPaper,
			r.NextPIMExact,
		},
		{
			law.KNorm, r.PIMPaper, r.PIMExact, r.PostPIMPaper, r.PostPIMExact, r.NextPIMPaper,
			r.NextPIMExact,
		},
		{
			law.Laplace, r.LaplacePaper, r.LaplaceExact, r.PostLaplacePaper, r.PostLaplaceExact,
			nil,
			nil,
		},
	} {
		m := mustMechanism(t, c.mechanism)
		m.Prepare(&s.hull, s.Eps)
		paper, exact := s.densities(m, z)
		for i := range s.places {
			near(t, c.mechanism+": the paper's density", paper[i], c.paper[i], 1e-300)
			near(t, c.mechanism+": density at the surrogate", exact[i], c.exact[i], 1e-300)
		}
		var inference Inference
		var here []convex.Vec
		var nearest []int32
		for _, cell := range s.prior.Cells {
			here, nearest = append(here, s.places[cell]), append(nearest, s.nearest[cell])
		}
		name := c.mechanism + " of " + r.Kind
		s.checkPosterior(t, name+", paper", inference.Paper(m, z, here), c.postPaper, c.nextPaper)
		s.checkPosterior(t, name+", surrogate", inference.Surrogate(m, z, s.setPlaces, nearest),
			c.postExact, c.nextSurrogate)
	}
}

// densities returns the density at z for every cell of the map, from its own place and from its
// surrogate's.
func (s *goldenSetting) densities(m law.Mechanism, z grid.Point) (paper, exact []float64) {
	paper, exact = make([]float64, s.M), make([]float64, s.M)
	m.Exponents(paper, z, s.places)
	for i, e := range paper {
		paper[i] = math.Exp(m.LogPeak() + e)
	}
	for i := range exact {
		exact[i] = paper[s.set.Cells[s.nearest[i]]]
	}
	return paper, exact
}

func (s *goldenSetting) checkPosterior(
	t *testing.T, name string, likelihood, want, next []float64,
) {
	t.Helper()
	var posterior mobility.Distribution
	_, ok := mobility.Update(&posterior, &s.prior, likelihood)
	if ok != (want != nil) {
		t.Fatalf("%s: evidence: got %t, want %t", name, ok, want != nil)
	}
	if !ok {
		return
	}
	checkDense(t, name+": posterior", &posterior, want)
	if next == nil || s.Transitions == nil {
		return
	}
	model := &mobility.Model{Grid: s.grid, Matrices: []*mobility.Matrix{{
		RowStart: s.Transitions.RowPtr, Columns: s.Transitions.Col, Values: s.Transitions.Val,
	}}}
	var predicted mobility.Distribution
	mobility.NewPredictor(model).Predict(&predicted, &posterior, 0, 1)
	checkDense(t, name+": next prior", &predicted, next)
}

func checkDense(t *testing.T, what string, d *mobility.Distribution, want []float64) {
	t.Helper()
	got := make([]float64, len(want))
	for i, c := range d.Cells {
		got[c] = d.P[i]
	}
	for i, p := range got {
		if math.IsNaN(p) || math.Abs(p-want[i]) > 1e-12 {
			t.Errorf("%s of cell %d: got %v, want %v", what, i, p, want[i])
		}
	}
}
