// Package mobility holds the public model of how people move: a sparse Markov chain over the cells of a grid (the
// paper's M and its initial distribution), its training from traces, its file, and the two steps of the filter that
// follow from it: predict (p·M) and update (Bayes).
//
// Everything here is a function of its arguments: no clock, no global randomness, no order of a map; sums run in
// ascending order of cells and products are rounded before they are added, so results are the same bits everywhere.
package mobility

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// Model is a Markov chain over a grid's cells at a fixed step. It is immutable once used: [Model.ID] and the predictors
// remember what they derive from it. Use it by pointer, from any number of goroutines.
type Model struct {
	Grid *grid.Grid
	Step time.Duration
	// Calendar says which of the matrices moves a user on in a step. The zero value knows one class.
	Calendar Calendar
	// Matrices has one matrix for each class of the calendar.
	Matrices []*Matrix
	Initial  Distribution
	// Provenance says where the model came from. It is not part of the model's identity.
	Provenance Provenance

	idOnce    sync.Once
	id        string
	reachOnce sync.Once
	reach     []*reach // one for each matrix
}

// Provenance describes the making of a model without a word on any person or place.
type Provenance struct {
	Source  string `json:"source"`  // what the traces were, in the trainer's words
	Tool    string `json:"tool"`    // name and version of the program that trained it
	Options string `json:"options"` // the training options, printed: name=value and a space between
	Report  Report `json:"report"`  // what the training counted
	// Privacy says how the traces are protected from readers of the model; nil: they are not.
	Privacy *Privacy `json:"privacy"`
	// Fit says how well the model foretells users it was not trained on; nil: nobody has measured.
	Fit *Fit `json:"fit,omitempty"`
}

// Privacy says what training with differential privacy has spent on every user whose traces went into a model.
type Privacy struct {
	Epsilon      string `json:"epsilon"`      // of the whole model, a decimal number as it was given
	Contribution int    `json:"contribution"` // transitions that count of each user
	Radius       int    `json:"radius"`       // cells: counts are kept for moves within it
}

// StepOf returns the step that holds a time, both counted from 1970: floor(timestampMS / stepMS), also before 1970, where
// Go's division would round up. stepMS, the length of a step in milliseconds, must be positive.
func StepOf(timestampMS, stepMS int64) int64 {
	step := timestampMS / stepMS
	if timestampMS%stepMS < 0 {
		step--
	}
	return step
}

// MatrixAt returns the matrix that moves a user from the step to the next one.
func (m *Model) MatrixAt(step int64) *Matrix { return m.Matrices[m.classAt(step)] }

// classAt returns the calendar's class of a step: that of its first millisecond.
func (m *Model) classAt(step int64) int {
	if len(m.Matrices) == 1 {
		return 0
	}
	return m.Calendar.ClassAt(step * m.Step.Milliseconds())
}

// Transitions returns the number of stored probabilities, of all matrices.
func (m *Model) Transitions() (n int) {
	for _, matrix := range m.Matrices {
		n += matrix.Transitions()
	}
	return n
}

// StepAt returns the model's step that holds a time in milliseconds since 1970; see [StepOf].
func (m *Model) StepAt(timestampMS int64) int64 { return StepOf(timestampMS, m.Step.Milliseconds()) }

// Validate reports the first thing that is wrong with the model. Cost: one pass over the transitions.
func (m *Model) Validate() error {
	if m.Grid == nil {
		return errors.New("mobility: a model needs a grid")
	}
	if err := m.Calendar.Validate(); err != nil {
		return err
	}
	if got, want := len(m.Matrices), m.Calendar.Classes(); got != want {
		return fmt.Errorf("mobility: the calendar has %d classes and the model %d matrices; it needs one for each", want, got)
	}
	if m.Step < time.Millisecond || m.Step%time.Millisecond != 0 {
		return errors.New("mobility: the model's step must be a whole, positive number of milliseconds")
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
	return nil
}

// ID returns 16 hex digits: a hash of the grid, the step, the rows and the initial distribution, independent of
// provenance and of how the file was written. The first call costs one pass over the transitions.
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
	return w.id()
}

// hashHead begins the hash of a model with so many matrices.
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

// hashWriter gathers numbers into large writes.
type hashWriter struct {
	hash.Hash
	buf []byte
}

func newHash() hashWriter { return hashWriter{Hash: sha256.New()} }

func (w *hashWriter) text(s string) {
	w.number(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

func (w *hashWriter) number(v uint64) {
	w.buf = binary.LittleEndian.AppendUint64(w.buf, v)
	if len(w.buf) >= 1<<16 {
		w.flush()
	}
}

func (w *hashWriter) row(columns []grid.Cell, values []float64) {
	w.number(uint64(len(columns)))
	at := len(w.buf)
	w.buf = slices.Grow(w.buf, 16*len(columns))[:at+16*len(columns)]
	for i, c := range columns {
		binary.LittleEndian.PutUint64(w.buf[at:], uint64(c))
		binary.LittleEndian.PutUint64(w.buf[at+8:], math.Float64bits(values[i]))
		at += 16
	}
}

func (w *hashWriter) flush() {
	w.Write(w.buf)
	w.buf = w.buf[:0]
}

// id ends the hash: 16 hex digits.
func (w *hashWriter) id() string {
	w.flush()
	return hex.EncodeToString(w.Sum(nil)[:8])
}
