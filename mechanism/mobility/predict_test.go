package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// densePredict is the oracle: p·M as the paper writes it, over every cell.
func densePredict(m *Matrix, p []float64) []float64 {
	next := make([]float64, len(p))
	for from, mass := range p {
		columns, values := m.Row(grid.Cell(from))
		for j, to := range columns {
			next[to] += mass * values[j]
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
	} {
		cells := m.Grid.Cells()
		p := NewPredictor(m)
		var got Distribution
		for range 20 {
			from := scattered(random, cells)
			k := random.IntN(4)
			want := dense(from, cells)
			for range k {
				want = densePredict(m.Matrices[0], want)
			}
			p.Predict(&got, from, 0, k)
			checkClose(t, &got, want)
			if math.Abs(got.Total()-1) > 1e-14 {
				t.Fatalf("total %v", got.Total())
			}
		}
		checkClean(t, p)
	}
}

// TestPredictFindsAPlantedFault shows that the comparison above can fail: marks that miss a cell
// lose its mass.
func TestPredictFindsAPlantedFault(t *testing.T) {
	m := neighbourModel(t, 9, 7, 1, true, 2)
	p := NewPredictor(m)
	m.reach[0] = &reach{start: []int64{0, 0}} // the only block reaches none
	from := uniform(m.Grid)
	want := densePredict(m.Matrices[0], dense(&from, m.Grid.Cells()))
	var got Distribution
	p.Predict(&got, &from, 0, 1)
	if worst := difference(&got, want); worst < 1e-4 {
		t.Errorf("a lost cell changes the result by %v only", worst)
	}
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

// TestClassesShareReach: classes with the same columns keep once which blocks of cells they reach.
func TestClassesShareReach(t *testing.T) {
	m := neighbourModel(t, 6, 5, 1, true, 1)
	first := m.Matrices[0]
	m.Calendar = Calendar{Hours: []int{6, 18}, Weekend: true}
	for range m.Calendar.Classes() - 2 {
		m.Matrices = append(m.Matrices, &Matrix{
			RowStart: first.RowStart, Columns: first.Columns,
			Values: slices.Clone(first.Values),
		})
	}
	m.Matrices = append(m.Matrices, &Matrix{
		RowStart: first.RowStart,
		Columns:  slices.Clone(first.Columns), Values: first.Values,
	})
	NewPredictor(m)
	if m.reach[0] != m.reach[1] || m.reach[0] != m.reach[2] || m.reach[0] == m.reach[3] {
		t.Error("classes of the same columns keep what they reach twice, or others share it")
	}
}

// jumpModel adds to each row a far cell, before and after the near ones.
func jumpModel(t testing.TB, width, height int, seed uint64) *Model {
	t.Helper()
	near := neighbourModel(t, width, height, 1, true, seed)
	random := rand.New(rand.NewPCG(seed, 9))
	m := &Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(near.Grid.Cells()) {
		columns, values := near.Matrices[0].Row(c)
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
	for _, w := range p.touched {
		if w != 0 {
			t.Fatal("a mark was left behind")
		}
	}
}
