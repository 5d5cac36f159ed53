package experiment

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// fixesAt gives a trainer a user's fixes: the column of each, one a step, -1 for none.
func fixesAt(trainer *train.Trainer, g *grid.Grid, user string, columns []int) {
	for i, column := range columns {
		if column < 0 {
			continue
		}
		lat, lon := g.ToDegrees(g.Centre(grid.Cell(column)))
		trainer.Add(
			train.Fix{
				User: user, TimeMS: int64(i) * wanderStep.Milliseconds(), Lat: lat, Lon: lon,
			},
		)
	}
}

func TestCut(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name    string
		columns []int
		steps   []int64 // nil: no trace
	}{
		{"exact", []int{0, 1, 2, 3}, []int64{0, 1, 2, 3}},
		{"the latest of equals", []int{0, 1, 2, 3, 4, 5}, []int64{2, 3, 4, 5}},
		{"fewest holes", []int{0, 1, 2, 3, none, 4, 5}, []int64{0, 1, 2, 3}},
		{"across a short gap", []int{0, 1, none, 2, 3}, []int64{0, 1, 3, 4}},
		{"not across a long one", []int{0, 1, 2, none, none, none, 3, 4}, []int64{0, 1, 2}},
		{"the longer of two", []int{0, 1, 2, none, none, none, 3, 4, 5, 6}, []int64{6, 7, 8, 9}},
		{"too short", []int{0, 1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := wanderGrid(t)
			trainer := wandering(t, g, train.Options{}, 0, 0)
			fixesAt(trainer, g, "u", c.columns)
			d, err := NewData(
				Definition{Name: "x", Timestamps: 4, Least: 3, MaxGap: 90 * time.Second, Folds: 2},
				trainer)
			if c.steps == nil {
				if !errors.Is(err, ErrNoTrace) {
					t.Errorf("error %v, want ErrNoTrace", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := d.Traces[0]
			if !slices.Equal(got.Steps, c.steps) {
				t.Errorf("steps %v, want %v", got.Steps, c.steps)
			}
			for i, step := range got.Steps {
				if want := grid.Cell(c.columns[step]); got.Cells[i] != want {
					t.Errorf("step %d: cell %d, want %d", step, got.Cells[i], want)
				}
			}
		})
	}
}

// TestCheckIns: each is a timestamp, counted one by one, and a trace is the last ones.
func TestCheckIns(t *testing.T) {
	g := wanderGrid(t)
	trainer := wandering(t, g, train.Options{EveryFix: true}, 0, 0)
	fixesAt(trainer, g, "u", []int{0, 1, -1, -1, -1, -1, -1, -1, 2, 3, 4})
	d, err := NewData(Definition{Name: "x", Timestamps: 3, Least: 2, Folds: 2}, trainer)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Traces[0]; !slices.Equal(got.Steps, []int64{2, 3, 4}) ||
		!slices.Equal(got.Cells, []grid.Cell{2, 3, 4}) {
		t.Errorf("steps %v, cells %v", got.Steps, got.Cells)
	}
}

// TestFolds: every user is measured under a model that has not seen the user's fold, and each is in
// one.
func TestFolds(t *testing.T) {
	d := testData(t)
	ids := map[string]bool{}
	for fold := range d.Folds {
		m, err := d.WithoutFold(fold)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, trace := range d.Traces {
			if trace.Fold != fold {
				seen++
			}
		}
		if got := m.Provenance.Report.Users; got != int64(seen) {
			t.Errorf("fold %d: trained on %d users, want %d", fold, got, seen)
		}
		ids[m.ID()] = true
		if again, _ := d.WithoutFold(fold); again != m {
			t.Error("a model is trained twice")
		}
	}
	if len(ids) != d.Folds {
		t.Errorf("%d different models of %d folds", len(ids), d.Folds)
	}
	m, err := d.WithoutUser(d.Traces[0].User)
	if err != nil || m.Provenance.Report.Users != int64(d.Users-1) {
		t.Errorf("without one user: %v", err)
	}
}

// TestOwn: the model of one user has the user's moves, however many, and nobody else's.
func TestOwn(t *testing.T) {
	g := wanderGrid(t)
	trainer := wandering(t, g, train.Options{}, 2, 60)
	columns := []int{5, 5, 6, -1, -1, -1, -1, -1}
	for range 50 {
		columns = append(columns, 7, 8)
	}
	fixesAt(trainer, g, "u", columns)
	d, err := NewData(
		Definition{Name: "x", Timestamps: 4, Least: 4, MaxGap: wanderStep, Folds: 2}, trainer)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Own("u")
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []struct {
		from, to grid.Cell
		share    float64
	}{{5, 5, .5}, {5, 6, .5}, {7, 8, 1}, {8, 7, 1}} {
		cells, values := m.Matrices[0].Entries(move.from)
		at, found := slices.BinarySearch(cells, move.to)
		if !found || math.Abs(values[at]-move.share) > .05 {
			t.Errorf("from %d to %d: %v of %v, want %g", move.from, move.to, values, cells,
				move.share)
		}
	}
	if entries := m.Transitions(); entries != 4 || m.Provenance.Report.Users != 1 {
		t.Errorf("%d entries of %d users, want those of one", entries, m.Provenance.Report.Users)
	}
	if again, err := d.Own("u"); err != nil || again != m {
		t.Errorf("the model is trained twice: %v", err)
	}
}

// TestDataID: data of other fixes or definitions have other ids.
func TestDataID(t *testing.T) {
	ids := map[string]string{}
	note := func(name string, d Definition, users int, o train.Options) {
		t.Helper()
		data, err := NewData(d, wandering(t, wanderGrid(t), o, users, 60))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := ids[data.ID]; ok {
			t.Errorf("%s and %s have one id", name, other)
		}
		ids[data.ID] = name
	}
	longer := testDefinition()
	longer.Timestamps = 21
	note("as it is", testDefinition(), 7, train.Options{})
	note("a user less", testDefinition(), 6, train.Options{})
	note("longer traces", longer, 7, train.Options{})
	note("other smoothing", testDefinition(), 7, train.Options{Backoff: 5})
	if a, b := testData(t), testData(t); a.ID != b.ID {
		t.Error("the same data have two ids")
	}
}
