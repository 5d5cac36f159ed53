package train

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// fixesAt puts a user into the middle of the cells, one for each second offset given.
func fixesAt(g *grid.Grid, user string, seconds []int64, cells []grid.Cell) []Fix {
	var fixes []Fix
	for i, c := range cells {
		lat, lon := g.ToDegrees(g.Centre(c))
		fixes = append(fixes, Fix{User: user, TimeMS: 1000 * seconds[i], Lat: lat, Lon: lon})
	}
	return fixes
}

func sequence(fixes []Fix) iter.Seq2[Fix, error] {
	return func(yield func(Fix, error) bool) {
		for _, f := range fixes {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// trained makes a model of fixes, or returns the first error that reading them gives.
func trained(g *grid.Grid, step time.Duration, fixes iter.Seq2[Fix, error], o Options) (
	*mobility.Model, mobility.Report, error,
) {
	t, err := New(g, step, o)
	if err != nil {
		return nil, mobility.Report{}, err
	}
	for fix, err := range fixes {
		if err != nil {
			return nil, mobility.Report{}, err
		}
		t.Add(fix)
	}
	return t.Finish()
}

func trainer(t *testing.T, g *grid.Grid, o Options, fixes []Fix) *Trainer {
	t.Helper()
	tr, err := New(g, time.Minute, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fixes {
		tr.Add(f)
	}
	return tr
}

func counted(t *testing.T, tr *Trainer) counts {
	t.Helper()
	c, err := count(tr.users, tr.tracer(), &parallel.Progress{Report: func(int64, int64) error {
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pairs(list []Pair) (found []string) {
	for _, w := range list {
		found = append(found, fmt.Sprintf("%d>%d:%g", w.From, w.To, w.Weight))
	}
	return found
}

func TestCountTransitions(t *testing.T) {
	g := plainGrid(t, 10, 10)
	for name, tt := range map[string]struct {
		options Options
		seconds []int64
		cells   []grid.Cell
		want    []string
	}{
		"consecutive steps": {
			Options{},
			[]int64{0, 60, 120},
			[]grid.Cell{1, 2, 3},
			[]string{"1>2:1", "2>3:1"},
		},
		"staying": {Options{}, []int64{0, 60, 120}, []grid.Cell{1, 1, 1}, []string{"1>1:2"}},
		"last fix of a step": {
			Options{},
			[]int64{0, 59, 60, 70},
			[]grid.Cell{1, 2, 3, 4},
			[]string{"2>4:1"},
		},
		"a step missing": {
			Options{},
			[]int64{0, 60, 180, 240},
			[]grid.Cell{1, 2, 3, 4},
			[]string{"1>2:1", "3>4:1"},
		},
		"before 1970": {
			Options{},
			[]int64{-61, -60, -1, 0},
			[]grid.Cell{1, 2, 3, 4},
			[]string{"1>3:1", "3>4:1"},
		},
		"gap within two steps": {
			Options{MaxGap: time.Minute},
			[]int64{0, 119},
			[]grid.Cell{1, 2},
			nil,
		},
		"gap just allowed": {
			Options{MaxGap: time.Minute},
			[]int64{30, 90},
			[]grid.Cell{1, 2},
			[]string{"1>2:1"},
		},
		"gap bridged by others": {
			Options{MaxGap: time.Minute},
			[]int64{0, 50, 65, 119},
			[]grid.Cell{1, 5, 6, 2},
			[]string{"5>2:1"},
		},
		"every fix": {
			Options{EveryFix: true},
			[]int64{0, 1, 100_000},
			[]grid.Cell{1, 2, 3},
			[]string{"1>2:1", "2>3:1"},
		},
		"every fix, cut": {
			Options{EveryFix: true, MaxGap: time.Second},
			[]int64{0, 1, 100_000},
			[]grid.Cell{1, 2, 3},
			[]string{"1>2:1"},
		},
	} {
		counts := counted(t, trainer(t, g, tt.options, fixesAt(g, "u", tt.seconds, tt.cells)))
		if got := pairs(counts.transitions); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if counts.raw != int64(sumWeights(counts.transitions)) {
			t.Errorf("%s: %d transitions counted", name, counts.raw)
		}
	}
}

func sumWeights(list []Pair) (total float64) {
	for _, w := range list {
		total += w.Weight
	}
	return total
}

// TestUserCap lets one user stay for 99 minutes, then leave; the cap scales both to a total of 30.
func TestUserCap(t *testing.T) {
	g := plainGrid(t, 10, 10)
	var seconds []int64
	var cells []grid.Cell
	for i := range int64(101) {
		seconds, cells = append(seconds, 60*i), append(cells, 1)
	}
	cells[100] = 2
	heavy := fixesAt(g, "heavy", seconds, cells)
	light := fixesAt(g, "light", []int64{1, 61}, []grid.Cell{1, 3})
	counts := counted(t, trainer(t, g, Options{}, slices.Concat(heavy, light)))
	if got, want := pairs(counts.transitions),
		[]string{"1>1:29.7", "1>2:0.3", "1>3:1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if counts.raw != 101 {
		t.Errorf("%d transitions before capping, want 101", counts.raw)
	}
	if got := sumWeights(counts.popularity[:1]); got != 31 {
		t.Errorf("popularity %v, want 31", got)
	}
}

func TestTrainedModel(t *testing.T) {
	g := plainGrid(t, 20, 15)
	m, report, err := trained(g, time.Minute, sequence(wander(g, 8, 300, 2)),
		Options{KernelRadius: 3, Source: "a walk", Tool: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	for c := range grid.Cell(g.Cells()) {
		columns, values := m.Matrices[0].Row(c)
		total := 0.0
		for _, v := range values {
			total += v
		}
		if total != 1 {
			t.Fatalf("row %d sums to %v, not exactly 1", c, total)
		}
		if !slices.Contains(columns, c) {
			t.Fatalf("row %d cannot stay", c)
		}
	}
	if m.Initial.Len() != g.Cells() || m.Initial.Total() != 1 {
		t.Errorf("the initial distribution has %d cells and total %v", m.Initial.Len(),
			m.Initial.Total())
	}
	if report.Users != 8 || report.Fixes != 8*300 || report.Transitions == 0 ||
		report.MatrixEntries != int64(m.Matrices[0].Transitions()) {
		t.Errorf("report %+v", report)
	}
	if m.Provenance.Report != report || m.Provenance.Source != "a walk" ||
		!strings.Contains(m.Provenance.Options, "kernel_radius=3") {
		t.Errorf("provenance %+v", m.Provenance)
	}
}

// TestSmoothingByHand has one transition out of cell 12, the middle of a 5×5 map, and a kernel of
// radius 1.
func TestSmoothingByHand(t *testing.T) {
	g := plainGrid(t, 5, 5)
	m, _, err := trained(g, time.Minute, sequence(
		fixesAt(g, "u", []int64{0, 60}, []grid.Cell{12, 13})),
		Options{KernelRadius: 1, Backoff: 3, Jumps: -1})
	if err != nil {
		t.Fatal(err)
	}
	// Displacements: one of length 1 (4 cells), 1/5 pseudo-transition each for 5 cells. The
	// middle's .2 is less than the .45 of the ring, so both are pooled: .4 each of a total of 2, .2
	// normalized.
	columns, values := m.Matrices[0].Row(12)
	if !slices.Equal(columns, []grid.Cell{7, 11, 12, 13, 17}) {
		t.Fatalf("columns %v", columns)
	}
	for i, want := range []float64{.15, .15, .15, .4, .15} {
		if math.Abs(values[i]-want) > 1e-9 {
			t.Errorf("column %d: %v, want %v", columns[i], values[i], want)
		}
	}
	columns, values = m.Matrices[0].Row(0) // never seen, in the corner
	if !slices.Equal(columns, []grid.Cell{0, 1, 5}) {
		t.Fatalf("columns %v", columns)
	}
	for i, v := range values {
		if math.Abs(v-1./3) > 1e-9 {
			t.Errorf("column %d: %v, want 1/3", columns[i], v)
		}
	}
}

func TestJumps(t *testing.T) {
	g := plainGrid(t, 60, 60)
	fixes := fixesAt(g, "u", []int64{0, 60}, []grid.Cell{0, 1})
	middle := grid.Cell(30*60 + 30)
	row := func(jumps float64) ([]grid.Cell, []float64) {
		m, _, err := trained(g, time.Minute, sequence(fixes), Options{Jumps: jumps})
		if err != nil {
			t.Fatal(err)
		}
		return m.Matrices[0].Row(middle)
	}
	columns, values := row(0.24)
	far := 0.0
	for i, c := range columns {
		dx, dy := g.Column(c)-30, g.Row(c)-30
		if dx*dx+dy*dy > 25 {
			far += values[i]
		}
	}
	// Of 24 jumps all eight at 10 and at 20 lie on the map, and at 40 the four diagonal ones.
	if want := .24 * 20 / 24; len(columns) != 81+20 || math.Abs(far-want/(want+.76)) > 1e-8 {
		t.Errorf("%d columns, %v of the mass beyond the kernel", len(columns), far)
	}
	near, _, err := trained(g, time.Minute, sequence(fixes), Options{KernelRadius: 2})
	if err != nil {
		t.Fatal(err)
	}
	if columns, _ := near.Matrices[0].Row(middle); len(columns) != 13 {
		t.Errorf("%d columns for a radius of 2, want the kernel's 13", len(columns))
	}
	if columns, _ := row(-1); len(columns) != 81 {
		t.Errorf("%d columns without jumps, want 81", len(columns))
	}
}

// TestJumpsOfASeenRow: a row with a thousand counts to a back-off of 20, also in a class of its
// own, jumps as often as a row without any.
func TestJumpsOfASeenRow(t *testing.T) {
	g := plainGrid(t, 60, 60)
	middle := grid.Cell(30*60 + 30)
	var fixes []Fix
	for u := range 40 {
		for i := range int64(30) {
			fixes = append(fixes, fixesAt(g, fmt.Sprint("user", u), []int64{60 * i},
				[]grid.Cell{middle})...)
		}
	}
	for _, o := range []Options{
		{Jumps: .24},
		{Jumps: .24, Calendar: mobility.Calendar{Hours: []int{0, 12}}},
	} {
		m, _, err := trained(g, time.Minute, sequence(fixes), o)
		if err != nil {
			t.Fatal(err)
		}
		columns, values := m.Matrices[0].Row(middle)
		far := 0.0
		for i, c := range columns {
			if dx, dy := g.Column(c)-30, g.Row(c)-30; dx*dx+dy*dy > 25 {
				far += values[i]
			}
		}
		if want := .24 * 20 / 24; math.Abs(far-want/(want+.76)) > 1e-8 {
			t.Errorf("%v: %v of the mass of a row that was often seen is beyond the kernel", o, far)
		}
	}
}

func TestTransitionsBeyondTheKernelAreKept(t *testing.T) {
	g := plainGrid(t, 30, 1)
	m, _, err := trained(g, time.Minute, sequence(
		fixesAt(g, "u", []int64{0, 60}, []grid.Cell{0, 29})), Options{KernelRadius: 2, Backoff: 20})
	if err != nil {
		t.Fatal(err)
	}
	columns, values := m.Matrices[0].Row(0)
	if at := slices.Index(columns, 29); at < 0 || math.Abs(values[at]-1./21) > 1e-9 {
		t.Errorf("the jump has columns %v, values %v; want 1/21 for 29", columns, values)
	}
}

// TestTrainNothingCounts: fixes of which none counts, since two users share them or no step ends
// between two of them, make a valid model of nothing.
func TestTrainNothingCounts(t *testing.T) {
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.1, East: 20.1}, 500)
	if err != nil {
		t.Fatal(err)
	}
	at := func(user string, ms int64) Fix {
		return Fix{User: user, TimeMS: ms, Lat: 10.05, Lon: 20.05}
	}
	for what, c := range map[string]struct {
		fixes []Fix
		o     Options
	}{
		"shared": {
			[]Fix{at("a", 0), at("b", 0), at("a", 60_000), at("b", 60_000)},
			Options{},
		},
		"no step's end": {
			[]Fix{at("a", 1000), at("a", 59_000)},
			Options{Interpolate: true, MaxGap: 5 * time.Minute},
		},
		"a lonely fix": {
			[]Fix{at("a", 1000)},
			Options{Interpolate: true, MaxGap: 5 * time.Minute},
		},
		"every fix, too": {[]Fix{at("a", 0), at("b", 0)}, Options{EveryFix: true}},
	} {
		m, report, err := trained(g, time.Minute, sequence(c.fixes), c.o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := m.Validate(); err != nil || report.Transitions != 0 {
			t.Errorf("%s: %v, %d transitions", what, err, report.Transitions)
		}
		for _, p := range m.Initial.P {
			if uniform := 1 / float64(g.Cells()); what != "a lonely fix" &&
				math.Abs(p/uniform-1) > 1e-3 {
				t.Errorf("%s: a cell has a probability of %g, of %g", what, p, uniform)
			}
		}
	}
}

func TestTrainOutsideAndNothing(t *testing.T) {
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.1, East: 20.1}, 500)
	if err != nil {
		t.Fatal(err)
	}
	outside := Fix{User: "u", Lat: 11, Lon: 20}
	_, report, err := trained(g, time.Minute, sequence([]Fix{outside}), Options{})
	if !errors.Is(err, ErrNoFixes) || report.OutsideBox != 1 || report.Users != 0 {
		t.Errorf("error %v, report %+v", err, report)
	}
	planted := errors.New("planted")
	_, _, err = trained(g, time.Minute, func(yield func(Fix, error) bool) {
		yield(Fix{}, planted)
	}, Options{})
	if !errors.Is(err, planted) {
		t.Errorf("error %v, want the reader's", err)
	}
}

func TestTrainOptionsValidate(t *testing.T) {
	if err := (Options{}).Validate(time.Minute); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]Options{
		"radius":     {KernelRadius: -1},
		"wide":       {KernelRadius: 1000},
		"backoff":    {Backoff: -1},
		"no number":  {Backoff: math.NaN()},
		"cap":        {UserCap: -3},
		"uniform":    {Uniform: 2},
		"jumps":      {Jumps: 1},
		"short gap":  {MaxGap: time.Second},
		"minus  gap": {MaxGap: -time.Second},
	} {
		if err := o.Validate(time.Minute); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, step := range []time.Duration{
		0, -1, time.Microsecond, 48 * time.Hour,
		1500 * time.Microsecond,
	} {
		if err := (Options{}).Validate(step); err == nil {
			t.Errorf("step %v: no error", step)
		}
	}
}

// wander returns random walks, with gaps, doubled times and several fixes a step.
func wander(g *grid.Grid, users, fixes int, seed uint64) []Fix {
	random := rand.New(rand.NewPCG(seed, 4))
	var all []Fix
	for u := range users {
		x, y := random.IntN(g.Width()), random.IntN(g.Height())
		at := int64(random.IntN(1000))
		for range fixes {
			x = min(max(x+random.IntN(3)-1, 0), g.Width()-1)
			y = min(max(y+random.IntN(3)-1, 0), g.Height()-1)
			at += []int64{0, 10, 30, 60, 60, 60, 200}[random.IntN(7)]
			all = append(all, fixesAt(g, fmt.Sprint("user", u), []int64{at},
				[]grid.Cell{grid.Cell(y*g.Width() + x)})...)
		}
	}
	return all
}

// TestTooLargeAModel: a map whose model would not fit into memory is refused before anything is
// read.
func TestTooLargeAModel(t *testing.T) {
	g, err := grid.Plain(7000, 7800, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, time.Minute, Options{}); err == nil ||
		!strings.Contains(err.Error(), "choose larger cells") {
		t.Errorf("54 million cells: %v", err)
	}
	small, err := grid.Plain(1000, 1000, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(small, time.Minute, Options{}); err != nil {
		t.Errorf("a million cells: %v", err)
	}
}
