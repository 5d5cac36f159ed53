package mobility

import (
	"cmp"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/grid"
)

// kernel is a radial distribution of displacements: its offsets are sorted by row, then column, and its weights sum
// to 1.
type kernel struct{ offsets []offset }

type offset struct {
	columns, rows int
	weight        float64
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
	var k kernel
	heights := monotone(classes)
	for rows := -radius; rows <= radius; rows++ {
		for columns := -radius; columns <= radius; columns++ {
			d := columns*columns + rows*rows
			if d > radius*radius {
				continue
			}
			at, _ := slices.BinarySearchFunc(classes, d, func(c class, d int) int { return cmp.Compare(c.squared, d) })
			k.offsets = append(k.offsets, offset{columns, rows, heights[at] / total})
		}
	}
	return k
}

// withJumps gives the share of k's mass to far offsets: eight directions at two, four, eight ... times the radius, as far
// as the grid reaches and as long as they are at most a third of the kernel's own entries (three distances for a radius
// of 5, one for 3, none for 2: a small radius is chosen to keep a large model small). With the kernel's spread they
// reach every cell near them in a few steps, where a teleport to all cells would make every row as long as the grid.
// The share is spread evenly over them.
func (k kernel) withJumps(g *grid.Grid, radius int, share float64) kernel {
	var far []offset
	for reach := 2 * radius; reach < max(g.Width(), g.Height()) && len(far)+8 <= len(k.offsets)/3; reach *= 2 {
		diagonal := int(math.Round(float64(reach) * math.Sqrt2 / 2))
		far = append(far,
			offset{columns: -reach}, offset{columns: reach}, offset{rows: -reach}, offset{rows: reach},
			offset{columns: -diagonal, rows: -diagonal}, offset{columns: diagonal, rows: -diagonal},
			offset{columns: -diagonal, rows: diagonal}, offset{columns: diagonal, rows: diagonal})
	}
	if len(far) == 0 || share <= 0 {
		return k
	}
	for i := range far {
		far[i].weight = share / float64(len(far))
	}
	for _, o := range k.offsets {
		far = append(far, offset{o.columns, o.rows, float64((1 - share) * o.weight)})
	}
	slices.SortFunc(far, func(a, b offset) int { return cmp.Or(cmp.Compare(a.rows, b.rows), cmp.Compare(a.columns, b.columns)) })
	return kernel{far}
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
		dst = append(dst, weighted{c, grid.Cell(y*g.Width() + x), o.weight})
	}
	for i := range dst {
		dst[i].weight /= total
	}
	return dst
}

// smooth makes the matrix: row c is (counts of c + κ·kernel about c) / (total of c + κ), the posterior mean under a
// Dirichlet prior of weight κ (Mackay and Peto 1995, doi:10.1017/S1351324900000218).
//
// There is no uniform teleport, which would make every row as long as the grid; see [kernel.withJumps].
func smooth(g *grid.Grid, transitions []weighted, k kernel, backoff float64, work *progress) (*Matrix, error) {
	cells := g.Cells()
	m := &Matrix{RowStart: make([]int64, 1, cells+1)}
	var row, about []weighted
	for c := range grid.Cell(cells) {
		if c%1024 == 0 {
			if err := work.add(min(1024, cells-int(c))); err != nil {
				return nil, err
			}
		}
		n := 0
		for n < len(transitions) && transitions[n].from == c {
			n++
		}
		about = k.around(about, g, c)
		row = blend(row, transitions[:n], about, backoff)
		transitions = transitions[n:]
		for _, w := range row {
			m.Columns = append(m.Columns, w.to)
			m.Values = append(m.Values, w.weight)
		}
		quantize(m.Values[m.RowStart[c]:], rowQuantum)
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
	}
	return m, nil
}

// blend merges counts and back-off, both ascending, into one normalized row.
func blend(dst, seen, about []weighted, backoff float64) []weighted {
	dst = dst[:0]
	total := backoff
	for _, w := range seen {
		total += w.weight
	}
	for len(seen)+len(about) > 0 {
		switch {
		case len(about) == 0 || len(seen) > 0 && seen[0].to < about[0].to:
			dst = append(dst, weighted{to: seen[0].to, weight: seen[0].weight / total})
			seen = seen[1:]
		case len(seen) == 0 || about[0].to < seen[0].to:
			dst = append(dst, weighted{to: about[0].to, weight: float64(backoff*about[0].weight) / total})
			about = about[1:]
		default:
			weight := seen[0].weight + float64(backoff*about[0].weight)
			dst = append(dst, weighted{to: seen[0].to, weight: weight / total})
			seen, about = seen[1:], about[1:]
		}
	}
	return dst
}

// The units of trained probabilities: multiples of a power of two of up to 53 bits add up exactly, so sums are exactly
// 1, and their float64 has zero bytes that deflate squeezes out. Rows have thousands of values at most; the initial
// distribution has as many as the grid has cells and needs the finer unit.
const (
	rowQuantum     = 1.0 / (1 << 32)
	initialQuantum = 1.0 / (1 << 48)
)

// quantize rounds the values, which sum to about 1, to positive multiples of the quantum that sum to exactly 1; the
// difference goes to the largest value (the first of them).
func quantize(values []float64, quantum float64) {
	largest, total := 0, 0.0
	for i, v := range values {
		values[i] = quantum * max(1, math.Round(v/quantum))
		total += values[i]
		if values[i] > values[largest] {
			largest = i
		}
	}
	values[largest] += 1 - total
}

// initial returns where a user may be found whose past is unknown: the popularity of the cells, each user capped, moved
// one kernel on, and a uniform share.
func initial(g *grid.Grid, popularity []weighted, k kernel, uniform float64) Distribution {
	p := make([]float64, g.Cells())
	total := 0.0
	var about []weighted
	for _, seen := range popularity {
		about = k.around(about, g, seen.from)
		for _, w := range about {
			p[w.to] += float64(seen.weight * w.weight)
		}
		total += seen.weight
	}
	d := Distribution{Cells: make([]grid.Cell, g.Cells()), P: p}
	for c := range p {
		d.Cells[c] = grid.Cell(c)
		p[c] = float64((1-uniform)*p[c])/total + uniform/float64(len(p))
	}
	quantize(p, initialQuantum)
	return d
}
