package law

import "github.com/geodither/geodither/mechanism/grid"

// Neighbours are the cells beside those of a prior, in four directions on the map, and how much
// each pair of neighbours counts: as much as the prior's mass in both cells together. So a pair is
// what somebody picks who goes to where the user probably is, and from there to a cell beside. A
// cell beside may have no mass.
//
// Weights are whole parts of 2⁻³² of the prior's total, rounded down, so that their sums are
// exact in any order. Neighbours are scratch for one goroutine.
type Neighbours struct {
	// Cells are the cells beside, those of one direction after those of another.
	Cells []grid.Cell
	// Of are the positions in the prior of the cells that they lie beside.
	Of []int32

	ends   [4]int // of the directions, in Cells
	weight []uint64
}

// Gather fills n for a prior: cells ascending, each with its mass. Linear; without allocation once
// n has grown.
func (n *Neighbours) Gather(g *grid.Grid, cells []grid.Cell, p []float64) {
	total := 0.0
	for _, mass := range p {
		total += mass
	}
	n.weight = n.weight[:0]
	for _, mass := range p {
		n.weight = append(n.weight, uint64(mass/total*(1<<32)))
	}
	width, last := grid.Cell(g.Width()), grid.Cell(g.Cells()-1)
	n.Cells, n.Of = n.Cells[:0], n.Of[:0]
	n.beside(0, cells, 1, func(c grid.Cell) bool { return c%width < width-1 })
	n.beside(1, cells, -1, func(c grid.Cell) bool { return c%width > 0 })
	n.beside(2, cells, width, func(c grid.Cell) bool { return c <= last-width })
	n.beside(3, cells, -width, func(c grid.Cell) bool { return c >= width })
}

// beside appends the cells a step away from those that have one there.
func (n *Neighbours) beside(
	direction int, cells []grid.Cell, step grid.Cell, has func(grid.Cell) bool,
) {
	for i, c := range cells {
		if has(c) {
			n.Cells, n.Of = append(n.Cells, c+step), append(n.Of, int32(i))
		}
	}
	n.ends[direction] = len(n.Cells)
}

// Direction returns the bounds in Cells of a direction, of four. Its cells ascend.
func (n *Neighbours) Direction(d int) (from, to int) {
	if d > 0 {
		from = n.ends[d-1]
	}
	return from, n.ends[d]
}

// Weight returns how much the pair of Cells[i] and its cell of the prior counts.
func (n *Neighbours) Weight(i int) uint64 { return n.weight[n.Of[i]] }

// NearShare returns the share of all pairs of neighbouring cells of the map that a release tells
// apart: their votes differ. Pairs count as Neighbours says. The other pairs are not told apart at
// all, so between neighbours a release spends NearShare times ε on average. It is a function of
// prior and codebook, hence public, and the quotient of two whole numbers. 0 on a map of one cell.
//
// Cost: that of five times Votes. It changes nothing that a release depends on.
func (q *Quantizer) NearShare(n *Neighbours, cells []grid.Cell, p []float64) float64 {
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
