package grid

import (
	"math"
	"math/rand/v2"
	"testing"
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
			truth := vincenty(lat1, lon1, lat2, lon2)
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
	truth := vincenty(beijing.South, beijing.West, beijing.South, beijing.East)
	if d := math.Abs(truth/g.ToMap(beijing.South, beijing.East).X - 1); d <= g.Distortion() {
		t.Errorf("a spherical map is off by %.5f, within the bound %.5f", d, g.Distortion())
	}
}

// TestVincenty checks the oracle against a published distance: Flinders Peak to Buninyong,
// 54,972.271 m on the Australian ellipsoid GRS80 (Geoscience Australia), which differs from WGS 84
// by less than a millimetre here.
func TestVincenty(t *testing.T) {
	got := vincenty(-(37 + 57/60. + 3.72030/3600), 144+25/60.+29.52440/3600,
		-(37 + 39/60. + 10.15610/3600), 143+55/60.+35.38390/3600)
	if math.Abs(got-54.972271) > 1e-6 {
		t.Errorf("%.6f km, want 54.972271", got)
	}
}

// vincenty returns the length in kilometres of the geodesic between two places on WGS 84 (Vincenty
// 1975, doi:10.1179/sre.1975.23.176.88, the inverse formula). It does not converge for nearly
// antipodal places.
func vincenty(lat1, lon1, lat2, lon2 float64) float64 {
	f := 1 - math.Sqrt(1-eccentricity)
	b := equatorKM * (1 - f)
	u1, u2 := math.Atan((1-f)*math.Tan(lat1*radians)), math.Atan((1-f)*math.Tan(lat2*radians))
	sin1, cos1 := math.Sincos(u1)
	sin2, cos2 := math.Sincos(u2)
	difference := (lon2 - lon1) * radians
	lambda := difference
	for range 100 {
		sinL, cosL := math.Sincos(lambda)
		sinS := math.Hypot(cos2*sinL, cos1*sin2-sin1*cos2*cosL)
		if sinS == 0 {
			return 0
		}
		cosS := sin1*sin2 + cos1*cos2*cosL
		sigma := math.Atan2(sinS, cosS)
		sinA := cos1 * cos2 * sinL / sinS
		cosA2 := 1 - sinA*sinA
		cosM := 0.0
		if cosA2 != 0 {
			cosM = cosS - 2*sin1*sin2/cosA2
		}
		c := f / 16 * cosA2 * (4 + f*(4-3*cosA2))
		next := difference + (1-c)*f*sinA*(sigma+c*sinS*(cosM+c*cosS*(2*cosM*cosM-1)))
		if math.Abs(next-lambda) < 1e-13 {
			u := cosA2 * (equatorKM*equatorKM - b*b) / (b * b)
			long := 1 + u/16384*(4096+u*(-768+u*(320-175*u)))
			short := u / 1024 * (256 + u*(-128+u*(74-47*u)))
			correction := short * sinS *
				(cosM + short/4*(cosS*(2*cosM*cosM-1)-short/6*cosM*(4*sinS*sinS-3)*(4*cosM*cosM-3)))
			return b * long * (sigma - correction)
		}
		lambda = next
	}
	return math.NaN()
}
