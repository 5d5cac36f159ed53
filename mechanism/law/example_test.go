package law_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Two mechanisms on one location set of four cells: the square root of the mean squared error, and
// by which factor at most the release of a cell tells that cell from the others. The factor is at
// most e^ε = 2.72 whatever the release is.
func Example() {
	g, _ := grid.Plain(4, 4, 1)
	set := []grid.Cell{0, 1, 2, 5}
	var hull law.SensitivityHull
	hull.OfCells(g, set)
	places := make([]convex.Vec, len(set))
	for i, c := range set {
		places[i] = convex.Vec(g.Centre(c))
	}
	src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream([]byte("an example"))
	for _, name := range []string{law.Lattice, law.Laplace} {
		m, err := law.New(law.Options{Name: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		m.Prepare(&hull, 1)
		z := m.Sample(src, set[0])
		exponents := make([]float64, len(set))
		m.Exponents(exponents, z, places)
		factor := math.Exp(slices.Max(exponents) - slices.Min(exponents))
		fmt.Printf("%-8s error %.2f km, one release tells cells apart by a factor of %.2f\n",
			name, math.Sqrt(m.SquaredError()), factor)
	}
	// Output:
	// lattice  error 3.65 km, one release tells cells apart by a factor of 2.72
	// laplace  error 6.00 km, one release tells cells apart by a factor of 1.95
}

// A lattice of four steps to a cell's side.
func ExampleNew() {
	g, _ := grid.Plain(4, 4, 1)
	var hull law.SensitivityHull
	hull.OfCells(g, []grid.Cell{0, 1, 4, 5})
	m, _ := law.New(law.Options{Name: law.Lattice, Subdivision: 4})
	m.Prepare(&hull, 1)
	src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream([]byte("an experiment"))
	for range 3 {
		fmt.Println(m.Sample(src, 5)) // whole quarters of a cell away from (1.5, 1.5)
	}
	// Output:
	// {3.75 1.25}
	// {0.75 2}
	// {0.75 2.5}
}

func ExampleIsotropy() {
	var h law.SensitivityHull
	// Four places in a rectangle.
	h.OfPoints([]grid.Point{{X: 0, Y: 0}, {X: 4, Y: 0}, {X: 4, Y: 1}, {X: 0, Y: 1}})
	transform, _ := law.Isotropy(&h)
	m := h.Body().Moment()
	fmt.Printf("K has area %g and second moment diag(%.3f, %.3f); T = diag(%.3f, %.3f)\n",
		h.Body().Measure(), m.XX, m.YY, transform.XX, transform.YY)
	// Output:
	// K has area 16 and second moment diag(5.333, 0.333); T = diag(0.433, 1.732)
}

// The example of the paper's section 3.1. Cells are counted from 0 here, from 1 there.
func ExampleLocationSet() {
	prior := mobility.Distribution{
		Cells: []grid.Cell{0, 1, 2, 3, 4, 5},
		P:     []float64{.3, .4, .05, .2, .03, .02},
	}
	var set law.LocationSet
	set.Choose(&prior, .1)
	fmt.Println("δ = .1: ", set.Cells)
	set.Choose(&prior, .05)
	fmt.Println("δ = .05:", set.Cells)
	// Output:
	// δ = .1:  [0 1 3]
	// δ = .05: [0 1 2 3]
}
