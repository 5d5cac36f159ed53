package train

import (
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// smoother turns counts into the rows of matrices. With n transitions counted out of cell c, its
// row is the posterior mean under a Dirichlet prior of weight κ (Mackay and Peto 1995,
// doi:10.1017/S1351324900000218):
//
//	(counts of c + κ·kernel about c) / (n + κ)
//
// With a calendar, the row of a class backs off to that row, with the same weight κ. So a class
// with few transitions out of a cell moves as all classes together do. The counts become the row's
// entries, and κ the weight of its kernel.
//
// The same share of every row jumps to far cells, however many transitions were counted in it.
// Where many users stay, one who leaves must be found again as soon as elsewhere. If jumps were
// part of the kernel, a row with 10,000 counts would have 1/500 of the jumps, and the drift at δ =
// 0.01 would grow by half. There is no uniform teleport: [mobility.Jumps] reach every cell in a few
// steps, and cost next to nothing.
type smoother struct {
	grid    *grid.Grid
	jumps   mobility.Jumps
	backoff float64
	// all are the transitions out of each cell. classes are those of each class of the calendar, if
	// it has several; each of them is one of all.
	all     rows
	classes []rows
	row     []float64 // scratch: the entries of a row of all, then the weight of its kernel
	class   []float64 // scratch: the same of a class
}

// rows finds the transitions out of a cell.
type rows struct {
	list  []Pair
	start []int64
}

func rowsOf(list []Pair, cells int) rows {
	r := rows{list, make([]int64, cells+1)}
	for _, w := range list {
		r.start[w.From+1]++
	}
	for c := range cells {
		r.start[c+1] += r.start[c]
	}
	return r
}

func (r rows) of(c grid.Cell) []Pair { return r.list[r.start[c]:r.start[c+1]] }

// matrices makes the matrices, one for each class, from merged lists of transitions: all of them
// and, with a calendar of several classes, those of each class. The matrices share their columns.
func (s *smoother) matrices(all []Pair, classes [][]Pair) []*mobility.Matrix {
	cells := s.grid.Cells()
	s.all = rowsOf(all, cells)
	for _, list := range classes {
		s.classes = append(s.classes, rowsOf(list, cells))
	}
	columns := make([]grid.Cell, len(all))
	for i, w := range all {
		columns[i] = w.To
	}
	matrices := make([]*mobility.Matrix, max(1, len(classes)))
	for i := range matrices {
		matrices[i] = &mobility.Matrix{
			RowStart: s.all.start, Columns: columns,
			Values: make([]float64, len(all)), Spread: make([]float64, cells),
		}
	}
	for c := range grid.Cell(cells) {
		s.fill(matrices, c)
	}
	return matrices
}

// fill sets row c of every matrix.
func (s *smoother) fill(matrices []*mobility.Matrix, c grid.Cell) {
	counted := s.all.of(c)
	s.row = s.row[:0]
	for range counted {
		s.row = append(s.row, 0)
	}
	s.row = append(s.row, 1)
	s.add(s.row, counted, counted)
	rest := 1 - s.jumps.From(s.grid, c)
	for i, m := range matrices {
		s.class = append(s.class[:0], s.row...)
		if len(s.classes) > 0 {
			s.add(s.class, counted, s.classes[i].of(c))
		}
		for j := range s.class {
			s.class[j] = float64(s.class[j] * rest)
		}
		quantize(s.class, rowQuantum, rest)
		m.Spread[c] = s.class[len(counted)]
		copy(m.Values[s.all.start[c]:], s.class[:len(counted)])
	}
}

// add makes a row the posterior mean of a prior row and transitions that were seen. columns are
// those of the row's entries; the transitions have no others.
func (s *smoother) add(row []float64, columns, seen []Pair) {
	total := s.backoff
	for _, w := range seen {
		total += w.Weight
	}
	for i := range row {
		weight := float64(s.backoff * row[i])
		if len(seen) > 0 && i < len(columns) && seen[0].To == columns[i].To {
			weight += seen[0].Weight
			seen = seen[1:]
		}
		row[i] = weight / total
	}
}
