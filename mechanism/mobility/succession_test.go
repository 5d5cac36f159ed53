package mobility

import (
	"math"
	"testing"
)

// TestSuccession reads like the rule: which version counts, by start, by position and by the user's
// last step.
func TestSuccession(t *testing.T) {
	t.Parallel()
	const minute = 60_000
	at := func(step int64) LastStep { return LastStep{Known: true, Step: step, GridID: "town"} }
	later := []Successor{ // 0 to 4, in the order in which they were taken up
		{StartMS: 10 * minute, GridID: "town", From: 100},
		{StartMS: 30*minute + 1, GridID: "country", From: 200},
		{StartMS: 20 * minute, GridID: "town", From: 300},    // starts before the one above
		{StartMS: 20 * minute, GridID: "country", From: 400}, // replaces the one of the same start
		{StartMS: 50 * minute, GridID: "sea", From: 500},
	}
	const end = math.MaxInt64
	for name, test := range map[string]struct {
		position, step int64
		last           LastStep
		want           int
	}{
		"before every start":               {end, 9, LastStep{}, -1},
		"at a start":                       {end, 10, LastStep{}, 0},
		"after a start":                    {end, 19, LastStep{}, 0},
		"before the position":              {99, 10, LastStep{}, -1},
		"at the position":                  {100, 10, LastStep{}, 0},
		"taken up late":                    {300, 20, LastStep{}, 2},
		"of one start, the last one":       {400, 20, LastStep{}, 3},
		"a start inside the step":          {end, 30, LastStep{}, 3},
		"a start before the step":          {end, 31, LastStep{}, 1},
		"a start before others":            {300, 31, LastStep{}, 1},
		"negative steps":                   {end, -5, LastStep{}, -1},
		"a late record":                    {end, 5, at(12), 0},
		"a late record after two changes":  {end, 5, at(60), 4},
		"the next step":                    {end, 20, at(19), 3},
		"the same step on the same map":    {end, 10, at(10), 0},
		"the same step on another map":     {end, 20, at(20), 2},
		"the same step on the first map":   {end, 55, at(55), 2},
		"the same step, an older position": {250, 31, at(31), 0},
		"the same step on no known map": {
			end, 20,
			LastStep{Known: true, Step: 20, GridID: "moon"},
			3,
		},
		"the same step of a new user": {end, 20, LastStep{Step: 20, GridID: "town"}, 3},
	} {
		s := Succession{StepMS: minute, GridID: "town", Later: later}
		if got := s.At(test.position, test.step, test.last); got != test.want {
			t.Errorf("%s: version %d counts, want %d", name, got, test.want)
		}
	}
	first := Succession{
		StepMS: minute, GridID: "town",
		Later: []Successor{{StartMS: 0, GridID: "sea"}},
	}
	if got := first.At(end, 3, at(3)); got != -1 {
		t.Errorf("the first version's map: version %d counts", got)
	}
}
