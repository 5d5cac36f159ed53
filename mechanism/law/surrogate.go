package law

import (
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Surrogates find the surrogate of any cell of a grid: the member of a location set whose centre is
// nearest, the lower index among equals (the paper, section 3.2). A member is its own surrogate.
//
// Distances are squares of whole numbers, so ties are exact. Nearest searches the rows from the
// cell's own row outwards. All is for every cell of a prior at once. It goes up the map row by row,
// and knows for each column of the set how far up or down its nearest member is. Along a row the
// surrogate's column never moves left as the cell moves right. So each cell starts at the column of
// the cell before, and stops where columns are too far away to win. These are the two phases of a
// distance transform (Meijster, Roerdink and Hesselink 2000, doi 10.1007/0-306-47025-X_36),
// restricted to the rows and columns that count.
type Surrogates struct {
	width  int32
	cells  []grid.Cell // the members, ascending; valid until the set changes
	column []int32     // the members' columns
	row    []int32     // the members' rows
	rows   []memberRow // rows that hold a member, ascending
	left   int32       // the least column of a member
	span   int32       // columns from the least to the greatest
	small  bool        // distances and members fit one packed word

	columns []memberColumn // from the least column on
	next    []int32        // per member: the next one up its column, or -1
	squares []uint64       // packed squares of the numbers from -mostFew to mostFew+fewColumns
	// per column: squared distance of its nearest member to the row that is swept, packed with the
	// member
	heights []uint64
}

// memberRow is one row's members, cells[first:end].
type memberRow struct{ row, first, end int32 }

// memberColumn is one column's nearest members on or below, and above, the row that is swept; far
// away, and a member of -1, for none.
type memberColumn struct {
	below, above             int32 // their rows
	belowMember, aboveMember int32
}

const (
	// searchRatio is how many columns of the set a cell must justify for a sweep of the row; else
	// cells are searched one by one.
	searchRatio = 16
	// A squared distance and a member are packed into one word, squares first, so that the least
	// word is the nearest member with the lowest index. That holds up to mostSide cells a side and
	// mostMembers members. A column without a member is given one far away: its distance of at
	// least 2¹⁹ rows exceeds any of the map's, and (2¹⁹+2¹⁸)²+2³⁶ < 2⁴⁰ still
	// fits.
	memberBits  = 24
	mostMembers = 1 << memberBits
	mostSide    = 1 << 18
	farAway     = 1 << 19
	// fewColumns is up to how many columns it is faster to compare all of them, always the same
	// number of times, than to find out where to stop; mostFew is how far from them.
	fewColumns = 32
	mostFew    = 96
)

// Reset prepares s for a set of at least one cell of g, ascending. It keeps the slice until the
// next call. O(len(set)).
func (s *Surrogates) Reset(g *grid.Grid, set []grid.Cell) {
	if len(set) == 0 {
		panic("law: surrogates need a set of at least one cell")
	}
	s.width = int32(g.Width())
	s.cells, s.rows = set, s.rows[:0]
	s.column = slices.Grow(s.column[:0], len(set))[:len(set)]
	s.row = slices.Grow(s.row[:0], len(set))[:len(set)]
	left, right := int32(math.MaxInt32), int32(0)
	for i := 0; i < len(set); {
		row := set[i] / s.width
		start, end := row*s.width, int64(row+1)*int64(s.width)
		first := i
		for ; i < len(set) && int64(set[i]) < end; i++ {
			s.column[i], s.row[i] = set[i]-start, row
		}
		s.rows = append(s.rows, memberRow{row, int32(first), int32(i)})
		left, right = min(left, s.column[first]), max(right, s.column[i-1])
	}
	s.left, s.span = left, right-left+1
	s.small = g.Width() <= mostSide && g.Height() <= mostSide && len(set) < mostMembers
}

// Nearest returns the position in the set of a cell's surrogate.
func (s *Surrogates) Nearest(c grid.Cell) int {
	row := c / s.width
	return int(s.search(c-row*s.width, row))
}

// All writes the positions in the set of the surrogates of cells, which must ascend, into dst and
// returns it.
func (s *Surrogates) All(dst []int32, cells []grid.Cell) []int32 {
	dst = slices.Grow(dst[:0], len(cells))[:len(cells)]
	member, swept := 0, -1
	for i := 0; i < len(cells); {
		row := cells[i] / s.width
		end := int64(row+1) * int64(s.width)
		first, pending := i, 0
		for ; i < len(cells) && int64(cells[i]) < end; i++ {
			for member < len(s.cells) && s.cells[member] < cells[i] {
				member++
			}
			dst[i] = -1
			if member < len(s.cells) && s.cells[member] == cells[i] {
				dst[i] = int32(member)
			} else {
				pending++
			}
		}
		if pending == 0 {
			continue
		}
		if !s.small || int(s.span) > searchRatio*pending {
			s.searchRow(dst[first:i], cells[first:i], row)
			continue
		}
		if swept < 0 {
			s.startSweep()
			swept = 0
		}
		swept = s.sweepTo(row, swept)
		s.sweepRow(dst[first:i], cells[first:i], row)
	}
	return dst
}

// startSweep puts the sweep below all members, with 24 bytes for each column of the set's span. A
// set whose span is too wide to justify a sweep never comes here.
func (s *Surrogates) startSweep() {
	s.columns = slices.Grow(s.columns[:0], int(s.span))[:s.span]
	s.heights = slices.Grow(s.heights[:0], int(s.span))[:s.span]
	s.next = slices.Grow(s.next[:0], len(s.cells))[:len(s.cells)]
	for x := range s.columns {
		s.columns[x] = memberColumn{below: -farAway, above: farAway, aboveMember: -1}
	}
	for m := len(s.cells) - 1; m >= 0; m-- {
		c := &s.columns[s.column[m]-s.left]
		s.next[m] = c.aboveMember
		c.above, c.aboveMember = s.row[m], int32(m)
	}
	if len(s.squares) == 0 {
		for d := int64(-mostFew); d < mostFew+2*fewColumns; d++ {
			s.squares = append(s.squares, uint64(d*d)<<memberBits)
		}
	}
}

// sweepTo moves the sweep up to a row: members on it count as below. swept members have been passed
// already.
func (s *Surrogates) sweepTo(row int32, swept int) int {
	for ; swept < len(s.cells) && s.row[swept] <= row; swept++ {
		c := &s.columns[s.column[swept]-s.left]
		c.below, c.belowMember = s.row[swept], int32(swept)
		c.above, c.aboveMember = farAway, s.next[swept]
		if c.aboveMember >= 0 {
			c.above = s.row[c.aboveMember]
		}
	}
	return swept
}

// sweepRow fills in what is missing of dst for cells of one row, to which the sweep has come.
func (s *Surrogates) sweepRow(dst []int32, cells []grid.Cell, row int32) {
	lowest := s.measure(row)
	start := row*s.width + s.left
	first := 0 // no surrogate lies in a column before
	for i, m := range dst {
		if m >= 0 {
			continue
		}
		x := int64(cells[i] - start)
		if s.span <= fewColumns && x >= -mostFew && x <= mostFew {
			dst[i] = nearestOfFew(s.squares[mostFew-x:], s.heights)
			continue
		}
		nearest := nearestOfMany(x-int64(first), s.heights[first:], lowest)
		first = int(s.column[nearest] - s.left)
		dst[i] = nearest
	}
}

// nearestOfFew compares all columns of the set's span, always the same number of times: two at a
// time, no branch but the loop's. squares are the packed squares of the distances to the columns.
func nearestOfFew(squares, heights []uint64) int32 {
	best, other := uint64(math.MaxUint64), uint64(math.MaxUint64)
	squares = squares[:len(heights)]
	j := 0
	for ; j+1 < len(heights); j += 2 {
		best = min(best, squares[j]+heights[j])
		other = min(other, squares[j+1]+heights[j+1])
	}
	if j < len(heights) {
		best = min(best, squares[j]+heights[j])
	}
	return int32(min(best, other) & (mostMembers - 1))
}

// nearestOfMany stops at the first column to the right that is too far away to win, given the least
// height of all. x counts from the first column.
func nearestOfMany(x int64, heights []uint64, lowest uint64) int32 {
	best := uint64(math.MaxUint64)
	for j, height := range heights {
		d := int64(j) - x
		square := uint64(d*d) << memberBits
		if square+lowest > best && d > 0 {
			break
		}
		best = min(best, square+height)
	}
	return int32(best & (mostMembers - 1))
}

// measure fills in the heights over a row and returns the least of them.
func (s *Surrogates) measure(row int32) uint64 {
	lowest := uint64(math.MaxUint64)
	heights := s.heights[:len(s.columns)]
	for i := range s.columns {
		c := &s.columns[i]
		away, member := int64(row-c.below), c.belowMember
		// at the same distance the lower row has the lower index
		if up := int64(c.above - row); up < away {
			away, member = up, c.aboveMember
		}
		word := uint64(away*away)<<memberBits | uint64(member)&(mostMembers-1)
		heights[i] = word
		lowest = min(lowest, word)
	}
	return lowest &^ (mostMembers - 1)
}

// searchRow fills in what is missing of dst for cells of one row, one by one.
func (s *Surrogates) searchRow(dst []int32, cells []grid.Cell, row int32) {
	for i, m := range dst {
		if m < 0 {
			dst[i] = s.search(cells[i]-row*s.width, row)
		}
	}
}

// search returns the nearest member to a cell, going through the rows of members in the order of
// their distance.
func (s *Surrogates) search(column, row int32) int32 {
	up, _ := slices.BinarySearchFunc(s.rows, row,
		func(r memberRow, row int32) int { return int(r.row) - int(row) })
	down := up - 1
	square, best := int64(math.MaxInt64), int32(-1)
	for up < len(s.rows) || down >= 0 {
		at := up
		if up == len(s.rows) || (down >= 0 && row-s.rows[down].row <= s.rows[up].row-row) {
			at = down
			down--
		} else {
			up++
		}
		dy := int64(s.rows[at].row - row)
		if dy*dy > square { // at the same distance a lower row can still hold a lower index
			break
		}
		m := s.inRow(s.rows[at], column)
		dx := int64(s.column[m] - column)
		if d := dx*dx + dy*dy; d < square || (d == square && m < best) {
			square, best = d, m
		}
	}
	return best
}

// inRow returns the member of a row nearest to a column, the left one of two.
func (s *Surrogates) inRow(r memberRow, column int32) int32 {
	columns := s.column[r.first:r.end]
	i, _ := slices.BinarySearch(columns, column)
	if i == len(columns) || (i > 0 && column-columns[i-1] <= columns[i]-column) {
		i--
	}
	return r.first + int32(i)
}
