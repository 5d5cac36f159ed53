package private

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/mobility/train"
)

// BenchmarkPrivateRows makes a city's matrix from noisy counts of all pairs of cells: 300 × 300
// cells, radius 5. It is linear in the number of cells.
func BenchmarkPrivateRows(b *testing.B) {
	tr, err := train.New(plainGrid(b, 300, 300), time.Minute, train.Options{KeepShared: true})
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Epsilon: "1", Contribution: 50, Radius: 5}
	b.ReportAllocs()
	for b.Loop() {
		run := privateRun(b, tr, o, 1)
		first, further := run.scales(3)
		last := run.levels()[0].first(make([]float64, len(run.rings)), first)
		matrices, _, err := run.rows(last, &cellCounts{scale: further})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(matrices[0].Transitions()), "entries")
	}
}
