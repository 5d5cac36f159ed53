package mobility

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// kernel is a radial distribution of displacements: its offsets are sorted by row, then column, and its weights sum
// to 1.
type kernel struct {
	offsets []offset
	reach   int // no column or row of an offset is larger
}

type offset struct {
	columns, rows int
	weight        float64
	far           bool // a jump
}

// learnKernel takes the displacements that the transitions show within the radius, averaged over all cells at the same
// distance. A distance class that was seen less often than its neighbour further out is pooled with it (the weight
// cannot grow with the distance), and every class gets the share of one extra transition spread evenly, so that none is
// zero.
func learnKernel(g *grid.Grid, transitions []weighted, radius int) kernel {
	classes := distanceClasses(radius)
	for _, w := range transitions {
		columns, rows := displacement(g, w)
		if d := columns*columns + rows*rows; d <= radius*radius {
			at, _ := slices.BinarySearchFunc(classes, d, func(c class, d int) int { return cmp.Compare(c.squared, d) })
			classes[at].mass += w.weight
		}
	}
	total, cells := 0.0, 0
	for _, c := range classes {
		total += c.mass
		cells += c.cells
	}
	for i := range classes {
		classes[i].mass += float64(classes[i].cells) / float64(cells)
	}
	total++
	k := kernel{reach: radius}
	heights := monotone(classes)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			d := columns*columns + rows*rows
			if d > radius*radius {
				continue
			}
			at, _ := slices.BinarySearchFunc(classes, d, func(c class, d int) int { return cmp.Compare(c.squared, d) })
			k.offsets = append(k.offsets, offset{columns, rows, heights[at] / total, false})
		}
	}
	return k
}

// inside says whether the grid's edges cut nothing off the kernel about a cell.
func (k kernel) inside(g *grid.Grid, c grid.Cell) bool {
	column, row := g.Column(c), g.Row(c)
	return column >= k.reach && row >= k.reach && column+k.reach < g.Width() && row+k.reach < g.Height()
}

// withJumps gives the share of k's mass to far offsets: eight directions at two, four, eight ... times the radius, as far
// as the grid reaches and as long as they are at most a third of the kernel's own entries (three distances for a radius
// of 5, one for 3, none for 2: a small radius is chosen to keep a large model small). With the kernel's spread they
// reach every cell near them in a few steps, where a teleport to all cells would make every row as long as the grid.
// The share is spread evenly over them.
func (k kernel) withJumps(g *grid.Grid, radius int, share float64) kernel {
	var far []offset
	farthest := k.reach
	for reach := 2 * radius; reach < max(g.Width(), g.Height()) && len(far)+8 <= len(k.offsets)/3; reach *= 2 {
		diagonal := int(math.Round(float64(reach) * math.Sqrt2 / 2))
		farthest = reach
		far = append(far,
			offset{columns: -reach}, offset{columns: reach}, offset{rows: -reach}, offset{rows: reach},
			offset{columns: -diagonal, rows: -diagonal}, offset{columns: diagonal, rows: -diagonal},
			offset{columns: -diagonal, rows: diagonal}, offset{columns: diagonal, rows: diagonal})
	}
	if len(far) == 0 || share <= 0 {
		return k
	}
	for i := range far {
		far[i].weight, far[i].far = share/float64(len(far)), true
	}
	for _, o := range k.offsets {
		far = append(far, offset{o.columns, o.rows, float64((1 - share) * o.weight), false})
	}
	slices.SortFunc(far, func(a, b offset) int { return cmp.Or(cmp.Compare(a.rows, b.rows), cmp.Compare(a.columns, b.columns)) })
	return kernel{far, farthest}
}

func displacement(g *grid.Grid, w weighted) (columns, rows int) {
	return g.Column(w.to) - g.Column(w.from), g.Row(w.to) - g.Row(w.from)
}

// class is the set of displacements of one length: squared cells, how many there are, and the transitions among them.
type class struct {
	squared, cells int
	mass           float64
}

func distanceClasses(radius int) []class {
	number := make([]int, radius*radius+1)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			if d := columns*columns + rows*rows; d < len(number) {
				number[d]++
			}
		}
	}
	var classes []class
	for d, n := range number {
		if n > 0 {
			classes = append(classes, class{squared: d, cells: n})
		}
	}
	return classes
}

// monotone returns the weight per cell of each class, made non-increasing with distance by pooling adjacent violators
// (Ayer et al. 1955, doi:10.1214/aoms/1177728423). It keeps the total.
func monotone(classes []class) []float64 {
	type pool struct {
		mass    float64
		cells   int
		classes int
	}
	height := func(p pool) float64 { return p.mass / float64(p.cells) }
	var pools []pool
	for _, c := range classes {
		pools = append(pools, pool{c.mass, c.cells, 1})
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

// jump stands in the place of from in a kernel's cells that are jumps.
const jump = grid.Cell(-1)

// around returns the kernel about a cell, cut at the grid's edges and normalized, in ascending order of cells.
func (k kernel) around(dst []weighted, g *grid.Grid, c grid.Cell) []weighted {
	dst = dst[:0]
	column, row := g.Column(c), g.Row(c)
	total := 0.0
	for _, o := range k.offsets {
		x, y := column+o.columns, row+o.rows
		if x < 0 || y < 0 || x >= g.Width() || y >= g.Height() {
			continue
		}
		total += o.weight
		from := c
		if o.far {
			from = jump
		}
		dst = append(dst, weighted{from, grid.Cell(y*g.Width() + x), o.weight})
	}
	for i := range dst {
		dst[i].weight /= total
	}
	return dst
}

// takeJumps moves the jumps' weights out of a kernel about a cell, which sums to 1: far gets them, the rest of about is normalized and has 0 in
// their places, and share is their total.
func takeJumps(about, far []weighted) (jumps []weighted, share float64) {
	far = far[:0]
	for _, w := range about {
		if w.from == jump {
			far = append(far, w)
			share += w.weight
		}
	}
	if len(far) == 0 {
		return far, 0
	}
	for i := range about {
		if about[i].from == jump {
			about[i].weight = 0
		} else {
			about[i].weight /= 1 - share
		}
	}
	return far, share
}

// addJumps gives the share of a row, which sums to 1, to jumps: cells that the row has too, in the same order.
func addJumps(row, far []weighted, share float64) {
	if len(far) == 0 {
		return
	}
	for i := range row {
		row[i].weight = float64((1 - share) * row[i].weight)
		if len(far) > 0 && far[0].to == row[i].to {
			row[i].weight += far[0].weight
			far = far[1:]
		}
	}
}
