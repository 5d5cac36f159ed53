package aggregate

import (
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
)

func TestZones(t *testing.T) {
	t.Parallel()
	g := testcase.Town(t).Grid // 8 × 6 cells of .5 km
	z, err := NewZones(g, 4)
	if err != nil {
		t.Fatal(err)
	}
	if z.Count() != 4 || z.Columns() != 2 || z.Rows() != 2 || z.SideKM() != 2 {
		t.Errorf("%d zones of %g km", z.Count(), z.SideKM())
	}
	if z.Of(0) != 0 || z.Of(4) != 1 || z.Of(4*8+3) != 2 || z.Of(47) != 3 {
		t.Error("cells are in the wrong zones")
	}
	if low, high := z.Corners(3); low != (grid.Point{X: 2, Y: 2}) ||
		high != (grid.Point{X: 4, Y: 3}) {
		t.Errorf("the north-east zone reaches from %v to %v", low, high)
	}
	if BlockOf(g, 1.1) != 2 || BlockOf(g, .01) != 1 || BlockOf(g, 1e9) != 8 {
		t.Error("lengths become the wrong blocks")
	}
	if _, err := NewZones(g, 0); err == nil {
		t.Error("zones without cells")
	}
	m := z.PerKM2([]float64{4, 8, 0, 2})
	if m[0] != 1 || m[4] != 2 || m[47] != 1 { // the last zone is half as high
		t.Errorf("vehicles per km²: %v", m)
	}
}
