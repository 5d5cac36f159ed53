package counts

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

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
		return nil, errors.New("this map has no place on Earth: zones need a box in degrees")
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
		return nil, errors.New("there is no zone: name a polygon at least")
	}
	z := &Zones{areas: make([]polygon, len(areas))}
	known, corners := map[string]bool{Elsewhere: true}, 0
	b := []byte("geodither zones 1: polygons")
	for i, a := range areas {
		switch {
		case a.Name == "":
			return nil, fmt.Errorf("polygon %d has no name: give it the property \"name\"", i+1)
		case known[a.Name]:
			return nil, fmt.Errorf("two zones are named %q, or it is the name of the rest: give "+
				"each zone a name of its own", a.Name)
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
		return nil, fmt.Errorf("the zones have %d corners, more than %d: simplify their outlines",
			corners, maxCorners)
	}
	if one, other, at, found := overlap(z.areas); found {
		lat, lon := at.degrees()
		return nil, fmt.Errorf("the zones %q and %q overlap near %.5f, %.5f: cut one of them back",
			areas[one].Name, areas[other].Name, lat, lon)
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
