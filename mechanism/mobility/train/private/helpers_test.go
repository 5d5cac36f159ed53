package private

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
)

// plainGrid returns a width × height grid of 1 km cells.
func plainGrid(t testing.TB, width, height int) *grid.Grid {
	t.Helper()
	g, err := grid.Plain(width, height, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func pcg(seed uint64) noise.Source { return rand.NewPCG(seed, 3) }

func trainer(t testing.TB, g *grid.Grid, o train.Options, fixes []train.Fix) *train.Trainer {
	t.Helper()
	tr, err := train.New(g, time.Minute, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fixes {
		tr.Add(f)
	}
	return tr
}

// fixesAt puts a user into the middle of the cells, one for each second offset given.
func fixesAt(g *grid.Grid, user string, seconds []int64, cells []grid.Cell) []train.Fix {
	var fixes []train.Fix
	for i, c := range cells {
		lat, lon := g.ToDegrees(g.Centre(c))
		fixes = append(fixes, train.Fix{User: user, TimeMS: 1000 * seconds[i], Lat: lat, Lon: lon})
	}
	return fixes
}

// wander returns random walks, with gaps, doubled times and several fixes a step.
func wander(g *grid.Grid, users, fixes int, seed uint64) []train.Fix {
	random := rand.New(rand.NewPCG(seed, 4))
	var all []train.Fix
	for u := range users {
		x, y := random.IntN(g.Width()), random.IntN(g.Height())
		at := int64(random.IntN(1000))
		for range fixes {
			x = min(max(x+random.IntN(3)-1, 0), g.Width()-1)
			y = min(max(y+random.IntN(3)-1, 0), g.Height()-1)
			at += []int64{0, 10, 30, 60, 60, 60, 200}[random.IntN(7)]
			all = append(all, fixesAt(g, fmt.Sprint("user", u), []int64{at},
				[]grid.Cell{grid.Cell(y*g.Width() + x)})...)
		}
	}
	return all
}
