package explore

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
)

// Settings are the knobs of the page. They are comparable, so that what was computed under them can
// be kept.
type Settings struct {
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`    // 0 under codebook, which has none
	Interval  int     `json:"interval"` // least steps between two releases
	Budget    float64 `json:"budget"`   // of a user in 24 hours; 0: none
	Hours     string  `json:"hours"`    // UTC, such as 06:00-20:00; empty: always
	Seed      uint64  `json:"seed"`     // of the noise, which is not private
}

// DefaultSettings are what a request has that names none.
func DefaultSettings() Settings {
	return Settings{Mechanism: law.Codebook, Epsilon: 1, Delta: .01, Interval: 1, Seed: 1}
}

// opening are the settings that a page opens with: those of a release, or without any a plan for a
// day.
func opening(release mechanism.Options, step time.Duration) Settings {
	s := DefaultSettings()
	if release.Mechanism == "" {
		s.Epsilon, s.Budget = fleet.PlanEpsilon, fleet.PlanBudget
		s.Interval = max(1, int((fleet.PlanInterval+step-1)/step))
		return s
	}
	s.Mechanism, s.Epsilon, s.Delta = release.Mechanism, release.Epsilon, release.Delta
	s.Interval = max(1, release.ReleaseInterval)
	if release.Budget.WindowSteps == dayIn(step) {
		s.Budget = release.Budget.Epsilon
	}
	return s
}

// options returns the options of releases in steps of a length: those of "sanitize".
func (s Settings) options(step time.Duration) mechanism.Options {
	o := mechanism.Options{
		Mechanism: s.Mechanism, Epsilon: s.Epsilon, Delta: s.Delta, ReleaseInterval: s.Interval,
	}
	if s.Budget != 0 {
		o.Budget.Epsilon, o.Budget.WindowSteps = s.Budget, dayIn(step)
	}
	if from, to, ok := s.open(); ok && s.Hours != "" {
		days, _ := hours.ParseDays("") // every day
		o.Hours = []hours.Span{{Days: days, From: from, To: to, Zone: "UTC"}}
	}
	return o
}

// dayIn is the window of the page's budgets: the steps of a length in 24 hours.
func dayIn(step time.Duration) int { return int((24*time.Hour + step - 1) / step) }

// open returns the minutes of the day between which releases may be drawn.
func (s Settings) open() (from, to int, ok bool) {
	first, last, _ := strings.Cut(s.Hours, "-")
	from, wrong := hours.ParseClock(first)
	to, also := hours.ParseClock(last)
	return from, to, wrong == nil && also == nil
}

// errOther is a request for something that is not there. The text is for the person at the page.
type errOther string

func (e errOther) Error() string { return string(e) }

// parseSettings reads the knobs of a request. The error is for the person at the page.
func parseSettings(query url.Values) (Settings, error) {
	s := DefaultSettings()
	s.Mechanism = cmp.Or(query.Get("mechanism"), s.Mechanism)
	for _, knob := range []struct {
		name string
		to   *float64
	}{
		{"epsilon", &s.Epsilon},
		{"delta", &s.Delta},
		{"budget", &s.Budget},
	} {
		if text := query.Get(knob.name); text != "" {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return s, errOther(knob.name + " is no number")
			}
			*knob.to = x
		}
	}
	if text := query.Get("interval"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, errOther("interval is not a whole number of steps, at least 1")
		}
		s.Interval = n
	}
	if text := query.Get("seed"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return s, errOther("seed is not a whole number, at least 0")
		}
		s.Seed = n
	}
	if s.Mechanism == law.Codebook {
		s.Delta = 0
	}
	s.Hours = query.Get("hours")
	if _, _, ok := s.open(); !ok && s.Hours != "" {
		return s, errOther("hours are not written as 06:00-20:00")
	}
	if err := s.options(time.Minute).Validate(); err != nil {
		return s, errOther(err.Error())
	}
	return s, nil
}
