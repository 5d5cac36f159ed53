package law

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
	"github.com/geodither/geodither/mechanism/noise"
)

// NewNearQuantizer is NewQuantizer with a second bound, which the zero Near leaves out.
//
// Guarantee: for every codebook and every answer j, P(j|x1) ≤ near.Factor·P(j|x2) for any two
// cells of the map that hold places at most near.DistanceKM apart on the ground (WGS 84), whether
// they are members of the prior, lie at the edge of the map, or touch at a corner alone. A cell at
// the edge also holds the places up to one cell beyond the map that are nearest to it. Between any
// two cells P(j|x1) ≤ e^ε·P(j|x2). All of it holds in whole numbers, together with the number of
// words that a draw takes (PROOFS.md, theorem 13).
//
// It fails where Near.Validate does, and where no noise keeps the guarantee within MaxReach. Cost:
// the search for the noise, some milliseconds.
func NewNearQuantizer(g *grid.Grid, epsilon float64, near Near) (*Quantizer, error) {
	q, err := NewQuantizer(g, epsilon)
	if err != nil || near == (Near{}) {
		return q, err
	}
	if err := near.Validate(epsilon); err != nil {
		return nil, err
	}
	q.noise, err = newNearNoise(near, g, q.other)
	return q, err
}

// Reach returns by how many columns and rows votes are displaced at most: 0 without a near factor.
func (q *Quantizer) Reach() int {
	if q.noise == nil {
		return 0
	}
	return q.noise.reach
}

// ShiftWeight returns the weight g of a displacement by so many columns and rows. Without a near
// factor it is 1 for none and 0 for the others.
func (q *Quantizer) ShiftWeight(columns, rows int) uint64 {
	if q.noise != nil {
		return q.noise.at(columns, rows)
	}
	if columns == 0 && rows == 0 {
		return 1
	}
	return 0
}

// Part returns all that the law of a release takes from a cell, for AppendFacts and Draw: the index
// of its vote, or with a near factor, which makes every cell's law another one, the cell.
func (q *Quantizer) Part(x grid.Cell) int {
	if q.noise != nil {
		return int(x)
	}
	return q.Vote(x)
}

// Draw draws the index of a release for a cell's Part. With a near factor it first draws by how
// much the vote is displaced: uniform words until a number is below the sum of the weights, and
// then the words of Sample. The numbers that are kept are independent of how many words came before
// them, so how many words were taken has the same law for every cell and every answer.
func (q *Quantizer) Draw(src noise.Source, part int) int {
	if len(q.points) == 1 {
		return 0
	}
	if q.noise == nil {
		return q.Sample(src, part)
	}
	d := q.noise
	i, _ := slices.BinarySearch(d.upTo, noise.Below(src, d.total)+1) // the first that exceeds it
	n := 2*d.reach + 1
	q.face(int64(q.grid.Row(grid.Cell(part)) + i/n - d.reach))
	return q.Sample(src, int(q.nearest(int64(q.grid.Column(grid.Cell(part))+i%n-d.reach))))
}

// blur is what inference and figures with a near factor are computed in.
type blur struct {
	prior prior    // of the last Prepare, the caller's
	spans []span   // where in a row of the map cells vote for an index; by row modulo their number
	tally []uint64 // of some cells
	pairs pairs
}

// prior is ascending cells, each with its mass.
type prior struct {
	cells []grid.Cell
	p     []float64
}

// span is the first and the last column of a row, on the map or off it, whose cells vote for an
// index; none if the first exceeds the last.
type span struct{ first, last int64 }

// beyond is a column further off than any that a vote is displaced to.
const beyond = 1 << 40

// span returns where cells vote for j in the row that q faces. Of two lines the one is lower from a
// column on, or up to one: the same comparisons of whole numbers as nearest makes, solved for the
// column. No sum exceeds 2⁶³: with columns and rows up to 2¹⁸ + MaxReach, |at| is below
// 3·2⁶⁰ and a bit.
func (q *Quantizer) span(j int) span {
	s := span{-beyond, beyond}
	own := q.lines[j]
	for k, l := range q.lines {
		if k == j {
			continue
		}
		// own.at - x·own.slope ≤ l.at - x·l.slope, or < where l comes first.
		over, slope := own.at-l.at, own.slope-l.slope
		if k < j {
			over++
		}
		switch {
		case slope > 0: // x ≥ over/slope
			s.first = max(s.first, -floorDiv(-over, slope))
		case slope < 0: // x ≤ over/slope
			s.last = min(s.last, floorDiv(-over, -slope))
		case over > 0:
			return span{beyond, -beyond}
		}
	}
	return s
}

// floorDiv returns ⌊a/b⌋ for b > 0.
func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// tally writes N_j of ascending cells, the weight of the shifts with which each votes for j, into
// dst, which it returns as long as cells. Cost: the cells near those that vote for j times the rows
// of the noise, and the rows of the map times the code points.
func (q *Quantizer) tally(dst []uint64, j int, cells []grid.Cell) []uint64 {
	reach := q.noise.reach
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	spans := slices.Grow(q.blur.spans[:0], 2*reach+1)[:2*reach+1]
	q.blur.spans = spans
	width, next := grid.Cell(q.grid.Width()), math.MinInt
	for from := 0; from < len(cells); {
		row := cells[from] / width
		to, first, end := from, row*width, int64(row+1)*int64(width)
		for to < len(cells) && int64(cells[to]) < end {
			to++
		}
		for next = max(next, int(row)-reach); next <= int(row)+reach; next++ {
			q.face(int64(next))
			spans[(next+len(spans))%len(spans)] = q.span(j)
		}
		q.tallyRow(dst[from:to], cells[from:to], first, int(row))
		from = to
	}
	return dst
}

// tallyRow is tally for cells of one row, which begins at the cell first. The spans of the rows
// within reach are known.
func (q *Quantizer) tallyRow(dst []uint64, cells []grid.Cell, first grid.Cell, row int) {
	d, spans, n := q.noise, q.blur.spans, int64(len(q.blur.spans))
	reach := int64(d.reach)
	left, right := int64(beyond), int64(-beyond)
	for _, s := range spans {
		left, right = min(left, s.first), max(right, s.last)
	}
	for i, c := range cells {
		column, sum := int64(c-first), uint64(0)
		if column+reach >= left && column-reach <= right {
			for k := range n {
				s := &spans[(int64(row)-reach+k+n)%n]
				from := max(s.first-column+reach, 0)
				to := min(s.last-column+reach+1, n)
				if from < to {
					sum += d.along[k*(n+1)+to] - d.along[k*(n+1)+from]
				}
			}
		}
		dst[i] = sum
	}
}

// blurred is Likelihoods with a near factor.
func (q *Quantizer) blurred(dst []float64, j int, cells []grid.Cell) []float64 {
	q.blur.tally = q.tally(q.blur.tally, j, cells)
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	least, total := float64(q.other)*0x1p-64, float64(q.noise.total)
	for i, n := range q.blur.tally {
		dst[i] = least + float64((1-least)*(float64(n)/total))
	}
	return dst
}

// NearShare returns the share of all pairs of neighbouring cells of the map that a release tells
// apart: their votes differ. Pairs count as Neighbours says. The other pairs are not told apart at
// all, so between neighbours a release spends NearShare times ε on average. It is a function of
// prior and codebook, hence public, and the quotient of two whole numbers. 0 on a map of one cell.
//
// With a near factor it is the mean logarithm of the factor by which the release tells pairs apart,
// in shares of ε, which is a float64.
//
// Cost: that of five times Votes. It changes nothing that a release depends on.
func (q *Quantizer) NearShare(n *Neighbours, cells []grid.Cell, p []float64) float64 {
	if q.noise != nil {
		return q.blurredShare(n, cells, p)
	}
	n.Gather(q.grid, cells, p)
	q.votes = q.Votes(q.votes, cells)
	apart, all := uint64(0), uint64(0)
	for d := range 4 {
		from, to := n.Direction(d)
		if from == to {
			continue
		}
		q.beside = q.Votes(q.beside, n.Cells[from:to])
		for i, vote := range q.beside {
			weight := n.Weight(from + i)
			all += weight
			if vote != q.votes[n.Of[from+i]] {
				apart += weight
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(apart) / float64(all)
}

// pairs are for the greatest factor of each pair of neighbours.
type pairs struct {
	cells []grid.Cell // of the prior and beside it
	of    []int32     // positions in cells of the prior's
	with  []int32     // and of Neighbours.Cells
	tally []uint64
	most  []float64 // by pair
}

// gather fills in cells and positions.
func (s *pairs) gather(n *Neighbours, cells []grid.Cell) {
	s.cells = append(append(s.cells[:0], cells...), n.Cells...)
	slices.Sort(s.cells)
	s.cells = slices.Compact(s.cells)
	s.of = s.find(s.of[:0], cells)
	s.with = s.with[:0]
	for d := range 4 {
		from, to := n.Direction(d)
		s.with = s.find(s.with, n.Cells[from:to])
	}
}

// find appends the positions of ascending cells.
func (s *pairs) find(dst []int32, cells []grid.Cell) []int32 {
	at := 0
	for _, c := range cells {
		for s.cells[at] != c {
			at++
		}
		dst = append(dst, int32(at))
	}
	return dst
}

// blurredShare is NearShare with a near factor: the mean logarithm of the greatest ratio between
// two neighbours, over all answers, in shares of ε. Cost: that of about two Likelihoods for each
// code point.
func (q *Quantizer) blurredShare(n *Neighbours, cells []grid.Cell, p []float64) float64 {
	n.Gather(q.grid, cells, p)
	s := &q.blur.pairs
	s.gather(n, cells)
	s.most = slices.Grow(s.most[:0], len(n.Cells))[:len(n.Cells)]
	for i := range s.most {
		s.most[i] = 1
	}
	rest := float64(q.rest * float64(q.noise.total))
	for j := range q.points {
		s.tally = q.tally(s.tally, j, s.cells)
		for i, with := range s.with {
			one, other := s.tally[s.of[n.Of[i]]], s.tally[with]
			if one != other {
				ratio := (rest + float64(max(one, other))) / (rest + float64(min(one, other)))
				s.most[i] = max(s.most[i], ratio)
			}
		}
	}
	sum, all := 0.0, uint64(0)
	for i, ratio := range s.most {
		weight := n.Weight(i)
		all += weight
		if ratio > 1 {
			sum += float64(float64(weight) * logOf(ratio))
		}
	}
	if all == 0 {
		return 0
	}
	return sum / float64(all) / q.epsilon
}

// logOf returns ln x of x ≥ 1, with the same bits on every architecture. Each turn of Halley's
// iteration on e^y = x makes three times as many digits right, from an error below .06.
func logOf(x float64) float64 {
	fraction, e := math.Frexp(x)
	y := float64(float64(e)*math.Ln2) - 2*(1-fraction)/(1+fraction)
	for range 4 {
		power := portable.Exp(y)
		y += 2 * (x - power) / (x + power)
	}
	return y
}
