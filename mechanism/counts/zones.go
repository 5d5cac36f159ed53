package counts

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Elsewhere is the name of the last zone, which has all places of no other zone.
const Elsewhere = "elsewhere"

// Zones divide the Earth: each place has exactly one zone. Any number of goroutines may use one.
type Zones struct {
	squares *grid.Grid // nil for polygons
	areas   []polygon
	digest  [sha256.Size]byte
}

// Squares returns the cells of a grid as zones, in the order of its cells, and Elsewhere. A place
// on a side of two squares belongs to the one further east or north, and a place on the outer
// border to the map.
func Squares(g *grid.Grid) (*Zones, error) {
	if g.IsPlain() {
		return nil, errors.New("zones need a map in degrees")
	}
	b := []byte("geodither zones 1: squares")
	box := g.Box()
	for _, v := range [...]float64{box.South, box.West, box.North, box.East, g.CellM()} {
		// +0: -0 and 0 are one box
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v+0))
	}
	return &Zones{squares: g, digest: sha256.Sum256(b)}, nil
}

// maxCorners bounds the time that it takes to find polygons which overlap.
const maxCorners = 100_000

// Polygons returns areas as zones, in their order, and Elsewhere. Corners and places are rounded
// to 10⁻⁷ degrees, a centimetre, and then compared in whole numbers. A place on the side of two
// areas belongs to the one further east or north.
//
// Areas that overlap by more than three centimetres are refused: in such a place a user would be
// missing from one of the two. Where areas overlap by less, the first one has the place, so that
// no user counts twice.
func Polygons(areas []Area) (*Zones, error) {
	if len(areas) == 0 {
		return nil, errors.New("there is no zone")
	}
	z := &Zones{areas: make([]polygon, len(areas))}
	known, corners := map[string]bool{Elsewhere: true}, 0
	b := []byte("geodither zones 1: polygons")
	for i, a := range areas {
		switch {
		case a.Name == "":
			return nil, fmt.Errorf("polygon %d has no property \"name\"", i+1)
		case known[a.Name]:
			return nil, fmt.Errorf("two zones are named %q, or it is the rest's name", a.Name)
		}
		known[a.Name] = true
		var err error
		if z.areas[i], err = newPolygon(a); err != nil {
			return nil, fmt.Errorf("the zone %q %w", a.Name, err)
		}
		for _, ring := range z.areas[i].rings {
			corners += len(ring)
		}
		b = z.areas[i].appendTo(b)
	}
	if corners > maxCorners {
		return nil, fmt.Errorf("the zones have %d corners, more than %d", corners, maxCorners)
	}
	if one, other, at, found := overlap(z.areas); found {
		lat, lon := at.degrees()
		return nil, fmt.Errorf("the zones %q and %q overlap near %.5f, %.5f", areas[one].Name,
			areas[other].Name, lat, lon)
	}
	z.digest = sha256.Sum256(b)
	return z, nil
}

// Count returns the number of zones, Elsewhere included.
func (z *Zones) Count() int {
	if z.squares != nil {
		return z.squares.Cells() + 1
	}
	return len(z.areas) + 1
}

// Of returns the zone of a place in degrees.
func (z *Zones) Of(lat, lon float64) int32 {
	elsewhere := int32(z.Count() - 1)
	if z.squares != nil {
		if z.squares.Beyond(lat, lon) > 0 {
			return elsewhere
		}
		return z.squares.Locate(lat, lon)
	}
	at := place(lat, lon)
	for i := range z.areas {
		if z.areas[i].holds(at) {
			return int32(i)
		}
	}
	return elsewhere
}

// Name returns the name of an area, of Elsewhere, or the number of a square as text.
func (z *Zones) Name(zone int32) string {
	switch {
	case int(zone) == z.Count()-1:
		return Elsewhere
	case z.squares != nil:
		return fmt.Sprint(zone)
	}
	return z.areas[zone].name
}

// Middle returns the middle of a square, or of the box around an area. Elsewhere has none.
func (z *Zones) Middle(zone int32) (lat, lon float64, ok bool) {
	switch {
	case int(zone) == z.Count()-1:
		return 0, 0, false
	case z.squares != nil:
		lat, lon = z.squares.ToDegrees(z.squares.Centre(zone))
	default:
		a := &z.areas[zone]
		lat, lon = corner{(a.low.x + a.high.x) / 2, (a.low.y + a.high.y) / 2}.degrees()
	}
	return lat, lon, true
}

// Digest stands for the zones and their order. The noise depends on it, so that other zones have
// other noise.
func (z *Zones) Digest() [sha256.Size]byte { return z.digest }

// Area is a polygon with a name, or several of one name.
type Area struct {
	Name string
	// Polygons have rings, closed lines of places: an outline, and those of the holes in it. A
	// place is longitude and latitude in degrees. It is inside if a line from it crosses the rings
	// an odd number of times.
	Polygons [][][][2]float64
}

// corner is a place in 10⁻⁷ degrees: x is the longitude, y the latitude.
type corner struct{ x, y int64 }

const perDegree = 1e7

func place(lat, lon float64) corner {
	return corner{int64(math.Round(lon * perDegree)), int64(math.Round(lat * perDegree))}
}

func (c corner) degrees() (lat, lon float64) {
	return float64(c.y) / perDegree, float64(c.x) / perDegree
}

// polygon is an Area in whole numbers.
type polygon struct {
	name      string
	rings     [][]corner // closed: the last corner is the first one
	low, high corner     // of the box around it
}

func newPolygon(a Area) (polygon, error) {
	p := polygon{name: a.Name, low: place(90, 180), high: place(-90, -180)}
	for _, ring := range slices.Concat(a.Polygons...) {
		if len(ring) < 4 || ring[0] != ring[len(ring)-1] {
			return p, errors.New("has a ring that is not closed")
		}
		corners := make([]corner, len(ring))
		for i, at := range ring {
			if !(math.Abs(at[0]) <= 180 && math.Abs(at[1]) <= 90) {
				return p, errors.New("has a corner off the Earth: write longitude before latitude")
			}
			c := place(at[1], at[0])
			corners[i] = c
			p.low = corner{min(p.low.x, c.x), min(p.low.y, c.y)}
			p.high = corner{max(p.high.x, c.x), max(p.high.y, c.y)}
		}
		p.rings = append(p.rings, corners)
	}
	if p.low.x >= p.high.x || p.low.y >= p.high.y {
		return p, errors.New("has no area: draw a polygon")
	}
	return p, nil
}

// appendTo appends the name and all corners, each list with its length.
func (p *polygon) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.name)))
	b = append(b, p.name...)
	b = binary.AppendUvarint(b, uint64(len(p.rings)))
	for _, ring := range p.rings {
		b = binary.AppendUvarint(b, uint64(len(ring)))
		for _, c := range ring {
			b = binary.AppendVarint(binary.AppendVarint(b, c.x), c.y)
		}
	}
	return b
}

// side is one side of a polygon, from its lower to its upper end. Horizontal sides are left out:
// no horizontal line crosses them.
type side struct {
	low, high corner
	zone      int
}

// sides calls each with the sides of a polygon.
func (p *polygon) sides(each func(low, high corner)) {
	for _, ring := range p.rings {
		for i := 1; i < len(ring); i++ {
			low, high := ring[i-1], ring[i]
			if low.y > high.y {
				low, high = high, low
			}
			if low.y < high.y {
				each(low, high)
			}
		}
	}
}

// holds says whether a place is inside: a line from it to the east crosses the sides an odd number
// of times. A side has its lower end and not its upper one, and does not cross a line that starts
// on it. So along a common side exactly one of two polygons holds a place, however each is drawn.
//
// Differences are at most 3.6·10⁹ and 1.8·10⁹, so the products fit 64 bits.
func (p *polygon) holds(at corner) (inside bool) {
	if at.x < p.low.x || at.x > p.high.x || at.y < p.low.y || at.y > p.high.y {
		return false
	}
	p.sides(func(low, high corner) {
		if low.y <= at.y && at.y < high.y &&
			(at.x-low.x)*(high.y-low.y) < (high.x-low.x)*(at.y-low.y) {
			inside = !inside
		}
	})
	return inside
}

// slack is by how much polygons may overlap, in 10⁻⁷ degrees: corners are rounded by half of one,
// so where a corner of one polygon lies on the side of another they may overlap by up to two.
const slack = 3

// span is where a polygon is in a band of latitudes without a corner: between two sides, whose
// longitudes at the lower and the upper edge of the band are given.
type span struct {
	left, right [2]float64
	zone        int
}

// overlap returns two polygons that overlap by more than the slack, and where. It moves a band over
// the corners from south to north. The whole numbers are below 2³² and exact as float64; a rounding
// of longitudes is far below the slack.
func overlap(polygons []polygon) (one, other int, at corner, found bool) {
	var all []side
	var edges []int64
	for zone := range polygons {
		polygons[zone].sides(func(low, high corner) {
			all = append(all, side{low, high, zone})
			edges = append(edges, low.y, high.y)
		})
	}
	slices.SortFunc(all, func(a, b side) int { return cmp.Compare(a.low.y, b.low.y) })
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var active []side
	for i := 1; i < len(edges); i++ {
		south, north := edges[i-1], edges[i]
		active = slices.DeleteFunc(active, func(s side) bool { return s.high.y <= south })
		for len(all) > 0 && all[0].low.y <= south {
			active, all = append(active, all[0]), all[1:]
		}
		if north-south <= slack {
			continue
		}
		if a, b, found := clash(spansOf(active, float64(south), float64(north))); found {
			x := max(a.left[0]+a.left[1], b.left[0]+b.left[1]) / 2
			return min(a.zone, b.zone), max(a.zone, b.zone),
				corner{int64(x), (south + north) / 2}, true
		}
	}
	return 0, 0, corner{}, false
}

// clash returns two spans of different polygons that overlap by more than the slack.
func clash(spans []span) (a, b span, found bool) {
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if min(b.left[0], b.left[1]) >= max(a.right[0], a.right[1]) {
				break
			}
			if a.zone != b.zone && a.shares(b) > slack {
				return a, b, true
			}
		}
	}
	return a, b, false
}

// spansOf returns the spans of a band, in the order of their western ends.
func spansOf(active []side, south, north float64) (spans []span) {
	slices.SortStableFunc(active, func(a, b side) int {
		middle := (south + north) / 2
		return cmp.Or(cmp.Compare(a.at(middle), b.at(middle)), cmp.Compare(a.zone, b.zone))
	})
	open := map[int]side{}
	for _, s := range active {
		left, is := open[s.zone]
		if !is {
			open[s.zone] = s
			continue
		}
		delete(open, s.zone)
		spans = append(spans, span{
			[2]float64{left.at(south), left.at(north)},
			[2]float64{s.at(south), s.at(north)},
			s.zone,
		})
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Compare(min(a.left[0], a.left[1]), min(b.left[0], b.left[1]))
	})
	return spans
}

// at returns the longitude of a side at a latitude.
func (s side) at(y float64) float64 {
	share := (y - float64(s.low.y)) / float64(s.high.y-s.low.y)
	return float64(s.low.x) + float64(share*float64(s.high.x-s.low.x))
}

// shares returns how wide the common part of two spans is where it is widest. Its width at a share
// of the band's height is the least of four lines, so it is greatest at an end or where two of them
// meet.
func (a span) shares(b span) (widest float64) {
	var lines [4][2]float64
	for i := range 2 {
		lines[0][i], lines[1][i] = a.right[i]-a.left[i], b.right[i]-b.left[i]
		lines[2][i], lines[3][i] = a.right[i]-b.left[i], b.right[i]-a.left[i]
	}
	try := func(share float64) {
		if !(share >= 0 && share <= 1) {
			return
		}
		width := math.Inf(1)
		for _, l := range lines {
			width = min(width, l[0]+float64(share*(l[1]-l[0])))
		}
		widest = max(widest, width)
	}
	try(0)
	try(1)
	for i, l := range lines {
		for _, m := range lines[i+1:] {
			try((m[0] - l[0]) / ((l[1] - l[0]) - (m[1] - m[0])))
		}
	}
	return widest
}
