package train

import (
	"math"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// blend merges counts and a back-off distribution, both ascending, into one normalized row.
func blend(dst, seen, about []Pair, backoff float64) []Pair {
	dst = dst[:0]
	total := backoff
	for _, w := range seen {
		total += w.Weight
	}
	for len(seen)+len(about) > 0 {
		switch {
		case len(about) == 0 || len(seen) > 0 && seen[0].To < about[0].To:
			dst = append(dst, Pair{To: seen[0].To, Weight: seen[0].Weight / total})
			seen = seen[1:]
		case len(seen) == 0 || about[0].To < seen[0].To:
			dst = append(dst, Pair{
				To:     about[0].To,
				Weight: float64(backoff*about[0].Weight) / total,
			})
			about = about[1:]
		default:
			weight := seen[0].Weight + float64(backoff*about[0].Weight)
			dst = append(dst, Pair{To: seen[0].To, Weight: weight / total})
			seen, about = seen[1:], about[1:]
		}
	}
	return dst
}

// Units of trained probabilities. Multiples of a power of two with at most 53 bits add up exactly,
// so sums are exactly 1, and their float64 has zero bytes, which deflate squeezes out. Rows have
// thousands of values at most. The initial distribution has as many as the grid has cells and needs
// the finer unit.
const (
	rowQuantum     = 1.0 / (1 << 32)
	initialQuantum = 1.0 / (1 << 48)
)

// QuantizeRow rounds the values of a row, which sum to about 1, to positive multiples of 2⁻³²
// that sum to exactly 1.
func QuantizeRow(values []float64) { quantize(values, rowQuantum) }

// quantize rounds the values, which sum to about 1, to positive multiples of the quantum that sum
// to exactly 1. The difference goes to the largest value, the first of several.
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

// Initial returns where a user may be whose past is unknown. It is the popularity of the cells,
// moved on by one kernel, with a uniform share added.
func Initial(g *grid.Grid, popularity []Pair, k Kernel, uniform float64) mobility.Distribution {
	p := make([]float64, g.Cells())
	total := 0.0
	var about []Pair
	for _, seen := range popularity {
		about = k.around(about, g, seen.From)
		for _, w := range about {
			p[w.To] += float64(seen.Weight * w.Weight)
		}
		total += seen.Weight
	}
	if total == 0 { // no fix counts: all were shared, or no step ends between two of them
		uniform, total = 1, 1
	}
	d := mobility.Distribution{Cells: make([]grid.Cell, g.Cells()), P: p}
	for c := range p {
		d.Cells[c] = grid.Cell(c)
		p[c] = float64((1-uniform)*p[c])/total + uniform/float64(len(p))
	}
	quantize(p, initialQuantum)
	return d
}
