package servicetest

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// NextDay is the key without the day on which a world begins.
func NextDay(tb testing.TB) noise.Key {
	tb.Helper()
	key, err := Key.From(noise.DayAt(StartMS) + 1)
	OK(tb, err)
	return key
}

// StepTime is the start of the nth step of the tests' fleets.
func StepTime(n int64) time.Time { return time.UnixMilli(StartMS + n*60_000) }

// BenchModels are a sparse one, like streets, and one like those that are
// trained from a sample, where each cell leads to the 80 around it.
func BenchModels(tb testing.TB) map[string]*mobility.Model {
	tb.Helper()
	g, err := grid.New(Town, 700)
	OK(tb, err)
	return map[string]*mobility.Model{
		"road": LocalModel(tb, g, 1, func(dx, dy int) float64 {
			switch {
			case dx == 0 && dy == 0:
				return 100
			case dx == 0 || dy == 0:
				return 4
			}
			return 0
		}),
		"dense": LocalModel(tb, g, 5, func(dx, dy int) float64 {
			if dx == 0 && dy == 0 {
				return 60
			}
			if dx*dx+dy*dy > 25 {
				return 0
			}
			return 1 / float64(1+dx*dx+dy*dy)
		}),
	}
}

// FixAt is the sentinel's, at a place given in cells of a model's map from its
// south-west corner.
func FixAt(m *mobility.Model, column, row float64) schemas.Raw {
	fix := Sentinel()
	side := m.Grid.CellKM()
	fix.Latitude, fix.Longitude = m.Grid.ToDegrees(grid.Point{X: column * side, Y: row * side})
	return fix
}
