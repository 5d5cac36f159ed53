package mobility

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// Matrix is a row-stochastic transition matrix. Row c is the sum of three parts: entries of its
// own, compressed as sparse rows; the weight Spread[c] of the model's [Kernel] about c; and the
// model's [Jumps] from c. The entries are the columns Columns[RowStart[c]:RowStart[c+1]],
// ascending, with their probabilities in Values. An entry takes 12 bytes, a row 16 more.
type Matrix struct {
	RowStart []int64
	Columns  []grid.Cell
	Values   []float64
	// Spread has a weight for each row if the model has a kernel, and is nil if not.
	Spread []float64
}

// rowTolerance is how far the sum of a row may be from 1. A row of n values, each rounded to 53
// bits, is off by at most n·2⁻⁵³; 1e-9 leaves room for models that other tools wrote in nine
// digits.
const rowTolerance = 1e-9

// Entries returns the columns and probabilities that row c has besides its kernel and jumps;
// [Model.Row] returns the whole row. They are the matrix's own memory: do not change them.
func (m *Matrix) Entries(c grid.Cell) ([]grid.Cell, []float64) {
	from, to := m.RowStart[c], m.RowStart[c+1]
	return m.Columns[from:to], m.Values[from:to]
}

// Transitions returns the number of stored entries.
func (m *Matrix) Transitions() int { return len(m.Columns) }

// validate returns an error unless m is a row-stochastic matrix for a grid, kernel and jumps,
// which are valid: columns ascend and lie in range, probabilities are positive and each row sums to
// 1. The error names the first fault.
func (m *Matrix) validate(g *grid.Grid, k Kernel, j Jumps) error {
	cells := g.Cells()
	if len(m.RowStart) != cells+1 {
		return fmt.Errorf("mobility: the matrix has %d rows, the grid %d cells", len(m.RowStart)-1,
			cells)
	}
	if len(m.Columns) != len(m.Values) {
		return fmt.Errorf("mobility: the matrix has %d columns, %d values", len(m.Columns),
			len(m.Values))
	}
	if m.RowStart[0] != 0 || m.RowStart[cells] != int64(len(m.Columns)) {
		return fmt.Errorf("mobility: the matrix's rows do not cover its transitions")
	}
	if k.Radius() < 0 && m.Spread != nil ||
		k.Radius() >= 0 && len(m.Spread) != cells {
		return fmt.Errorf("mobility: %d weights of the kernel do not fit the rows", len(m.Spread))
	}
	for c := range cells {
		from, to := m.RowStart[c], m.RowStart[c+1]
		if to < from || to > int64(len(m.Columns)) {
			return fmt.Errorf("mobility: row %d ends before it starts", c)
		}
		spread := 0.0
		if m.Spread != nil {
			spread = m.Spread[c]
		}
		if err := validRow(m.Columns[from:to], m.Values[from:to], spread, j.From(g, grid.Cell(c)),
			cells); err != nil {
			return fmt.Errorf("mobility: row %d of the matrix: %w", c, err)
		}
	}
	return nil
}

// validRow returns an error unless a row's entries, the weight of its kernel and its jumps make a
// distribution over so many cells.
func validRow(columns []grid.Cell, values []float64, spread, jumps float64, cells int) error {
	if !(spread >= 0) {
		return fmt.Errorf("the weight of its kernel is %v", spread)
	}
	before := grid.Cell(-1)
	total := spread + jumps
	for i, c := range columns {
		if c <= before || int(c) >= cells {
			return fmt.Errorf("column %d does not ascend or lies outside", c)
		}
		if v := values[i]; !(v > 0) || v > 1+rowTolerance {
			return fmt.Errorf("the probability of column %d is not positive", c)
		}
		before = c
		total += values[i]
	}
	if !(math.Abs(total-1) <= rowTolerance) {
		return fmt.Errorf("the probabilities sum to %v", total)
	}
	return nil
}
