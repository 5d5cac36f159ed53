package mobility

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// plainGrid returns a width × height grid of 1 km cells.
func plainGrid(t testing.TB, width, height int) *grid.Grid {
	t.Helper()
	g, err := grid.Plain(width, height, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// neighbourModel moves to the cells at most radius columns and rows away, with random weights; road
// keeps only those on the same row or column, as on a street map.
func neighbourModel(t testing.TB, width, height, radius int, road bool, seed uint64) *Model {
	t.Helper()
	return neighboursOn(plainGrid(t, width, height), radius, road, seed)
}

// neighboursOn is [neighbourModel] on a grid.
func neighboursOn(g *grid.Grid, radius int, road bool, seed uint64) *Model {
	random := rand.New(rand.NewPCG(seed, 1))
	width, height := g.Width(), g.Height()
	m := &Matrix{RowStart: []int64{0}}
	for y := range height {
		for x := range width {
			total := 0.0
			start := len(m.Values)
			for dy := -radius; dy <= radius; dy++ {
				for dx := -radius; dx <= radius; dx++ {
					nx, ny := x+dx, y+dy
					if nx < 0 || ny < 0 || nx >= width || ny >= height ||
						road && dx != 0 && dy != 0 {
						continue
					}
					v := 0.1 + random.Float64()
					total += v
					m.Columns = append(m.Columns, grid.Cell(ny*width+nx))
					m.Values = append(m.Values, v)
				}
			}
			for i := start; i < len(m.Values); i++ {
				m.Values[i] /= total
			}
			m.RowStart = append(m.RowStart, int64(len(m.Columns)))
		}
	}
	return &Model{Grid: g, Step: time.Minute, Matrices: []*Matrix{m}, Initial: uniform(g)}
}

// structuredModel has rows of all parts, as trained ones: a random kernel of the radius, jumps, up
// to six entries, and a calendar of two classes.
func structuredModel(t testing.TB, width, height, radius int, seed uint64) *Model {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 8))
	m := &Model{
		Grid: plainGrid(t, width, height), Step: time.Minute,
		Calendar: Calendar{Hours: []int{6, 18}},
		Jumps:    Jumps{Side: max(radius, 2), Share: 1. / 64},
	}
	for range radius + 1 {
		m.Kernel.Columns = append(m.Kernel.Columns, .1+random.Float64()/2)
		m.Kernel.Rows = append(m.Kernel.Rows, .1+random.Float64()/2)
	}
	m.Initial = uniform(m.Grid)
	for range 2 {
		matrix := &Matrix{RowStart: []int64{0}}
		for c := range m.Grid.Cells() {
			rest := 1 - m.Jumps.From(m.Grid, grid.Cell(c))
			for range random.IntN(7) {
				first := matrix.Columns[matrix.RowStart[c]:]
				to := grid.Cell(random.IntN(m.Grid.Cells()))
				if at, found := slices.BinarySearch(first, to); !found {
					v := float64(random.IntN(1<<20)+1) / (1 << 24)
					matrix.Columns = slices.Insert(matrix.Columns, int(matrix.RowStart[c])+at, to)
					matrix.Values = slices.Insert(matrix.Values, int(matrix.RowStart[c])+at, v)
					rest -= v
				}
			}
			matrix.RowStart = append(matrix.RowStart, int64(len(matrix.Columns)))
			matrix.Spread = append(matrix.Spread, rest)
		}
		m.Matrices = append(m.Matrices, matrix)
	}
	return m
}

func uniform(g *grid.Grid) Distribution {
	var d Distribution
	for c := range grid.Cell(g.Cells()) {
		d.Cells = append(d.Cells, c)
		d.P = append(d.P, 1/float64(g.Cells()))
	}
	return d
}

// disc returns a normalized random distribution over the n cells nearest to the middle of the grid,
// by rows.
func disc(g *grid.Grid, n int, seed uint64) *Distribution {
	random := rand.New(rand.NewPCG(seed, 2))
	d := &Distribution{}
	middle := grid.Point{
		X: float64(g.Width()) / 2 * g.CellKM(),
		Y: float64(g.Height()) / 2 * g.CellKM(),
	}
	radius := 0.0
	for d.Len() < n {
		radius += g.CellKM() / 8
		d.Reset()
		for c := range grid.Cell(g.Cells()) {
			if g.Centre(c).Distance(middle) <= radius {
				d.Cells = append(d.Cells, c)
				d.P = append(d.P, 0.1+random.Float64())
			}
		}
	}
	d.Normalize()
	return d
}

func pcg(seed uint64) Source { return rand.NewPCG(seed, 3) }
