package counts_test

import (
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
)

// Two users' fixes become the counts of a morning. A seed stands for a key here, so that the
// example prints the same numbers each time.
func Example() {
	plan, _ := counts.NewPlan("Europe/London", 6*time.Hour)
	centre := [][2]float64{{-.2, 51.4}, {0, 51.4}, {0, 51.6}, {-.2, 51.6}, {-.2, 51.4}}
	zones, _ := counts.Polygons([]counts.Area{
		{Name: "centre", Polygons: [][][][2]float64{{centre}}},
	})
	settings := counts.Settings{Source: "buses", Edition: 1, Epsilon: 1, PerDay: 2}
	p, _ := counts.NewPublisher(noise.NewKeyed(noise.KeyFromSeed(1)), zones, settings)

	day, _ := counts.ParseDate("2026-10-25")
	windows := plan.Windows(day)
	users := map[string]*counts.Counter{"bus-1": {}, "bus-2": {}}
	for _, counter := range users {
		counter.Next(1, zones.Of(51.5, -.1), settings.PerDay) // from the change of the clock on
		counter.Next(1, zones.Of(51.5, -.3), settings.PerDay) // counts no more
	}
	each := func(yield func(*counts.Counter) bool) {
		_ = yield(users["bus-1"]) && yield(users["bus-2"])
	}
	tally := counts.Tally(len(windows), zones.Count(), each)
	out, _ := p.Publish(windows[1], tally[1], nil)
	fmt.Println(len(windows), "windows;", tally[1][0], "in the centre, published as",
		out.Vehicles[0], "±", p.HalfWidth())
	// Output:
	// 5 windows; 2 in the centre, published as 0 ± 5
}
