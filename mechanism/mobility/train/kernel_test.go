package train

import (
	"slices"
	"testing"
)

func TestMonotoneKernel(t *testing.T) {
	heights := Monotone([]Ring{{1, 5}, {4, 4}, {4, 8}, {4, 2}})
	if want := []float64{5, 1.5, 1.5, .5}; !slices.Equal(heights, want) {
		t.Errorf("heights %v, want %v", heights, want)
	}
}
