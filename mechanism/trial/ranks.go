package trial

import (
	"cmp"
	"math"
	"slices"
)

// RankCorrelation returns Spearman's coefficient of two rows of one length: the correlation of
// their ranks, equal values sharing the mean of theirs; 0 if all values of a row are equal.
func RankCorrelation(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	middle := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-middle, y[i]-middle
		xy += float64(dx * dy)
		xx += float64(dx * dx)
		yy += float64(dy * dy)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(float64(xx*yy))
}

// ranks returns the rank of each number, of equal ones their mean.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
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
