package mobility

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
)

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
	if total == 0 { // fixes, but none that counts: all were shared, or no step ends between two of them
		uniform, total = 1, 1
	}
	d := Distribution{Cells: make([]grid.Cell, g.Cells()), P: p}
	for c := range p {
		d.Cells[c] = grid.Cell(c)
		p[c] = float64((1-uniform)*p[c])/total + uniform/float64(len(p))
	}
	quantize(p, initialQuantum)
	return d
}
