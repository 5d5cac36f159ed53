package grid

import (
	"math"
	"testing"
)

// TestScaleRounds adds a scaled point to one that cancels it, up to the product's rounding error.
// A processor that fuses the two operations, as arm64 does and amd64 does not, would leave that
// error instead of 0.
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

// TestPlacesAreRounded: the same for the places that a grid computes.
func TestPlacesAreRounded(t *testing.T) {
	g, err := Plain(40, 40, 1.0/3)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Box{South: 1, West: 2, North: 3, East: 4}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for c := range Cell(40) {
		side := float64(c) + .5
		q := Point{X: product(side, g.CellKM()), Y: product(.5, g.CellKM())}
		if math.FMA(side, g.CellKM(), -q.X) != 0 {
			shown++
		}
		if got := fromCentre(g, c, q); got != (Point{}) {
			t.Errorf("cell %d: computed and subtracted at once: %v is left", c, got)
		}
		lat, lon := 1+float64(c)/30, 2+float64(c)/30
		if got := fromPlace(h, lat, lon, h.ToMap(lat, lon)); got != (Point{}) {
			t.Errorf("%g, %g: computed and subtracted at once: %v is left", lat, lon, got)
		}
	}
	if shown < 10 {
		t.Fatal("these numbers show no fusion")
	}
}

//go:noinline
func fromCentre(g *Grid, c Cell, q Point) Point { return g.Centre(c).Sub(q) }

//go:noinline
func fromPlace(g *Grid, lat, lon float64, q Point) Point { return g.ToMap(lat, lon).Sub(q) }
