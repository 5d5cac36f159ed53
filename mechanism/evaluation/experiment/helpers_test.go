package experiment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

const (
	testSide = 12
	testStep = 30 * time.Second
)

// wander gives a trainer so many steps of a user who wanders over the map; every tenth step has no fix.
func wander(trainer *train.Trainer, g *grid.Grid, user string, steps int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, y := rng.IntN(testSide), rng.IntN(testSide)
	for i := range steps {
		switch rng.IntN(6) {
		case 0:
			x = min(x+1, testSide-1)
		case 1:
			x = max(x-1, 0)
		case 2:
			y = min(y+1, testSide-1)
		case 3:
			y = max(y-1, 0)
		}
		if i%10 == 7 {
			continue
		}
		centre := g.Centre(grid.Cell(y*testSide + x))
		lat, lon := g.ToDegrees(centre)
		trainer.Add(train.Fix{User: user, TimeMS: int64(i) * testStep.Milliseconds(), Lat: lat, Lon: lon})
	}
}

func testGrid(tb testing.TB) *grid.Grid {
	tb.Helper()
	g, err := grid.Plain(testSide, testSide, .5)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func testTrainer(tb testing.TB, g *grid.Grid, o train.Options, users, steps int) *train.Trainer {
	tb.Helper()
	trainer, err := train.New(g, testStep, o)
	if err != nil {
		tb.Fatal(err)
	}
	for u := range users {
		wander(trainer, g, fmt.Sprintf("user-%02d", u), steps, uint64(u))
	}
	return trainer
}

func testDefinition() Definition {
	return Definition{Name: "wander", Title: "Wanderers", Timestamps: 20, Least: 20, MaxGap: 2 * time.Minute, Folds: 3}
}

func testData(tb testing.TB) *Data {
	tb.Helper()
	d, err := NewData(testDefinition(), testTrainer(tb, testGrid(tb), train.Options{}, 7, 60))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func testStudy(tb testing.TB) *Study {
	tb.Helper()
	s, err := NewStudy([]*Data{testData(tb)}, Options{
		Seed: 3, Also: Alsos(), TimeRuns: 3, Runs: 2, MaxUsers: 6, Epsilons: []float64{.5, 1}, Deltas: []float64{.01, .1}, Vehicles: 20, FleetEpsilons: []float64{1}, Tool: "test",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
