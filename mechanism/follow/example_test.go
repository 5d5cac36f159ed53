package follow_test

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// road is a map of three cells of a kilometre in a row. A vehicle starts in any of them, mostly
// stays, and sometimes moves to a neighbour.
func road() *mobility.Model {
	g, _ := grid.Plain(3, 1, 1)
	return &mobility.Model{
		Grid: g, Step: time.Minute,
		Matrices: []*mobility.Matrix{{
			RowStart: []int64{0, 2, 5, 7},
			Columns:  []grid.Cell{0, 1, 0, 1, 2, 1, 2},
			Values:   []float64{.9, .1, .1, .8, .1, .1, .9},
		}},
		Initial: mobility.Distribution{Cells: []grid.Cell{0, 1, 2}, P: []float64{.25, .5, .25}},
	}
}

// 400 vehicles stand at the eastern end of a road, which the model does not expect. A reader of the
// published records has the model and no key, and sees some of it.
func ExampleSums() {
	model := road()
	sums, err := follow.NewSums(follow.SumOptions{
		Public: follow.Public{
			Models:      follow.Models{model},
			TellEpsilon: true, TellDelta: true, TellMechanism: true, // the records tell
		},
		WindowSteps: 5, Zones: model.Grid.Cells(), ZoneOf: model.Grid.Locate,
	}, func(w *follow.Window) error {
		fmt.Printf("%d vehicles, by kilometre %.0f\n", w.Vehicles, w.Posterior)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .01}
	service, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), options)
	if err != nil {
		fmt.Println(err)
		return
	}
	states := make([]mechanism.State, 400)
	for step := range int64(5) {
		for v := range states {
			user := fmt.Sprint("bus ", v)
			out, err := service.Step(&states[v],
				mechanism.Input{User: user, Step: step, Cell: 2, Release: true})
			if err != nil {
				fmt.Println(err)
				return
			}
			p := follow.Published{
				Mechanism: law.Lattice, Epsilon: out.Epsilon, Delta: options.Delta,
				HasRelease: true,
			}
			p.User, p.Model, p.Step = user, model.ID(), step
			p.Kind, p.Number = out.Kind, int64(out.Number)
			p.ReleaseLatitude, p.ReleaseLongitude = model.Grid.ToDegrees(out.Release)
			p.Latitude, p.Longitude = model.Grid.ToDegrees(out.Estimate)
			if err := sums.Add(p); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	if err := sums.Finish(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 400 vehicles, by kilometre [59 136 205]
}
