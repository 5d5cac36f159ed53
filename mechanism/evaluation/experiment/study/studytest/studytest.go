// Package studytest has the traces that the experiments are tested on.
package studytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// The map has Side × Side cells, and the model steps of Step.
const (
	Side = 12
	Step = 30 * time.Second
)

// Grid returns the map, with cells of half a kilometre.
func Grid(tb testing.TB) *grid.Grid {
	tb.Helper()
	g, err := grid.Plain(Side, Side, .5)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Trainer returns a trainer that has been given so many users, each for so many steps, who wander
// over the map.
func Trainer(tb testing.TB, g *grid.Grid, o train.Options, users, steps int) *train.Trainer {
	tb.Helper()
	trainer, err := train.New(g, Step, o)
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
	x, y := rng.IntN(Side), rng.IntN(Side)
	for i := range steps {
		switch rng.IntN(6) {
		case 0:
			x = min(x+1, Side-1)
		case 1:
			x = max(x-1, 0)
		case 2:
			y = min(y+1, Side-1)
		case 3:
			y = max(y-1, 0)
		}
		if i%10 == 7 {
			continue
		}
		lat, lon := g.ToDegrees(g.Centre(grid.Cell(y*Side + x)))
		trainer.Add(
			train.Fix{User: user, TimeMS: int64(i) * Step.Milliseconds(), Lat: lat, Lon: lon})
	}
}

// Near says that two numbers differ by rounding alone.
func Near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }
