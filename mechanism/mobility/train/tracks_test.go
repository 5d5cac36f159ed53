package train

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

func tracksOf(tr *Trainer) (found []string) {
	for track := range tr.Tracks(nil) {
		found = append(found, fmt.Sprintf("%s%v%v", track.User, track.Steps, track.Cells))
	}
	return found
}

// at returns a fix on a plain grid of 1 km cells, x and y in kilometres.
func at(g *grid.Grid, user string, second, x, y float64) Fix {
	lat, lon := g.ToDegrees(grid.Point{X: x, Y: y})
	return Fix{User: user, TimeMS: int64(math.Round(1000 * second)), Lat: lat, Lon: lon}
}

// TestInterpolate follows straight lines on a row of cells: steps end at 60, 120, ... seconds.
func TestInterpolate(t *testing.T) {
	g := plainGrid(t, 20, 3)
	o := Options{Interpolate: true, MaxGap: 5 * time.Minute}
	line := func(points ...float64) (fixes []Fix) {
		for i := 0; i < len(points); i += 2 {
			fixes = append(fixes, at(g, "u", points[i], points[i+1], 1.5))
		}
		return fixes
	}
	for name, tt := range map[string]struct {
		fixes []Fix
		want  []string
	}{
		// At 60 s it is at 1.1 + 5·(60-30)/150 = 2.1, at 120 s at 4.1.
		"across steps":         {line(30, 1.1, 180, 6.1), []string{"u[0 1 2][22 24 26]"}},
		"a fix at the end":     {line(0, 1.5, 60, 2.5), []string{"u[0][22]"}},
		"not beyond the last":  {line(30, 1.5, 90, 3.7, 100, 9.5), []string{"u[0][22]"}},
		"within a step":        {line(0, 1.5, 59, 2.5), nil},
		"a single fix":         {line(0, 1.5), nil},
		"stays":                {line(0, 1.5, 130, 1.5), []string{"u[0 1][21 21]"}},
		"a gap of just MaxGap": {line(0, 1.5, 300, 6.5), []string{"u[0 1 2 3 4][22 23 24 25 26]"}},
		"a gap beyond":         {line(0, 1.5, 301, 6.5), nil},
		"cut and gone on": {
			line(0, 1.5, 70, 2.5, 1000, 6.5, 1030, 7.5),
			[]string{"u[0][22]", "u[16][27]"},
		},
		"the last fix counts":  {line(0, 9.5, 58, 1.5, 62, 1.5), []string{"u[0][21]"}},
		"the first fix counts": {line(50, 1.5, 70, 3.5, 90, 15.5), []string{"u[0][22]"}},
		"before 1970":          {line(-90, 1.1, 60, 6.1), []string{"u[-2 -1 0][22 24 26]"}},
		"backwards":            {line(0, 5.5, 120, 1.5), []string{"u[0 1][23 21]"}},
		"two gaps of a long go": {
			line(0, .5, 290, 5.3, 580, 10.1),
			[]string{"u[0 1 2 3 4 5 6 7 8][21 22 23 24 25 26 27 28 29]"},
		},
	} {
		if got := tracksOf(trainer(t, g, o, shuffled(tt.fixes, 1))); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSharedFixes: what two users report in the same words is dropped for both, as if they had not
// reported; a difference of a millisecond or of some centimetres is one.
func TestSharedFixes(t *testing.T) {
	g := plainGrid(t, 20, 3)
	base := func(user string, seconds ...float64) (fixes []Fix) {
		for _, second := range seconds {
			fixes = append(fixes, at(g, user, second, 1.5+second/60, 1.5))
		}
		return fixes
	}
	both := slices.Concat(base("a", 0, 60, 120, 180, 240), base("b", 120))
	moved := at(g, "b", 120, 3.5001, 1.5)
	later := at(g, "b", 120.001, 3.5, 1.5)
	for name, tt := range map[string]struct {
		options Options
		fixes   []Fix
		want    []string
		dropped int64
	}{
		"one in the middle": {Options{}, both, []string{"a[0 1][21 22]", "a[3 4][24 25]"}, 2},
		"kept": {
			Options{KeepShared: true},
			both,
			[]string{"a[0 1 2 3 4][21 22 23 24 25]", "b[2][23]"},
			0,
		},
		"other place": {
			Options{},
			append(base("a", 60, 120), moved),
			[]string{"a[1 2][22 23]", "b[2][23]"},
			0,
		},
		"other time": {
			Options{},
			append(base("a", 60, 120), later),
			[]string{"a[1 2][22 23]", "b[2][23]"},
			0,
		},
		"the same user": {Options{}, base("a", 60, 60, 120), []string{"a[1 2][22 23]"}, 0},
		"three users": {
			Options{},
			slices.Concat(
				base("a", 60, 120), base("b", 120, 180), base("c", 120)),
			[]string{"a[1][22]", "b[3][24]"},
			3,
		},
		"not the last": {
			Options{},
			slices.Concat(base("a", 60, 90), base("b", 60)),
			[]string{"a[1][23]"},
			1,
		},
		"every fix": {
			Options{EveryFix: true},
			slices.Concat(base("a", 60, 90, 100), base("b", 90)),
			[]string{"a[1 1][22 23]"},
			2,
		},
		"interpolated": {
			Options{Interpolate: true, MaxGap: time.Hour},
			slices.Concat(base("a", 0, 60, 120, 180), base("b", 60)),
			[]string{"a[0 1 2][22 23 24]"},
			2,
		},
	} {
		tr := trainer(t, g, tt.options, shuffled(tt.fixes, 1))
		if got := tracksOf(tr); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if got := counted(t, tr).dropped; got != tt.dropped {
			t.Errorf("%s: %d dropped, want %d", name, got, tt.dropped)
		}
		// The same fixes, each by a trainer of its own.
		merged := trainer(t, g, tt.options, nil)
		for _, f := range shuffled(tt.fixes, 2) {
			merged.Merge(trainer(t, g, tt.options, []Fix{f}))
		}
		if got := tracksOf(merged); !slices.Equal(got, tt.want) {
			t.Errorf("%s, merged: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSharedFixesOfHeldOut: a user who is held out still decides what is shared, also of fixes that
// come later.
func TestSharedFixesOfHeldOut(t *testing.T) {
	g := plainGrid(t, 20, 3)
	fixes := []Fix{
		at(g, "a", 0, 1.5, 1.5), at(g, "a", 60, 2.5, 1.5), at(g, "b", 60, 2.5, 1.5),
		at(g, "b", 120, 9.5, 1.5),
	}
	tr := trainer(t, g, Options{}, fixes)
	rest := tr.Without(func(user string) bool { return user == "b" })
	want := []string{"a[0][21]"}
	if got := tracksOf(rest); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	rest.Add(at(g, "a", 600, 5.5, 1.5))
	if got, want := tracksOf(rest), append(want, "a[10][25]"); !slices.Equal(got, want) {
		t.Errorf("with one fix more %v, want %v", got, want)
	}
	if _, report := finished(t, tr); report.SharedFixes != 2 || report.Fixes != 4 {
		t.Errorf("report %+v", report)
	}
}

// TestFindSharedInSlices: memory is bounded by looking at a part of the fingerprints at a time,
// with the same result.
func TestFindSharedInSlices(t *testing.T) {
	g := plainGrid(t, 4, 4)
	tr := trainer(t, g, Options{}, wander(g, 8, 300, 1))
	tr.settle()
	want := findShared(tr.users, tr.stepMS, printsAtOnce)
	if len(want) < 10 {
		t.Fatalf("only %d shared fixes: the test sees nothing", len(want))
	}
	for _, atOnce := range []int{1, 7, 100, 3000} {
		if got := findShared(tr.users, tr.stepMS, atOnce); !slices.Equal(got, want) {
			t.Errorf("%d at once: %d shared fixes, want %d", atOnce, len(got), len(want))
		}
	}
}
