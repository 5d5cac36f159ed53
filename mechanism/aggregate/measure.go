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

// fewest is how many vehicles a zone has, in truth or by an estimate, for its interval to be
// judged: an interval from 0 to 2 says nothing that anybody would doubt.
const fewest = 3

// Coverage returns how many zones have an interval that holds the true number of vehicles, and how
// many count: those where the truth or the estimate is at least three vehicles.
func Coverage(estimate, low, high, truth []float64) (inside, zones float64) {
	for z, n := range truth {
		if max(n, estimate[z]) < fewest {
			continue
		}
		zones++
		if n >= low[z] && n <= high[z] {
			inside++
		}
	}
	return inside, zones
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
