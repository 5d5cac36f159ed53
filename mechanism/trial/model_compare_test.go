package trial

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// lineModel is a line of cells on which a vehicle stays with a probability, else goes one cell on
// or back. change may alter a row.
func lineModel(
	t *testing.T, cells int, stay float64, change func(cell int, row map[int]float64),
) *mobility.Model {
	t.Helper()
	rows := make([]map[int]float64, cells)
	for c := range rows {
		row := map[int]float64{c: stay}
		row[max(c-1, 0)] += (1 - stay) / 2
		row[min(c+1, cells-1)] += (1 - stay) / 2
		if change != nil {
			change(c, row)
		}
		rows[c] = row
	}
	return chain(t, cells, 1, nil, func(from, to grid.Cell) float64 { return rows[from][int(to)] })
}

func TestCompareByHand(t *testing.T) {
	a := lineModel(t, 10, .5, nil)
	b := lineModel(t, 10, .5, func(cell int, row map[int]float64) {
		switch cell {
		case 3: // .25 .5 .25 becomes .05 .5 .45
			row[2], row[4] = .05, .45
		case 7: // 0 and 1
			clear(row)
			row[0] = 1
		}
	})
	copy(b.Initial.P, []float64{.3, .1, .1, .1, .1, .1, .05, .05, .05, .05})
	var c Comparison
	c.rows(a, b)
	popular3, popular7 := (.1+.1)/2, (.1+.05)/2
	mean := popular3*.2 + popular7*1
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("initial", c.Initial, .2)
	near("mean", c.RowMean, mean)
	near("worst", c.RowWorst, 1)
	if c.Rows != 2 {
		t.Fatalf("%+v", c)
	}
	var same Comparison
	same.rows(a, a)
	if same.RowMean != 0 || same.RowWorst != 0 || same.Initial != 0 {
		t.Errorf("a model and itself: %+v", same)
	}
}

// TestCompareClasses: a row that differs at night only counts for the hours of the night.
func TestCompareClasses(t *testing.T) {
	day := lineModel(t, 10, .5, nil)
	night := lineModel(t, 10, .9, nil)
	both := lineModel(t, 10, .5, nil)
	both.Calendar = mobility.Calendar{Hours: []int{6, 22}} // the second part has 8 hours
	both.Matrices = []*mobility.Matrix{day.Matrices[0], night.Matrices[0]}
	var c Comparison
	c.rows(day, both)
	// Inside the line a row differs by .4; at its ends the mass that stays is .5 + .25 and .9 +
	// .05.
	if want := (8*.4 + 2*.2) / 10 * 8 / 24; math.Abs(c.RowMean-want) > 1e-12 ||
		math.Abs(c.RowWorst-.4) > 1e-12 {
		t.Errorf("mean %v, want %v; worst %v", c.RowMean, want, c.RowWorst)
	}
}

// TestCompareDrift: the filter drifts by about δ with a model's own tracks, and by far more under
// a model that is too sure.
func TestCompareDrift(t *testing.T) {
	a := lineModel(t, 30, .4, nil)
	b := lineModel(t, 30, .995, nil)
	o := FitOptions{Seed: 5}
	c, err := CompareModels(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.AofA.Drift > 1.5*c.Delta || c.BofA.DriftLow < c.Delta ||
		c.BofA.Drift < 2*c.AofA.Drift || c.Delta != .01 || c.Epsilon != 1 {
		t.Errorf("under its own model %+v, under the other %+v", c.AofA, c.BofA)
	}
	o.Workers = 2
	again, err := CompareModels(a, b, o)
	if err != nil || again.BofA != c.BofA {
		t.Errorf("with more workers: %v, %+v", err, again)
	}
	stop := errors.New("stop")
	o.Progress = func(int64, int64) error { return stop }
	if _, err := CompareModels(a, b, o); !errors.Is(err, stop) {
		t.Errorf("a progress that ends it: %v", err)
	}
}

func TestCompareRefuses(t *testing.T) {
	a := lineModel(t, 10, .5, nil)
	slow := lineModel(t, 10, .5, nil)
	slow.Step = time.Hour
	for name, b := range map[string]*mobility.Model{
		"11 × 1": lineModel(t, 11, .5, nil), "1h0m0s": slow,
	} {
		if _, err := CompareModels(a, b, FitOptions{}); !errors.Is(err, ErrOtherMap) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
