package grid

import "math"

// The WGS 84 ellipsoid: equatorial radius in kilometres and first eccentricity squared (NIMA
// TR8350.2, table 3.1 and 3.3).
const (
	equatorKM    = 6378.137
	eccentricity = 6.69437999014e-3
)

const radians = math.Pi / 180

// perLatitude returns the kilometres of one degree of latitude at lat, perLongitude those of one
// degree of longitude. Both are rounded to a nanokilometre (a micrometre), so that a last bit of
// math.Cos that differs between architectures almost surely does not reach the map. It would have
// to lie on the edge between two such numbers, which for a box has a probability of some 10⁻⁵.
// [Grid.ID] hashes the grid's parameters, not these rates, and would not show it.
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

// distortion bounds |true/map − 1| over all pairs of places in a box of so many degrees of
// longitude (see the package comment).
func distortion(south, north, width float64) float64 {
	middle := (south + north) / 2
	low, high := ratios(-bulge(-south, width), bulge(north, width), meridianRadius(middle),
		parallelRadius(middle))
	return max(1-low, high-1)
}

// ratios returns the least and the greatest of true over map length, of all short pieces of paths
// at latitudes from south to north, for a map with these two radii. M(φ) grows with |φ|, and so
// N(φ) cos φ = a/√(1 + (1 − e²) tan² φ) falls. So their extremes lie at the latitudes that are
// nearest to the equator and furthest from it.
func ratios(south, north, meridian, parallel float64) (low, high float64) {
	near, far := max(south, -north, 0), min(max(-south, north), 90)
	return min(meridianRadius(near)/meridian, parallelRadius(far)/parallel),
		max(meridianRadius(far)/meridian, parallelRadius(near)/parallel)
}

// bulge returns the northernmost latitude that a geodesic can reach between two places up to a
// latitude and at most so many degrees of longitude apart. It is an upper bound for the ellipsoid:
//
// With the reduced latitude β, tan β = √(1 − e²) tan φ, a geodesic is a great circle of the
// auxiliary sphere, on which it spans dω = dλ/√(1 − e² cos² β) ≤ dλ/√(1 − e²) of longitude
// (Karney 2013, doi:10.1007/s00190-012-0578-z, section 2). Along a great circle tan β is
// A·cos(ω − ω₀), a solution of y″ = −y. Of two solutions less than π of longitude apart, the one
// that is greater at both ends is greater between them. So no geodesic between places up to tan β
// peaks higher than that between two places at tan β, so far apart, which peaks at
// tan β / cos(ω/2). The factor √(1 − e²) is the same on both sides and drops out.
func bulge(north, width float64) float64 {
	half := width / 2 / math.Sqrt(1-eccentricity)
	switch {
	case north <= 0:
		return north
	case half >= 90:
		return 90
	}
	return math.Atan(math.Tan(north*radians)/math.Cos(half*radians)) / radians
}
