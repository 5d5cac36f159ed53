package aggregate

import "testing"

// TestVariation holds the distance against cases by hand.
func TestVariation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 0},
		{[]float64{4, 3, 2, 1}, []float64{1, 2, 3, 4}, .4},
		{[]float64{2, 0, 0, 0}, []float64{0, 5, 0, 0}, 1},
		{[]float64{0, 0, 0, 0}, []float64{0, 5, 0, 1}, 1},
		{[]float64{1, 1, 2, 0}, []float64{2, 2, 4, 0}, 0},
	} {
		if got := Variation(c.a, c.b); !near(got, c.want, 1e-12) {
			t.Errorf("%v and %v: a variation of %g, want %g", c.a, c.b, got, c.want)
		}
	}
}
