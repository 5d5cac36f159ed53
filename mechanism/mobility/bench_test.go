package mobility

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// Rows of entries on a road-like 32×32 map, on a dense one, and with the same dense posterior on a
// thousand times larger map; then rows of a kernel, entries and jumps, on a small and a larger map.
func BenchmarkPredict(b *testing.B) {
	for _, shape := range []struct {
		name                   string
		side, radius, nonzeros int
		road, kernel           bool
	}{
		{"road 32x32", 32, 1, 245, true, false},
		{"dense 32x32", 32, 2, 800, false, false},
		{"dense 1000x1000", 1000, 2, 800, false, false},
		{"kernel 32x32", 32, 5, 610, false, true},
		{"kernel 300x300", 300, 5, 610, false, true},
	} {
		b.Run(shape.name, func(b *testing.B) {
			var m *Model
			if shape.kernel {
				m = structuredModel(b, shape.side, shape.side, shape.radius, 1)
			} else {
				m = neighbourModel(b, shape.side, shape.side, shape.radius, shape.road, 1)
			}
			from := disc(m.Grid, shape.nonzeros, 1)
			transitions := 0
			for _, c := range from.Cells {
				columns, _ := m.Matrices[0].Entries(c)
				transitions += len(columns)
			}
			p := NewPredictor(m)
			var dst Distribution
			p.Predict(&dst, from, 0, 1)
			b.ReportAllocs()
			for b.Loop() {
				p.Predict(&dst, from, 0, 1)
			}
			b.ReportMetric(float64(transitions), "transitions")
			b.ReportMetric(float64(dst.Len()), "cells")
		})
	}
}

// BenchmarkShort writes and reads posteriors on a map of 1,024 cells, rounded as a step under the
// codebook rounds them.
func BenchmarkShort(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 1))
	const side, many, least = 32, 50, 0x1p-12
	var posteriors [many]Distribution
	var encoded [many][]byte
	cells, bytes := 0, 0
	for i := range posteriors {
		x, y, sum := 10+10*random.Float64(), 10+10*random.Float64(), 0.0
		var all []grid.Cell
		var weights []float64
		for c := range side * side {
			away := math.Hypot(float64(c%side)-x, float64(c/side)-y)
			weights = append(weights, math.Exp(random.NormFloat64()/2-away/3))
			all, sum = append(all, grid.Cell(c)), sum+weights[c]
		}
		ShortOf(&posteriors[i], all, weights, 1/sum, least, 0)
		encoded[i], _ = posteriors[i].AppendShort(nil)
		cells, bytes = cells+posteriors[i].Len(), bytes+len(encoded[i])
	}
	var buffer []byte
	var d Distribution
	work := map[string]func(i int){
		"append": func(i int) { buffer, _ = posteriors[i].AppendShort(buffer[:0]) },
		"decode": func(i int) {
			if err := d.DecodeShort(encoded[i]); err != nil {
				b.Fatal(err)
			}
		},
	}
	for name, each := range work {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				each(n % many)
			}
			b.ReportMetric(float64(cells)/many, "cells")
			b.ReportMetric(float64(bytes)/many, "bytes")
		})
	}
}
