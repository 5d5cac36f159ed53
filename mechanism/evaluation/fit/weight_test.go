package fit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
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
		{"even", even, Options{MinSegment: 1}, Weight{4, 12, 7, 4, 3}, false},
		{"long ones", even, Options{MinSegment: 3}, Weight{2, 7, 5, 4, 3}, true},
		{"one above all", ruled, Options{MinSegment: 1}, Weight{3, 11, 8, 6, 5}, true},
		{"cut evenly", ruled, Options{MinSegment: 2, MaxSteps: 8}, Weight{3, 8, 5, 3, 2}, false},
		{"one above all in moves", pieces, Options{MinSegment: 1}, Weight{2, 12, 8, 6, 5}, true},
		{
			"half",
			[]mobility.Track{track("a", 1, 2), track("b", 1, 2)},
			Options{MinSegment: 1},
			Weight{2, 4, 2, 2, 1},
			false,
		},
		{"nobody", nil, Options{}, Weight{}, false},
	} {
		w, _ := weigh(slices.Values(c.tracks), c.o)
		if w != c.want || w.Dominated() != c.dominated {
			t.Errorf("%s: %+v (%v), want %+v", c.name, w, w.Dominated(), c.want)
		}
	}
	m := walk(t, .1)
	o := Options{
		Release: mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .1},
		Deltas:  []float64{}, MinSegment: 5,
		MaxSteps: 37,
	}
	tracks := wander(m, 9, 12)
	if fit, w := measure(t, m, tracks, o), Weigh(slices.Values(tracks), &o); fit.Users != w.Users ||
		fit.Steps != w.Steps || fit.Moves != w.Moves {
		t.Errorf("%d users, %d steps and %d moves are measured, and %+v was weighed",
			fit.Users, fit.Steps, fit.Moves, w)
	}
}

// TestDisclosable: a fit that others may read is of five users at least, of a model of five others
// at least, and of nobody above all.
func TestDisclosable(t *testing.T) {
	even := func(users int64) Weight { return Weight{users, 10 * users, 9 * users, 10, 9} }
	for _, c := range []struct {
		name   string
		held   Weight
		others int64
		want   error
		says   string
	}{
		{"enough", even(5), 5, nil, ""},
		{"many", even(200), 1000, nil, ""},
		{
			"four held out", even(4), 100, ErrFewHeld,
			"of the users held out 4 would be measured: a fit of fewer than 5 would tell about " +
				"these few",
		},
		{"one held out", even(1), 100, ErrFewHeld, "of the users held out 1 would"},
		{"nobody held out", Weight{}, 100, ErrFewHeld, "of the users held out 0 would"},
		{
			"four others", even(100), 4, ErrFewOthers,
			"of the users who are not held out 4 have two steps without a gap: a fit of a " +
				"model that fewer than 5 users trained would",
		},
		{"no others", even(100), 0, ErrFewOthers, "are not held out 0 have"},
		{"few of both", even(4), 4, ErrFewHeld, "of the users held out 4 would"},
		{
			"one above all in steps",
			Weight{5, 99, 60, 50, 30},
			5, ErrDominated,
			"one of the users held out has 50 of the 99 steps that would be measured, more than " +
				"half: the fit would tell about this one",
		},
		{
			"one above all in moves",
			Weight{5, 100, 61, 50, 31},
			5, ErrDominated,
			"31 of the 61 moves",
		},
		{"half", Weight{5, 100, 60, 50, 30}, 5, nil, ""},
	} {
		err := Disclosable(c.held, c.others)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v: %q", c.name, err, c.want, c.says)
		}
	}
}

// TestNobodyDominates: where one user has most, fewer steps are measured, of as many users.
func TestNobodyDominates(t *testing.T) {
	tracks := slices.Values([]mobility.Track{
		track("a", 1, 2), track("b", 1, 2), track("c", 1, 2, 3),
		track("d", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
	})
	o := Options{MinSegment: 2}
	if w, _ := weigh(tracks, o); !w.Dominated() {
		t.Fatal("one user should have most")
	}
	w := Weigh(tracks, &o)
	if again, _ := weigh(tracks, o); w.Dominated() || w.Users != 4 || again != w {
		t.Errorf("at most %d steps: %+v, and measured is %+v", o.MaxSteps, w, again)
	}
}
