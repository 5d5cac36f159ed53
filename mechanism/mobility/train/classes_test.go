package train

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestCoresDoNotMatter trains on one core and on several.
func TestCoresDoNotMatter(t *testing.T) {
	g := plainGrid(t, 120, 90)
	tr := trainer(t, g, Options{KernelRadius: 2, Calendar: mobility.Calendar{Hours: []int{6, 18}}},
		wander(g, 20, 100, 2))
	before := runtime.GOMAXPROCS(1)
	one, _ := finished(t, tr)
	runtime.GOMAXPROCS(7)
	many, _ := finished(t, tr)
	runtime.GOMAXPROCS(before)
	if one.ID() != many.ID() {
		t.Error("seven cores make another model than one")
	}
}

// TestClassesByHand: in the morning the user goes from 12 to 13, in the evening from 12 to 11. κ
// is 4. Both moves are by a column: the kernel's columns have 2 + 2/3 and 1/3 transitions, which
// are pooled to a third each, and its rows 2 + 1/3 and 2/3, so 7/9 and a ninth to either side.
func TestClassesByHand(t *testing.T) {
	g := plainGrid(t, 5, 5)
	const hour = 3600
	fixes := slices.Concat(fixesAt(g, "u", []int64{8 * hour, 8*hour + 60}, []grid.Cell{12, 13}),
		fixesAt(g, "u", []int64{20 * hour, 20*hour + 60}, []grid.Cell{12, 11}))
	m, _ := finished(t, trainer(t, g, Options{
		KernelRadius: 1, Backoff: 4, Jumps: -1,
		Calendar: mobility.Calendar{Hours: []int{6, 18}},
	}, fixes))
	if len(m.Matrices) != 2 ||
		m.Calendar.String() != (mobility.Calendar{Hours: []int{6, 18}}).String() {
		t.Fatalf("%d matrices, calendar %v", len(m.Matrices), m.Calendar)
	}
	// All together: (1 + 4·7/27)/6 = .33951 to each of 11 and 13, 4·7/27/6 = .17284 to 12, and
	// 4/27/6 to each cell above and below. A class: (1 + 4·.33951)/5 = .47160 to its own.
	own, other := (1+4*(1+4*7./27)/6)/5, 4*(1+4*7./27)/6/5
	for class, want := range [][]float64{{other, own}, {own, other}} {
		var row mobility.Distribution
		m.Row(&row, class, 12)
		if !slices.Equal(row.Cells, []grid.Cell{6, 7, 8, 11, 12, 13, 16, 17, 18}) {
			t.Fatalf("columns %v", row.Cells)
		}
		beside := 4. / 27 / 6 * .8
		for i, want := range []float64{
			beside, beside, beside, want[0], 7 * beside, want[1], beside, beside, beside,
		} {
			if math.Abs(row.P[i]-want) > 1e-9 {
				t.Errorf("class %d, column %d: %v, want %v", class, row.Cells[i], row.P[i], want)
			}
		}
	}
	// Rows without transitions are the same in all classes, and predictions pick the class by the
	// step that they leave.
	var morning, evening mobility.Distribution
	m.Row(&morning, 0, 0)
	m.Row(&evening, 1, 0)
	if !slices.Equal(morning.P, evening.P) {
		t.Error("a row never seen differs between classes")
	}
	p := mobility.NewPredictor(m)
	for step, want := range map[int64]float64{
		6*60 - 1: other, 6 * 60: own, 18*60 - 1: own,
		18 * 60: other, 24*60 - 1: other, -1: other, -6 * 60: other, -6*60 - 1: own,
	} {
		var got mobility.Distribution
		p.Predict(&got, &mobility.Distribution{Cells: []grid.Cell{12}, P: []float64{1}}, step, 1)
		if p13 := got.At(13); math.Abs(p13-want) > 1e-9 {
			t.Errorf("step %d: 13 has %v, want %v", step, p13, want)
		}
	}
	if a, b := m.Matrices[0], m.Matrices[1]; &a.Columns[0] != &b.Columns[0] ||
		&a.RowStart[0] != &b.RowStart[0] {
		t.Error("classes of the same columns keep them twice")
	}
}

// TestCalendarOfTransitions counts moves by the class of the step that they leave: at the edges of
// hours, over midnight and into the weekend.
func TestCalendarOfTransitions(t *testing.T) {
	g := plainGrid(t, 10, 1)
	calendar := mobility.Calendar{UTCOffset: time.Hour, Hours: []int{6, 22}, Weekend: true}
	for name, tt := range map[string]struct {
		leaves string
		want   int
	}{
		"morning":           {"1970-01-01T05:00:00Z", 0},
		"last of the night": {"1970-01-01T04:59:00Z", 1},
		"last of the day":   {"1970-01-01T20:59:00Z", 0},
		"evening":           {"1970-01-01T21:00:00Z", 1},
		"over midnight":     {"1970-01-01T22:59:00Z", 1},
		"friday's last":     {"1970-01-02T22:59:00Z", 1},
		"saturday's first":  {"1970-01-02T23:00:00Z", 3},
		"sunday":            {"1970-01-04T12:00:00Z", 2},
		"monday's first":    {"1970-01-04T23:00:00Z", 1},
		"before 1970":       {"1969-12-27T12:00:00Z", 2},
	} {
		from, err := time.Parse(time.RFC3339, tt.leaves)
		if err != nil {
			t.Fatal(err)
		}
		c := counted(t, trainer(t, g, Options{Calendar: calendar},
			fixesAt(g, "u", []int64{from.Unix(), from.Unix() + 60}, []grid.Cell{3, 4})))
		for class, list := range c.classes {
			if (len(list) == 1) != (class == tt.want) {
				t.Errorf("%s: class %d has %v, want it in %d", name, class, pairs(list), tt.want)
			}
		}
		if got := pairs(c.transitions); !slices.Equal(got, []string{"3>4:1"}) {
			t.Errorf("%s: all together %v", name, got)
		}
	}
}

// TestTooManyClasses: what fits with one class need not with many, and the error tells it.
func TestTooManyClasses(t *testing.T) {
	g, err := grid.Plain(9000, 9000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, time.Minute, Options{}); err != nil {
		t.Errorf("one class: %v", err)
	}
	_, err = New(g, time.Minute, Options{Calendar: mobility.Calendar{Hours: []int{6, 12, 18}}})
	if err == nil || !strings.Contains(err.Error(), "3 classes of time") ||
		!strings.Contains(err.Error(), "more than 3.2") {
		t.Errorf("three classes: %v", err)
	}
}
