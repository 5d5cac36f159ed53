package mobility

import "github.com/geodither/geodither/mechanism/grid"

// Personal is how one user moves: the popular model, and over it what the user's own traces say, by how much of them there
// is. In row c the user's own transitions have the weight n/(n + κ) and the popular model's row the rest, n being how many of
// the user's transitions leave c. It is small: it holds the user's own counts only. It is immutable and public, as the
// popular model is. Use it by pointer, from any number of goroutines.
type Personal struct {
	popular *Model
	id      string
	rows    map[grid.Cell]ownRow
	initial Distribution
}

// ownRow is the user's part of a row: the popular row counts popular, the columns have the rest, of which values sum to
// 1 − popular.
type ownRow struct {
	popular float64
	columns []grid.Cell
	values  []float64
}

// Popular returns the model that p is laid over.
func (p *Personal) Popular() *Model { return p.popular }

// ID returns 16 hex digits: a hash of the popular model's id and of the user's part.
func (p *Personal) ID() string { return p.id }

// Initial returns where the user may be found while nothing else is known. Do not change it.
func (p *Personal) Initial() *Distribution { return &p.initial }
