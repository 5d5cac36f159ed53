package mobility

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// cityModel is as training leaves a city: side × side cells, of which a share lie on roads; a row
// on a road has its own probabilities, of the cells within the radius, and any other row the
// kernel's.
func cityModel(t testing.TB, side, radius int, roads float64) *Model {
	t.Helper()
	g, err := grid.New(grid.Box{
		South: 39.5, West: 115.9, North: 39.5 + float64(side)*.0009,
		East: 115.9 + float64(side)*.00117,
	}, 100)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	m := &Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(g.Cells()) {
		own, total, start := random.Float64() < roads, 0.0, len(m.Values)
		for dy := -radius; dy <= radius; dy++ {
			for dx := -radius; dx <= radius; dx++ {
				x, y := g.Column(c)+dx, g.Row(c)+dy
				if dx*dx+dy*dy > radius*radius || x < 0 || y < 0 || x >= g.Width() ||
					y >= g.Height() {
					continue
				}
				v := math.Exp(-float64(dx*dx+dy*dy) / 2)
				if own {
					v *= random.ExpFloat64()
				}
				m.Columns, m.Values = append(m.Columns, grid.Cell(y*g.Width()+x)),
					append(m.Values, v)
				total += v
			}
		}
		for i := start; i < len(m.Values); i++ {
			m.Values[i] /= total
		}
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
	}
	return &Model{Grid: g, Step: time.Minute, Matrices: []*Matrix{m}, Initial: uniform(g)}
}

// Files of a city of a million cells of 100 m, a tenth of them on roads, and of one as small as the
// shipped sample's. "MB" is what the model takes in memory, "file-MB" its file. With -short only
// the small one.
func BenchmarkModelFile(b *testing.B) {
	for _, size := range []struct {
		name         string
		side, radius int
	}{{"30x30 radius 5", 30, 5}, {"1000x1000 radius 2", 1000, 2}, {"1000x1000 radius 5", 1000, 5}} {
		if testing.Short() && size.side > 100 {
			continue
		}
		m := cityModel(b, size.side, size.radius, .1)
		var file bytes.Buffer
		report := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(m.Transitions())*12/1e6, "MB")
			b.ReportMetric(float64(file.Len())/1e6, "file-MB")
		}
		b.Run("write "+size.name, func(b *testing.B) {
			for b.Loop() {
				file.Reset()
				if err := m.Write(&file); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
		b.Run("read "+size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadModel(bytes.NewReader(file.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
	}
}
