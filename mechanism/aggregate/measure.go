package aggregate

import (
	"math"
)

// Variation returns the total variation distance of two densities, each divided by its own sum: the
// share of the fleet that would have to be elsewhere, 0 to 1. It is 1 if one of them is empty.
func Variation(a, b []float64) float64 {
	totalA, totalB := sumOf(a), sumOf(b)
	if !(totalA > 0) || !(totalB > 0) {
		return 1
	}
	distance := 0.0
	for z := range a {
		distance += math.Abs(a[z]/totalA - b[z]/totalB)
	}
	return distance / 2
}

// Coverage returns the share of zones whose interval holds the true number of vehicles, of those
// where at least a twentieth of a vehicle is expected; 0 if there are none.
func Coverage(estimate, low, high, truth []float64) float64 {
	zones, inside := 0.0, 0.0
	for z, n := range truth {
		if estimate[z] < .05 {
			continue
		}
		zones++
		if n >= low[z] && n <= high[z] {
			inside++
		}
	}
	if zones == 0 {
		return 0
	}
	return inside / zones
}
