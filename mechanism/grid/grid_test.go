package grid

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// beijing is the paper's map: the third ring road.
var beijing = Box{South: 39.85, West: 116.27, North: 39.97, East: 116.50}

func mustNew(t testing.TB, box Box, cellM float64) *Grid {
	t.Helper()
	g, err := New(box, cellM)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestNewCoversTheBox(t *testing.T) {
	for _, box := range boxes {
		g := mustNew(t, box, 340)
		far := g.ToMap(box.North, box.East)
		width, height := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
		if far.X > width+1e-6*g.CellKM() || far.Y > height+1e-6*g.CellKM() {
			t.Errorf("%v: the box's corner %v lies outside %v × %v km", box, far, width, height)
		}
		if far.X <= width-g.CellKM() || far.Y <= height-g.CellKM() {
			t.Errorf("%v: a column or row more than the box needs", box)
		}
	}
}

func TestNewDoesNotAddACellForRounding(t *testing.T) {
	g := mustNew(t, Box{South: 0, West: 0, North: 1, East: 1}, 1000*perLongitude(0.5)/10)
	if g.Width() != 10 {
		t.Errorf("width %d, want 10", g.Width())
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		box   Box
		cellM float64
		says  string
	}{
		"empty":         {Box{1, 1, 1, 2}, 100, "empty"},
		"upside down":   {Box{2, 1, 1, 2}, 100, "empty"},
		"antimeridian":  {Box{-18, 177, -16, -178}, 100, "antimeridian"},
		"beyond":        {Box{-18, 177, -16, 182}, 100, "[-180, 180]"},
		"pole":          {Box{80, 0, 90, 10}, 100, "pole"},
		"not a number":  {Box{math.NaN(), 0, 1, 1}, 100, "finite"},
		"infinite":      {Box{0, 0, 1, math.Inf(1)}, 100, "finite"},
		"distorted":     {Box{0, 0, 60, 60}, 1000, "wrong by up to"},
		"too many":      {Box{39, 116, 41, 118}, .5, "larger cells"},
		"no cell":       {beijing, 0, "cell size"},
		"negative cell": {beijing, -1, "cell size"},
		"infinite cell": {beijing, math.Inf(1), "cell size"},
		"tiny cell":     {beijing, 5e-324, "larger cells"},
	} {
		g, err := New(tt.box, tt.cellM)
		if err == nil || g != nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
	for _, tt := range []struct {
		width, height int
		cellKM        float64
	}{
		{0, 1, 1},
		{1, 0, 1},
		{1 << 16, 1 << 16, 1},
		{1, 1, 0},
		{1, 1, math.NaN()},
		{1, 1 << 20, 1},
		{1 << 20, 1, 1},
	} {
		if _, err := Plain(tt.width, tt.height, tt.cellKM); err == nil {
			t.Errorf("Plain(%v) gave no error", tt)
		}
	}
}

func TestLocateIsTheNearestCell(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, g := range []*Grid{
		mustNew(t, beijing, 1500), mustNew(t, Box{-34, 151, -33.9, 151.2}, 2100),
	} {
		box := g.Box()
		for range 2000 {
			// A third of the range on each side of the box, too.
			lat := box.South + (random.Float64()*5-2)/3*(box.North-box.South)
			lon := box.West + (random.Float64()*5-2)/3*(box.East-box.West)
			place := g.ToMap(lat, lon)
			nearest := math.Inf(1)
			for c := range Cell(g.Cells()) {
				nearest = min(nearest, place.Distance(g.Centre(c)))
			}
			if got := place.Distance(g.Centre(g.Locate(lat, lon))); got > nearest+1e-12 {
				t.Fatalf("located %v km away, the nearest centre is at %v", got, nearest)
			}
		}
	}
}

// TestBeyond: 0 on the cells and their border, and outside the larger of the two
// distances, also where the cells reach beyond the box and across the antimeridian.
func TestBeyond(t *testing.T) {
	g := mustNew(t, Box{-18, 178, -17, 180}, 10_000)
	width, height, side := float64(g.Width()), float64(g.Height()), g.CellKM()
	for _, c := range []struct{ column, row, want float64 }{
		{0, 0, 0},
		{width, height, 0},
		{width / 2, height / 2, 0},
		{width - .01, height - .01, 0},
		{-1, 3, 1},
		{width + 2, 3, 2},
		{3, -.5, .5},
		{3, height + 3, 3},
		{-2, height + 3, 3},
		{width + 4, -1, 4},
	} {
		lat, lon := g.ToDegrees(Point{X: c.column * side, Y: c.row * side})
		if got := g.Beyond(lat, lon); math.Abs(got-c.want*side) > 1e-9 {
			t.Errorf("column %v, row %v: %v km outside, want %v", c.column, c.row, got, c.want*side)
		}
	}
	if got := g.Beyond(-17.5, -179.9); got > 11 {
		t.Errorf("a place just east of the antimeridian is %v km outside", got)
	}
}

func TestLocateWrapsLongitudes(t *testing.T) {
	g := mustNew(t, Box{-18, 178, -17, 180}, 10_000)
	if c := g.Locate(-17.5, -179.9); g.Column(c) != g.Width()-1 {
		t.Errorf("a place just east of the antimeridian is in column %d of %d",
			g.Column(c), g.Width())
	}
	g = mustNew(t, Box{-18, -180, -17, -178}, 10_000)
	if c := g.Locate(-17.5, 179.9); g.Column(c) != 0 {
		t.Errorf("a place just west of the antimeridian is in column %d", g.Column(c))
	}
}

func TestCellAtIsTotal(t *testing.T) {
	g, err := Plain(3, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	huge := math.MaxFloat64
	for _, tt := range []struct {
		p    Point
		want Cell
	}{
		{Point{0, 0}, 0},
		{Point{1, 0}, 1},
		{Point{.999999, 1}, 3},
		{Point{3, 2}, 5},
		{Point{-huge, huge}, 3},
		{Point{huge, -huge}, 2},
		{Point{math.Inf(1), math.Inf(1)}, 5},
		{Point{math.NaN(), math.NaN()}, 0},
	} {
		if got := g.CellAt(tt.p); got != tt.want {
			t.Errorf("CellAt(%v) = %d, want %d", tt.p, got, tt.want)
		}
	}
}

func TestCentreColumnRow(t *testing.T) {
	g, err := Plain(7, 5, .34)
	if err != nil {
		t.Fatal(err)
	}
	for c := range Cell(g.Cells()) {
		if g.CellAt(g.Centre(c)) != c || g.Row(c)*g.Width()+g.Column(c) != int(c) {
			t.Errorf("cell %d is not where it says", c)
		}
	}
	want := Point{X: 3.5 * .34, Y: 2.5 * .34}
	if got := g.Centre(17); got.Distance(want) > 1e-15 {
		t.Errorf("centre %v, want %v", got, want)
	}
	for _, c := range []Cell{-1, 35} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("cell %d did not panic", c)
				}
			}()
			g.Centre(c)
		}()
	}
}

func TestDegreesAndBack(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	for _, box := range boxes {
		g := mustNew(t, box, 340)
		for range 200 {
			p := Point{X: random.Float64()*60 - 20, Y: random.Float64()*60 - 20}
			lat, lon := g.ToDegrees(p)
			if back := g.ToMap(lat, lon); back.Distance(p) > 1e-9 {
				t.Fatalf("%v: %v came back as %v", box, p, back)
			}
		}
	}
}

func TestToDegreesStaysOnEarth(t *testing.T) {
	g := mustNew(t, beijing, 340)
	for _, p := range []Point{{1e6, 1e6}, {-1e6, -1e6}, {1e12, -1e12}, {-25_000, 3}} {
		if lat, lon := g.ToDegrees(p); math.Abs(lat) > 90 || math.Abs(lon) > 180 {
			t.Errorf("%v became %v, %v", p, lat, lon)
		}
	}
}

func TestID(t *testing.T) {
	seen := map[string]int{}
	plain, err := Plain(10, 20, .34)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Plain(20, 10, .34)
	if err != nil {
		t.Fatal(err)
	}
	moved := beijing
	moved.East += 1e-9
	for i, g := range []*Grid{
		plain, other, mustNew(t, beijing, 340), mustNew(t, beijing, 341), mustNew(t, moved, 340),
	} {
		if before, found := seen[g.ID()]; found {
			t.Errorf("grids %d and %d have the same id", before, i)
		}
		seen[g.ID()] = i
	}
	if mustNew(t, beijing, 340).ID() != mustNew(t, beijing, 340).ID() {
		t.Error("the same grid has two ids")
	}
	// Pinned: a stored state refers to it, on every architecture.
	if got, want := mustNew(t, beijing, 340).ID(), "0c8d38a017965fb7"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
	if mustNew(t, Box{-1, 0, 1, 2}, 500).ID() != mustNew(t, Box{-1, math.Copysign(0, -1), 1, 2},
		500).ID() {
		t.Error("0 and -0 give two ids")
	}
}

func FuzzGrid(f *testing.F) {
	f.Add(39.85, 116.27, 39.97, 116.50, 340.0, 39.9, 116.4)
	f.Add(-18.0, 178.0, -17.0, 180.0, 1000.0, -17.5, -179.9)
	f.Add(math.NaN(), 0.0, 1.0, 1.0, 5e-324, math.Inf(1), math.NaN())
	f.Fuzz(func(t *testing.T, south, west, north, east, cellM, lat, lon float64) {
		g, err := New(Box{south, west, north, east}, cellM)
		if err != nil {
			return
		}
		if g.Cells() < 1 || g.Cells() > MaxCells {
			t.Fatalf("%d cells", g.Cells())
		}
		if c := g.Locate(lat, lon); c < 0 || int(c) >= g.Cells() {
			t.Fatalf("cell %d of %d", c, g.Cells())
		}
		if d := g.Distortion(); !(d >= 0 && d <= MaxDistortion) {
			t.Fatalf("distortion %v", d)
		}
	})
}
