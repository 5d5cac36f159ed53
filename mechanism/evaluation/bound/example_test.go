package bound_test

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/evaluation/bound"
	"github.com/geodither/geodither/mechanism/grid"
)

// A user is in one of two towns of nine cells each. Randomized response over the 18 cells is far
// from the best that ε-DP allows. Over the two towns it is so close that nothing better is worth
// looking for.
func ExampleSquaredError() {
	const epsilon = 1
	var places []grid.Point
	var mass []float64
	for k := range 18 {
		places = append(places, grid.Point{X: float64(8*(k/9) + k%3), Y: float64(k / 3 % 3)})
		mass = append(mass, 1)
	}
	// respond is randomized response over outputs consecutive blocks of places.
	respond := func(outputs int) [][]float64 {
		rows := make([][]float64, outputs)
		for j := range rows {
			rows[j] = make([]float64, len(places))
			for k := range places {
				rows[j][k] = 1 / (float64(outputs-1) + math.Exp(epsilon))
				if k*outputs/len(places) == j {
					rows[j][k] *= math.Exp(epsilon)
				}
			}
		}
		return rows
	}
	r, err := bound.SquaredError(places, mass, epsilon)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []struct {
		name  string
		error float64
	}{
		{"no release", r.Variance},
		{"response over cells", bound.Error(places, mass, respond(18))},
		{"response over towns", bound.Error(places, mass, respond(2))},
		{"mechanism that was found", r.Reached},
		{"bound on all mechanisms", r.Bound},
	} {
		fmt.Printf("%-24s %.1f km²\n", line.name, line.error)
	}
	// Output:
	// no release               17.3 km²
	// response over cells      17.2 km²
	// response over towns      13.9 km²
	// mechanism that was found 13.9 km²
	// bound on all mechanisms  13.9 km²
}
