package mechanism

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestEstimateAgainstSorting compares mean and radius with sums over all cells in the order of
// their distance: without half a cell's diagonal the radius reaches just so many centres, and with
// it the far corners of as many cells lie within.
func TestEstimateAgainstSorting(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(62, 1))
	var e Estimator
	for i := range 2000 {
		g, err := grid.Plain(1+r.IntN(50), 1+r.IntN(50), .34)
		if err != nil {
			t.Fatal(err)
		}
		d := testcase.Prior(r, g.Cells())
		if i%3 == 0 {
			d.Round()
		}
		mean, radius := e.Estimate(g, d)
		total := d.Total()
		want := d.Mean(g)
		want = grid.Point{X: (want.X-.17)/total + .17, Y: (want.Y-.17)/total + .17}
		if mean.Distance(want) > 1e-9 {
			t.Fatalf("case %d: mean %v, want %v", i, mean, want)
		}
		reach := radius - .17*math.Sqrt2
		within, less, whole := 0.0, 0.0, 0.0
		for j, c := range d.Cells {
			if distance := g.Centre(c).Distance(mean); distance <= reach+1e-9 {
				within += d.P[j]
				if distance < reach-1e-9 {
					less += d.P[j]
				}
			}
			if farthestCorner(g, c, mean) <= radius+1e-9 {
				whole += d.P[j]
			}
		}
		if whole < (Credibility-1e-9)*total {
			t.Fatalf("case %d: radius %g holds all of cells of %g only", i, radius, whole/total)
		}
		if within < (Credibility-1e-9)*total || less >= (Credibility+1e-9)*total {
			t.Fatalf("case %d: radius %g holds %g, and less than it %g", i, radius, within/total,
				less/total)
		}
	}
}

// farthestCorner returns the distance from a place to the corner of a cell that is farthest from
// it.
func farthestCorner(g *grid.Grid, c grid.Cell, from grid.Point) float64 {
	centre, half, farthest := g.Centre(c), g.CellKM()/2, 0.0
	for _, corner := range []grid.Point{
		{X: half, Y: half},
		{X: half, Y: -half},
		{X: -half, Y: half},
		{X: -half, Y: -half},
	} {
		farthest = max(farthest, centre.Add(corner).Distance(from))
	}
	return farthest
}

func TestEstimateOfOneCell(t *testing.T) {
	t.Parallel()
	g, err := grid.Plain(4, 4, .5)
	if err != nil {
		t.Fatal(err)
	}
	mean, radius := new(Estimator).Estimate(g,
		&mobility.Distribution{Cells: []grid.Cell{6}, P: []float64{.5}})
	if mean != g.Centre(6) || math.Abs(radius-math.Hypot(.25, .25)) > 1e-15 {
		t.Errorf("got %v ± %g, want half a cell's diagonal", mean, radius)
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty distribution did not panic")
		}
	}()
	new(Estimator).Estimate(g, &mobility.Distribution{})
}

// TestMedianAgainstSearch compares the expected distance of the geometric median with that of every
// cell, of the mean, and of places around it.
func TestMedianAgainstSearch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(63, 1))
	e := Estimator{Place: EstimateMedian}
	atCell, between := 0, 0
	for i := range 1000 {
		g := testcase.Grid(t, 1+r.IntN(30), 1+r.IntN(30), 1)
		d := testcase.Prior(r, g.Cells())
		expected := func(p grid.Point) float64 {
			sum := 0.0
			for j, c := range d.Cells {
				sum += d.P[j] * p.Distance(g.Centre(c))
			}
			return sum
		}
		median, _ := e.Estimate(g, d)
		mean, _ := new(Estimator).Estimate(g, d)
		if best := new(Estimator).Best(g, d); best != (Best{mean, median}) {
			t.Fatalf("case %d: the best places are %v, want %v and %v", i, best, mean, median)
		}
		reached, least := expected(median), expected(mean)
		for _, c := range d.Cells {
			least = min(least, expected(g.Centre(c)))
			if g.Centre(c).Distance(median) < 1e-9 {
				atCell++
			}
		}
		for radius := 1.0; radius > 1e-4; radius /= 3 {
			for k := range 16 {
				sin, cos := math.Sincos(math.Pi / 8 * float64(k))
				least = min(least,
					expected(median.Add(grid.Point{X: radius * cos, Y: radius * sin})))
			}
		}
		if reached > least+1e-4*(1+least) {
			t.Fatalf("case %d: the expected distance to the median is %g, and %g is possible", i,
				reached, least)
		}
		if expected(mean) > reached*1.01 {
			between++
		}
	}
	if atCell < 50 || between < 50 {
		t.Errorf("poor cases: %d medians at a cell's centre, %d much better than the mean", atCell,
			between)
	}
}

// TestMedianIsNotDrawnAway moves a tenth of the mass far off.
func TestMedianIsNotDrawnAway(t *testing.T) {
	t.Parallel()
	g := testcase.Grid(t, 200, 1, 1)
	d := &mobility.Distribution{Cells: []grid.Cell{0, 1, 2, 199}, P: []float64{.3, .3, .3, .1}}
	mean, _ := new(Estimator).Estimate(g, d)
	median, _ := (&Estimator{Place: EstimateMedian}).Estimate(g, d)
	mode, _ := (&Estimator{Place: EstimateMode}).Estimate(g, d)
	if mean.X < 20 || math.Abs(median.X-1.5) > 1e-9 || mode != g.Centre(0) {
		t.Errorf("mean %v, median %v, mode %v", mean, median, mode)
	}
}

// TestRadiusOfEveryPlace checks the credible radius around median and mode by the definition.
func TestRadiusOfEveryPlace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(64, 1))
	for _, name := range []string{EstimateMedian, EstimateMode} {
		e := Estimator{Place: name}
		for i := range 300 {
			g := testcase.Grid(t, 1+r.IntN(40), 1+r.IntN(40), .34)
			d := testcase.Prior(r, g.Cells())
			place, radius := e.Estimate(g, d)
			reach := radius - .17*math.Sqrt2
			within, less, most := 0.0, 0.0, 0.0
			for j, c := range d.Cells {
				distance := g.Centre(c).Distance(place)
				if distance <= reach+1e-9 {
					within += d.P[j]
				}
				if distance < reach-1e-9 {
					less += d.P[j]
				}
				most = max(most, d.P[j])
			}
			if within < Credibility-1e-9 || less >= Credibility+1e-9 {
				t.Fatalf("%s, case %d: radius %g holds %g, and less than it %g", name, i, radius,
					within, less)
			}
			if name == EstimateMode {
				if j := indexOf(d.Cells, g.CellAt(place)); d.P[j] != most {
					t.Fatalf("case %d: a mode of probability %g, another cell has %g", i, d.P[j],
						most)
				}
			}
		}
	}
}

func indexOf(cells []grid.Cell, c grid.Cell) int {
	for i, other := range cells {
		if other == c {
			return i
		}
	}
	return -1
}

// TestRadiusIsCalibrated lets users follow the model, releases their places, and asks at the end of
// each walk whether the true cell lies within the radius: its centre as far as the radius without
// half a cell's diagonal, and a place drawn from the cell as far as the radius. The walks are
// independent, so the number within is binomial. A radius ends at the cell in which 95 % are
// reached, which may hold a little more: the posterior says how much, and the share within must
// agree with that, by a test of 5 standard deviations (a false alarm in 1.7 million runs, were the
// seeds not fixed).
func TestRadiusIsCalibrated(t *testing.T) {
	t.Parallel()
	model := roadModel(t)
	g := model.Grid
	for _, place := range []string{EstimateMean, EstimateMedian, EstimateMode} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(65, 1))
			s := newSanitizer(t, model, Options{
				Epsilon: 1, Delta: .05, Prune: -1, Estimate: place,
				ReleaseInterval: 3,
			})
			const walks, steps = 4000, 8
			centres, places, expected, kinds := 0, 0, 0.0, map[Kind]int{}
			for i := range walks {
				var state State
				var out Outcome
				path := append([]grid.Cell{model.Initial.Cells[0]},
					walk(model, r.Uint64(), steps)...)
				long := steps - i%2 // ends in a release or a prediction
				for step, cell := range path[:long] {
					out = mustStep(t, s, &state,
						Input{User: fmt.Sprint(i), Step: int64(step), Cell: cell, Release: true})
				}
				kinds[out.Kind]++
				truth := g.Centre(path[long-1])
				reach := out.RadiusKM - .17*math.Sqrt2 + 1e-9
				if truth.Distance(out.Estimate) <= reach {
					centres++
				}
				if truth.Add(grid.Point{
					X: .34 * (r.Float64() - .5),
					Y: .34 * (r.Float64() - .5),
				}).Distance(out.Estimate) <= out.RadiusKM {
					places++
				}
				for j, c := range state.Posterior.Cells {
					if g.Centre(c).Distance(out.Estimate) <= reach {
						expected += state.Posterior.P[j]
					}
				}
			}
			n, share := float64(walks), expected/walks
			deviation := math.Sqrt(share * (1 - share) / n)
			got := float64(centres) / n
			t.Logf("%.4f of the centres and %.4f of the places lie within; the posteriors say "+
				"%.4f ± %.4f", got, float64(places)/n, share, deviation)
			if math.Abs(got-share) > 5*deviation {
				t.Errorf("%.4f of the true cells lie within the radius, and the posteriors hold "+
					"%.4f ± %.4f", got, share, deviation)
			}
			if share < Credibility || share > .99 || float64(places)/n < Credibility-5*deviation {
				t.Errorf("the posteriors hold %.4f, and %.4f of the places lie within", share,
					float64(places)/n)
			}
			if kinds[Released] == 0 || kinds[Predicted] == 0 {
				t.Errorf("the walks end in %v", kinds)
			}
		})
	}
}
