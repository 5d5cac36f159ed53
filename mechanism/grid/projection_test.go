package grid

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/internal/oracle"
)

// boxes are where the projection is put to the test: both hemispheres, the equator, far north, wide
// and high ones.
var boxes = []Box{
	beijing,
	{South: 33.70, West: -118.67, North: 34.34, East: -118.15}, // Los Angeles
	{South: -34.1, West: 150.8, North: -33.6, East: 151.4},     // Sydney
	{South: -1, West: -1, North: 1, East: 1},
	{South: 69.5, West: 18, North: 69.8, East: 20}, // Tromsø
	{South: 41, West: -5, North: 51, East: 9.5},    // France
}

// TestDistortionBoundsTheError compares map distances with geodesics of the ellipsoid, corners
// included.
func TestDistortionBoundsTheError(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	side := func(low, high float64) float64 {
		u := random.Float64()
		if random.IntN(4) == 0 {
			u = math.Round(u)
		}
		return low + u*(high-low)
	}
	for _, box := range boxes {
		g := mustNew(t, box, 340)
		worst := 0.0
		for range 3000 {
			lat1, lon1 := side(box.South, box.North), side(box.West, box.East)
			lat2, lon2 := side(box.South, box.North), side(box.West, box.East)
			truth := oracle.Distance(lat1, lon1, lat2, lon2)
			if truth < 0.1 {
				continue
			}
			worst = max(worst, math.Abs(truth/g.ToMap(lat1, lon1).Distance(g.ToMap(lat2, lon2))-1))
		}
		if worst > g.Distortion() {
			t.Errorf("%v: an error of %.5f, the bound is %.5f", box, worst, g.Distortion())
		}
		// A bound that is far from what happens would be of no use, and would hide a fault in the
		// map.
		if worst < g.Distortion()/2 {
			t.Errorf("%v: the bound %.5f is more than twice the error %.5f",
				box, g.Distortion(), worst)
		}
	}
}

// TestDistortionOfBeijing pins what the package comment says.
func TestDistortionOfBeijing(t *testing.T) {
	if d := mustNew(t, beijing, 340).Distortion(); math.Abs(d-.0009) > .0001 {
		t.Errorf("distortion %.5f, the documentation says .09 %%", d)
	}
}

// TestPlantedSphere shows that the test above can fail: the usual sphere of 6371 km is outside the
// bound.
func TestPlantedSphere(t *testing.T) {
	g := *mustNew(t, beijing, 340)
	g.kmPerLat = 6371 * radians
	g.kmPerLon = g.kmPerLat * math.Cos(39.91*radians)
	truth := oracle.Distance(beijing.South, beijing.West, beijing.South, beijing.East)
	if d := math.Abs(truth/g.ToMap(beijing.South, beijing.East).X - 1); d <= g.Distortion() {
		t.Errorf("a spherical map is off by %.5f, within the bound %.5f", d, g.Distortion())
	}
}

// TestOnMap: two places within a distance on the ground, up to one cell beyond the map, never
// exceed OnMap of it on the map; some come near. The same the other way, and distance·(1 + d) does
// not suffice.
func TestOnMap(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	short := 0 // pairs further apart on the map than distance·(1 + d)
	for _, box := range append(boxes,
		Box{South: 47, West: 9, North: 55, East: 10},
		Box{South: -55, West: 9, North: -47, East: 10},
		Box{South: 60, West: 20, North: 70, East: 21},
		Box{South: 84, West: 0, North: 85, East: 8},
	) {
		g := mustNew(t, box, 340)
		width, height := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
		for _, km := range []float64{.01, .34, 1, 20} {
			limit, worst := g.OnMap(km), 0.0
			for range 800 {
				at := Point{
					X: random.Float64()*(width+2*g.CellKM()) - g.CellKM(),
					Y: random.Float64()*(height+2*g.CellKM()) - g.CellKM(),
				}
				if random.IntN(2) == 0 { // at the north side or the south side
					at.Y = []float64{-1, float64(g.Height() + 1)}[random.IntN(2)] *
						g.CellKM()
				}
				angle := float64(random.IntN(16)) * math.Pi / 8
				to := at.Add(Point{math.Cos(angle), math.Sin(angle)}.Scale(km))
				// Shrink or stretch it to the distance.
				for range 5 {
					stretch := km / ground(g, at, to)
					to = at.Add(to.Sub(at).Scale(stretch))
				}
				if g.pointBeyond(to) > g.CellKM() || ground(g, at, to) > km*(1+1e-10) {
					continue
				}
				worst = max(worst, at.Distance(to))
				if at.Distance(to) > km*(1+g.Distortion()) {
					short++
				}
			}
			if worst > limit {
				t.Errorf("%v: places %g km apart on the ground are %.7f km on the map, more than "+
					"%.7f", box, km, worst, limit)
			}
			if worst < .96*(limit-2e-6) {
				t.Errorf("%v: %.7f km on the map is far from the limit %.7f", box, worst, limit)
			}
			if back := g.OnGround(limit); back > km+1e-6 || back < .99*km-3e-6 {
				t.Errorf("%v: %g km became %.7f and then %.7f", box, km, limit, back)
			}
		}
	}
	if short == 0 {
		t.Error("distance·(1 + d) was never exceeded")
	}
}

// ground returns the distance of two points of the map on the ground.
func ground(g *Grid, p, q Point) float64 {
	lat1, lon1 := g.ToDegrees(p)
	lat2, lon2 := g.ToDegrees(q)
	return oracle.Distance(lat1, lon1, lat2, lon2)
}

func (g *Grid) pointBeyond(p Point) float64 { return g.Beyond(g.ToDegrees(p)) }

// TestOnMapOfBoxes pins distances, and what has none.
func TestOnMapOfBoxes(t *testing.T) {
	high := mustNew(t, Box{South: 47, West: 9, North: 55, East: 10}, 340)
	// 340 m on the ground need 373 m, as N(φ) cos φ is 8.8 % less at 55° than at 51°.
	if got := high.OnMap(.34); math.Abs(got-.373) > .00005 {
		t.Errorf("340 m on the ground are %.6f km on the map", got)
	}
	pole := mustNew(t, Box{South: 84.9, West: 9, North: 85, East: 10}, 340)
	if got := pole.OnMap(1200); !math.IsInf(got, 1) || pole.OnGround(1200) != 0 {
		t.Errorf("beyond a pole: %g km", got)
	}
	plain, err := Plain(9, 9, .34)
	if err != nil {
		t.Fatal(err)
	}
	if plain.OnMap(.34) != .34 || plain.OnGround(.34) != .34 {
		t.Error("a plain grid has a ground")
	}
}
