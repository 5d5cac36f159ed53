// Package mobility holds the public model of how people move: a sparse Markov chain over the cells
// of a grid (the paper's M and its initial distribution), the model's file, users' personal models,
// and the two steps of the filter that follow from a model: predict (p·M) and update (Bayes). The
// package train learns models from traces.
//
// Everything here is a function of its arguments. It uses no clock, no global randomness and no
// iteration over maps. Sums are added in ascending order of cells, and products are rounded before
// they are added, so results are the same bits everywhere.
package mobility

import (
	"errors"
	"fmt"
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
	Initial  Distribution
	// Gaps says where a user is after a time without a fix; nil: where the chain says.
	Gaps GapLaw
	// Provenance says where the model came from. It is not part of the model's identity.
	Provenance Provenance

	idOnce    sync.Once
	id        string
	reachOnce sync.Once
	reach     []*reach // one for each matrix
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

// MatrixAt returns the matrix that moves a user from the step to the next one.
func (m *Model) MatrixAt(step int64) *Matrix { return m.Matrices[m.classAt(step)] }

// classAt returns the calendar's class of a step: the class of its first millisecond.
func (m *Model) classAt(step int64) int {
	if len(m.Matrices) == 1 {
		return 0
	}
	return m.Calendar.ClassAt(step * m.Step.Milliseconds())
}

// Transitions returns the number of stored probabilities in all matrices.
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
		return fmt.Errorf("mobility: the calendar has %d classes and the model %d matrices; "+
			"it needs one for each", want, got)
	}
	if m.Step < time.Millisecond || m.Step%time.Millisecond != 0 {
		return errors.New("mobility: the model's step must be a whole, positive number of " +
			"milliseconds")
	}
	for _, matrix := range m.Matrices {
		if matrix == nil {
			return errors.New("mobility: the model lacks a matrix")
		}
		if err := matrix.Validate(m.Grid.Cells()); err != nil {
			return err
		}
	}
	if m.Initial.Len() == 0 || len(m.Initial.P) != m.Initial.Len() {
		return errors.New("mobility: the model has no initial distribution")
	}
	if err := validRow(m.Initial.Cells, m.Initial.P, m.Grid.Cells()); err != nil {
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
			columns, values := matrix.Row(c)
			w.row(columns, values)
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
}

// Source yields uniform random bits, as math/rand/v2's sources do.
type Source interface{ Uint64() uint64 }

// SampleInitial draws a cell from the initial distribution. It takes one number from src. Cost: the
// length of the distribution.
func (m *Model) SampleInitial(src Source) grid.Cell {
	return sample(m.Initial.Cells, m.Initial.P, src)
}

// SampleNext draws the next cell of a vehicle that is in cell c in a step. It takes one number from
// src. Cost: the length of the row.
func (m *Model) SampleNext(src Source, c grid.Cell, step int64) grid.Cell {
	columns, values := m.MatrixAt(step).Row(c)
	return sample(columns, values, src)
}

// sample inverts the distribution function at a uniform multiple of 2⁻⁵³ in [0, 1). What
// rounding leaves over at the top belongs to the last cell.
func sample(cells []grid.Cell, p []float64, src Source) grid.Cell {
	u := float64(src.Uint64()>>11) / (1 << 53)
	for i, v := range p {
		if u -= v; u < 0 {
			return cells[i]
		}
	}
	return cells[len(cells)-1]
}
