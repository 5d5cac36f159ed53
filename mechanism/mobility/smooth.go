package mobility

import (
	"math/bits"

	"github.com/geodither/geodither/mechanism/grid"
)

// blockBits is the logarithm of the number of cells in a block. Which cells a prediction reaches is
// noted by blocks. A mask skips the zeros in a block.
const (
	blockBits = 6
	blockSize = 1 << blockBits
)

// masses are those of cells, all zero between calls.
type masses struct {
	mass []float64 // whole blocks
	// touched marks the blocks that have mass.
	touched []uint64
}

// smoother spreads masses by a model's kernel, row by row and then column by column. It works on
// stretches of eight cells of a row of the map, and on those alone that masses reach.
type smoother struct {
	width, height, radius int
	kernel                Kernel
	stride                int // stretches × 8: the cells of a row of the map, and up to seven more
	words                 int // of a row's marks
	// line is a row of masses, rows the masses spread along their rows. Both are zero between
	// calls, as are marks, one for each stretch of rows. About them are margins of the kernel's
	// radius: at both ends of line, and as many rows before and after the others.
	line, rows []float64
	marks      []uint64
	lines      []int32 // rows of the map with mass
}

const (
	stretchBits = 3
	stretch     = 1 << stretchBits
)

func newSmoother(g *grid.Grid, k Kernel) *smoother {
	s := &smoother{width: g.Width(), height: g.Height(), radius: k.Radius(), kernel: k}
	if s.radius < 0 {
		return s
	}
	stretches := (s.width + stretch - 1) >> stretchBits
	s.stride, s.words = stretches<<stretchBits, (stretches+63)/64
	s.line = make([]float64, s.stride+2*s.radius)
	s.rows = make([]float64, s.stride*(s.height+2*s.radius))
	s.marks = make([]uint64, s.words*(s.height+2*s.radius))
	return s
}

// spread sets the masses to the sum of the kernels about the cells, each times the cell's value,
// without a cut at the map's edges. No cell may have mass before.
func (s *smoother) spread(to masses, cells []grid.Cell, values []float64) {
	for len(cells) > 0 {
		row := int(cells[0]) / s.width
		n := s.fill(cells, grid.Cell(row*s.width), grid.Cell(row*s.width+s.width), row)
		line, first := s.line[s.radius:], row*s.width
		for i, c := range cells[:n] {
			line[int(c)-first] = values[i]
		}
		at := (row + s.radius) * s.stride
		for w, marks := range s.marks[(row+s.radius)*s.words:][:s.words] {
			for ; marks != 0; marks &= marks - 1 {
				x := (w<<6 + bits.TrailingZeros64(marks)) << stretchBits
				convolve((*[stretch]float64)(s.rows[at+x:]), s.line, s.radius+x, 1,
					s.kernel.Columns)
			}
		}
		for _, c := range cells[:n] {
			line[int(c)-first] = 0
		}
		s.lines = append(s.lines, int32(row))
		cells, values = cells[n:], values[n:]
	}
	next := 0
	for _, row := range s.lines {
		end := min(int(row)+s.radius+1, s.height)
		for y := max(next, int(row)-s.radius); y < end; y++ {
			s.collect(to, y)
		}
		next = end
	}
	s.clear()
}

// fill marks the stretches of a row that the cells of the row reach along it, and returns how many
// cells that are: those before end.
func (s *smoother) fill(cells []grid.Cell, first, end grid.Cell, row int) (n int) {
	marks := s.marks[(row+s.radius)*s.words:][:s.words]
	for n < len(cells) && cells[n] < end {
		from := int(cells[n] - first)
		to := from
		for n++; n < len(cells) && cells[n] < end && int(cells[n]-first) <= to+stretch; n++ {
			to = int(cells[n] - first)
		}
		last := min(to+s.radius, s.stride-1) >> stretchBits
		for at := max(from-s.radius, 0) >> stretchBits; at <= last; at++ {
			marks[at>>6] |= 1 << (at & 63)
		}
	}
	return n
}

// collect sets the masses of a row of the map from the rows about it.
func (s *smoother) collect(to masses, y int) {
	for w := range s.words {
		marks := uint64(0)
		for row := y; row <= y+2*s.radius; row++ {
			marks |= s.marks[row*s.words+w]
		}
		for ; marks != 0; marks &= marks - 1 {
			x := (w<<6 + bits.TrailingZeros64(marks)) << stretchBits
			from, first := (y+s.radius)*s.stride+x, y*s.width+x
			last := first + min(stretch, s.width-x) - 1
			if last-first == stretch-1 {
				convolve((*[stretch]float64)(to.mass[first:]), s.rows, from, s.stride,
					s.kernel.Rows)
			} else {
				var sums [stretch]float64
				convolve(&sums, s.rows, from, s.stride, s.kernel.Rows)
				copy(to.mass[first:last+1], sums[:])
			}
			to.touched[first>>(blockBits+6)] |= 1 << (first >> blockBits & 63)
			to.touched[last>>(blockBits+6)] |= 1 << (last >> blockBits & 63)
		}
	}
}

// clear makes everything zero that was reached.
func (s *smoother) clear() {
	for _, row := range s.lines {
		at := (int(row) + s.radius)
		for w, marks := range s.marks[at*s.words:][:s.words] {
			s.marks[at*s.words+w] = 0
			for ; marks != 0; marks &= marks - 1 {
				x := (w<<6 + bits.TrailingZeros64(marks)) << stretchBits
				*(*[stretch]float64)(s.rows[at*s.stride+x:]) = [stretch]float64{}
			}
		}
	}
	s.lines = s.lines[:0]
}

// convolve sets eight successive sums: for i = 0 to 7 that of weights[0]·src[at+i] and of
// weights[d] times the two of src that lie d steps before and after. Eight of them at a time share
// the weights and leave the additions independent of each other.
func convolve(dst *[stretch]float64, src []float64, at, step int, weights []float64) {
	w, c := weights[0], (*[stretch]float64)(src[at:])
	s0, s1, s2, s3 := float64(w*c[0]), float64(w*c[1]), float64(w*c[2]), float64(w*c[3])
	s4, s5, s6, s7 := float64(w*c[4]), float64(w*c[5]), float64(w*c[6]), float64(w*c[7])
	before, after := at, at
	for _, w := range weights[1:] {
		before -= step
		after += step
		a, b := (*[stretch]float64)(src[before:]), (*[stretch]float64)(src[after:])
		s0 += float64(w * (a[0] + b[0]))
		s1 += float64(w * (a[1] + b[1]))
		s2 += float64(w * (a[2] + b[2]))
		s3 += float64(w * (a[3] + b[3]))
		s4 += float64(w * (a[4] + b[4]))
		s5 += float64(w * (a[5] + b[5]))
		s6 += float64(w * (a[6] + b[6]))
		s7 += float64(w * (a[7] + b[7]))
	}
	*dst = [stretch]float64{s0, s1, s2, s3, s4, s5, s6, s7}
}
