package mobility

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

// Matrix is a row-stochastic transition matrix in compressed sparse rows. Row c holds the columns
// Columns[RowStart[c]:RowStart[c+1]], ascending, with their probabilities in Values. A transition
// takes 12 bytes.
type Matrix struct {
	RowStart []int64
	Columns  []grid.Cell
	Values   []float64
}

// rowTolerance is how far the sum of a row may be from 1. A row of n values, each rounded to 53
// bits, is off by at most n·2⁻⁵³; 1e-9 leaves room for models that other tools wrote in nine
// digits.
const rowTolerance = 1e-9

// Row returns the columns and probabilities of row c. They are the matrix's own memory: do not
// change them.
func (m *Matrix) Row(c grid.Cell) ([]grid.Cell, []float64) {
	from, to := m.RowStart[c], m.RowStart[c+1]
	return m.Columns[from:to], m.Values[from:to]
}

// Transitions returns the number of stored probabilities.
func (m *Matrix) Transitions() int { return len(m.Columns) }

// sameColumns says whether m and other share one set of columns, as trained classes do.
func (m *Matrix) sameColumns(other *Matrix) bool {
	return len(m.Columns) == len(other.Columns) && len(m.Columns) > 0 &&
		&m.Columns[0] == &other.Columns[0] && &m.RowStart[0] == &other.RowStart[0]
}

// Validate returns an error unless m is a row-stochastic matrix over so many cells: every row has a
// column, columns ascend and lie in range, probabilities are positive and sum to 1. The error names
// the first fault.
func (m *Matrix) Validate(cells int) error {
	if len(m.RowStart) != cells+1 {
		return fmt.Errorf("mobility: the matrix has %d rows, the grid %d cells", len(m.RowStart)-1,
			cells)
	}
	if len(m.Columns) != len(m.Values) {
		return fmt.Errorf("mobility: the matrix has %d columns but %d values", len(m.Columns),
			len(m.Values))
	}
	if m.RowStart[0] != 0 || m.RowStart[cells] != int64(len(m.Columns)) {
		return fmt.Errorf("mobility: the rows of the matrix do not cover its transitions")
	}
	for c := range cells {
		from, to := m.RowStart[c], m.RowStart[c+1]
		if to <= from || to > int64(len(m.Columns)) {
			return fmt.Errorf("mobility: row %d of the matrix is empty; "+
				"every cell needs at least the transition to itself", c)
		}
		if err := validRow(m.Columns[from:to], m.Values[from:to], cells); err != nil {
			return fmt.Errorf("mobility: row %d of the matrix: %w", c, err)
		}
	}
	return nil
}

func validRow(columns []grid.Cell, values []float64, cells int) error {
	before := grid.Cell(-1)
	total := 0.0
	for i, c := range columns {
		if c <= before || int(c) >= cells {
			return fmt.Errorf("column %d does not ascend or is not a cell of the grid", c)
		}
		if v := values[i]; !(v > 0) || v > 1+rowTolerance {
			return fmt.Errorf("the probability of column %d is not in (0, 1]", c)
		}
		before = c
		total += values[i]
	}
	if !(math.Abs(total-1) <= rowTolerance) {
		return fmt.Errorf("the probabilities sum to %v, not to 1", total)
	}
	return nil
}
