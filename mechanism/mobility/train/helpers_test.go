package train

import (
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
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
