// Package mobility holds the public model of how people move: a sparse Markov chain over the cells
// of a grid (the paper's M and its initial distribution), the model's file, and the two steps of
// the filter that follow from a model: predict (p·M) and update (Bayes). The package train learns
// models from traces.
//
// Everything here is a function of its arguments. It uses no clock, no global randomness and no
// iteration over maps. Sums are added in ascending order of cells, and products are rounded before
// they are added, so results are the same bits everywhere.
package mobility

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// Model is a Markov chain over a grid's cells with a fixed step. It must not change once it is
// used: [Model.ID] and the predictors remember what they derive from it. Use it by pointer, from
// any number of goroutines.
type Model struct {
	Grid *grid.Grid
	Step time.Duration
	// Calendar says which of the matrices moves a user in a step. The zero value has one class.
	Calendar Calendar
	// Matrices has one matrix for each class of the calendar.
	Matrices []*Matrix
	// Kernel and Jumps are parts of all rows; see [Matrix].
	Kernel  Kernel
	Jumps   Jumps
	Initial Distribution
	// Gaps says where a user is after a time without a fix; nil: where the chain says.
	Gaps GapLaw
	// Provenance says where the model came from. It is not part of the model's identity.
	Provenance Provenance

	idOnce     sync.Once
	id         string
	layoutOnce sync.Once
	derived    *layout
}

// StepOf returns the step that holds a time, both counted from 1970: floor(timestampMS / stepMS).
// Before 1970, too, it rounds down, where the division of Go rounds up. stepMS is the length of a
// step in milliseconds and must be positive.
func StepOf(timestampMS, stepMS int64) int64 {
	step := timestampMS / stepMS
	if timestampMS%stepMS < 0 {
		step--
	}
	return step
}

// ClassAt returns the class of a step, whose matrix moves a user to the next one: the calendar's
// class of its first millisecond.
func (m *Model) ClassAt(step int64) int {
	if len(m.Matrices) == 1 {
		return 0
	}
	return m.Calendar.ClassAt(step * m.Step.Milliseconds())
}

// Transitions returns the number of stored entries of all matrices.
func (m *Model) Transitions() (n int) {
	for _, matrix := range m.Matrices {
		n += matrix.Transitions()
	}
	return n
}

// StepAt returns the step of the model that holds a time in milliseconds since 1970; see [StepOf].
func (m *Model) StepAt(timestampMS int64) int64 {
	return StepOf(timestampMS, m.Step.Milliseconds())
}

// Validate returns an error for the first fault of the model. Cost: one pass over the transitions.
func (m *Model) Validate() error {
	if m.Grid == nil {
		return errors.New("mobility: a model needs a grid")
	}
	if err := m.Calendar.Validate(); err != nil {
		return err
	}
	if got, want := len(m.Matrices), m.Calendar.Classes(); got != want {
		return fmt.Errorf("mobility: the calendar has %d classes, the model %d matrices", want, got)
	}
	if m.Step < time.Millisecond || m.Step%time.Millisecond != 0 {
		return errors.New("mobility: the model's step must be whole, positive milliseconds")
	}
	if err := errors.Join(m.Kernel.validate(), m.Jumps.validate()); err != nil {
		return err
	}
	for _, matrix := range m.Matrices {
		if matrix == nil {
			return errors.New("mobility: the model lacks a matrix")
		}
		if err := matrix.validate(m.Grid, m.Kernel, m.Jumps); err != nil {
			return err
		}
	}
	if m.Initial.Len() == 0 || len(m.Initial.P) != m.Initial.Len() {
		return errors.New("mobility: the model has no initial distribution")
	}
	if err := validRow(m.Initial.Cells, m.Initial.P, 0, 0, m.Grid.Cells()); err != nil {
		return fmt.Errorf("mobility: initial distribution: %w", err)
	}
	return m.Gaps.Validate()
}

// RandomWalk returns a model on m's grid and with its step, of somebody who knows nothing of how
// people move: each step goes to the cell itself or to one of its up to eight neighbours, all with
// the same probability, from an initial distribution in which all cells are equally likely.
func (m *Model) RandomWalk() *Model {
	g := m.Grid
	matrix := &Matrix{RowStart: make([]int64, 1, g.Cells()+1)}
	for row := range g.Height() {
		for column := range g.Width() {
			first := len(matrix.Columns)
			for y := max(0, row-1); y <= min(g.Height()-1, row+1); y++ {
				for x := max(0, column-1); x <= min(g.Width()-1, column+1); x++ {
					matrix.Columns = append(matrix.Columns, grid.Cell(y*g.Width()+x))
				}
			}
			for n := len(matrix.Columns) - first; len(matrix.Values) < len(matrix.Columns); {
				matrix.Values = append(matrix.Values, 1/float64(n))
			}
			matrix.RowStart = append(matrix.RowStart, int64(len(matrix.Columns)))
		}
	}
	return &Model{Grid: g, Step: m.Step, Matrices: []*Matrix{matrix}, Initial: Uniform(g)}
}

// ID returns 16 hex digits: a hash of the grid, the step, the calendar, the rows, the initial
// distribution and, where there is one, the law of gaps. It depends neither on the provenance nor
// on how a file was written. The first call costs one pass over the transitions.
func (m *Model) ID() string {
	m.idOnce.Do(func() { m.id = m.contentHash() })
	return m.id
}

func (m *Model) contentHash() string {
	w := newHash()
	m.hashHead(&w, len(m.Matrices))
	for _, matrix := range m.Matrices {
		for c := range grid.Cell(m.Grid.Cells()) {
			columns, values := matrix.Entries(c)
			w.row(columns, values)
			if matrix.Spread != nil {
				w.number(math.Float64bits(matrix.Spread[c]))
			}
		}
	}
	w.row(m.Initial.Cells, m.Initial.P)
	m.Gaps.hash(&w)
	return w.id()
}

// hashHead starts the hash of a model with so many matrices.
func (m *Model) hashHead(w *hashWriter, matrices int) {
	if matrices == 1 {
		w.text("geodither model 1")
	} else {
		w.text("geodither model 2")
		w.text(m.Calendar.String())
	}
	w.text(m.Grid.ID())
	w.number(uint64(m.Grid.Cells()))
	w.number(uint64(m.Step))
	if m.Kernel.Radius() < 0 && m.Jumps == (Jumps{}) {
		return
	}
	w.text("kernel 1")
	for _, weights := range [][]float64{m.Kernel.Columns, m.Kernel.Rows} {
		w.number(uint64(len(weights)))
		for _, v := range weights {
			w.number(math.Float64bits(v))
		}
	}
	w.number(uint64(m.Jumps.Side))
	w.number(math.Float64bits(m.Jumps.Share))
}

// layout returns what follows from the kernel and the jumps. The first call costs their sizes.
func (m *Model) layout() *layout {
	m.layoutOnce.Do(func() { m.derived = newLayout(m.Grid, m.Kernel, m.Jumps) })
	return m.derived
}

// SampleInitial draws a cell from the initial distribution. It takes one number from src. Cost: the
// length of the distribution.
func (m *Model) SampleInitial(src Source) grid.Cell {
	return sample(m.Initial.Cells, m.Initial.P, src)
}

// Row sets dst to row c of a class's matrix as a whole: its entries, its kernel and its jumps.
// Cost: the number of the row's cells. Predictions need no whole rows; see [Predictor].
func (m *Model) Row(dst *Distribution, class int, c grid.Cell) {
	dst.Reset()
	matrix, g := m.Matrices[class], m.Grid
	if matrix.Spread != nil {
		l, k, radius := m.layout(), m.Kernel, m.Kernel.Radius()
		column, row := g.Column(c), g.Row(c)
		for y := max(0, row-radius); y <= min(l.height-1, row+radius); y++ {
			weight := float64(matrix.Spread[c]*l.columns[column]) *
				float64(l.rows[row]*k.Rows[max(y-row, row-y)])
			for x := max(0, column-radius); x <= min(l.width-1, column+radius); x++ {
				if p := float64(weight * k.Columns[max(x-column, column-x)]); p > 0 {
					dst.Cells = append(dst.Cells, grid.Cell(y*l.width+x))
					dst.P = append(dst.P, p)
				}
			}
		}
	}
	columns, values := matrix.Entries(c)
	addInto(dst, &Distribution{columns, values}, 1)
	targets := m.layout().jumpsFrom(c)
	addInto(dst, &Distribution{targets, slices.Repeat([]float64{1}, len(targets))}, m.Jumps.each())
}

// SampleNext draws the next cell of a vehicle that is in cell c in a step. It takes one number from
// src. Cost: the length of the stored row and of the kernel.
func (m *Model) SampleNext(src Source, c grid.Cell, step int64) grid.Cell {
	class := m.ClassAt(step)
	matrix := m.Matrices[class]
	columns, values := matrix.Entries(c)
	u := uniform01(src)
	for i, v := range values {
		if u -= v; u < 0 {
			return columns[i]
		}
	}
	if targets, weight := m.layout().jumpsFrom(c), m.Jumps.each(); len(targets) > 0 {
		if i := int(u / weight); i < len(targets) {
			return targets[i]
		}
		u -= float64(weight * float64(len(targets)))
	}
	if matrix.Spread == nil || matrix.Spread[c] == 0 { // rounding left it over
		return columns[len(columns)-1]
	}
	// What is left of u chooses the row of the kernel, and what is left then the column.
	l, g := m.layout(), m.Grid
	row, u := along(g.Row(c), m.Kernel.Rows, l.rows, min(max(u/matrix.Spread[c], 0), 1))
	column, _ := along(g.Column(c), m.Kernel.Columns, l.columns, u)
	return grid.Cell(row*l.width + column)
}

// Copy returns a model of the same parts, which may be changed before it is used.
func (m *Model) Copy() *Model {
	return &Model{
		Grid: m.Grid, Step: m.Step, Calendar: m.Calendar, Matrices: m.Matrices, Kernel: m.Kernel,
		Jumps: m.Jumps, Initial: m.Initial, Gaps: m.Gaps, Provenance: m.Provenance,
	}
}
