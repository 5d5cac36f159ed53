package verify

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/schemas"
)

// TestComplete: a partition of the counts that is behind the others lacks nothing, as beside a
// service at work, and one without any window is told. A hole before its newest window is missing.
func TestComplete(t *testing.T) {
	plan, err := counts.NewPlan("UTC", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	windows := plan.Windows(20_000) // by turns in partitions 0 and 1
	for name, w := range map[string]struct {
		published          []int
		windows, missing   int64
		first, notVerified int
	}{
		"one partition is behind": {published: []int{0, 1, 2, 4, 6}, windows: 5},
		"a hole":                  {published: []int{0, 1, 4, 3}, windows: 5, missing: 1},
		"retention":               {published: []int{4, 5}, first: 4, windows: 2},
		"a partition is empty":    {published: []int{0, 2}, windows: 2, notVerified: 1},
	} {
		c := recount{committed: map[int64][]bool{}, before: 20_001, first: true}
		c.settings.Plan = plan
		first := windows[w.first].StartMS
		spans := []span{{first: first}, {first: first}}
		for _, n := range w.published {
			start := windows[n].StartMS
			c.committed[start] = []bool{true}
			spans[n%2].newest = max(spans[n%2].newest, start)
		}
		c.complete(spans)
		c.tellUnverified(spans)
		if c.report.Windows != w.windows || c.report.ViolationCount != w.missing ||
			len(c.report.NotVerified) != w.notVerified {
			t.Errorf("%s: %+v", name, c.report)
		}
	}
}

// TestOnePart: of a year of fixes, those of the part at hand alone are in memory.
func TestOnePart(t *testing.T) {
	plan, err := counts.NewPlan("America/New_York", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	zones, err := counts.Polygons([]counts.Area{{Name: "town", Polygons: [][][][2]float64{{{
		{-75, 40}, {-74, 40}, {-74, 41}, {-75, 41}, {-75, 40},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := recount{from: 20_100, before: 20_131, days: map[counts.Date]*countedDay{}}
	c.settings.Plan, c.settings.Zones, c.settings.PerDay = plan, zones, 3
	for day := counts.Date(20_000); day < 20_365; day++ {
		for _, w := range plan.Windows(day) {
			c.countFix("user", schemas.Raw{Timestamp: w.StartMS, Latitude: 40.5, Longitude: -74.5})
		}
	}
	for day := range c.days {
		if day < c.from || day >= c.before {
			t.Errorf("day %v is in memory", day)
		}
	}
	if len(c.days) != 31 || len(c.days[20_100].users["user"].Visits()) != 3 {
		t.Errorf("%d days are in memory, want 31", len(c.days))
	}
}
