package train

import (
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
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
