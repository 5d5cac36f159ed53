package grid

import "math"

// Distortion bounds the relative error of map distances within the box: true/map lies in [1-d,
// 1+d]. 0 for a plain grid.
func (g *Grid) Distortion() float64 { return g.distortion }

// Slack of distances on the map, which is more than floating-point arithmetic takes from them.
const (
	// slackShare covers the rates, which are rounded to a nanokilometre a degree: at 85° of
	// latitude 5·10⁻¹¹ of them. The radii and quotients here are off by some 10⁻¹⁵.
	slackShare = 1e-9
	// slackKM is a micrometre. Map coordinates below 40,000 km, three operations each, are off by
	// 2·10⁻¹¹ km at most.
	slackKM = 1e-9
	// perKM is how many parts of a kilometre distances are rounded to: millimetres.
	perKM = 1e6
)

// OnMap returns a distance on the map that no two places exceed which lie at most groundKM apart
// on the ground (WGS 84, kilometres), both on the cells of the map or up to one cell beyond them.
// Fixes further out are clamped or refused before; for those OnMap says nothing. It is rounded up
// to a millimetre. A plain grid has no ground, and its distances are those of the map. +Inf where
// the places could lie at a pole.
//
// The map distance is at most the map's length of the geodesic, which is at most its true length
// over the least ratio r of true to map length on the way: groundKM/r. With the distortion
// d = 1 - r that is groundKM/(1-d), which exceeds groundKM·(1+d). A geodesic of length D lies
// within D/2 of its ends, so it leaves their latitudes by at most D/2 over the least M(φ), M(0).
func (g *Grid) OnMap(groundKM float64) float64 {
	if g.plain {
		return groundKM
	}
	return math.Ceil(float64((groundKM/g.shrinks(groundKM)*(1+slackShare)+slackKM)*perKM)) / perKM
}

// OnGround returns a distance on the ground such that places of this distance, as in OnMap, lie at
// most mapKM apart on the map. It is rounded down to a millimetre, and 0 if it would be less.
func (g *Grid) OnGround(mapKM float64) float64 {
	if g.plain {
		return mapKM
	}
	km := float64((mapKM - slackKM) * g.shrinks(mapKM) * (1 - slackShare))
	return math.Floor(float64(max(km, 0)*perKM)) / perKM
}

// shrinks returns the least ratio of true to map length on geodesics of a length, as in OnMap: 0 if
// one could touch a pole, and never above 1, as the box's middle is among the latitudes.
func (g *Grid) shrinks(lengthKM float64) float64 {
	around := g.cellKM/g.kmPerLat + lengthKM/2/perLatitude(0)
	south := g.box.South - around
	north := g.box.South + float64(float64(g.height)*g.cellKM)/g.kmPerLat + around
	if max(-south, north) >= 90 {
		return 0
	}
	low, _ := ratios(south, north, g.kmPerLat/radians, g.kmPerLon/radians)
	return min(low, 1)
}
