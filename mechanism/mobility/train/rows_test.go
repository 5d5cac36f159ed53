package train

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/parallel"
)

// transitions returns the moves of random walks, ascending by cells, with weights of a user's cap.
func transitions(g *grid.Grid, walks, moves int, seed uint64) (list []Pair) {
	random := rand.New(rand.NewPCG(seed, 4))
	number := map[[2]grid.Cell]float64{}
	for range walks {
		x, y := random.IntN(g.Width()), random.IntN(g.Height())
		for i := range moves {
			from := grid.Cell(y*g.Width() + x)
			reach := 1
			if i%50 == 49 { // beyond every kernel
				reach = 30
			}
			x = min(max(x+random.IntN(2*reach+1)-reach, 0), g.Width()-1)
			y = min(max(y+random.IntN(2*reach+1)-reach, 0), g.Height()-1)
			number[[2]grid.Cell{from, grid.Cell(y*g.Width() + x)}] += random.Float64()
		}
	}
	for pair, n := range number {
		list = append(list, Pair{pair[0], pair[1], n})
	}
	return mergePairs(list)
}

// TestMatricesEqualOneByOne compares the rows, which tasks fill side by side and mostly copy, with
// each computed by itself: the same bits.
func TestMatricesEqualOneByOne(t *testing.T) {
	for _, tt := range []struct {
		width, height, radius, classes int
		backoff, jumps                 float64
	}{
		{90, 90, 5, 0, 20, 5e-3},
		{200, 40, 2, 0, 20, -1},
		{70, 70, 1, 8, 3, 5e-3},
		{3, 2, 5, 0, 20, 5e-3},
	} {
		g, err := grid.Plain(tt.width, tt.height, 1)
		if err != nil {
			t.Fatal(err)
		}
		var classes [][]Pair
		all := transitions(g, 6, 300, 2)
		for class := range tt.classes {
			own := transitions(g, 1, 100, uint64(class+10))
			classes = append(classes, own)
			all = append(all, own...)
		}
		all = mergePairs(all)
		k := learnKernel(g, all, tt.radius).WithJumps(g, tt.radius, tt.jumps)
		s := newSmoother(g, k, tt.backoff, all, classes)
		work := &parallel.Progress{Report: func(int64, int64) error { return nil }}
		entries, err := s.measure(work)
		if err != nil {
			t.Fatal(err)
		}
		matrices, err := s.matrices(work)
		if err != nil {
			t.Fatal(err)
		}
		if len(matrices) != max(1, tt.classes) || matrices[0].Transitions() != int(entries) {
			t.Fatalf("%d matrices of %d entries, measured %d", len(matrices),
				matrices[0].Transitions(), entries)
		}
		copied := 0
		for cell := range grid.Cell(g.Cells()) {
			if k.inside(g, cell) {
				copied++
			}
			of := func(list []Pair) (found []Pair) {
				for _, w := range list {
					if w.From == cell {
						found = append(found, w)
					}
				}
				return found
			}
			about := k.around(nil, g, cell)
			far, share := takeJumps(about, nil)
			together := blend(nil, of(all), about, tt.backoff)
			for class, matrix := range matrices {
				row := slices.Clone(together)
				if classes != nil && len(of(classes[class])) > 0 {
					row = blend(nil, of(classes[class]), together, tt.backoff)
				}
				addJumps(row, far, share)
				var columns []grid.Cell
				var values []float64
				for _, w := range row {
					columns, values = append(columns, w.To), append(values, w.Weight)
				}
				QuantizeRow(values)
				if gotColumns, gotValues := matrix.Row(cell); !slices.Equal(columns, gotColumns) ||
					!slices.Equal(values, gotValues) {
					t.Fatalf("%d×%d, class %d: row %d differs", tt.width, tt.height, class, cell)
				}
			}
		}
		if copied == 0 && tt.width > 2*tt.radius {
			t.Errorf("%d×%d: no row lies within the edges", tt.width, tt.height)
		}
		for class, m := range matrices {
			if err := m.Validate(g.Cells()); err != nil {
				t.Errorf("class %d: %v", class, err)
			}
		}
	}
}
