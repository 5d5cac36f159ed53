package trial

import (
	"math/rand/v2"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Walker is somebody who moves as a model says.
type Walker struct {
	// Cell is where the walker is. Setting it moves the walker there.
	Cell grid.Cell

	model *mobility.Model
	rng   *rand.Rand
}

// NewWalker returns a walker in a cell that is drawn from the model's initial distribution. Walkers
// that share rng depend on the order of their calls.
func NewWalker(m *mobility.Model, rng *rand.Rand) Walker {
	return WalkerAt(m, rng, m.SampleInitial(rng))
}

// WalkerAt returns a walker in a cell.
func WalkerAt(m *mobility.Model, rng *rand.Rand, cell grid.Cell) Walker {
	return Walker{Cell: cell, model: m, rng: rng}
}

// Move moves the walker from where it is in a step to where it is in the next one.
func (w *Walker) Move(step int64) { w.Cell = w.model.SampleNext(w.rng, w.Cell, step) }

// Place draws where in its cell the walker is, in kilometres: anywhere, with the same probability.
func (w *Walker) Place() grid.Point {
	side, at := w.model.Grid.CellKM(), w.model.Grid.Centre(w.Cell)
	at.X += float64(side * (w.rng.Float64() - .5))
	at.Y += float64(side * (w.rng.Float64() - .5))
	return at
}
