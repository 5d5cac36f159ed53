package private

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/parallel"
)

// cellCounts is what the last level counts, each pair of cells: the users' moves, and the scale of
// the noise.
type cellCounts struct {
	tallies []tally
	scale   scale
}

// rowMaker makes the matrices, one for each class. Rows depend on each other only through a few
// sums, so the cores share them.
//
// Each row has the cells within the radius as entries, whatever was counted. Noisy counts are
// kept in the memory of the matrix until they become probabilities. So the matrix, with its 12
// bytes an entry, and 8 bytes a cell are all the memory that is needed: 1.2 GB for a million cells
// and a radius of 5.
type rowMaker struct {
	*training
	last     *estimate
	cells    *cellCounts // nil: single cells are not counted
	jumps    mobility.Jumps
	matrices []*mobility.Matrix

	number    []float64 // expected moves out of each cell, class after class
	spread    []float64 // c² of each ring, see [shrink]
	threshold float64
}

// rows makes the matrices. It also returns the expected number of moves out of each cell.
func (p *training) rows(last *estimate, cells *cellCounts) (
	[]*mobility.Matrix, []train.Pair, error,
) {
	r := &rowMaker{training: p, last: last, cells: cells, jumps: p.jumps()}
	r.allocate()
	if err := r.estimateNumbers(); err != nil {
		return nil, nil, err
	}
	if err := p.eachRow(func(class, y int) {
		var own rowOf
		for x := range p.grid.Width() {
			r.finish(&own, class, grid.Cell(y*p.grid.Width()+x))
		}
	}); err != nil {
		return nil, nil, err
	}
	popularity := make([]train.Pair, p.grid.Cells())
	for i, n := range r.number {
		c := grid.Cell(i % len(popularity))
		popularity[c].From, popularity[c].To = c, c
		popularity[c].Weight += n
	}
	return r.matrices, popularity, nil
}

// allocate makes the matrices with all their entries and with every value 0. They share their
// columns.
func (r *rowMaker) allocate() {
	start := make([]int64, 1, r.grid.Cells()+1)
	n := int64(0)
	for c := range grid.Cell(r.grid.Cells()) {
		for _, at := range r.offsets {
			if _, ok := r.reached(c, at); ok {
				n++
			}
		}
		start = append(start, n)
	}
	columns := make([]grid.Cell, 0, n)
	for c := range grid.Cell(r.grid.Cells()) {
		for _, at := range r.offsets {
			if to, ok := r.reached(c, at); ok {
				columns = append(columns, to)
			}
		}
	}
	for range r.classes {
		r.matrices = append(r.matrices, &mobility.Matrix{
			RowStart: start, Columns: columns,
			Values: make([]float64, n),
		})
	}
}

// passes is how often all rows are gone through where single cells are counted. Where they are not,
// only the last pass is made.
const passes = 3

// eachRow calls work for every class and row of the map, on all cores, and reports the progress.
func (p *training) eachRow(work func(class, y int)) error {
	pool := parallel.Pool{
		Workers:  runtime.GOMAXPROCS(0),
		Progress: func(int64) error { return p.work.Add(p.grid.Width()) },
	}
	return pool.Each(p.classes*p.grid.Height(), func(i int) error {
		work(i/p.grid.Height(), i%p.grid.Height())
		return nil
	})
}

// rowOf is what is known of the entries of one row.
type rowOf struct {
	ring []int
	// within is the back-off kernel, which sums to 1.
	within []float64
	// columns and values are the row in the matrix.
	columns []grid.Cell
	values  []float64
}

func (r *rowMaker) readRow(own *rowOf, class int, c grid.Cell) {
	own.ring, own.within = own.ring[:0], own.within[:0]
	own.columns, own.values = r.matrices[class].Entries(c)
	heights := r.last.heightsOf(class, c)
	total := 0.0
	for i, at := range r.offsets {
		if _, ok := r.reached(c, at); ok {
			own.ring = append(own.ring, r.ring[i])
			own.within = append(own.within, heights[r.ring[i]])
			total += heights[r.ring[i]]
		}
	}
	for i := range own.within {
		own.within[i] /= total
	}
}

// estimateNumbers estimates how many moves leave each cell. Where single cells are counted it takes
// the noisy counts of all pairs of cells, which it fills in, and also finds how far they spread
// about what is expected. Elsewhere each cell of a block gets the same share of the block's moves.
func (r *rowMaker) estimateNumbers() error {
	cells, height, width := r.level(1, r.classes), r.grid.Height(), r.grid.Width()
	r.number = make([]float64, cells.blocks())
	if r.cells == nil {
		for i := range r.number {
			above := cells.parent(r.last.level, i)
			parts := float64(r.last.area(above) * float64(r.classes/r.last.classes))
			r.number[i] = r.last.moves[above] / parts
		}
		return r.work.Add((passes - 1) * len(r.number))
	}
	precision := make([]float64, r.classes*height)
	if err := r.eachRow(func(class, y int) {
		random := r.secret.streams().Stream(rowName(class, y))
		var own rowOf
		for x := range width {
			c := grid.Cell(y*width + x)
			r.readRow(&own, class, c)
			r.count(&own, class, c, random)
			n, squares := numberOf(own.within, own.values)
			r.number[cells.block(class, c)] = n
			precision[class*height+y] += squares / float64(len(r.number))
		}
	}); err != nil {
		return err
	}
	total := 0.0
	for _, squares := range precision {
		total += squares
	}
	law := r.cells.scale.law()
	r.number = cells.numbers(r.last, r.number, law.over(total))
	r.threshold = float64(law.size * math.Log(2*float64(len(r.number)*len(r.offsets))))
	rows := make([]moments, r.classes*height)
	err := r.eachRow(func(class, y int) {
		sums := newMoments(len(r.rings))
		var own rowOf
		for x := range width {
			c := grid.Cell(y*width + x)
			r.readRow(&own, class, c)
			n := r.number[cells.block(class, c)]
			for i, ring := range own.ring {
				expected := float64(n * own.within[i])
				sums.addEntry(ring, own.values[i]-expected, expected, r.threshold)
			}
		}
		rows[class*height+y] = sums
	})
	if err != nil {
		return err
	}
	sums := newMoments(len(r.rings))
	for _, row := range rows {
		sums.merge(row)
	}
	r.spread = sums.spreads(law.variance)
	return nil
}

// count fills in the noisy counts of a row.
func (r *rowMaker) count(own *rowOf, class int, c grid.Cell, random noise.Source) {
	tallies := r.tallied(class, c)
	for i := range own.values {
		n := int64(0)
		if len(tallies) > 0 && tallies[0].to == own.columns[i] {
			n, tallies = tallies[0].n, tallies[1:]
		}
		own.values[i] = r.draw(n, r.cells.scale, random)
	}
}

// tallied returns the users' moves out of a cell, in ascending order of the cells they lead to.
func (r *rowMaker) tallied(class int, c grid.Cell) []tally {
	list := r.cells.tallies
	first := func(c grid.Cell) int {
		at, _ := slices.BinarySearchFunc(list, c, func(t tally, c grid.Cell) int {
			return cmp.Or(cmp.Compare(t.class, class), cmp.Compare(t.from, c))
		})
		return at
	}
	return list[first(c):first(c+1)]
}

// finish turns what is known of row c into probabilities, as train does: (moves +
// κ·kernel) / (their number + κ). Jumps have the same share in every row.
func (r *rowMaker) finish(own *rowOf, class int, c grid.Cell) {
	r.readRow(own, class, c)
	backoff := r.trainer.Options().Backoff
	n := r.number[class*r.grid.Cells()+int(c)]
	total, rest := backoff, 1-r.jumps.From(r.grid, c)
	for i, ring := range own.ring {
		moves := float64(n * own.within[i])
		if r.cells != nil {
			moves = shrunk(own.values[i], moves, r.spread[ring], r.cells.scale.variance(),
				r.threshold)
		}
		own.values[i] = moves + float64(backoff*own.within[i])
		total += moves
	}
	for i := range own.values {
		own.values[i] *= rest / total
	}
	train.QuantizeRow(own.values, rest)
}

func rowName(class, y int) []byte {
	return fmt.Appendf(nil, "geodither private training: noise of class %d, row %d", class, y)
}

// shrink estimates counts from noisy ones. It is post-processing: it uses the noisy counts, the
// counts that a coarser level makes one expect, and the law of the noise.
//
// noisy[i] is the noisy count of entry i, expected[i] ≥ 0 the count expected from the coarser
// level, and group(i) < groups the group of the entry. In each group c² is the spread of true
// counts about the expected ones, relative to these. The method of moments estimates it from
//
//	E(noisy-expected)² = c²·expected² + variance
//
// A moment that exceeds the variance by less than one standard deviation counts as no spread. The
// best linear estimate is then (empirical Bayes: Efron and Morris 1973,
// doi:10.1080/01621459.1973.10481350)
//
//	expected + ρ(noisy-expected), ρ = c²·expected²/(c²·expected² + variance)
//
// A linear rule serves many small differences and loses the few large ones, such as a station in an
// empty quarter. So a count that differs by more than scale·ln(2·entries) is taken as it is.
// Noise alone exceeds that in half an entry on average: it is the universal threshold of Donoho and
// Johnstone 1994 (doi:10.1093/biomet/81.3.425) for this law.
//
// Results are not negative. dst may be noisy.
func shrink(dst, noisy, expected []float64, group func(i int) int, groups int, noise law) {
	threshold := float64(noise.size * math.Log(2*float64(len(noisy))))
	m := newMoments(groups)
	for i, n := range noisy {
		m.addEntry(group(i), n-expected[i], expected[i], threshold)
	}
	spread := m.spreads(noise.variance)
	for i, n := range noisy {
		dst[i] = shrunk(n, expected[i], spread[group(i)], noise.variance, threshold)
	}
}

// law is what is known of the noise on a number: its scale, or what stands for it, and its
// variance.
type law struct{ size, variance float64 }

func (s scale) law() law { return law{s.value(), s.variance()} }

// over returns the law of a weighted sum with so many times the precision. A sum of Laplace
// variables has lighter tails than one variable of the same variance, so the size is large enough.
func (l law) over(precision float64) law {
	return law{l.size / math.Sqrt(precision), l.variance / precision}
}

// shrunk is [shrink] for one entry.
func shrunk(noisy, expected, spread, variance, threshold float64) float64 {
	difference := noisy - expected
	if math.Abs(difference) > threshold {
		return max(0, noisy)
	}
	signal := float64(spread * float64(expected*expected))
	if signal == 0 {
		return expected
	}
	return max(0, expected+float64(signal/(signal+variance)*difference))
}

// moments are the sums of squares that give the spread of each group.
type moments struct{ difference, expected, number []float64 }

func newMoments(groups int) moments {
	return moments{make([]float64, groups), make([]float64, groups), make([]float64, groups)}
}

// addEntry adds one entry, unless it differs by more than the threshold.
func (m moments) addEntry(group int, difference, expected, threshold float64) {
	if math.Abs(difference) <= threshold {
		m.difference[group] += float64(difference * difference)
		m.expected[group] += float64(expected * expected)
		m.number[group]++
	}
}

func (m moments) merge(other moments) {
	for g := range m.number {
		m.difference[g] += other.difference[g]
		m.expected[g] += other.expected[g]
		m.number[g] += other.number[g]
	}
}

// spreads returns c² of each group.
func (m moments) spreads(variance float64) []float64 {
	spread := make([]float64, len(m.number))
	for g, n := range m.number {
		// The square of a Laplace variable has a variance of five times its mean's square.
		excess := m.difference[g] - float64(variance*(n+math.Sqrt(5*n)))
		if excess > 0 && m.expected[g] > 0 {
			spread[g] = excess / m.expected[g]
		}
	}
	return spread
}
