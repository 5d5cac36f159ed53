package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
)

// TestMostEpsilonDay: the bound is what the tightest of interval, budget and lifetime leaves.
func TestMostEpsilonDay(t *testing.T) {
	workday := hours.Span{Days: 0b0111110, From: 6 * 60, To: 18 * 60, Zone: "UTC"}
	for name, c := range map[string]struct {
		change func(o *mechanism.Options)
		want   float64
		text   string
		warn   bool
	}{
		"every step": {
			func(*mechanism.Options) {}, 2881,
			"choose a longer interval or a smaller epsilon, or set release.budget", true,
		},
		"an interval alone": {
			func(o *mechanism.Options) { o.ReleaseInterval = 360 }, 9,
			"at most ε = 9. release.budget is none", true,
		},
		"an interval that does not divide a day": {
			func(o *mechanism.Options) { o.ReleaseInterval = 840 }, 4, "at most ε = 4.", true,
		},
		"hours of two working days, which a day touches": {
			func(o *mechanism.Options) {
				o.ReleaseInterval = 360
				o.Hours = []hours.Span{{Days: 62, From: 360, To: 1080, Zone: "UTC"}}
			}, 6, "at most ε = 6.", true,
		},
		"a minute a day": {
			func(o *mechanism.Options) {
				o.Hours = []hours.Span{{Days: 127, From: 360, To: 361, Zone: "Europe/London"}}
			}, 5, "at most ε = 5.", true,
		},
		"a budget": {
			func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{Epsilon: 16, WindowSteps: 2880}
			}, 16, "at most ε = 16. Users who report for longer than 0.13 h in", true,
		},
		"a budget that lasts four hours": {
			func(o *mechanism.Options) {
				o.Epsilon, o.ReleaseInterval = .5, 20
				o.Budget = mechanism.Budget{Epsilon: 12, WindowSteps: 2880}
			}, 12, ". Users who report for longer than 4 h in 24 h spend", true,
		},
		"a budget that lasts its window": {
			func(o *mechanism.Options) {
				o.Epsilon, o.ReleaseInterval = .5, 120
				o.Budget = mechanism.Budget{Epsilon: 12, WindowSteps: 2880}
			}, 12, "at most ε = 12", false,
		},
		"a budget that lasts the hours of a day": {
			func(o *mechanism.Options) {
				o.ReleaseInterval, o.Hours = 120, []hours.Span{workday}
				o.Budget = mechanism.Budget{Epsilon: 12, WindowSteps: 2880}
			}, 12, "at most ε = 12", false,
		},
		"a budget that ends before the hours of a day": {
			func(o *mechanism.Options) {
				o.ReleaseInterval, o.Hours = 120, []hours.Span{workday}
				o.Budget = mechanism.Budget{Epsilon: 11, WindowSteps: 2880}
			}, 11, "longer than 11 h in 24 h (of which 12 h lie within release.hours) spend", true,
		},
		"the example's": {
			func(o *mechanism.Options) {
				o.Epsilon, o.ReleaseInterval, o.Budget = 2, 360,
					mechanism.Budget{Epsilon: 18, WindowSteps: 2880}
			}, 18, "at most ε = 18", false,
		},
		"a budget of no whole number of releases": {
			func(o *mechanism.Options) {
				o.Epsilon, o.Budget = .3, mechanism.Budget{Epsilon: 1, WindowSteps: 2880}
			}, 1, "at most ε = 1.", true,
		},
		"tenths": {func(o *mechanism.Options) {
			o.Epsilon, o.Budget = .1, mechanism.Budget{Epsilon: 1, WindowSteps: 2880}
		}, 1, "at most ε = 1.", true},
		"a window of seven hours, of which four touch a day": {
			func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{Epsilon: 10, WindowSteps: 840}
			}, 40, "at most ε = 40.", true,
		},
		"a window a little shorter than a day, and one release after it": {
			func(o *mechanism.Options) {
				o.Epsilon, o.ReleaseInterval = 6, 360
				o.Budget = mechanism.Budget{Epsilon: 18, WindowSteps: 2879}
			}, 24, "at most ε = 24.", true,
		},
		"a limit that an earlier ε can have filled": {
			func(o *mechanism.Options) {
				o.Epsilon, o.Budget = 3, mechanism.Budget{Epsilon: 8, WindowSteps: 2880}
			}, 8, "at most ε = 8.", true,
		},
		"a lifetime of no whole number of releases": {
			func(o *mechanism.Options) {
				o.Epsilon, o.Budget = 3, mechanism.Budget{Lifetime: 8}
			}, 8, "at most ε = 8", false,
		},
		"the longest window": {
			func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{Epsilon: 9, WindowSteps: 100_000_000}
			}, 9, "at most ε = 9.", true,
		},
		"a window of a week": {func(o *mechanism.Options) {
			o.Budget = mechanism.Budget{Epsilon: 15, WindowSteps: 7 * 2880}
		}, 15, "at most ε = 15. Users who report for longer than 0.12 h in", true},
		"a lifetime": {
			func(o *mechanism.Options) { o.Budget = mechanism.Budget{Lifetime: 19} }, 19,
			"at most ε = 19", false,
		},
		"a large budget": {
			func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{Epsilon: 25, WindowSteps: 2880}
			}, 25, "or lower release.budget", true,
		},
		"a large release": {
			func(o *mechanism.Options) {
				o.Epsilon, o.Budget = 400, mechanism.Budget{Lifetime: 400}
			}, 400, "One release of ε = 400 is more than that", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := mechanism.Options{Epsilon: 1, Delta: .01}
			c.change(&o)
			if got := MostEpsilonDay(o, 30*time.Second); math.Abs(got-c.want) > 1e-9 &&
				got != c.want {
				t.Errorf("at most %g, want %g", got, c.want)
			}
			if text, warn := BudgetAdvice(o, 30*time.Second); warn != c.warn ||
				!strings.Contains(text, c.text) {
				t.Errorf("%t, %q does not say %q", warn, text, c.text)
			}
		})
	}
}
