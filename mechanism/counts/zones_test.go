package counts

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

func square(name string, west, east float64) Area { return box(name, west, 0, east, 1) }

func box(name string, west, south, east, north float64) Area {
	return shape(name, [2]float64{west, south}, [2]float64{east, south}, [2]float64{east, north},
		[2]float64{west, north})
}

func shape(name string, corners ...[2]float64) Area {
	return Area{name, [][][][2]float64{{append(corners, corners[0])}}}
}

func areas(t *testing.T, list ...Area) *Zones {
	t.Helper()
	z, err := Polygons(list)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestBorders: a place on a border has the zone further east or north.
func TestBorders(t *testing.T) {
	polygons := areas(t, square("west", 0, 1), square("east", 1, 2), box("north", 0, 1, 2, 2))
	g, err := grid.New(grid.Box{South: 50, West: 10, North: 50.1, East: 10.1}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	squares, err := Squares(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		z        *Zones
		lat, lon float64
		want     string
	}{
		{polygons, .5, .5, "west"},
		{polygons, .5, 1, "east"},
		{polygons, 0, 0, "west"},
		{polygons, 1, .5, "north"},
		{polygons, .5, 2, Elsewhere},
		{polygons, 2, .5, Elsewhere},
		{polygons, .5, -1e-8, "west"}, // a millimetre
		{polygons, .5, -1e-6, Elsewhere},
		{squares, 50, 10, "0"},
		{squares, 50.0001, 10.02, "1"},
		{squares, 49.9999, 10.02, Elsewhere},
		{squares, -50, 10, Elsewhere},
		{squares, 50.05, -170, Elsewhere},
	} {
		if got := c.z.Name(c.z.Of(c.lat, c.lon)); got != c.want {
			t.Errorf("%g, %g is in %s, want %s", c.lat, c.lon, got, c.want)
		}
	}
	if lat, lon, ok := polygons.Middle(2); !ok || lat != 1.5 || lon != 1 {
		t.Errorf("the middle is %g, %g", lat, lon)
	}
	if lat, lon, ok := squares.Middle(0); !ok || squares.Of(lat, lon) != 0 {
		t.Errorf("the middle of square 0 is %g, %g", lat, lon)
	}
	if _, _, ok := squares.Middle(int32(squares.Count() - 1)); ok {
		t.Error("elsewhere has a middle")
	}
}

// TestTriangulation: where triangles tile a square, each place of it is in exactly one, on all
// sides and corners too, in whichever direction they are drawn.
func TestTriangulation(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const n = 6
	var corners [n + 1][n + 1]corner
	for i := range corners {
		for j := range corners[i] {
			corners[i][j] = corner{int64(i) * 1000, int64(j) * 1000}
			if i > 0 && j > 0 && i < n && j < n {
				corners[i][j].x += random.Int64N(400)
				corners[i][j].y += random.Int64N(400)
			}
		}
	}
	degrees := func(c corner) [2]float64 {
		lat, lon := c.degrees()
		return [2]float64{lon, lat}
	}
	var list []Area
	for i := range n {
		for j := range n {
			a, b, c, d := degrees(corners[i][j]), degrees(corners[i+1][j]),
				degrees(corners[i+1][j+1]), degrees(corners[i][j+1])
			name := string(rune('a'+i)) + string(rune('a'+j))
			list = append(list, shape(name+"1", a, b, c), shape(name+"2", a, d, c))
		}
	}
	z := areas(t, list...)
	for x := int64(0); x < n*1000; x += 7 {
		for y := int64(0); y < n*1000; y += 11 {
			holds := 0
			for i := range z.areas {
				if z.areas[i].holds(corner{x, y}) {
					holds++
				}
			}
			if holds != 1 {
				t.Fatalf("%d, %d is in %d triangles", x, y, holds)
			}
		}
	}
}

// TestOverlap: polygons that overlap are refused by name, and those that touch are not.
func TestOverlap(t *testing.T) {
	hole := box("hole", 0, 0, 9, 9)
	hole.Polygons[0] = append(hole.Polygons[0], box("", 2, 2, 4, 4).Polygons[0][0])
	for name, c := range map[string]struct {
		list []Area
		want bool
	}{
		"beside":      {[]Area{square("a", 0, 1), square("b", 1, 2)}, false},
		"a corner":    {[]Area{box("a", 0, 0, 1, 1), box("b", 1, 1, 2, 2)}, false},
		"the same":    {[]Area{square("a", 0, 1), square("b", 0, 1)}, true},
		"inside":      {[]Area{box("a", 0, 0, 9, 9), box("b", 2, 2, 4, 4)}, true},
		"in a hole":   {[]Area{hole, box("b", 2, 2, 4, 4)}, false},
		"over a hole": {[]Area{hole, box("b", 2, 2, 4.1, 4)}, true},
		"a metre":     {[]Area{square("a", 0, 1.00001), square("b", 1, 2)}, true},
		"a third": {
			[]Area{square("a", 0, 1), square("c", 3, 4), box("b", .9, .9, 1.1, 1.1)}, true,
		},
		// Within one band of latitudes the two cross twice, and are apart at both its edges.
		"a lens": {[]Area{
			shape("a", [2]float64{0, 0}, [2]float64{1, 0}, [2]float64{3, 9}, [2]float64{2, 9}),
			shape("b", [2]float64{3, 0}, [2]float64{4, 0}, [2]float64{1, 9}, [2]float64{0, 9}),
		}, true},
		// A corner on the side of another: rounded, it lies beyond it by less than a centimetre.
		"a corner on a side": {[]Area{
			shape("a", [2]float64{0, 0}, [2]float64{3, 1}, [2]float64{0, 1}),
			shape("b", [2]float64{0, 0}, [2]float64{3, 0}, [2]float64{1, 1. / 3}),
			shape("c", [2]float64{1, 1. / 3}, [2]float64{3, 0}, [2]float64{3, 1}),
		}, false},
	} {
		_, err := Polygons(c.list)
		if (err != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"b" overlap`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestZonesRefuse: what is no zone is refused.
func TestZonesRefuse(t *testing.T) {
	open := square("open", 0, 1)
	open.Polygons[0][0] = open.Polygons[0][0][:4]
	for name, list := range map[string][]Area{
		"none":      nil,
		"no name":   {square("", 0, 1)},
		"a name":    {square("a", 0, 1), square("a", 2, 3)},
		"elsewhere": {square(Elsewhere, 0, 1)},
		"open":      {open},
		"swapped":   {box("a", 39, 116, 40, 117)},
		"a line":    {shape("a", [2]float64{0, 0}, [2]float64{1, 0}, [2]float64{2, 0})},
		"nothing":   {{Name: "a"}},
	} {
		if _, err := Polygons(list); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if g, err := grid.Plain(3, 3, 1); err != nil {
		t.Error(err)
	} else if _, err := Squares(g); err == nil {
		t.Error("a map without a place is taken")
	}
}

// TestZonesDigest: other zones, or the same ones in another order, have another digest.
func TestZonesDigest(t *testing.T) {
	g := func(side float64) *Zones {
		g, err := grid.New(grid.Box{South: 50, West: 10, North: 50.1, East: 10.1}, side)
		if err != nil {
			t.Fatal(err)
		}
		z, err := Squares(g)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	a, b := square("a", 0, 1), square("b", 1, 2)
	known := map[[32]byte]bool{}
	for i, z := range []*Zones{
		areas(t, a), areas(t, b), areas(t, a, b), areas(t, b, a), areas(t, square("a", 0, 1.1)),
		areas(t, square("c", 0, 1)), g(1000), g(1001),
	} {
		if known[z.Digest()] {
			t.Errorf("zones %d have the digest of others", i)
		}
		known[z.Digest()] = true
	}
	if areas(t, a, b).Digest() != areas(t, a, b).Digest() {
		t.Error("the same zones have two digests")
	}
}
