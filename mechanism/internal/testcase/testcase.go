// Package testcase makes inputs for tests of the mathematics, and computes by definition, however
// slowly, what the mathematics computes fast.
package testcase

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Grid returns a map without a place on Earth.
func Grid(tb testing.TB, width, height int, cellKM float64) *grid.Grid {
	tb.Helper()
	g, err := grid.Plain(width, height, cellKM)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// AllCells returns every cell of a map.
func AllCells(g *grid.Grid) []grid.Cell {
	all := make([]grid.Cell, g.Cells())
	for i := range all {
		all[i] = grid.Cell(i)
	}
	return all
}

// Cells returns a random share of the cells of a map, ascending, and at least one.
func Cells(r *rand.Rand, cells int, share float64) []grid.Cell {
	var some []grid.Cell
	for c := range cells {
		if r.Float64() < share {
			some = append(some, grid.Cell(c))
		}
	}
	if len(some) == 0 {
		some = append(some, grid.Cell(r.IntN(cells)))
	}
	return some
}

// Prior gives some of the cells probabilities of very different sizes, or of few sizes with many
// ties.
func Prior(r *rand.Rand, cells int) *mobility.Distribution {
	d := &mobility.Distribution{}
	spread := []float64{0, 1, 8, 30}[r.IntN(4)]
	ties := r.IntN(3) == 0
	for _, c := range Cells(r, cells, []float64{.1, .5, 1}[r.IntN(3)]) {
		p := math.Exp(-spread * r.Float64())
		if ties {
			p = float64(1 + r.IntN(3))
		}
		d.Cells, d.P = append(d.Cells, c), append(d.P, p)
	}
	d.Normalize()
	return d
}

// Mass sums the probabilities of some of a distribution's cells, ascending.
func Mass(d *mobility.Distribution, cells []grid.Cell) float64 {
	mass := 0.0
	for i, c := range d.Cells {
		if _, member := slices.BinarySearch(cells, c); member {
			mass += d.P[i]
		}
	}
	return mass
}

// SetTolerance is how far the sum of a location set may stay below 1-δ.
const SetTolerance = 1e-12

// LocationSet is the definition of the δ-location set: the cells by probability, ties by index,
// and of them the shortest prefix that reaches 1-δ.
func LocationSet(d *mobility.Distribution, delta float64) []grid.Cell {
	order := make([]int, len(d.P))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if d.P[a] != d.P[b] {
			if d.P[a] > d.P[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	var set []grid.Cell
	sum := 0.0
	for _, i := range order {
		set = append(set, d.Cells[i])
		if sum += d.P[i]; delta > 0 && sum >= 1-delta-SetTolerance {
			break
		}
	}
	slices.Sort(set)
	return set
}

// Surrogate is the definition of the surrogate: the position in the set of the member that is
// nearest to a cell, the lowest among equals. It compares all members.
func Surrogate(g *grid.Grid, set []grid.Cell, c grid.Cell) int32 {
	best, least := int32(-1), 0
	for i, m := range set {
		dx, dy := g.Column(m)-g.Column(c), g.Row(m)-g.Row(c)
		if d := dx*dx + dy*dy; best < 0 || d < least {
			best, least = int32(i), d
		}
	}
	return best
}

// Town returns a model of one-minute steps on a map of 8 × 6 cells of half a kilometre. Its
// vehicles mostly stay, drift west, and start in the middle rows.
func Town(tb testing.TB) *mobility.Model {
	tb.Helper()
	const width, height = 8, 6
	g := Grid(tb, width, height, .5)
	m := &mobility.Matrix{RowStart: []int64{0}}
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}}
	for c := range grid.Cell(width * height) {
		total, first := 0.0, len(m.Values)
		for to := range grid.Cell(width * height) {
			dx, dy := to%width-c%width, to/width-c/width
			if dx < -1 || dx > 1 || dy < -1 || dy > 1 {
				continue
			}
			w := map[bool]float64{true: 6, false: 1}[to == c]
			if dx < 0 {
				w *= 1.5
			}
			m.Columns, m.Values = append(m.Columns, to), append(m.Values, w)
			total += w
		}
		for i := first; i < len(m.Values); i++ {
			m.Values[i] /= total
		}
		m.RowStart = append(m.RowStart, int64(len(m.Values)))
		w := 1.0
		if row := c / width; row == 2 || row == 3 {
			w = 4
		}
		model.Initial.Cells = append(model.Initial.Cells, c)
		model.Initial.P = append(model.Initial.P, w/96)
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// Habit returns how many steps lie between two releases of a user, by one of several habits: kind
// is 0 to 4.
func Habit(r *rand.Rand, kind int) int64 {
	switch kind {
	case 0:
		return 1
	case 1:
		return 10
	case 2:
		return int64(r.IntN(4)) // several in a step too
	case 3:
		return int64(1 + r.IntN(40))
	}
	return int64(math.Exp(8 * r.Float64()))
}
