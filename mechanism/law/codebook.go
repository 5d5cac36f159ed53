package law

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// CodebookVersion goes up whenever the codebook mechanism makes other releases of the same prior,
// ε and random words: other code points or votes, another draw, or another rule of which priors
// have a release. It stands in the transcript of each release and in a service's settings. So
// releases of two versions share no noise, and no program takes another version's releases for its
// own.
//
// testdata/codebook.json and the codebook's part of mechanism/testdata/bits.txt belong to one
// version.
const CodebookVersion = 1

// Bounds of codebooks.
const (
	// CodeSteps is how many steps of the code points' lattice make a cell's side. 256 do not
	// suffice: at ε = .001 the best code points lie some hundredths of a cell apart.
	CodeSteps = 4096
	// maxPatches bounds the patches that code points are placed by.
	maxPatches = 128
)

// Quantizer is the codebook mechanism: randomized response over a vector quantizer of the public
// prior. Prepare places code points c_0 … c_{m-1} on the map. Every cell x of the map votes for
// its nearest code point v(x). Sample draws the index j of a code point with
//
//	P(j|x) = 2⁶⁴/(2⁶⁴ + (m-1)·T)  if j = v(x),  T/(2⁶⁴ + (m-1)·T)  if not,  T = ⌈2⁶⁴·e^-ε⌉.
//
// The release is the place c_j, and the posterior of a cell is its prior times 2⁶⁴ where v(x) =
// j, times T elsewhere, normalized.
//
// Guarantee: P(j|x) has two values, whose ratio is at most e^ε, so P(j|x1) ≤ e^ε·P(j|x2) for
// every j and any two cells of the map. This needs no location set, and no cell is released as
// another one. It is a statement on the very numbers that are published, given independent uniform
// words: votes are comparisons of whole numbers, and so is the draw. How many words a draw takes is
// independent of its result and of the cell (PROOFS.md, theorem 12).
//
// The code points are those that leave the least expected squared error of the posterior mean, as
// far as a bounded search finds them. With E = e^ε - 1, the mass P_j and the first moment M_j
// about the mean μ of what votes for j, the mean of the posterior after j is
//
//	c_j = μ + E·M_j/(1 + E·P_j),
//
// and the expected squared error is the prior's variance less E²·Σ|M_j|²/(1 + E·P_j)/(m + E).
// The best votes for given code points are those for the nearest one. Votes and points are improved
// in turn, and m is the number with the greatest gain.
//
// The border between two code points' votes tells two neighbouring cells apart by the full e^ε.
// Two cells of one vote are not told apart at all. K-norm noise tells near places apart less
// than far ones, so which mechanism is better depends on what is to stay hidden.
//
// A Quantizer is scratch for one goroutine. After a few calls it does not allocate. Everything but
// the cell that Vote is given, and its vote, is public.
type Quantizer struct {
	grid    *grid.Grid
	epsilon float64
	other   uint64  // T
	rest    float64 // r = 1/E = T/(2⁶⁴ - T)
	fine    int     // patches that code points are placed by

	prior prior // of the last Prepare, the caller's

	points []convex.Lattice // by row and column, all different
	lines  []line           // of the row at hand
	votes  []uint8
	beside []uint8

	patches  patches
	searcher searcher
}

// line is a code point seen from a row of the map: the squared distance of the row's cell in column
// x, up to what all code points share, is at - x·slope.
type line struct{ at, slope int64 }

// prior is ascending cells, each with its mass.
type prior struct {
	cells []grid.Cell
	p     []float64
}

// NewQuantizer returns a quantizer for maps of the grid, with an empty codebook: call Prepare
// before anything else. It fails where CheckEpsilon or CheckGrid does. It computes T once, in whole
// numbers.
func NewQuantizer(g *grid.Grid, epsilon float64) (*Quantizer, error) {
	o := Options{Name: Codebook}
	if err := o.CheckEpsilon(epsilon); err != nil {
		return nil, err
	}
	if err := o.CheckGrid(epsilon, g); err != nil {
		return nil, err
	}
	q := &Quantizer{grid: g, epsilon: epsilon, other: otherWeight(epsilon)}
	q.rest = float64(q.other) / float64(-q.other) // 2⁶⁴ - T wraps to -T
	q.fine = finePatches(q.rest)
	return q, nil
}

// finePatches returns how many patches code points are placed by, give or take some: 20 +
// 3·e^{ε/2}. The best codebooks have about e^{ε/2} points.
func finePatches(rest float64) int {
	return int(min(20+float64(3*math.Sqrt(1+1/rest)), maxPatches))
}

// Prepare places the code points for a prior: cells ascending, each with its mass above 0. The
// masses need not add up to 1. It panics on an empty prior. It takes the same steps for the same
// numbers, and gives the same bits on every architecture.
//
// The heaviest cells and patches of the others make a smaller prior. A codebook grows from its mean
// by halving regions. Changes of regions improve it (searcher). Its code points go to the lattice,
// and points that coincide there are one. A prior of one cell has one code point, and its release
// tells nothing.
//
// Cost: linear in the prior's cells, and in the patches times the square of the code points. The
// patches are 25 or so at ε = 1, 42 at 4, and at most 2·maxPatches and some. All loops are bounded.
func (q *Quantizer) Prepare(cells []grid.Cell, p []float64) {
	if len(cells) == 0 || len(cells) != len(p) {
		panic("law: a codebook needs a prior, and a mass for each of its cells")
	}
	q.prior = prior{cells, p}
	q.patches.gather(grid.Cell(q.grid.Width()), cells, p, q.fine)
	s := &q.searcher
	s.grow(&q.patches, q.rest)
	s.improve(&q.patches, q.rest, searchVotes*q.fine)
	q.snap(s.now.sites)
}

// snap puts code points on the lattice, in the order of rows and columns, without repetitions.
func (q *Quantizer) snap(sites []site) {
	q.points = q.points[:0]
	for _, s := range sites {
		q.points = append(q.points, convex.Lattice{
			X: onSteps(q.patches.column+s.x, q.grid.Width()),
			Y: onSteps(q.patches.row+s.y, q.grid.Height()),
		})
	}
	slices.SortFunc(q.points, func(a, b convex.Lattice) int {
		return cmp.Or(cmp.Compare(a.Y, b.Y), cmp.Compare(a.X, b.X))
	})
	q.points = slices.Compact(q.points)
}

// onSteps returns the step nearest to a column or row, between the first one and the last.
func onSteps(at float64, side int) int64 {
	return int64(math.Floor(min(max(at, 0), float64(side-1))*CodeSteps + 0.5))
}

// Points returns the code points in order: steps of 1/CodeSteps of a cell's side, from the centre
// of the map's first cell. They belong to q until the next Prepare.
func (q *Quantizer) Points() []convex.Lattice { return q.points }

// Other returns T, the weight of each code point that is not a cell's own, which has 2⁶⁴.
func (q *Quantizer) Other() uint64 { return q.other }

// Place returns code point j on the map, in kilometres.
func (q *Quantizer) Place(j int) grid.Point {
	c := q.points[j]
	return grid.Point{
		X: onLattice(c.X, CodeSteps, q.grid.CellKM()),
		Y: onLattice(c.Y, CodeSteps, q.grid.CellKM()),
	}
}

// Nearest returns the index of the code point that is nearest to a place: of a release that was
// written down with a small error, the very index. The first among equals.
//
// Code points are at least 1/CodeSteps of a cell's side apart, so an error of less than half of
// that does no harm. In cells of 1 m that is .1 mm, less than 1e-8° (1.1 mm): there a place
// that was rounded so may stand for another code point. Sample's index is not affected.
func (q *Quantizer) Nearest(z grid.Point) int {
	best, least := 0, math.Inf(1)
	for j := range q.points {
		d := q.Place(j).Sub(z)
		if square := float64(d.X*d.X) + float64(d.Y*d.Y); square < least {
			best, least = j, square
		}
	}
	return best
}

// Vote returns the index of the code point that cell x votes for: the nearest to its centre, the
// first among equals. It looks at every code point, whatever the cell.
func (q *Quantizer) Vote(x grid.Cell) int {
	q.face(int64(q.grid.Row(x)))
	return int(q.nearest(int64(q.grid.Column(x))))
}

// Votes writes the votes of ascending cells into dst, which it returns as long as cells. In a row
// of the map the cells that vote for one code point lie side by side, so where two cells of a row
// have one vote, all between them have it too.
func (q *Quantizer) Votes(dst []uint8, cells []grid.Cell) []uint8 {
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	width := int64(q.grid.Width())
	for from := 0; from < len(cells); {
		row := int64(cells[from]) / width
		to, end := from+1, (row+1)*width
		for to < len(cells) && int64(cells[to]) < end {
			to++
		}
		q.face(row)
		first, votes, columns := row*width, dst[from:to], cells[from:to]
		votes[0] = q.nearest(int64(columns[0]) - first)
		votes[len(votes)-1] = q.nearest(int64(columns[len(columns)-1]) - first)
		q.between(votes, columns, first)
		from = to
	}
	return dst
}

// between fills in the votes between the first and the last one, of cells in a row that begins at
// the cell first.
func (q *Quantizer) between(votes []uint8, cells []grid.Cell, first int64) {
	last := len(votes) - 1
	if last < 2 {
		return
	}
	if votes[0] == votes[last] {
		for i := range votes {
			votes[i] = votes[0]
		}
		return
	}
	middle := last / 2
	votes[middle] = q.nearest(int64(cells[middle]) - first)
	q.between(votes[:middle+1], cells[:middle+1], first)
	q.between(votes[middle:], cells[middle:], first)
}

// face fills in the lines of a row. With the centre of a cell at (X, Y) steps the squared distance
// of a code point (x, y) is, without X² + Y²,
//
//	x² + y² - 2·Y·y - 2·X·x.
//
// All coordinates are below 2³⁰ (MaxSide), so all terms and sums are below 2⁶³.
func (q *Quantizer) face(row int64) {
	q.lines = q.lines[:0]
	for _, c := range q.points {
		q.lines = append(q.lines, line{
			at:    c.X*c.X + c.Y*(c.Y-2*CodeSteps*row),
			slope: 2 * CodeSteps * c.X,
		})
	}
}

func (q *Quantizer) nearest(column int64) uint8 {
	best, least := 0, int64(math.MaxInt64)
	for j, l := range q.lines {
		if square := l.at - column*l.slope; square < least {
			best, least = j, square
		}
	}
	return uint8(best)
}

// span is the first and the last column of a row, on the map or off it, whose cells vote for an
// index; none if the first exceeds the last.
type span struct{ first, last int64 }

// beyond is a column off every map.
const beyond = 1 << 40

// span returns where cells vote for j in the row that q faces. Of two lines the one is lower from a
// column on, or up to one: the same comparisons of whole numbers as nearest makes, solved for the
// column. No sum exceeds 2⁶³, as in face.
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

// Sample draws the index of a release for a cell that votes for own: own itself if the draw is
// below 2⁶⁴, else one of the others, T numbers each. It takes pairs of words until one is below
// 2⁶⁴ + (m-1)·T, two pairs at most on average, and none if there is one code point only.
//
// The pair that is kept is uniform below that number, whatever came before it. So how many words
// were taken is independent of it, and has the same law for every cell.
func (q *Quantizer) Sample(src noise.Source, own int) int {
	others := uint64(len(q.points) - 1)
	if others == 0 {
		return own
	}
	all := noise.Product(others, q.other)
	all.Hi++
	u := noise.BelowWide(src, all)
	if u.Hi == 0 {
		return own
	}
	// u - 2⁶⁴ < (m-1)·T, so its upper word is below T, and the quotient below m-1.
	rank, _ := bits.Div64(u.Hi-1, u.Lo, q.other)
	if int(rank) >= own {
		return int(rank) + 1
	}
	return int(rank)
}

// Likelihoods writes P(j|x)/P(v(x)|x) of ascending cells into dst, which it returns as long as
// cells: 1 for the cells that vote for j, T/2⁶⁴ for the others. In a row the former lie side by
// side.
func (q *Quantizer) Likelihoods(dst []float64, j int, cells []grid.Cell) []float64 {
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	width, other := int64(q.grid.Width()), float64(q.other)*0x1p-64
	for i := 0; i < len(cells); {
		row := int64(cells[i]) / width
		q.face(row)
		own := q.span(j)
		first, end := row*width, (row+1)*width
		for ; i < len(cells) && int64(cells[i]) < end; i++ {
			dst[i] = other
			if column := int64(cells[i]) - first; own.first <= column && column <= own.last {
				dst[i] = 1
			}
		}
	}
	return dst
}

// AppendFacts appends what determines the law of a release for a cell that votes for own, and what
// its index means, given grid and ε: the number of code points, their columns and rows in steps,
// and own. The code points determine the votes of all cells, and own is all that the law takes from
// the cell. No two different codebooks or votes have the same facts.
//
// All are uvarints, except that own takes one byte, below maxPoints: it is the one secret, so the
// length of the facts does not depend on it.
func (q *Quantizer) AppendFacts(b []byte, own int) []byte {
	b = binary.AppendUvarint(b, uint64(len(q.points)))
	for _, c := range q.points {
		b = binary.AppendUvarint(b, uint64(c.X))
		b = binary.AppendUvarint(b, uint64(c.Y))
	}
	return append(b, uint8(own))
}

// Metric says in kilometres what ε means for a release: e^ε at any distance, as two neighbouring
// cells can have different votes. It holds for any two positions of the map. With one code point
// nothing is told.
func (q *Quantizer) Metric() Metric {
	if len(q.points) == 1 {
		return Metric{Within200M: 1, Within1KM: 1, Across: 1}
	}
	factor := 0x1p64 / float64(q.other)
	side := q.grid.CellKM()
	across := grid.Point{X: float64(q.grid.Width()-1) * side, Y: float64(q.grid.Height()-1) * side}
	return Metric{Within200M: factor, Within1KM: factor, Across: factor, WidthKM: across.Norm()}
}

// otherWeight returns T = ⌈2⁶⁴/L⌉ for a lower bound L of e^ε that is less than a part in
// 2¹⁰⁰ too small, so 2⁶⁴/T ≤ L ≤ e^ε. ε is the fraction p/q that its shortest
// decimal stands for. L is the exponential series in units of 2⁻¹⁹², each term rounded down;
// it ends where a term is below one unit. From ε = 45 on T is 1.
func otherWeight(epsilon float64) uint64 {
	const unit = 192
	p, q, err := exactEpsilon(epsilon)
	if err != nil {
		panic("law: " + err.Error())
	}
	term := new(big.Int).Lsh(big.NewInt(1), unit)
	sum := new(big.Int).Set(term)
	for k := uint64(1); term.Sign() > 0; k++ {
		term.Mul(term, new(big.Int).SetUint64(p))
		term.Quo(term, new(big.Int).Mul(new(big.Int).SetUint64(q), new(big.Int).SetUint64(k)))
		sum.Add(sum, term)
	}
	t := new(big.Int).Lsh(big.NewInt(1), unit+64)
	t.Add(t, sum).Sub(t, big.NewInt(1))
	return t.Quo(t, sum).Uint64()
}
