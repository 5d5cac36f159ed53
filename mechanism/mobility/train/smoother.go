package train

import (
	"iter"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/parallel"
)

// smoother turns counts into matrices. With n transitions counted out of cell c, its row is the
// posterior mean under a Dirichlet prior of weight κ (Mackay and Peto 1995,
// doi:10.1017/S1351324900000218):
//
//	(counts of c + κ·kernel about c) / (n + κ)
//
// With a calendar, the row of a class backs off to that row, with the same weight κ. So a class
// with few transitions out of a cell moves as all classes together do.
//
// The same share of every row goes to far cells, however many transitions were counted in it. Where
// many users stay, one who leaves must be found again as soon as elsewhere. If jumps were part of
// the kernel, a row with 10,000 counts would have 1/500 of the jumps, and the drift at δ = 0.01
// would grow by half. There is no uniform teleport, which would make every row as long as the grid;
// see [Kernel.WithJumps].
type smoother struct {
	grid    *grid.Grid
	kernel  Kernel
	backoff float64
	all     rows
	classes []rows
	// plain has the final values of a row without counts that the map's edges do not cut: most rows
	// of a large map.
	plain []float64
	start []int64 // of each row, once they were measured
}

// rows finds the transitions out of a cell.
type rows struct {
	list  []Pair
	start []int
}

func rowsOf(list []Pair, cells int) rows {
	r := rows{list, make([]int, cells+1)}
	for _, w := range list {
		r.start[w.From+1]++
	}
	for c := range cells {
		r.start[c+1] += r.start[c]
	}
	return r
}

func (r rows) of(c grid.Cell) []Pair { return r.list[r.start[c]:r.start[c+1]] }

// rowsAtOnce is the number of rows in a task, which takes a few milliseconds.
const rowsAtOnce = 1 << 12

// newSmoother returns a smoother of counts: of all transitions and, with a calendar of several
// classes, of those of each class. The lists are merged.
func newSmoother(g *grid.Grid, k Kernel, backoff float64, all []Pair, classes [][]Pair) *smoother {
	s := &smoother{grid: g, kernel: k, backoff: backoff, all: rowsOf(all, g.Cells())}
	for _, list := range classes {
		s.classes = append(s.classes, rowsOf(list, g.Cells()))
	}
	s.plain = s.plainRow()
	return s
}

// measure finds the lengths of the rows, on all cores, and returns the number of entries of each
// matrix. It reports every row once.
func (s *smoother) measure(work *parallel.Progress) (entries int64, err error) {
	cells := s.grid.Cells()
	s.start = make([]int64, cells+1)
	if err := parallel.Ordered(s.tasks(func(b *scratch, c grid.Cell) {
		s.start[c+1] = int64(b.length(c))
	}), work.Add); err != nil {
		return 0, err
	}
	for c := range cells {
		s.start[c+1] += s.start[c]
	}
	return s.start[cells], nil
}

// matrices makes the matrices, one for each class, on all cores. measure must come
// first. The matrices share their columns. Every row is reported once.
func (s *smoother) matrices(work *parallel.Progress) ([]*mobility.Matrix, error) {
	entries := s.start[s.grid.Cells()]
	columns := make([]grid.Cell, entries)
	matrices := make([]*mobility.Matrix, max(1, len(s.classes)))
	for i := range matrices {
		matrices[i] = &mobility.Matrix{
			RowStart: s.start, Columns: columns,
			Values: make([]float64, entries),
		}
	}
	return matrices, parallel.Ordered(s.tasks(func(b *scratch, c grid.Cell) {
		b.fill(matrices, c)
	}), work.Add)
}

// tasks cuts the rows into tasks, each with scratch memory of its own. The result of a task is the
// number of its rows.
func (s *smoother) tasks(do func(*scratch, grid.Cell)) iter.Seq2[func() (int, error), error] {
	cells := s.grid.Cells()
	return func(yield func(func() (int, error), error) bool) {
		for first := 0; first < cells; first += rowsAtOnce {
			end := min(first+rowsAtOnce, cells)
			if !yield(func() (int, error) {
				b := &scratch{smoother: s}
				for c := first; c < end; c++ {
					do(b, grid.Cell(c))
				}
				return end - first, nil
			}, nil) {
				return
			}
		}
	}
}

// plainRow returns the values of a row without counts that the edges do not cut.
func (s *smoother) plainRow() []float64 {
	b := &scratch{smoother: s}
	total := 0.0
	for i, o := range s.kernel.Offsets {
		total += o.Weight
		w := Pair{To: grid.Cell(i), Weight: o.Weight}
		if o.far {
			w.From = jump
		}
		b.about = append(b.about, w)
	}
	for i := range b.about {
		b.about[i].Weight /= total
	}
	b.part()
	b.row = blend(b.row, nil, b.about, s.backoff)
	values := make([]float64, len(b.row))
	b.write(values, b.row)
	return values
}

// scratch is the memory of one task.
type scratch struct {
	*smoother
	about, row, class []Pair
	far               []Pair // jumps of a row, with share of its mass
	share             float64
}

// part takes the jumps out of about.
func (b *scratch) part() { b.far, b.share = takeJumps(b.about, b.far) }

// write adds the jumps to a row and turns it into values. The row is changed.
func (b *scratch) write(values []float64, row []Pair) {
	addJumps(row, b.far, b.share)
	for i, w := range row {
		values[i] = w.Weight
	}
	QuantizeRow(values)
}

// length returns how many columns row c has: the cells of the kernel on the map, and further ones
// that were counted.
func (b *scratch) length(c grid.Cell) int {
	counted := b.all.of(c)
	if len(counted) == 0 && b.kernel.inside(b.grid, c) {
		return len(b.plain)
	}
	b.about = b.kernel.around(b.about, b.grid, c)
	n, next := len(b.about), 0
	for _, w := range counted {
		for next < len(b.about) && b.about[next].To < w.To {
			next++
		}
		if next == len(b.about) || b.about[next].To != w.To {
			n++
		}
	}
	return n
}

// fill writes row c of every matrix.
func (b *scratch) fill(matrices []*mobility.Matrix, c grid.Cell) {
	counted := b.all.of(c)
	first, end := matrices[0].RowStart[c], matrices[0].RowStart[c+1]
	if len(counted) == 0 && b.kernel.inside(b.grid, c) {
		for i, o := range b.kernel.Offsets {
			matrices[0].Columns[first+int64(i)] = c + grid.Cell(o.Rows*b.grid.Width()+o.Columns)
		}
		for _, m := range matrices {
			copy(m.Values[first:end], b.plain)
		}
		return
	}
	b.about = b.kernel.around(b.about, b.grid, c)
	b.part()
	b.row = blend(b.row, counted, b.about, b.backoff)
	for i, w := range b.row {
		matrices[0].Columns[first+int64(i)] = w.To
	}
	for i, m := range matrices {
		b.class = append(b.class[:0], b.row...)
		if len(b.classes) > 0 {
			if counted := b.classes[i].of(c); len(counted) > 0 {
				b.class = blend(b.class, counted, b.row, b.backoff)
			}
		}
		b.write(m.Values[first:end], b.class)
	}
}
