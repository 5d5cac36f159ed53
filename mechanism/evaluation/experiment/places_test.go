package experiment

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// byForce sorts all places.
func byForce(points []grid.Point, at grid.Point, k int) []int {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	squared := func(i int) float64 {
		dx, dy := points[i].X-at.X, points[i].Y-at.Y
		return float64(dx*dx) + float64(dy*dy)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(squared(a), squared(b)) })
	return order[:min(k, len(order))]
}

// TestNearestByForce finds what sorting all places finds, in that order: on places at
// random, and on a lattice with places on top of each other where nearly all distances are ties;
// from inside, from far outside, and from a place itself.
func TestNearestByForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sets := map[string][]grid.Point{"none": nil, "one": {{X: 1, Y: 2}}}
	for range 400 {
		sets["random"] = append(sets["random"], grid.Point{
			X: rng.Float64() * 10, Y: rng.Float64() * 7,
		})
		sets["ties"] = append(sets["ties"], grid.Point{
			X: float64(rng.IntN(8)), Y: float64(rng.IntN(6)),
		})
		sets["a line"] = append(sets["a line"], grid.Point{X: 3, Y: float64(rng.IntN(50))})
		sets["one spot"] = append(sets["one spot"], grid.Point{X: 3, Y: 3})
	}
	for name, points := range sets {
		p := NewPlaces(points)
		if p.Len() != len(points) {
			t.Errorf("%s: %d places", name, p.Len())
		}
		for i := range 150 {
			at := grid.Point{X: rng.Float64()*12 - 1, Y: rng.Float64()*9 - 1}
			switch {
			case i%5 == 1:
				at = grid.Point{X: 1e4 * rng.NormFloat64(), Y: 1e4 * rng.NormFloat64()}
			case i%5 == 2 && len(points) > 0:
				at = points[rng.IntN(len(points))]
			case i%5 == 3:
				at = grid.Point{X: float64(rng.IntN(8)), Y: float64(rng.IntN(12)) / 2}
			}
			for _, k := range []int{0, 1, 2, 7, 50, 500} {
				got, want := p.Nearest(nil, at, k), byForce(points, at, k)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %d nearest: %v, want %v", name, k, got, want)
				}
			}
		}
	}
}

// TestSynthetic: the places are those of the map, every time, inside it, and as many as is said.
func TestSynthetic(t *testing.T) {
	g, err := grid.Plain(40, 20, .5)
	if err != nil {
		t.Fatal(err)
	}
	a, b := Synthetic(g), Synthetic(g)
	if a.ID != b.ID || a.ID == Synthetic(wanderGrid(t)).ID {
		t.Error("the places are not those of the map")
	}
	if a.Len() != 4*20*10 || Synthetic(wanderGrid(t)).Len() != 200 {
		t.Errorf("%d and %d places, want 800 and 200", a.Len(), Synthetic(wanderGrid(t)).Len())
	}
	for _, p := range a.points {
		if p.X < 0 || p.X >= 20 || p.Y < 0 || p.Y >= 10 {
			t.Fatalf("a place outside the map")
		}
	}
}

func TestPlacesID(t *testing.T) {
	points := []grid.Point{{X: 1, Y: 2}, {X: 2, Y: 1}}
	id := NewPlaces(points).ID
	slices.Reverse(points)
	if NewPlaces(points).ID == id {
		t.Error("places in another order have one id")
	}
}
