package servicetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// The map of 7 × 7 cells of a synthetic town that tests of commands drive through, and the step of
// its model, as flags have them.
const (
	TownBox  = "10,20,10.03,20.03"
	TownCell = "500m"
	TownStep = "60s"
)

// TownFixes returns the traces of the town, in order of time: each of six vehicles drives round a
// block of its own for 40 minutes and reports once a minute, and twice in every fifth one.
func TownFixes() []schemas.Raw {
	var fixes []schemas.Raw
	corners := [][2]float64{{0, 0}, {0, 1}, {1, 1}, {1, 0}}
	for minute := range 40 {
		for v := range 6 {
			corner := corners[(minute/2+v)%4]
			fix := schemas.Raw{
				UserID:    fmt.Sprintf("%d", v),
				Timestamp: 1_700_000_040_000 + int64(minute)*60_000 + int64(v)*1000,
				Latitude:  10.004 + .004*float64(v%3) + .01*corner[0],
				Longitude: 20.006 + .008*float64(v%2) + .007*corner[1],
			}
			fixes = append(fixes, fix)
			if minute%5 == 0 {
				fix.Timestamp += 20_000
				fixes = append(fixes, fix)
			}
		}
	}
	slices.SortStableFunc(fixes, func(a, b schemas.Raw) int {
		return int(a.Timestamp - b.Timestamp)
	})
	return fixes
}

// TownCSV returns traces as a file that every command reads.
func TownCSV(fixes []schemas.Raw) string {
	var b strings.Builder
	b.WriteString("user_id,timestamp,latitude,longitude\n")
	for _, f := range fixes {
		fmt.Fprintf(&b, "%s,%d,%.6f,%.6f\n", f.UserID, f.Timestamp, f.Latitude, f.Longitude)
	}
	return b.String()
}

// TownModel returns a model that is trained on the town's traces.
func TownModel() (*mobility.Model, error) { return TownModelOf(500) }

// TownModelOf is TownModel with cells of another side, metres.
func TownModelOf(cellM float64) (*mobility.Model, error) {
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.03, East: 20.03}, cellM)
	if err != nil {
		return nil, err
	}
	trainer, err := train.New(g, time.Minute, train.Options{Source: "town"})
	if err != nil {
		return nil, err
	}
	for _, f := range TownFixes() {
		trainer.Add(
			train.Fix{User: f.UserID, TimeMS: f.Timestamp, Lat: f.Latitude, Lon: f.Longitude})
	}
	model, _, err := trainer.Finish()
	return model, err
}
