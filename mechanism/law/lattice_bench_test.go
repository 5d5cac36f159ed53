package law

import (
	"fmt"
	"testing"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/noise"
)

// countedSource counts words.
type countedSource struct {
	noise.Source
	words int
}

func (c *countedSource) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}

// BenchmarkLattice draws from the hulls of the golden cases, one of each number of vertices, of a
// thousand cells' thin diagonal and of a whole map.
func BenchmarkLattice(b *testing.B) {
	large := testcase.Grid(b, 1000, 1000, .34)
	var diagonal, all []grid.Cell
	for i := range 1000 {
		diagonal = append(diagonal, grid.Cell(i*1000+i), grid.Cell(i*1000+min(i+1+i%3, 999)))
	}
	for i := range 1000 {
		all = append(all, grid.Cell(i*1000), grid.Cell(i*1000+999))
	}
	hulls := map[string]*SensitivityHull{
		"diagonal of 1000": hullOf(large, diagonal...),
		"map of 1000×1000": hullOf(large, all...),
	}
	for _, c := range testcase.Golden(b, "../testdata/golden") {
		if c.Grid == nil || len(c.K) < 2 {
			continue
		}
		g := testcase.Grid(b, c.Grid.W, c.Grid.H, c.Grid.Cell)
		hulls[fmt.Sprintf("%02d vertices", len(c.K))] = hullOf(g, c.DeltaSet...)
	}
	src := &countedSource{Source: noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil)}
	for name, h := range hulls {
		m := newLattice(b, DefaultSubdivision)
		b.Run(name+"/prepare", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Prepare(h, 1)
			}
		})
		m.Prepare(h, 1)
		b.Run(name+"/sample", func(b *testing.B) {
			b.ReportAllocs()
			src.words = 0
			for b.Loop() {
				m.Sample(src, 0)
			}
			b.ReportMetric(float64(src.words)/float64(b.N), "words/op")
			if h.body.Dim() == 2 {
				const n = 10_000
				tries := 0
				for range n {
					for ok := false; !ok; tries++ {
						_, ok = m.try(src, convex.Lattice{})
					}
				}
				b.ReportMetric(float64(tries)/n, "trials/op")
			}
		})
	}
}

func BenchmarkSampledIsotropy(b *testing.B) {
	g, err := grid.Plain(32, 32, .34)
	if err != nil {
		b.Fatal(err)
	}
	var hull SensitivityHull
	hull.OfCells(g, []grid.Cell{0, 7, 100, 240, 500})
	src := noise.NewKeyed(noise.KeyFromSeed(1)).Stream(nil)
	b.ReportAllocs()
	for b.Loop() {
		SampledIsotropy(src, &hull)
	}
}
