package mobility

import "testing"

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
