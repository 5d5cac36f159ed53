package train_test

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

const traces = `user_id,timestamp,latitude,longitude
bus 7,2026-11-02T08:00:00Z,53.4055,-2.9790
bus 7,2026-11-02T08:01:00Z,53.4074,-2.9752
bus 7,2026-11-02T08:02:00Z,53.4097,-2.9719
bus 7,2026-11-02T08:03:00Z,53.4121,-2.9688
bus 12,2026-11-02T08:01:00Z,53.4098,-2.9717
bus 12,2026-11-02T08:02:00Z,53.4075,-2.9753
bus 12,2026-11-02T08:03:00Z,53.4053,-2.9789
`

// Example goes the whole way, from a CSV of traces to places that are safe to publish. It learns
// from the traces how buses move and then sanitizes the same traces. The model is assumed to be
// public; where it must protect the users whom it was learned from, train it by the package
// private.
func Example() {
	g := must(grid.New(grid.Box{South: 53.40, West: -2.99, North: 53.42, East: -2.95}, 250))
	trainer := must(train.New(g, time.Minute, train.Options{}))
	var fixes []train.Fix
	for _, row := range must(csv.NewReader(strings.NewReader(traces)).ReadAll())[1:] {
		at := must(time.Parse(time.RFC3339, row[1])).UnixMilli()
		lat, lon := must(strconv.ParseFloat(row[2], 64)), must(strconv.ParseFloat(row[3], 64))
		fixes = append(fixes, train.Fix{User: row[0], TimeMS: at, Lat: lat, Lon: lon})
		trainer.Add(fixes[len(fixes)-1])
	}
	model, report, err := trainer.Finish()
	fmt.Println(report.Transitions, "transitions of", report.Users, "users, error", err)

	key := noise.KeyFromSeed(1) // keep a real one secret: noise.NewKey()
	options := mechanism.Options{Epsilon: 3}
	sanitizer := must(mechanism.NewSanitizer(model, noise.NewKeyed(key), options))
	states := map[string]*mechanism.State{"bus 7": {}, "bus 12": {}}
	for _, f := range fixes {
		in := mechanism.Input{
			User: f.User, Step: model.StepAt(f.TimeMS),
			Cell: g.Locate(f.Lat, f.Lon),
		}
		in.Release = true
		out := must(sanitizer.Step(states[f.User], in))
		lat, lon := g.ToDegrees(out.Estimate)
		fmt.Printf("%-6s %.4f %.4f ± %.1f km\n", f.User, lat, lon, out.RadiusKM)
	}
	// Output:
	// 5 transitions of 2 users, error <nil>
	// bus 7  53.4105 -2.9767 ± 1.1 km
	// bus 7  53.4084 -2.9728 ± 1.1 km
	// bus 7  53.4089 -2.9715 ± 0.8 km
	// bus 7  53.4119 -2.9699 ± 1.0 km
	// bus 12 53.4105 -2.9767 ± 1.1 km
	// bus 12 53.4079 -2.9785 ± 1.0 km
	// bus 12 53.4046 -2.9790 ± 0.9 km
}

// must panics on an error, so that the example stays short.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// ExampleTrainer learns from one user who goes to and fro between two cells.
func ExampleTrainer() {
	g := must(grid.New(grid.Box{South: 10, West: 20, North: 10.05, East: 20.05}, 500))
	trainer := must(train.New(g, time.Minute, train.Options{KernelRadius: 2}))
	for minute := range int64(60) {
		lon := 20.021 + .005*float64(minute%2)
		trainer.Add(train.Fix{User: "u", TimeMS: minute * 60_000, Lat: 10.021, Lon: lon})
	}
	model, report, err := trainer.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Transitions, "transitions out of", report.RowsSeen, "cells")
	here, there := g.Locate(10.021, 20.021), g.Locate(10.021, 20.026)
	var row mobility.Distribution
	model.Row(&row, model.ClassAt(0), here)
	for _, c := range []grid.Cell{here, there} {
		fmt.Printf("from column %d to %d: %.2f\n", g.Column(here), g.Column(c), row.At(c))
	}
	// Output:
	// 59 transitions out of 2 cells
	// from column 4 to 4: 0.13
	// from column 4 to 5: 0.73
}
