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
	"sync"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// Model is a Markov chain over a grid's cells at a fixed step. It is immutable once used: [Model.ID] and the predictors
// remember what they derive from it. Use it by pointer, from any number of goroutines.
type Model struct {
	Grid    *grid.Grid
	Step    time.Duration
	Matrix  *Matrix
	Initial Distribution
	// Provenance says where the model came from. It is not part of the model's identity.
	Provenance Provenance

	idOnce    sync.Once
	id        string
	reachOnce sync.Once
	reach     *reach
}

// Provenance describes the making of a model without a word on any person or place.
type Provenance struct {
	Source  string // what the traces were, in the trainer's words
	Tool    string // name and version of the program that trained it
	Options string // the training options, printed
	Report  Report // what the training counted
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

// StepAt returns the model's step that holds a time in milliseconds since 1970; see [StepOf].
func (m *Model) StepAt(timestampMS int64) int64 { return StepOf(timestampMS, m.Step.Milliseconds()) }

// Validate reports the first thing that is wrong with the model. Cost: one pass over the transitions.
func (m *Model) Validate() error {
	if m.Grid == nil || m.Matrix == nil {
		return errors.New("mobility: a model needs a grid and a matrix")
	}
	if m.Step < time.Millisecond || m.Step%time.Millisecond != 0 {
		return errors.New("mobility: the model's step must be a whole, positive number of milliseconds")
	}
	if err := m.Matrix.Validate(m.Grid.Cells()); err != nil {
		return err
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
	w := hashWriter{Hash: sha256.New()}
	w.text("geodither model 1")
	w.text(m.Grid.ID())
	w.number(uint64(m.Grid.Cells()))
	w.number(uint64(m.Step))
	for c := range grid.Cell(m.Grid.Cells()) {
		columns, values := m.Matrix.Row(c)
		w.row(columns, values)
	}
	w.row(m.Initial.Cells, m.Initial.P)
	w.flush()
	return hex.EncodeToString(w.Sum(nil)[:8])
}

// hashWriter gathers numbers into large writes.
type hashWriter struct {
	hash.Hash
	buf []byte
}

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
	for i, c := range columns {
		w.number(uint64(c))
		w.number(math.Float64bits(values[i]))
	}
}

func (w *hashWriter) flush() {
	w.Write(w.buf)
	w.buf = w.buf[:0]
}
