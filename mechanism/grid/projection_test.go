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
