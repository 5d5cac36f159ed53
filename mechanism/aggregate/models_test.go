package aggregate

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
// posteriors are the service's, bit for bit where every report leaves a record.
func TestFollowChange(t *testing.T) {
	t.Parallel()
	first, same, other := testcase.Town(t), restless(t, 8, 6), restless(t, 7, 9)
	for name, o := range map[string]mechanism.Options{
		"plain":   {Mechanism: law.Lattice, Epsilon: 2, Delta: .05},
		"between": {Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 3},
		"skip": {
			Mechanism: law.Lattice, Epsilon: 2, Delta: .05, ReleaseInterval: 4,
			Between: mechanism.BetweenSkip,
		},
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
					if name != "skip" && string(state.Posterior.AppendBinary(nil)) != string(
						states[v].Posterior.AppendBinary(nil)) {
						t.Errorf("%s, change at %d: the posterior is not the service's", name, at)
					}
				}
			}
		}
	}
}

// TestLikelihoodOverChange: the likelihood of a vehicle whose model has changed is its posterior
// over what the models, one after the other, say without a release.
func TestLikelihoodOverChange(t *testing.T) {
	t.Parallel()
	models, o := Models{testcase.Town(t), restless(t, 8, 6)},
		mechanism.Options{Mechanism: law.Lattice, Epsilon: 3, Delta: .2, Prune: -1}
	const steps, at = 9, 5
	records, states := recordsOver(t, models, at, o, 20, steps)
	windows, c := collect(t, models, o, CollectOptions{WindowSteps: 3}, records)
	if c.Followed != int64(len(records)) || c.Models != 2 || len(windows) != 3 {
		t.Fatalf("%+v, %d windows", c, len(windows))
	}
	blind := make([]float64, 48)
	for i, c := range models[0].Initial.Cells {
		blind[c] = models[0].Initial.P[i]
	}
	for step := 1; step < steps; step++ {
		model := models[0]
		if step >= at {
			model = models[1]
		}
		blind = moved(model, blind)
	}
	last := windows[2]
	for v := range states {
		got := last.vehicles[v]
		for i, z := range got.Zones { // zones are cells
			want := states[v].Posterior.P[i] / states[v].Posterior.Total() / blind[z]
			if !near(float64(got.Values[i]), want, 1e-4*want) {
				t.Fatalf("vehicle %d, zone %d: likelihood %g, want %g", v, z, got.Values[i], want)
			}
		}
	}
}

// TestCollectForeign: a model that is missing is an error where its windows are wanted.
func TestCollectForeign(t *testing.T) {
	t.Parallel()
	model, o := testcase.Town(t), mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := drive(t, model, o, 1, 4, 20, nil)
	add := func(c CollectOptions, name func(Record) string) (Counts, error) {
		k, err := NewCollector(Models{model}, o, c, func(*Window) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Model = name(r); err == nil {
				err = k.Add(r)
			}
		}
		return k.Counts(), errors.Join(err, k.Finish())
	}
	missing := func(r Record) string {
		if r.Step < 10 {
			return "0123456789abcdef"
		}
		return model.ID()
	}
	if _, err := add(CollectOptions{WindowSteps: 5}, missing); !errors.Is(err, ErrModel) {
		t.Errorf("a missing model: %v", err)
	}
	counts, err := add(CollectOptions{WindowSteps: 5, FromMS: 10 * 60_000}, missing)
	if err != nil || counts.Foreign != 40 || counts.Lost != 4 || counts.Unwanted != 40 {
		t.Errorf("a missing model before what is wanted: %+v, %v", counts, err)
	}
	if _, err := add(CollectOptions{WindowSteps: 5, FromMS: 90 * 60_000}, func(r Record) string {
		return r.User
	}); !errors.Is(err, ErrModel) {
		t.Errorf("no model at all: %v", err)
	}
}

// TestCollectMaps: windows that are wanted must be of one map; those of another are left out by
// their time, and users come over all the same.
func TestCollectMaps(t *testing.T) {
	t.Parallel()
	models, o := Models{testcase.Town(t), restless(t, 7, 9)},
		mechanism.Options{Mechanism: law.Lattice, Epsilon: 2, Delta: .05}
	records, _ := recordsOver(t, models, 12, o, 5, 20)
	for _, test := range []struct {
		from, before   int64 // steps
		windows, cells int
	}{{0, 0, 0, 0}, {0, 10, 2, 48}, {15, 0, 1, 63}, {10, 15, 0, 0}} {
		var windows []*Window
		c := CollectOptions{
			WindowSteps: 5, FromMS: test.from * 60_000, BeforeMS: test.before * 60_000,
		}
		k, err := NewCollector(models, o, c, func(w *Window) error {
			windows = append(windows, w)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if err == nil {
				err = k.Add(r)
			}
		}
		if test.windows == 0 {
			if !errors.Is(err, ErrMaps) {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		if err := errors.Join(err, k.Finish()); err != nil || len(windows) != test.windows ||
			k.Zones().Count() != test.cells || k.Counts().Followed != 100 {
			t.Errorf("%+v: %v, %d windows, %+v", test, err, len(windows), k.Counts())
		}
		for _, w := range windows {
			if w.Vehicles() != 5 {
				t.Errorf("%+v: %d vehicles", test, w.Vehicles())
			}
		}
		if test.cells == 63 { // from the last step on the old map, the twelfth, to the last one
			want := make([]float64, test.cells)
			for i, c := range models[1].Initial.Cells {
				want[c] = models[1].Initial.P[i]
			}
			for range 19 - 11 {
				want = moved(models[1], want)
			}
			if d := Variation(windows[0].Fleet().Prior, want); d > 1e-6 {
				t.Errorf("the model alone is %g from where it has vehicles after eight steps", d)
			}
		}
	}
}
