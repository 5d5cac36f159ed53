package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// The map has side × side cells, and the model steps of wanderStep.
const (
	side       = 12
	wanderStep = 30 * time.Second
)

// wanderGrid returns the map, with cells of half a kilometre.
func wanderGrid(tb testing.TB) *grid.Grid {
	tb.Helper()
	g, err := grid.Plain(side, side, .5)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// wandering returns a trainer that has been given so many users, each for so many steps, who wander
// over the map.
func wandering(tb testing.TB, g *grid.Grid, o train.Options, users, steps int) *train.Trainer {
	tb.Helper()
	trainer, err := train.New(g, wanderStep, o)
	if err != nil {
		tb.Fatal(err)
	}
	for u := range users {
		wander(trainer, g, fmt.Sprintf("user-%02d", u), steps, uint64(u))
	}
	return trainer
}

// wander gives a trainer so many steps of a user; every tenth step has no fix.
func wander(trainer *train.Trainer, g *grid.Grid, user string, steps int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, y := rng.IntN(side), rng.IntN(side)
	for i := range steps {
		switch rng.IntN(6) {
		case 0:
			x = min(x+1, side-1)
		case 1:
			x = max(x-1, 0)
		case 2:
			y = min(y+1, side-1)
		case 3:
			y = max(y-1, 0)
		}
		if i%10 == 7 {
			continue
		}
		lat, lon := g.ToDegrees(g.Centre(grid.Cell(y*side + x)))
		trainer.Add(
			train.Fix{User: user, TimeMS: int64(i) * wanderStep.Milliseconds(), Lat: lat, Lon: lon})
	}
}

// near says that two numbers differ by rounding alone.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func testDefinition() Definition {
	return Definition{
		Name: "wander", Title: "Wanderers", Timestamps: 20, Least: 20, MaxGap: 2 * time.Minute,
		Folds: 3,
	}
}

func testData(tb testing.TB) *Data {
	tb.Helper()
	d, err := NewData(testDefinition(),
		wandering(tb, wanderGrid(tb), train.Options{}, 7, 60))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func testStudy(tb testing.TB) *Study {
	tb.Helper()
	s, err := New([]*Data{testData(tb)}, Options{
		Also: Alsos(), Tool: "test",
		Extent: Extent{
			Seed: 3, TimeRuns: 3, Runs: 2, MaxUsers: 6, Epsilons: []float64{.5, 1},
			Deltas:            []float64{.01, .1},
			MechanismEpsilons: []float64{1, 4}, MechanismDeltas: []float64{.01, .3},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// walked returns what a measurement has of a point, measured here and now.
func walked(tb testing.TB, s *Study, w *Walks, at Point) (all Windows) {
	tb.Helper()
	for _, piece := range w.Pieces(s, at) {
		got, err := piece.Run(func(int64) error { return nil })
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, got.(Windows)...)
	}
	return all
}

// popular is a point of the popular model.
func popular(d *Data, v Variant, epsilon, delta float64) Point {
	return Point{
		Case: Case{Data: d, Kind: Popular}, Variant: v,
		Setting: Setting{Epsilon: epsilon, Delta: delta},
	}
}
