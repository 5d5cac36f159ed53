package aggregate_test

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
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

// A fleet has gathered at the eastern end of a road, which the model does not expect. A reader of
// the published records has the model and no key, and still finds out.
func ExampleReader() {
	model := road()
	reader, err := aggregate.NewReader(aggregate.ReadOptions{
		Models:      aggregate.Models{model},
		TellEpsilon: true, TellDelta: true, TellMechanism: true, // the records tell
		Collect:  aggregate.CollectOptions{WindowSteps: 5},
		Estimate: aggregate.EstimateOptions{Seed: 1},
	}, func(_ *aggregate.Window, d aggregate.Density) error {
		for zone := range d.Fitted {
			fmt.Printf("kilometre %d: %3.0f vehicles (%.0f to %.0f), by the model alone %.0f\n",
				zone+1, d.Fitted[zone], d.Low[zone], d.High[zone], d.Blind[zone])
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The service: 400 vehicles stand in the eastern cell and release once a minute, five times.
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
			p := aggregate.Published{
				Mechanism: law.Lattice, Epsilon: out.Epsilon, Delta: options.Delta,
				HasRelease: true,
			}
			p.User, p.Model, p.Step = user, model.ID(), step
			p.Kind, p.Number = out.Kind, int64(out.Number)
			p.ReleaseLatitude, p.ReleaseLongitude = model.Grid.ToDegrees(out.Release)
			p.Latitude, p.Longitude = model.Grid.ToDegrees(out.Estimate)
			if err := reader.Add(p); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	summary, err := reader.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d records followed\n", summary.Counts.Followed, summary.Counts.Records)
	// Output:
	// kilometre 1:  55 vehicles (4 to 156), by the model alone 125
	// kilometre 2: 133 vehicles (11 to 368), by the model alone 149
	// kilometre 3: 212 vehicles (26 to 400), by the model alone 125
	// 2000 of 2000 records followed
}
