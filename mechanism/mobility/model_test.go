package mobility

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

func TestStepOf(t *testing.T) {
	for _, tt := range []struct{ timestampMS, stepMS, want int64 }{
		{0, 60_000, 0},
		{59_999, 60_000, 0},
		{60_000, 60_000, 1},
		{-1, 60_000, -1},
		{-60_000, 60_000, -1},
		{-60_001, 60_000, -2},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MinInt64, 1, math.MinInt64},
		{math.MinInt64, 1000, -9_223_372_036_854_776},
	} {
		if got := StepOf(tt.timestampMS, tt.stepMS); got != tt.want {
			t.Errorf("time %d in steps of %d ms: %d, want %d", tt.timestampMS, tt.stepMS, got,
				tt.want)
		}
		m := Model{Step: time.Duration(tt.stepMS) * time.Millisecond}
		if got := m.StepAt(tt.timestampMS); got != tt.want {
			t.Errorf("StepAt(%d) of a step of %s: %d, want %d", tt.timestampMS, m.Step, got,
				tt.want)
		}
	}
}

// TestRandomWalk: the walk is a model, and its steps go to the cell and its neighbours evenly, also
// at the edge of the map.
func TestRandomWalk(t *testing.T) {
	g := plainGrid(t, 4, 3)
	walk := (&Model{Grid: g, Step: time.Minute}).RandomWalk()
	if err := walk.Validate(); err != nil {
		t.Fatal(err)
	}
	if walk.Step != time.Minute || walk.Initial.Len() != 12 || walk.Initial.P[7] != 1./12 {
		t.Errorf("step %s, initial %v", walk.Step, walk.Initial)
	}
	for cell, want := range map[grid.Cell][]grid.Cell{
		0: {0, 1, 4, 5}, 5: {0, 1, 2, 4, 5, 6, 8, 9, 10}, 7: {2, 3, 6, 7, 10, 11},
	} {
		cells, p := walk.Matrices[0].Entries(cell)
		if !slices.Equal(cells, want) || p[0] != 1/float64(len(want)) || p[0] != p[len(p)-1] {
			t.Errorf("from %d to %v with %v, want %v", cell, cells, p, want)
		}
	}
}
