package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// densePredict is the oracle: p·M as the paper writes it, over every cell, with whole rows.
func densePredict(m *Model, step int64, p []float64) []float64 {
	next := make([]float64, len(p))
	var row Distribution
	for from, mass := range p {
		m.Row(&row, m.ClassAt(step), grid.Cell(from))
		for j, to := range row.Cells {
			next[to] += mass * row.P[j]
		}
	}
	return next
}

func dense(d *Distribution, cells int) []float64 {
	p := make([]float64, cells)
	for i, c := range d.Cells {
		p[c] = d.P[i]
	}
	return p
}

func TestPredictEqualsDense(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	for _, m := range []*Model{
		neighbourModel(t, 1, 1, 2, false, 1),
		neighbourModel(t, 9, 7, 1, true, 2),
		neighbourModel(t, 70, 5, 2, false, 3), // a row of the map spans words of the bitmap
		neighbourModel(t, 80, 90, 3, false, 4),
		jumpModel(t, 70, 70, 5),
		structuredModel(t, 1, 1, 2, 1), structuredModel(t, 3, 2, 5, 2),
		structuredModel(t, 24, 36, 5, 3), structuredModel(t, 530, 5, 3, 4),
		structuredModel(t, 41, 29, 1, 5), structuredModel(t, 61, 70, 12, 6),
	} {
		cells := m.Grid.Cells()
		p := NewPredictor(m)
		var got Distribution
		for range 20 {
			from := scattered(random, cells)
			k, at := random.IntN(4), int64(random.IntN(2000))
			want := dense(from, cells)
			for i := range k {
				want = densePredict(m, at+int64(i), want)
			}
			p.Predict(&got, from, at, k)
			checkClose(t, &got, want)
			if math.Abs(got.Total()-1) > 1e-14 {
				t.Fatalf("total %v", got.Total())
			}
		}
		checkClean(t, p)
	}
}

// TestPredictFindsAPlantedFault shows that the comparison above can fail: another kernel, another
// share of jumps, or one entry that is lost.
func TestPredictFindsAPlantedFault(t *testing.T) {
	good := structuredModel(t, 24, 36, 5, 3)
	from := uniform(good.Grid)
	want := densePredict(good, 0, dense(&from, good.Grid.Cells()))
	for name, plant := range map[string]func(*Model){
		"kernel": func(m *Model) { slices.Reverse(m.Kernel.Rows) },
		"jumps":  func(m *Model) { m.Jumps.Share *= .9 },
		"entry":  func(m *Model) { m.Matrices[1].Values[7] = 0 },
	} {
		m := structuredModel(t, 24, 36, 5, 3)
		plant(m)
		var got Distribution
		NewPredictor(m).Predict(&got, &from, 0, 1)
		if worst := difference(&got, want); worst < 1e-7 {
			t.Errorf("another %s changes the result by %v only", name, worst)
		}
	}
}

// TestPredictOfIslands: mass at two ends of a large map, and far more cells between them than are
// touched.
func TestPredictOfIslands(t *testing.T) {
	m := structuredModel(t, 1500, 800, 5, 1)
	m.Jumps = Jumps{}
	for _, matrix := range m.Matrices {
		matrix.RowStart = make([]int64, m.Grid.Cells()+1)
	}
	p := NewPredictor(m)
	islands := Distribution{
		Cells: []grid.Cell{0, 1499, 1500*400 + 30, 1500*400 + 900, 1500*800 - 1},
		P:     []float64{.2, .2, .2, .2, .2},
	}
	var got Distribution
	p.Predict(&got, &islands, 0, 1)
	if want := 3*6*6 + 2*11*11; got.Len() != want {
		t.Errorf("five cells reach %d, want %d", got.Len(), want)
	}
	for i, c := range islands.Cells {
		var one, row Distribution
		p.Predict(&one, &Distribution{Cells: []grid.Cell{c}, P: []float64{1}}, 0, 1)
		m.Row(&row, 0, c)
		row.Normalize()
		for j, to := range row.Cells {
			if math.Abs(one.At(to)-row.P[j]) > 1e-15 {
				t.Fatalf("island %d: %d has %v, want %v", i, to, one.At(to), row.P[j])
			}
		}
	}
	checkClean(t, p)
}

func TestPredictIntoItsArgument(t *testing.T) {
	m := neighbourModel(t, 20, 20, 2, false, 1)
	from := disc(m.Grid, 30, 1)
	for k := range 4 {
		var apart, same Distribution
		same.CopyFrom(from)
		NewPredictor(m).Predict(&apart, from, 0, k)
		NewPredictor(m).Predict(&same, &same, 0, k)
		if !slices.Equal(apart.Cells, same.Cells) || !slices.Equal(apart.P, same.P) {
			t.Errorf("k=%d: predicting in place differs", k)
		}
	}
}

func TestPredictOfTinyAndEmpty(t *testing.T) {
	m := neighbourModel(t, 5, 5, 1, true, 1)
	p := NewPredictor(m)
	var got Distribution
	p.Predict(&got, &Distribution{}, 0, 2)
	if got.Len() != 0 {
		t.Errorf("%d cells out of none", got.Len())
	}
	tiny := Distribution{Cells: []grid.Cell{0, 24}, P: []float64{5e-324, 1}}
	p.Predict(&got, &tiny, 0, 1)
	for i, v := range got.P {
		if !(v > 0) {
			t.Errorf("cell %d has mass %v", got.Cells[i], v)
		}
	}
	checkClean(t, p)
}

func TestPredictPruned(t *testing.T) {
	m := neighbourModel(t, 200, 200, 2, false, 1)
	from := &Distribution{Cells: []grid.Cell{100*200 + 100}, P: []float64{1}}
	var full, pruned Distribution
	p := NewPredictor(m)
	const k, threshold = 12, 1e-7
	p.Predict(&full, from, 0, k)
	p.PredictPruned(&pruned, from, 0, k, threshold)
	if pruned.Len() >= full.Len() {
		t.Errorf("%d cells with pruning, %d without", pruned.Len(), full.Len())
	}
	// Each of the k-1 prunings drops at most Len·threshold and the rest is scaled up by as much.
	bound := 2 * k * float64(full.Len()) * threshold
	moved := 0.0
	want := dense(&full, m.Grid.Cells())
	for i, v := range dense(&pruned, m.Grid.Cells()) {
		moved += math.Abs(v - want[i])
	}
	if moved > bound || moved == 0 {
		t.Errorf("pruning moved %g of the mass, the bound is %g", moved, bound)
	}
}

// TestPredictPrunedBoundsTheLoss predicts from a uniform share of a tenth, every cell of which is
// below the threshold.
func TestPredictPrunedBoundsTheLoss(t *testing.T) {
	m := neighbourModel(t, 300, 300, 1, true, 1)
	from := uniform(m.Grid)
	from.P[300*150+150] += 9
	from.Normalize()
	const k, threshold = 3, 1e-5
	p := NewPredictor(m)
	var full, pruned Distribution
	p.Predict(&full, &from, 0, k)
	p.PredictPruned(&pruned, &from, 0, k, threshold)
	if full.P[0] > threshold {
		t.Fatalf("a cell of the uniform share has %g", full.P[0])
	}
	kept := 0.0
	for i, v := range dense(&pruned, m.Grid.Cells()) {
		if v > 0 {
			kept += full.P[i]
		}
	}
	if least := 1 - k*PruneCells*threshold; kept < least {
		t.Errorf("the cells kept have %v of the mass, the bound is %v", kept, least)
	}
}

// jumpModel adds to each row a far cell, before and after the near ones.
func jumpModel(t testing.TB, width, height int, seed uint64) *Model {
	t.Helper()
	near := neighbourModel(t, width, height, 1, true, seed)
	random := rand.New(rand.NewPCG(seed, 9))
	m := &Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(near.Grid.Cells()) {
		columns, values := near.Matrices[0].Entries(c)
		row := map[grid.Cell]float64{grid.Cell(random.IntN(near.Grid.Cells())): .5}
		for i, to := range columns {
			row[to] += values[i] / 2
		}
		for to := range grid.Cell(near.Grid.Cells()) {
			if v := row[to]; v > 0 {
				m.Columns, m.Values = append(m.Columns, to), append(m.Values, v)
			}
		}
		m.RowStart = append(m.RowStart, int64(len(m.Columns)))
	}
	near.Matrices[0] = m
	return near
}

// scattered returns a distribution over a few random cells.
func scattered(random *rand.Rand, cells int) *Distribution {
	d := &Distribution{}
	share := random.Float64()
	for c := range grid.Cell(cells) {
		if random.Float64() < share || int(c) == cells-1 && d.Len() == 0 {
			d.Cells = append(d.Cells, c)
			d.P = append(d.P, random.ExpFloat64())
		}
	}
	d.Normalize()
	return d
}

func difference(got *Distribution, want []float64) float64 {
	worst := 0.0
	for c, v := range dense(got, len(want)) {
		worst = max(worst, math.Abs(v-want[c]))
	}
	return worst
}

func checkClose(t *testing.T, got *Distribution, want []float64) {
	t.Helper()
	if !slices.IsSorted(got.Cells) {
		t.Fatal("the cells do not ascend")
	}
	if worst := difference(got, want); worst > 1e-14 {
		t.Fatalf("off by %g", worst)
	}
}

// checkClean checks that a predictor left its window as it found it.
func checkClean(t *testing.T, p *Predictor) {
	t.Helper()
	for _, v := range p.mass {
		if v != 0 {
			t.Fatal("mass was left behind")
		}
	}
	for _, values := range [][]float64{p.smooth.line, p.smooth.rows, p.jumping} {
		for _, v := range values {
			if v != 0 {
				t.Fatal("scratch was left behind")
			}
		}
	}
	for _, w := range slices.Concat(p.touched, p.smooth.marks) {
		if w != 0 {
			t.Fatal("a mark was left behind")
		}
	}
}
