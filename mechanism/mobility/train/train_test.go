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
	var row mobility.Distribution
	for c := range grid.Cell(g.Cells()) {
		if !exactly(m.Matrices[0], c, 1-m.Jumps.From(g, c)) {
			t.Fatalf("row %d does not sum to exactly 1", c)
		}
		m.Row(&row, 0, c)
		if row.At(c) == 0 {
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
	// The columns of the kernel have 1 + 2/3 transitions by one column and 1/3 by none, which are
	// pooled to a third each. Its rows have 1 + 1/3 by none and 2/3 by one: two thirds, and a sixth
	// to either side. The row of 12 has the weight 1/4 of what was seen, and 3/4 of the kernel.
	checkRow(t, m, 12, map[grid.Cell]float64{
		6: 1. / 24, 7: 1. / 24, 8: 1. / 24, 11: 1. / 6, 12: 1. / 6, 13: 1./4 + 1./6,
		16: 1. / 24, 17: 1. / 24, 18: 1. / 24,
	})
	// Never seen, in the corner: halves of the columns, and .8 and .2 of the rows.
	checkRow(t, m, 0, map[grid.Cell]float64{0: .4, 1: .4, 5: .1, 6: .1})
}

func checkRow(t *testing.T, m *mobility.Model, c grid.Cell, want map[grid.Cell]float64) {
	t.Helper()
	var row mobility.Distribution
	m.Row(&row, 0, c)
	if row.Len() != len(want) {
		t.Errorf("row %d has %d columns, want %d", c, row.Len(), len(want))
	}
	for i, to := range row.Cells {
		if math.Abs(row.P[i]-want[to]) > 1e-9 {
			t.Errorf("row %d, column %d: %v, want %v", c, to, row.P[i], want[to])
		}
	}
}

// beyond returns the number of columns of a row, and what of it is beyond the radius about its
// cell.
func beyond(m *mobility.Model, c grid.Cell, radius int) (columns int, far float64) {
	var row mobility.Distribution
	m.Row(&row, 0, c)
	for i, to := range row.Cells {
		x, y := Displacement(m.Grid, c, to)
		if max(x, -x, y, -y) > radius {
			far += row.P[i]
		}
	}
	return row.Len(), far
}

func TestJumps(t *testing.T) {
	g := plainGrid(t, 60, 60)
	fixes := fixesAt(g, "u", []int64{0, 60}, []grid.Cell{0, 1})
	middle := grid.Cell(37*60 + 37)
	for _, tt := range []struct {
		jumps   float64
		radius  int
		columns int
		far     float64
	}{
		// Blocks of 5: the cell is the middle of block 7 of 12. It has all neighbours two and four
		// blocks away, and one of those eight blocks away. Four lie within the kernel, a block away
		// on the diagonals.
		{.24, 5, 121 + 13, .24 * 13 / 24},
		// Blocks of 3: the middle of block 12 of 20.
		{.24, 2, 25 + 22, .24 * 22 / 24},
		{-1, 5, 121, 0},
	} {
		m, _, err := trained(g, time.Minute, sequence(fixes),
			Options{Jumps: tt.jumps, KernelRadius: tt.radius})
		if err != nil {
			t.Fatal(err)
		}
		if columns, far := beyond(m, middle, tt.radius); columns != tt.columns ||
			math.Abs(far-tt.far) > 1e-9 {
			t.Errorf("radius %d: %d columns, %v beyond the kernel; want %d and %v", tt.radius,
				columns, far, tt.columns, tt.far)
		}
	}
}

// TestJumpsOfASeenRow: a row with a thousand counts to a back-off of 20, also in a class of its
// own, jumps as often as a row without any.
func TestJumpsOfASeenRow(t *testing.T) {
	g := plainGrid(t, 60, 60)
	middle := grid.Cell(37*60 + 37)
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
		if _, far := beyond(m, middle, 5); math.Abs(far-.24*13/24) > 1e-9 {
			t.Errorf("%v: %v of the mass of a row that was often seen is beyond the kernel", o, far)
		}
	}
}

func TestTransitionsBeyondTheKernelAreKept(t *testing.T) {
	g := plainGrid(t, 30, 1)
	m, _, err := trained(g, time.Minute, sequence(
		fixesAt(g, "u", []int64{0, 60}, []grid.Cell{0, 29})),
		Options{KernelRadius: 2, Backoff: 20, Jumps: -1})
	if err != nil {
		t.Fatal(err)
	}
	var row mobility.Distribution
	m.Row(&row, 0, 0)
	if p := row.At(29); math.Abs(p-1./21) > 1e-9 {
		t.Errorf("the transition to 29 has %v, want 1/21", p)
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
	g, err := grid.Plain(11_000, 11_000, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, time.Minute, Options{}); err == nil ||
		!strings.Contains(err.Error(), "more than 3.2") {
		t.Errorf("121 million cells: %v", err)
	}
	small, err := grid.Plain(1000, 1000, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(small, time.Minute, Options{}); err != nil {
		t.Errorf("a million cells: %v", err)
	}
}
