package aggregate

import (
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

// RankCorrelation returns Spearman's: the correlation of the zones' ranks, equal values sharing the mean of theirs; 0 if all of one density's
// values are equal.
func RankCorrelation(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	middle := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for z := range x {
		dx, dy := x[z]-middle, y[z]-middle
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(float64(xx*yy))
}

func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(values[a], values[b]) })
	result := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, z := range order[i:j] {
			result[z] = float64(i+j-1) / 2
		}
		i = j
	}
	return result
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
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
	slices.SortStableFunc(order, func(a, b int) int { return compare(values[b], values[a]) })
	return order[:min(k, len(order))]
}
