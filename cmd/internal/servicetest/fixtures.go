package servicetest

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// BeforeMidnight is a step of a world's feed eight steps before the day ends.
const BeforeMidnight = 98

// NextDay is the key without the day on which a world begins.
func NextDay(tb testing.TB) noise.Key {
	tb.Helper()
	key, err := Key.From(noise.DayAt(StartMS) + 1)
	OK(tb, err)
	return key
}

// StepTime is the start of the nth step of the tests' fleets.
func StepTime(n int64) time.Time { return time.UnixMilli(StartMS + n*60_000) }

// Personals are personal models of every user whose name's hash is even.
type Personals struct {
	popular *mobility.Model
	id      string
	Models  map[string]*mobility.Personal
	Fails   error // what Load ends with
}

// NewPersonals returns them over a model. Another seed makes others.
func NewPersonals(tb testing.TB, popular *mobility.Model, seed int64) *Personals {
	tb.Helper()
	o := &Personals{
		popular: popular, id: fmt.Sprintf("%016x", 0xabc0+seed),
		Models: map[string]*mobility.Personal{},
	}
	for v := range 60 {
		user := fmt.Sprintf("vehicle-%03d", v)
		h := fnv.New32()
		fmt.Fprint(h, user)
		if h.Sum32()%2 == 1 {
			continue
		}
		from := popular.Initial.Cells[int(h.Sum32()>>1)%popular.Initial.Len()]
		counts := mobility.PersonalCounts{
			Transitions: []mobility.Count{{From: from, To: from, N: float64(5 + seed)}},
			Visits:      []mobility.Count{{From: from, To: from, N: 3}},
		}
		var err error
		o.Models[user], err = mobility.NewPersonal(popular, counts)
		OK(tb, err)
	}
	return o
}

// ID implements engine.PersonalModels.
func (o *Personals) ID() string { return o.id }

// Load implements engine.PersonalModels.
func (o *Personals) Load(user string) (*mobility.Personal, error) { return o.Models[user], o.Fails }

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
