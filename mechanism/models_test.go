package mechanism

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Models for tests and benchmarks. Weights are fixed numbers, so the figures they lead to can be
// repeated.

// weightedModel builds a model from the unnormalized weight of every move (dx, dy) with |dx|, |dy|
// ≤ reach, and starts at the middle.
func weightedModel(
	tb testing.TB, width, height, reach int, cellKM float64,
	weight func(column, row, dx, dy int) float64,
) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(width, height, cellKM)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for row := range height {
		for column := range width {
			first, total := len(m.Values), 0.0
			for dy := -reach; dy <= reach; dy++ {
				for dx := -reach; dx <= reach; dx++ {
					x, y := column+dx, row+dy
					if x < 0 || y < 0 || x >= width || y >= height {
						continue
					}
					if w := weight(column, row, dx, dy); w > 0 {
						m.Columns = append(m.Columns, grid.Cell(y*width+x))
						m.Values = append(m.Values, w)
						total += w
					}
				}
			}
			for i := first; i < len(m.Values); i++ {
				m.Values[i] /= total
			}
			m.RowStart = append(m.RowStart, int64(len(m.Values)))
		}
	}
	middle := grid.Cell(height/2*width + width/2)
	model := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m},
		Initial: mobility.Distribution{Cells: []grid.Cell{middle}, P: []float64{1}},
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// roadModel is a town of 32×32 cells with a street every fourth row and column. Vehicles mostly
// stay or go on along their street; elsewhere they drift to a street.
func roadModel(tb testing.TB) *mobility.Model {
	tb.Helper()
	const every, stay, along, off = 4, 100, 4, .01
	street := func(column, row int) bool { return column%every == 0 || row%every == 0 }
	return weightedModel(tb, 32, 32, 1, 0.34, func(column, row, dx, dy int) float64 {
		switch {
		case dx == 0 && dy == 0:
			return stay
		case dx != 0 && dy != 0:
			return 0
		case street(column+dx, row+dy):
			return along
		}
		return off
	})
}

// denseModel mostly stays and else moves to any of the 25 cells around.
func denseModel(tb testing.TB, width, height int) *mobility.Model {
	tb.Helper()
	const stay = 60
	return weightedModel(tb, width, height, 2, 0.34, func(_, _, dx, dy int) float64 {
		if dx == 0 && dy == 0 {
			return stay
		}
		return 1 / float64(1+dx*dx+dy*dy)
	})
}

// walk returns steps cells of a path that follows the model from its initial cell, by a fixed
// generator.
func walk(m *mobility.Model, seed uint64, steps int) []grid.Cell {
	c := m.Initial.Cells[0]
	path := make([]grid.Cell, steps)
	for i := range path {
		seed = seed*6364136223846793005 + 1442695040888963407
		u := float64(seed>>11) * 0x1p-53
		columns, values := m.Matrices[0].Row(c)
		for j, v := range values {
			c = columns[j]
			if u -= v; u < 0 {
				break
			}
		}
		path[i] = c
	}
	return path
}
