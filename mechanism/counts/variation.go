package counts

import "math"

// Variation returns the total variation distance of two densities, each divided by its own sum: the
// share of the fleet that would have to be elsewhere, 0 to 1. It is 1 if one of them is empty.
func Variation(a, b []float64) float64 {
	totalA, totalB := 0., 0.
	for z := range a {
		totalA, totalB = totalA+a[z], totalB+b[z]
	}
	if !(totalA > 0) || !(totalB > 0) {
		return 1
	}
	distance := 0.
	for z := range a {
		distance += math.Abs(a[z]/totalA - b[z]/totalB)
	}
	return distance / 2
}
