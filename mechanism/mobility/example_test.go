package mobility_test

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Example is a filter on a road of three cells: it predicts where a user is after two steps, and
// then updates that by an observation.
func Example() {
	g, err := grid.Plain(3, 1, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := &mobility.Model{
		Grid: g, Step: time.Minute,
		Matrices: []*mobility.Matrix{{
			RowStart: []int64{0, 2, 5, 7},
			Columns:  []grid.Cell{0, 1, 0, 1, 2, 1, 2},
			Values:   []float64{.5, .5, .25, .5, .25, .5, .5},
		}},
		Initial: mobility.Distribution{Cells: []grid.Cell{1}, P: []float64{1}},
	}
	var next mobility.Distribution
	mobility.NewPredictor(model).Predict(&next, &model.Initial, 0, 2)
	fmt.Println("two steps later", next.P)

	// The observation is four times as likely in the eastern cell as in the others.
	evidence, _ := mobility.Update(&next, &next, []float64{.2, .2, .8})
	fmt.Printf("evidence %.2f, posterior %.3f, on average at %.2f km\n", evidence, next.P,
		next.Mean(g).X)
	// Output:
	// two steps later [0.25 0.5 0.25]
	// evidence 0.35, posterior [0.143 0.286 0.571], on average at 1.93 km
}
