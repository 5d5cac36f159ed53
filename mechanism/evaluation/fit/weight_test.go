package fit

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestWeigh: what is weighed is what is measured, and one user with most of the steps, or of the
// moves, is found.
func TestWeigh(t *testing.T) {
	even := []mobility.Track{
		track("a", 1, 2, 3), track("b", 1, 2), track("b", 3, 4), track("c", 1, 2, 3, 4),
		track("d", 5),
	}
	ruled := []mobility.Track{track("a", 1, 2, 3), track("b", 1, 2), track("c", 1, 2, 3, 4, 5, 6)}
	pieces := []mobility.Track{
		track("a", 1, 2), track("a", 1, 2), track("a", 1, 2), track("c", 1, 2, 3, 4, 5, 6),
	}
	for _, c := range []struct {
		name      string
		tracks    []mobility.Track
		o         Options
		want      Weight
		dominated bool
	}{
		{"even", even, Options{}, Weight{4, 12, 7, 4, 3}, false},
		{"long ones", even, Options{MinSegment: 3}, Weight{2, 7, 5, 4, 3}, true},
		{"one above all", ruled, Options{}, Weight{3, 11, 8, 6, 5}, true},
		{"cut evenly", ruled, Options{MinSegment: 2, MaxSteps: 8}, Weight{3, 8, 5, 3, 2}, false},
		{"one above all in moves", pieces, Options{}, Weight{2, 12, 8, 6, 5}, true},
		{
			"half",
			[]mobility.Track{track("a", 1, 2), track("b", 1, 2)},
			Options{},
			Weight{2, 4, 2, 2, 1},
			false,
		},
		{"nobody", nil, Options{}, Weight{}, false},
	} {
		w := Weigh(slices.Values(c.tracks), c.o)
		if w != c.want || w.Dominated() != c.dominated {
			t.Errorf("%s: %+v (%v), want %+v", c.name, w, w.Dominated(), c.want)
		}
	}
	m := walk(t, .1)
	o := Options{
		Release: mechanism.Options{Epsilon: 1, Delta: .1}, Deltas: []float64{}, MinSegment: 5,
		MaxSteps: 37,
	}
	tracks := wander(m, 9, 12)
	if fit, w := measure(t, m, tracks, o), Weigh(slices.Values(tracks), o); fit.Users != w.Users ||
		fit.Steps != w.Steps || fit.Moves != w.Moves {
		t.Errorf(
			"%d users, %d steps and %d moves are measured, and %+v was weighed", fit.Users,
			fit.Steps, fit.Moves, w,
		)
	}
}
