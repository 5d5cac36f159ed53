package mobility

import "testing"

// Three shapes: a road-like 32×32 map, a dense one, and the same dense posterior on a
// thousand times larger map.
func BenchmarkPredict(b *testing.B) {
	for _, shape := range []struct {
		name                   string
		side, radius, nonzeros int
		road                   bool
	}{
		{"road 32x32", 32, 1, 245, true},
		{"dense 32x32", 32, 2, 800, false},
		{"dense 1000x1000", 1000, 2, 800, false},
	} {
		b.Run(shape.name, func(b *testing.B) {
			m := neighbourModel(b, shape.side, shape.side, shape.radius, shape.road, 1)
			from := disc(m.Grid, shape.nonzeros, 1)
			transitions := 0
			for _, c := range from.Cells {
				columns, _ := m.Matrices[0].Row(c)
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
