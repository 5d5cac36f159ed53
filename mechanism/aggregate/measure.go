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

func sumOf(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// sum adds numbers from 0 to 1 exactly, so that their order does not matter: in units of
// 2⁻⁴⁰, and what is left of each in units of 2⁻⁸⁰. It has room for 2²⁴ numbers.
type sum struct{ high, low uint64 }

const sumUnits = 1 << 40

// add adds a number. What is below 2⁻⁸⁰ is left out.
func (s *sum) add(x float64) {
	high, rest := math.Modf(x * sumUnits)
	s.high += uint64(high)
	s.low += uint64(rest * sumUnits)
}

// value returns the sum.
func (s sum) value() float64 { return (float64(s.high) + float64(s.low)/sumUnits) / sumUnits }

// valuesOf returns the values of sums.
func valuesOf(sums []sum) []float64 {
	values := make([]float64, len(sums))
	for i, s := range sums {
		values[i] = s.value()
	}
	return values
}
