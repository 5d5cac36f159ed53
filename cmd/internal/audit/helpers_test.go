package audit

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// townModel is a map on which users mostly stay or move to one of the eight cells around.
func townModel(tb testing.TB) *mobility.Model {
	tb.Helper()
	g, err := grid.New(grid.Box{South: 53.40, West: -3.00, North: 53.47, East: -2.89}, 400)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(g.Cells()) {
		first, total := len(m.Values), 0.0
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				x, y, weight := g.Column(c)+dx, g.Row(c)+dy, 1.0
				if x < 0 || y < 0 || x >= g.Width() || y >= g.Height() {
					continue
				}
				if dx == 0 && dy == 0 {
					weight = 4
				}
				m.Columns, m.Values = append(m.Columns, grid.Cell(y*g.Width()+x)),
					append(m.Values, weight)
				total += weight
			}
		}
		for i := first; i < len(m.Values); i++ {
			m.Values[i] /= total
		}
		m.RowStart = append(m.RowStart, int64(len(m.Values)))
	}
	var initial mobility.Distribution
	for c := range grid.Cell(g.Cells()) {
		if g.Column(c)%5 == 2 && g.Row(c)%5 == 2 {
			initial.Cells, initial.P = append(initial.Cells, c), append(initial.P, 1)
		}
	}
	initial.Normalize()
	model := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}, Initial: initial,
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

func townSettings(tb testing.TB) Settings {
	tb.Helper()
	return Settings{Model: townModel(tb), Release: mechanism.Options{
		Mechanism: law.Lattice, Epsilon: 1, Delta: .01,
	}}
}
