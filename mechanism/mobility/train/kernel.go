package train

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// Kernel is a radial distribution of displacements. Its offsets are sorted by row, then column, and
// their weights sum to 1.
type Kernel struct {
	Offsets []Offset
	Reach   int // the largest column or row of an offset
}

// Offset is a displacement and its weight.
type Offset struct {
	Columns, Rows int
	Weight        float64
	far           bool // a jump
}

// learnKernel returns the kernel of the displacements that the transitions show within the radius,
// averaged over all cells at the same distance.
//
// Two rules smooth it. The weight may not grow with the distance: a ring that was seen less often
// than the next one further out is pooled with it. And every ring gets its share of one extra
// transition that is spread evenly, so that no weight is zero.
func learnKernel(g *grid.Grid, transitions []Pair, radius int) Kernel {
	classes := Rings(radius)
	for _, w := range transitions {
		columns, rows := Displacement(g, w.From, w.To)
		if d := columns*columns + rows*rows; d <= radius*radius {
			at, _ := slices.BinarySearchFunc(classes, d, func(c Ring, d int) int {
				return cmp.Compare(c.Squared, d)
			})
			classes[at].Mass += w.Weight
		}
	}
	total, cells := 0.0, 0
	for _, c := range classes {
		total += c.Mass
		cells += c.Cells
	}
	for i := range classes {
		classes[i].Mass += float64(classes[i].Cells) / float64(cells)
	}
	total++
	k := Kernel{Reach: radius}
	heights := Monotone(classes)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			d := columns*columns + rows*rows
			if d > radius*radius {
				continue
			}
			at, _ := slices.BinarySearchFunc(classes, d, func(c Ring, d int) int {
				return cmp.Compare(c.Squared, d)
			})
			k.Offsets = append(k.Offsets, Offset{columns, rows, heights[at] / total, false})
		}
	}
	return k
}

// inside says whether the kernel about a cell lies on the map as a whole.
func (k Kernel) inside(g *grid.Grid, c grid.Cell) bool {
	column, row := g.Column(c), g.Row(c)
	return column >= k.Reach && row >= k.Reach && column+k.Reach < g.Width() &&
		row+k.Reach < g.Height()
}

// WithJumps returns a kernel of which the share goes to far offsets, evenly: to eight directions at
// two, four, eight ... times the radius. They go as far as the grid reaches, and are at most a
// third as many as the kernel's own offsets: three distances for a radius of 5, one for 3, none for
// 2, since a small radius is chosen to keep a large model small.
//
// Together with the kernel's spread, jumps reach every cell near them in a few steps. A teleport to
// all cells would do so too, and make every row as long as the grid.
func (k Kernel) WithJumps(g *grid.Grid, radius int, share float64) Kernel {
	var far []Offset
	farthest := k.Reach
	for reach := 2 * radius; reach < max(g.Width(), g.Height()) &&
		len(far)+8 <= len(k.Offsets)/3; reach *= 2 {
		diagonal := int(math.Round(float64(reach) * math.Sqrt2 / 2))
		farthest = reach
		far = append(far,
			Offset{Columns: -reach}, Offset{Columns: reach}, Offset{Rows: -reach},
			Offset{Rows: reach},
			Offset{Columns: -diagonal, Rows: -diagonal}, Offset{Columns: diagonal, Rows: -diagonal},
			Offset{Columns: -diagonal, Rows: diagonal}, Offset{Columns: diagonal, Rows: diagonal})
	}
	if len(far) == 0 || share <= 0 {
		return k
	}
	for i := range far {
		far[i].Weight, far[i].far = share/float64(len(far)), true
	}
	for _, o := range k.Offsets {
		far = append(far, Offset{o.Columns, o.Rows, float64((1 - share) * o.Weight), false})
	}
	slices.SortFunc(far, func(a, b Offset) int {
		return cmp.Or(cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Columns, b.Columns))
	})
	return Kernel{far, farthest}
}

// Displacement returns how many columns and rows lie between two cells.
func Displacement(g *grid.Grid, from, to grid.Cell) (columns, rows int) {
	return g.Column(to) - g.Column(from), g.Row(to) - g.Row(from)
}

// Ring is the set of displacements of one length.
type Ring struct {
	Squared int     // the length's square, in cells
	Cells   int     // number of displacements
	Mass    float64 // of transitions by one of them
}

// Rings returns the rings within the radius, by ascending length, without mass.
func Rings(radius int) []Ring {
	number := make([]int, radius*radius+1)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			if d := columns*columns + rows*rows; d < len(number) {
				number[d]++
			}
		}
	}
	var classes []Ring
	for d, n := range number {
		if n > 0 {
			classes = append(classes, Ring{Squared: d, Cells: n})
		}
	}
	return classes
}

// Monotone returns the weight per cell of each ring. Pooling adjacent violators makes it
// non-increasing with distance and keeps the total (Ayer et al. 1955, doi:10.1214/aoms/1177728423).
func Monotone(classes []Ring) []float64 {
	type pool struct {
		mass    float64
		cells   int
		classes int
	}
	height := func(p pool) float64 { return p.mass / float64(p.cells) }
	var pools []pool
	for _, c := range classes {
		pools = append(pools, pool{c.Mass, c.Cells, 1})
		for n := len(pools); n > 1 && height(pools[n-1]) > height(pools[n-2]); n = len(pools) {
			pools[n-2].mass += pools[n-1].mass
			pools[n-2].cells += pools[n-1].cells
			pools[n-2].classes += pools[n-1].classes
			pools = pools[:n-1]
		}
	}
	var heights []float64
	for _, p := range pools {
		for range p.classes {
			heights = append(heights, height(p))
		}
	}
	return heights
}

// jump marks the jumps in what [Kernel.around] returns: it stands in the place of From.
const jump = grid.Cell(-1)

// around returns the kernel about a cell, cut at the edges of the grid and normalized, in ascending
// order of cells.
func (k Kernel) around(dst []Pair, g *grid.Grid, c grid.Cell) []Pair {
	dst = dst[:0]
	column, row := g.Column(c), g.Row(c)
	total := 0.0
	for _, o := range k.Offsets {
		x, y := column+o.Columns, row+o.Rows
		if x < 0 || y < 0 || x >= g.Width() || y >= g.Height() {
			continue
		}
		total += o.Weight
		from := c
		if o.far {
			from = jump
		}
		dst = append(dst, Pair{from, grid.Cell(y*g.Width() + x), o.Weight})
	}
	for i := range dst {
		dst[i].Weight /= total
	}
	return dst
}

// takeJumps separates the jumps from a kernel about a cell, which sums to 1. It returns them and
// their total weight, share. What stays in about is normalized, and has 0 in the places of the
// jumps.
func takeJumps(about, far []Pair) (jumps []Pair, share float64) {
	far = far[:0]
	for _, w := range about {
		if w.From == jump {
			far = append(far, w)
			share += w.Weight
		}
	}
	if len(far) == 0 {
		return far, 0
	}
	for i := range about {
		if about[i].From == jump {
			about[i].Weight = 0
		} else {
			about[i].Weight /= 1 - share
		}
	}
	return far, share
}

// addJumps gives the share of a row, which sums to 1, to the jumps far. The row has their cells
// too, in the same order.
func addJumps(row, far []Pair, share float64) {
	if len(far) == 0 {
		return
	}
	for i := range row {
		row[i].Weight = float64((1 - share) * row[i].Weight)
		if len(far) > 0 && far[0].To == row[i].To {
			row[i].Weight += far[0].Weight
			far = far[1:]
		}
	}
}
