package grid

import "math"

// The WGS 84 ellipsoid: equatorial radius in kilometres and first eccentricity squared (NIMA TR8350.2, table 3.1 and 3.3).
const (
	equatorKM    = 6378.137
	eccentricity = 6.69437999014e-3
)

const radians = math.Pi / 180

// perLatitude returns the kilometres of one degree of latitude at lat, perLongitude those of one degree of longitude.
// Both are rounded to a nanokilometre (a micrometre), so that a last bit of math.Cos which differs between architectures
// almost surely does not reach the map: it would have to lie on the edge between two such numbers, some 10⁻⁵ likely for
// a box. [Grid.ID] hashes what the grid was made with, not these rates, and would not tell.
func perLatitude(lat float64) float64  { return roundNano(meridianRadius(lat) * radians) }
func perLongitude(lat float64) float64 { return roundNano(parallelRadius(lat) * radians) }

func roundNano(km float64) float64 { return math.Round(km*1e9) / 1e9 }

// meridianRadius is M(φ), the radius of curvature along the meridian, in kilometres.
func meridianRadius(lat float64) float64 {
	w := flatness(lat)
	return equatorKM * (1 - eccentricity) / float64(w*math.Sqrt(w))
}

// parallelRadius is N(φ) cos φ, the radius of the circle of latitude, in kilometres.
func parallelRadius(lat float64) float64 {
	return equatorKM * math.Cos(lat*radians) / math.Sqrt(flatness(lat))
}

func flatness(lat float64) float64 {
	s := math.Sin(lat * radians)
	return 1 - float64(eccentricity*float64(s*s))
}

// distortion bounds |true/map − 1| over all pairs of places in the box (see the package comment). Both radii are
// monotone in |φ|, so their extremes lie at the ends of the range of latitudes or, where it holds the equator, there.
func distortion(box Box, middle float64) float64 {
	south, north := bulge(box)
	latitudes := []float64{south, north}
	if south < 0 && north > 0 {
		latitudes = append(latitudes, 0)
	}
	worst := 0.0
	for _, lat := range latitudes {
		worst = max(worst,
			math.Abs(meridianRadius(lat)/meridianRadius(middle)-1),
			math.Abs(parallelRadius(lat)/parallelRadius(middle)-1))
	}
	return worst
}

// bulge widens the box's latitudes by how far a geodesic between two of its places can leave them. On a sphere a great
// circle between two places of latitude φ, λ apart, peaks at tan φ' = tan φ / cos(λ/2), and no pair within the box
// peaks higher; 1 % more covers the ellipsoid, whose flattening is a third of a percent.
func bulge(box Box) (south, north float64) {
	half := (box.East - box.West) / 2
	rise := func(lat float64) float64 {
		if lat <= 0 {
			return 0
		}
		if half >= 90 {
			return 90 - lat
		}
		peak := math.Atan(math.Tan(lat*radians)/math.Cos(half*radians)) / radians
		return min(1.01*(peak-lat), 90-lat)
	}
	return box.South - rise(-box.South), box.North + rise(box.North)
}
