package mobility_test

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// A model is trained from fixes of any order, here of one user who goes to and fro between two cells, and says where a user
// may be after some steps.
func Example() {
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.05, East: 20.05}, 500)
	if err != nil {
		fmt.Println(err)
		return
	}
	trainer, err := train.New(g, time.Minute, train.Options{KernelRadius: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for minute := range int64(60) {
		trainer.Add(train.Fix{User: "u", TimeMS: minute * 60_000, Lat: 10.021, Lon: 20.021 + .005*float64(minute%2)})
	}
	m, report, err := trainer.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	here, there := g.Locate(10.021, 20.021), g.Locate(10.021, 20.026)
	fmt.Printf("%d transitions of %d user, from column %d to %d\n", report.Transitions, report.Users, g.Column(here), g.Column(there))

	now := mobility.Distribution{Cells: []grid.Cell{here}, P: []float64{1}}
	var next mobility.Distribution
	mobility.NewPredictor(m).Predict(&next, &now, 0, 1)
	for i, c := range next.Cells {
		if c == here || c == there {
			fmt.Printf("column %d: %.2f\n", g.Column(c), next.P[i])
		}
	}

	// An observation that only the western half of the map explains.
	likelihood := make([]float64, next.Len())
	for i, c := range next.Cells {
		if g.Column(c) <= g.Column(here) {
			likelihood[i] = 1
		}
	}
	evidence, _ := mobility.Update(&next, &next, likelihood)
	fmt.Printf("evidence %.2f, then on average in column %.1f\n", evidence, next.Mean(g).X/g.CellKM()-.5)
	// Output:
	// 59 transitions of 1 user, from column 4 to 5
	// column 4: 0.08
	// column 5: 0.68
	// evidence 0.32, then on average in column 3.7
}
