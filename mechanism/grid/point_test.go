package grid

import (
	"math"
	"testing"
)

// TestScaleRounds adds a scaled point to one that cancels it but for the product's rounding error. A processor that fuses
// the two operations, as arm64 does and amd64 does not, would leave that error instead of 0.
func TestScaleRounds(t *testing.T) {
	p, s := Point{X: 1.0 / 3, Y: 1.0 / 7}, 1.0/3+1
	q := Point{X: -product(s, p.X), Y: -product(s, p.Y)}
	if math.FMA(s, p.X, q.X) == 0 || math.FMA(s, p.Y, q.Y) == 0 {
		t.Fatal("these numbers show no fusion")
	}
	if got := addScaled(q, p, s); got != (Point{}) {
		t.Errorf("added and multiplied at once: %v is left", got)
	}
}

// addScaled and product are not inlined, so that the compiler does not compute with constants.
//
//go:noinline
func addScaled(q, p Point, s float64) Point { return q.Add(p.Scale(s)) }

//go:noinline
func product(a, b float64) float64 { return a * b }
