package follow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// restless is town with a model under which vehicles stay less, everywhere.
func restless(tb testing.TB, width, height int) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(width, height, .5)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}}
	for c := range g.Cells() {
		first := len(m.Values)
		for to := range g.Cells() {
			if dx, dy := to%width-c%width, to/width-c/width; dx >= -1 &&
				dx <= 1 && dy >= -1 && dy <= 1 {
				m.Columns, m.Values = append(m.Columns, grid.Cell(to)), append(m.Values, 1)
			}
		}
		for i := first; i < len(m.Values); i++ {
			m.Values[i] = 1 / float64(len(m.Values)-first)
		}
		m.RowStart = append(m.RowStart, int64(len(m.Values)))
		model.Initial.Cells, model.Initial.P = append(model.Initial.Cells, grid.Cell(c)),
			append(model.Initial.P, 1/float64(g.Cells()))
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// recordsOver runs a service whose model changes at a step, and returns its records and its states
// after the last one.
func recordsOver(
	tb testing.TB, models Models, at int64, o mechanism.Options, vehicles int, steps int64,
) ([]Record, []mechanism.State) {
	tb.Helper()
	services := []*mechanism.Sanitizer{newService(tb, models[0], o), newService(tb, models[1], o)}
	states, random := make([]mechanism.State, vehicles), rand.NewPCG(1, 2)
	var all []Record
	for step := range steps {
		use := 0
		if step >= at {
			use = 1
		}
		for v := range vehicles {
			name := fmt.Sprintf("v%d", v)
			services[use].Migrate(&states[v])
			cell := grid.Cell(random.Uint64() % uint64(models[use].Grid.Cells()))
			out, err := services[use].Step(&states[v],
				mechanism.Input{User: name, Step: step, Cell: cell, Release: true})
			if err != nil {
				tb.Fatal(err)
			}
			if out.Kind.Published() {
				all = append(all, recordOf(models[use], name, step, &out))
			}
		}
	}
	return all, states
}

// TestFollowChange follows users over a change of model, on the same map and to another one:
// posteriors are the service's, bit for bit.
func TestFollowChange(t *testing.T) {
	t.Parallel()
	first, same, other := testcase.Town(t), restless(t, 8, 6), restless(t, 7, 9)
	for name, o := range map[string]mechanism.Options{
		"plain":   {Mechanism: law.Lattice, Epsilon: 2, Delta: .05},
		"between": {Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 3},
	} {
		for _, later := range []*mobility.Model{same, other} {
			for at := int64(5); at < 9; at++ { // at a release and between
				models := Models{first, later}
				records, states := recordsOver(t, models, at, o, 3, 13)
				f := newFollower(t, Models{later, first}, o) // in any order
				tracks := map[string]*Track{}
				for _, r := range records {
					if tracks[r.User] == nil {
						tracks[r.User] = new(Track)
					}
					known, err := f.Follow(tracks[r.User], r)
					if err != nil || !known {
						t.Fatalf("%s, change at %d to a map of %d cells: step %d is not "+
							"followed, %v", name, at, later.Grid.Cells(), r.Step, err)
					}
				}
				var state mechanism.State
				for v := range states {
					if err := state.DecodeBinary(tracks[fmt.Sprintf("v%d", v)].state); err != nil {
						t.Fatal(err)
					}
					if string(state.Posterior.AppendBinary(nil)) != string(
						states[v].Posterior.AppendBinary(nil)) {
						t.Errorf("%s, change at %d: the posterior is not the service's", name, at)
					}
				}
			}
		}
	}
}

// TestSumsForeign: a model that is missing is an error where its windows are wanted.
func TestSumsForeign(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 1, 4, 20, nil)
	add := func(fromMS int64, name func(Record) string) (Summary, error) {
		renamed := slices.Clone(records)
		for i, r := range renamed {
			renamed[i].Model = name(r)
			renamed[i].Where = "here"
		}
		_, sum, err := sums(t, SumOptions{
			Public: Public{Models: Models{model}, Release: o}, WindowSteps: 5, FromMS: fromMS,
		}, renamed)
		return sum, err
	}
	missing := func(r Record) string {
		if r.Step < 10 {
			return "0123456789abcdef"
		}
		return model.ID()
	}
	if _, err := add(0, missing); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "here: ") ||
		!strings.Contains(err.Error(), "0123456789abcdef") {
		t.Errorf("a missing model: %v", err)
	}
	sum, err := add(10*60_000, missing)
	if err != nil || sum.Unfollowed[NoModel] != 40 || sum.Before != 40 || sum.Followed != 0 {
		t.Errorf("a missing model before what is wanted: %+v, %v", sum, err)
	}
	_, err = add(90*60_000, func(r Record) string { return r.User })
	if !errors.Is(err, ErrModel) {
		t.Errorf("no model at all: %v", err)
	}
}

// TestSumsOverMaps: users come over to another map, and count by the zones of their places.
func TestSumsOverMaps(t *testing.T) {
	t.Parallel()
	models, o := Models{testcase.Town(t), restless(t, 7, 9)},
		mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, states := recordsOver(t, models, 12, o, 5, 20)
	south, _ := models[1].Grid.ToDegrees(grid.Point{Y: 2})
	windows, sum, err := sums(t, SumOptions{
		Public: Public{Models: models, Release: o}, WindowSteps: 5, Zones: 2,
		ZoneOf: func(lat, _ float64) int32 {
			if lat < south {
				return 0
			}
			return 1
		},
	}, records)
	if err != nil || len(windows) != 4 || sum.Followed != 100 || sum.Vehicles != 20 {
		t.Fatalf("%v: %d windows, %+v", err, len(windows), sum)
	}
	want := 0.
	for i := range states {
		d := &states[i].Posterior
		for j, c := range d.Cells {
			if lat, _ := models[1].Grid.ToDegrees(models[1].Grid.Centre(c)); lat < south {
				want += d.P[j] / d.Total()
			}
		}
	}
	if got := windows[3].Posterior; !near(got[0], want, 1e-9) || !near(got[0]+got[1], 5, 1e-9) {
		t.Errorf("%v in the last window, want %g in the south", got, want)
	}
}
