package mechanism_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

const points = `user_id,timestamp,latitude,longitude
bus 7,2026-11-02T08:00:00Z,53.4055,-2.9880
bus 12,2026-11-02T08:00:00Z,53.4067,-2.9585
bus 7,2026-11-02T08:01:00Z,53.4057,-2.9852
bus 12,2026-11-02T08:01:00Z,53.4070,-2.9551
bus 7,2026-11-02T08:02:00Z,53.4061,-2.9819
`

// From points in a CSV to points that may be published. The model is public: package train learns
// one from traces, here it is a road of nine cells. A user's state is all that is kept between two
// points; it has a binary encoding.
func ExampleSanitizer() {
	g, err := grid.New(grid.Box{South: 53.405, West: -2.99, North: 53.4075, East: -2.95}, 300)
	check(err)
	model := road(g, time.Minute, 0, 2, 4, 6, 8)
	sanitizer, err := mechanism.NewSanitizer(model,
		noise.NewKeyed(noise.KeyFromSeed(1)), // noise.NewKey makes a real one; keep it secret
		mechanism.Options{Epsilon: 2})
	check(err)
	rows, err := csv.NewReader(strings.NewReader(points)).ReadAll()
	check(err)
	states := map[string]*mechanism.State{}
	for _, row := range rows[1:] {
		at, err := time.Parse(time.RFC3339, row[1])
		check(err)
		lat, err := strconv.ParseFloat(row[2], 64)
		check(err)
		lon, err := strconv.ParseFloat(row[3], 64)
		check(err)
		if states[row[0]] == nil {
			states[row[0]] = new(mechanism.State)
		}
		out, err := sanitizer.Step(states[row[0]], mechanism.Input{
			User: row[0], Step: model.StepAt(at.UnixMilli()),
			Cell: g.Locate(lat, lon), Release: true,
		})
		check(err)
		lat, lon = out.Grid.ToDegrees(out.Estimate)
		fmt.Printf("%s,%s,%.4f,%.4f ± %.0f m\n", row[0], row[1], lat, lon, 1000*out.RadiusKM)
	}
	// Output:
	// bus 7,2026-11-02T08:00:00Z,53.4063,-2.9797 ± 2075 m
	// bus 12,2026-11-02T08:00:00Z,53.4063,-2.9601 ± 2053 m
	// bus 7,2026-11-02T08:01:00Z,53.4063,-2.9826 ± 556 m
	// bus 12,2026-11-02T08:01:00Z,53.4063,-2.9570 ± 567 m
	// bus 7,2026-11-02T08:02:00Z,53.4063,-2.9843 ± 582 m
}

// One fix of one user, as the README has it.
func Example() {
	g, err := grid.New(grid.Box{South: 53.405, West: -2.99, North: 53.4075, East: -2.95}, 300)
	check(err)
	model, key := road(g, time.Minute, 0, 2, 4, 6, 8), noise.KeyFromSeed(1)
	at := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(key),
		mechanism.Options{Epsilon: 2})
	check(err)
	state := new(mechanism.State) // of one user
	out, err := sanitizer.Step(state, mechanism.Input{
		User: "bus 7", Step: model.StepAt(at.UnixMilli()),
		Cell: model.Grid.Locate(53.4055, -2.9880), Release: true,
	})
	check(err)
	lat, lon := out.Grid.ToDegrees(out.Estimate)
	fmt.Printf("%.4f, %.4f ± %.0f m\n", lat, lon, 1000*out.RadiusKM)
	// Output:
	// 53.4063, -2.9797 ± 2075 m
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// road is a model of cells in a row: in each step half of all vehicles stay, and the others go to a
// neighbouring cell. They start in any of some cells.
func road(g *grid.Grid, step time.Duration, start ...grid.Cell) *mobility.Model {
	m := &mobility.Matrix{RowStart: []int64{0}}
	last := grid.Cell(g.Width() - 1)
	for from := range last + 1 {
		for to := max(from-1, 0); to <= min(from+1, last); to++ {
			p := .5
			if from != to && from > 0 && from < last {
				p = .25
			}
			m.Columns, m.Values = append(m.Columns, to), append(m.Values, p)
		}
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
	}
	initial := mobility.Distribution{Cells: start}
	for range start {
		initial.P = append(initial.P, 1/float64(len(start)))
	}
	return &mobility.Model{Grid: g, Step: step, Matrices: []*mobility.Matrix{m}, Initial: initial}
}

// One user's reports: two come out with noise, also where the model is sure of the place, the
// third, in the same minute, is repeated at no cost, and a last one only predicts.
func ExampleSanitizer_Step() {
	g, _ := grid.Plain(3, 1, 1)
	model := road(g, time.Minute, 1)
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)),
		mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .01})
	if err != nil {
		fmt.Println(err)
		return
	}
	var state mechanism.State
	for _, in := range []mechanism.Input{
		{User: "bus 7", Step: 10, Cell: 1, Release: true},
		{User: "bus 7", Step: 11, Cell: 2, Release: true},
		{User: "bus 7", Step: 11, Cell: 2, Release: true},
		{User: "bus 7", Step: 12},
	} {
		out, err := sanitizer.Step(&state, in)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-9v release (%.2f, %.2f), estimate (%.2f, %.2f) ± %.2f km, ε %g\n",
			out.Kind, out.Release.X, out.Release.Y, out.Estimate.X, out.Estimate.Y, out.RadiusKM,
			out.Epsilon)
	}
	fmt.Println("spent", state.EpsilonSpent)
	// Output:
	// released  release (3.93, 0.50), estimate (1.50, 0.50) ± 0.71 km, ε 1
	// released  release (2.74, 0.50), estimate (1.74, 0.50) ± 1.95 km, ε 1
	// repeated  release (2.74, 0.50), estimate (1.74, 0.50) ± 1.95 km, ε 0
	// predicted release (1.62, 0.50), estimate (1.62, 0.50) ± 1.83 km, ε 0
	// spent 2
}

// A reader of what one user published: where the user was at each moment, by the records up to it
// and by all of them. The reader has the model and the options, and no key.
func ExampleSmoother() {
	g, _ := grid.Plain(9, 1, 1)
	model := road(g, time.Minute, 0)
	options := mechanism.Options{Epsilon: 2}
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), options)
	check(err)
	reader, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(2)), options)
	check(err) // a reader draws nothing: any key will do
	smoother := mechanism.NewSmoother(options, mechanism.SmoothAll)
	var published, seen mechanism.State
	var block mechanism.Block
	var estimates []float64
	var smoothed []mechanism.Smoothed // from a block's last moment to its first
	each := func(s mechanism.Smoothed) { smoothed = append(smoothed, s) }
	for step := range int64(6) {
		out, err := sanitizer.Step(&published, mechanism.Input{
			User: "bus 7", Step: step, Cell: grid.Cell(step), Release: true,
		})
		check(err)
		_, err = smoother.Observe(&block, reader, &seen, mechanism.Seen{
			Step: step, Kind: out.Kind, Release: out.Release,
		}, each)
		check(err)
		estimates = append(estimates, out.Estimate.X)
	}
	smoother.Finish(&block, each)
	slices.Reverse(smoothed)
	for i, s := range smoothed {
		fmt.Printf("at %.1f km: estimate %.1f, smoothed %.1f ± %.1f\n", float64(s.Step)+.5,
			estimates[i], s.Estimate.X, s.RadiusKM)
	}
	// Output:
	// at 0.5 km: estimate 0.5, smoothed 0.5 ± 0.7
	// at 1.5 km: estimate 1.4, smoothed 1.5 ± 0.7
	// at 2.5 km: estimate 2.1, smoothed 2.4 ± 1.6
	// at 3.5 km: estimate 2.6, smoothed 3.1 ± 1.3
	// at 4.5 km: estimate 3.4, smoothed 3.7 ± 1.9
	// at 5.5 km: estimate 4.2, smoothed 4.2 ± 2.4
}

// Two releases of ε = .5 in any 24 hours, which are three steps, and the last one again where there
// is no more to spend. The fix of step 3 may lie less than 24 hours after that of step 0.
func ExampleBudget() {
	g, _ := grid.Plain(3, 1, 10)
	model := road(g, 8*time.Hour, 1)
	options := mechanism.Options{
		Mechanism: law.Lattice, Epsilon: .5, Delta: .01,
		Budget: mechanism.Budget{Epsilon: 1, WindowSteps: 3, Spent: mechanism.SpentRepeat},
	}
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.KeyFromSeed(1)), options)
	if err != nil {
		fmt.Println(err)
		return
	}
	var state mechanism.State
	for step := range int64(5) {
		in := mechanism.Input{User: "bus 7", Step: step, Cell: 1, Release: true}
		out, err := sanitizer.Step(&state, in)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-8v ε %g, spent %g, ρ %g\n", out.Kind, out.Epsilon, state.EpsilonSpent,
			state.Rho)
	}
	// Output:
	// released ε 0.5, spent 0.5, ρ 0.125
	// released ε 0.5, spent 1, ρ 0.25
	// repeated ε 0, spent 1, ρ 0.25
	// repeated ε 0, spent 1, ρ 0.25
	// released ε 0.5, spent 1.5, ρ 0.375
}

// A cell outside the location set emits like its surrogate, so nobody can tell the two apart, and
// the posterior stays within e^ε of the prior. The paper's own formula, which lets the cell emit
// from its own place, moves it further.
func ExampleInference() {
	g, _ := grid.Plain(6, 2, 1)
	prior := mobility.Distribution{
		Cells: []grid.Cell{0, 1, 2, 3, 4, 5, 6},
		P:     []float64{.25, .25, .01, .01, .01, .01, .46},
	}
	var set law.LocationSet
	set.Choose(&prior, .1)
	var hull law.SensitivityHull
	hull.OfCells(g, set.Cells)
	var search law.Surrogates
	search.Reset(g, set.Cells)

	pim, _ := law.New(law.Options{Name: law.PIM})
	pim.Prepare(&hull, 1)
	z := grid.Point{X: 9, Y: 0.5} // a release far to the east
	places := func(cells []grid.Cell) []convex.Vec {
		var v []convex.Vec
		for _, c := range cells {
			v = append(v, convex.Vec(g.Centre(c)))
		}
		return v
	}
	var inference mechanism.Inference
	var posterior mobility.Distribution
	change := func(likelihood []float64) float64 {
		mobility.Update(&posterior, &prior, likelihood)
		return math.Log(posterior.P[5] / prior.P[5])
	}
	fmt.Println("set:", set.Cells)
	fmt.Printf("cell 5, ln posterior/prior: surrogate %.2f, paper %.2f\n",
		change(inference.Surrogate(pim, z, places(set.Cells), search.All(nil, prior.Cells))),
		change(inference.Paper(pim, z, places(prior.Cells))))
	// Output:
	// set: [0 1 6]
	// cell 5, ln posterior/prior: surrogate 0.60, paper 3.69
}
