package mobility

import "github.com/geodither/geodither/mechanism/grid"

// Source yields uniform random bits, as math/rand/v2's sources do.
type Source interface{ Uint64() uint64 }

// SampleInitial draws a cell from the initial distribution. Cost: its length. It uses one number of src.
func (m *Model) SampleInitial(src Source) grid.Cell {
	return sample(m.Initial.Cells, m.Initial.P, src)
}

// SampleNext draws where a vehicle that is in cell c in a step is in the next one. Cost: the length of the row. It uses one number of src.
func (m *Model) SampleNext(src Source, c grid.Cell, step int64) grid.Cell {
	columns, values := m.MatrixAt(step).Row(c)
	return sample(columns, values, src)
}

// sample inverts the distribution function at a uniform multiple of 2⁻⁵³ in [0, 1). What rounding leaves over at the
// top belongs to the last cell.
func sample(cells []grid.Cell, p []float64, src Source) grid.Cell {
	u := float64(src.Uint64()>>11) / (1 << 53)
	for i, v := range p {
		if u -= v; u < 0 {
			return cells[i]
		}
	}
	return cells[len(cells)-1]
}
