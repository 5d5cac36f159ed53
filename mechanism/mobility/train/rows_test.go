package train

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
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

// TestRowsAreThePosterior compares the rows, as they are stored, with the formula over every cell:
// the counts and κ times the kernel, cut at the edges, and again with the counts of a class.
func TestRowsAreThePosterior(t *testing.T) {
	for _, tt := range []struct {
		width, height, radius, classes int
		backoff, jumps                 float64
	}{
		{60, 60, 5, 0, 20, 5e-3},
		{100, 20, 2, 0, 20, -1},
		{30, 40, 1, 8, 3, 5e-3},
		{3, 2, 5, 0, 20, 5e-3},
		{9, 9, 2, 2, 1e-6, .5},
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
		m := &mobility.Model{
			Grid: g, Step: time.Minute, Kernel: learnKernel(g, all, tt.radius),
			Jumps: JumpsOf(tt.radius, tt.jumps), Initial: mobility.Uniform(g),
		}
		if tt.classes > 0 {
			m.Calendar.Hours = []int{0, 2, 4, 6, 8, 10, 12, 14}[:tt.classes]
		}
		s := smoother{grid: g, jumps: m.Jumps, backoff: tt.backoff}
		m.Matrices = s.matrices(all, classes)
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		var row mobility.Distribution
		for cell := range grid.Cell(g.Cells()) {
			jumps := m.Jumps.From(g, cell)
			together := posterior(kernelAbout(g, m.Kernel, cell), all, cell, tt.backoff)
			for class, matrix := range m.Matrices {
				want := together
				if classes != nil {
					want = posterior(together, classes[class], cell, tt.backoff)
				}
				m.Row(&row, class, cell)
				if !exactly(matrix, cell, 1-jumps) {
					t.Fatalf("row %d does not sum to exactly 1", cell)
				}
				for i, c := range row.Cells {
					apart := row.P[i] - (1-jumps)*want[c]
					if apart < -1e-8 || apart > 1e-8+jumps {
						t.Fatalf("%d×%d, class %d: row %d has %v at %d, want %v", tt.width,
							tt.height, class, cell, row.P[i], c, want[c])
					}
				}
			}
		}
	}
}

// exactly says whether the entries and the weight of the kernel sum to a number, without rounding.
func exactly(m *mobility.Matrix, c grid.Cell, want float64) bool {
	_, values := m.Entries(c)
	sum := m.Spread[c]
	for _, v := range values {
		sum += v
	}
	return sum == want
}

func kernelAbout(g *grid.Grid, k mobility.Kernel, c grid.Cell) []float64 {
	row, total := make([]float64, g.Cells()), 0.0
	for to := range grid.Cell(g.Cells()) {
		x, y := Displacement(g, c, to)
		if x, y = max(x, -x), max(y, -y); max(x, y) <= k.Radius() {
			row[to] = k.Columns[x] * k.Rows[y]
			total += row[to]
		}
	}
	for to := range row {
		row[to] /= total
	}
	return row
}

func posterior(prior []float64, seen []Pair, c grid.Cell, backoff float64) []float64 {
	row, total := make([]float64, len(prior)), backoff
	for to, p := range prior {
		row[to] = backoff * p
	}
	for _, w := range seen {
		if w.From == c {
			row[w.To] += w.Weight
			total += w.Weight
		}
	}
	for to := range row {
		row[to] /= total
	}
	return row
}
