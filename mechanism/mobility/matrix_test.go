package mobility

import (
	"math"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

func TestMatrixValidate(t *testing.T) {
	good := func() *Matrix {
		return &Matrix{
			RowStart: []int64{0, 2, 3}, Columns: []grid.Cell{0, 1, 1},
			Values: []float64{.25, .75, 1},
		}
	}
	of := plainGrid(t, 2, 1)
	if err := good().validate(of, Kernel{}, Jumps{}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Matrix)
		says   string
	}{
		"a row too few":  {func(m *Matrix) { m.RowStart = m.RowStart[:2] }, "2 "},
		"no row start":   {func(m *Matrix) { m.RowStart = nil }, "-1 rows"},
		"values missing": {func(m *Matrix) { m.Values = m.Values[:2] }, "2 values"},
		"not from 0":     {func(m *Matrix) { m.RowStart[0] = 1 }, "cover"},
		"not to the end": {func(m *Matrix) { m.RowStart[2] = 2 }, "cover"},
		"empty row": {func(m *Matrix) {
			m.RowStart[1] = 0
		}, "row 0 of the matrix: the probabilities sum to 0"},
		"falling":            {func(m *Matrix) { m.RowStart[1] = -1 }, "row 0"},
		"a needless kernel":  {func(m *Matrix) { m.Spread = []float64{0, 0} }, "fit the rows"},
		"row beyond the end": {func(m *Matrix) { m.RowStart[1] = 9 }, "row 0"},
		"column twice":       {func(m *Matrix) { m.Columns[1] = 0 }, "ascend"},
		"negative column":    {func(m *Matrix) { m.Columns[0] = -1 }, "ascend"},
		"column too large":   {func(m *Matrix) { m.Columns[2] = 2 }, "lies outside"},
		"zero":               {func(m *Matrix) { m.Values[0] = 0 }, "is not positive"},
		"not a number":       {func(m *Matrix) { m.Values[0] = math.NaN() }, "is not positive"},
		"sum":                {func(m *Matrix) { m.Values[0] = .26 }, "sum to 1.01"},
	} {
		m := good()
		tt.change(m)
		if err := m.validate(of, Kernel{}, Jumps{}); err == nil ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}

// TestSampleFollowsTheRow draws from a row and compares frequencies by χ². 9 degrees of freedom,
// the .9999 quantile is 33.72: a false alarm in 1e-4 of seeds, and the seed is fixed.
func TestSampleFollowsTheRow(t *testing.T) {
	const draws, quantile = 100_000, 33.72
	values := []float64{.02, .18, .05, .15, .1, .1, .1, .1, .12, .08}
	m := &Matrix{RowStart: []int64{0, 10}, Values: values}
	for c := range grid.Cell(10) {
		m.Columns = append(m.Columns, c)
	}
	model := &Model{
		Grid: plainGrid(t, 5, 2), Matrices: []*Matrix{m},
		Initial: Distribution{Cells: m.Columns, P: values},
	}
	// The same row in parts: a thirty-second by a kernel, a sixteenth by jumps, the rest as
	// entries.
	parts := &Model{
		Grid: model.Grid, Jumps: Jumps{Side: 3, Share: 1. / 16},
		Kernel: Kernel{
			Columns: []float64{.3, .2, .1, .05, .02}, Rows: []float64{.6, .2, 0, 0, 0},
		},
		Matrices: []*Matrix{{RowStart: make([]int64, 11), Spread: make([]float64, 10)}},
	}
	parts.Matrices[0].Spread[0] = 1. / 32
	var about Distribution
	parts.Row(&about, 0, 0)
	entries := &Matrix{RowStart: []int64{0}, Spread: parts.Matrices[0].Spread}
	for c, v := range values {
		if rest := v - about.At(grid.Cell(c)); rest > 0 {
			entries.Columns, entries.Values = append(entries.Columns, grid.Cell(c)),
				append(entries.Values, rest)
		}
	}
	for range 10 {
		entries.RowStart = append(entries.RowStart, int64(len(entries.Columns)))
	}
	parts.Matrices[0] = entries
	statistic := func(draw func(Source) grid.Cell) float64 {
		seen := make([]float64, 10)
		src := pcg(7)
		for range draws {
			seen[draw(src)]++
		}
		chi := 0.0
		for c, n := range seen {
			expected := draws * values[c]
			chi += (n - expected) * (n - expected) / expected
		}
		return chi
	}
	if chi := statistic(func(s Source) grid.Cell {
		return model.SampleNext(s, 0, 0)
	}); chi > quantile {
		t.Errorf("next: χ² = %.1f", chi)
	}
	if chi := statistic(func(s Source) grid.Cell {
		return parts.SampleNext(s, 0, 0)
	}); chi > quantile {
		t.Errorf("next, in parts: χ² = %.1f", chi)
	}
	if chi := statistic(model.SampleInitial); chi > quantile {
		t.Errorf("initial: χ² = %.1f", chi)
	}
	planted := func(s Source) grid.Cell { // the last cell takes what the first should have
		c := model.SampleNext(s, 0, 0)
		if c == 0 {
			return 9
		}
		return c
	}
	if chi := statistic(planted); chi <= quantile {
		t.Errorf("a sampler that never draws the first cell passes: χ² = %.1f", chi)
	}
}

type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

func TestSampleAtTheEnds(t *testing.T) {
	model := &Model{Initial: Distribution{Cells: []grid.Cell{4, 8}, P: []float64{.5, .5 - 1e-10}}}
	if c := model.SampleInitial(constant(0)); c != 4 {
		t.Errorf("lowest: %d", c)
	}
	if c := model.SampleInitial(constant(math.MaxUint64)); c != 8 {
		t.Errorf("highest: %d", c)
	}
	alone := &Model{ // a row without a share of the model's kernel
		Grid:   plainGrid(t, 3, 1),
		Kernel: Kernel{Columns: []float64{.5, .25}, Rows: []float64{1, 0}},
		Matrices: []*Matrix{{
			RowStart: []int64{0, 1, 1, 1}, Columns: []grid.Cell{0}, Values: []float64{1 - 1e-10},
			Spread: []float64{0, 1, 1},
		}},
	}
	if c := alone.SampleNext(constant(math.MaxUint64), 0, 0); c != 0 {
		t.Errorf("highest of a row of one entry: %d", c)
	}
}
