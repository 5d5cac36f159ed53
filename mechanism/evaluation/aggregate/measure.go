package aggregate

import (
	"cmp"
	"math"
	"slices"
)

// Variation returns the total variation distance of two densities, each divided by its own sum: the share of the fleet that would have to be
// elsewhere, 0 to 1. It is 1 if one of them is empty.
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

// TopFound returns which share of the k zones with most vehicles an estimate has among its own k. Among equals the lower zone counts; zones without
// a vehicle are not looked for.
func TopFound(estimate, truth []float64, k int) float64 {
	wanted := top(truth, k)
	wanted = slices.DeleteFunc(wanted, func(z int) bool { return truth[z] == 0 })
	if len(wanted) == 0 {
		return 0
	}
	found, among := 0, top(estimate, len(wanted))
	for _, z := range wanted {
		if slices.Contains(among, z) {
			found++
		}
	}
	return float64(found) / float64(len(wanted))
}

func top(values []float64, k int) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	return order[:min(k, len(order))]
}
