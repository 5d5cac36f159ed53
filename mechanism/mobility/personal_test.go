package mobility

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// ownCounts returns random counts of some cells, near and far.
func ownCounts(g *grid.Grid, rows int, seed uint64) PersonalCounts {
	random := rand.New(rand.NewPCG(seed, 11))
	found := map[[2]grid.Cell]float64{}
	for range rows {
		from := grid.Cell(random.IntN(g.Cells()))
		for range 1 + random.IntN(4) {
			found[[2]grid.Cell{from, grid.Cell(random.IntN(g.Cells()))}] = float64(
				1 + random.IntN(50))
		}
	}
	c := PersonalCounts{Weight: 7}
	visits := make([]float64, g.Cells())
	for from := range grid.Cell(g.Cells()) {
		for to := range grid.Cell(g.Cells()) {
			if n := found[[2]grid.Cell{from, to}]; n > 0 {
				c.Transitions = append(c.Transitions, Count{from, to, n})
				visits[to] += n
			}
		}
	}
	for cell, n := range visits {
		if n > 0 {
			c.Visits = append(c.Visits, Count{grid.Cell(cell), grid.Cell(cell), n})
		}
	}
	return c
}

func personal(t testing.TB, popular *Model, c PersonalCounts) *Personal {
	t.Helper()
	p, err := NewPersonal(popular, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// materialized is the oracle: every row of the personal model in full.
func materialized(m *Model, c PersonalCounts) *Model {
	full := &Model{Grid: m.Grid, Step: m.Step, Calendar: m.Calendar}
	cells := m.Grid.Cells()
	var whole Distribution
	for class := range m.Matrices {
		next := &Matrix{RowStart: []int64{0}}
		for from := range grid.Cell(cells) {
			row := make([]float64, cells)
			n := 0.0
			for _, own := range c.Transitions {
				if own.From == from {
					n += own.N
				}
			}
			m.Row(&whole, class, from)
			for i, to := range whole.Cells {
				row[to] = whole.P[i] * c.Weight / (n + c.Weight)
			}
			for _, own := range c.Transitions {
				if own.From == from {
					row[own.To] += own.N / (n + c.Weight)
				}
			}
			for to, v := range row {
				if v > 0 {
					next.Columns, next.Values = append(next.Columns, grid.Cell(to)),
						append(next.Values, v)
				}
			}
			next.RowStart = append(next.RowStart, int64(len(next.Columns)))
		}
		full.Matrices = append(full.Matrices, next)
	}
	return full
}

// TestPersonalEqualsMaterialized predicts by the own rows over the popular ones, and by rows that
// hold both.
func TestPersonalEqualsMaterialized(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	classes := neighbourModel(t, 20, 20, 1, false, 6)
	classes.Calendar = Calendar{Hours: []int{6, 18}}
	classes.Matrices = append(classes.Matrices, neighbourModel(t, 20, 20, 2, false, 7).Matrices[0])
	for _, m := range []*Model{
		neighbourModel(t, 1, 1, 1, true, 1),
		neighbourModel(t, 9, 7, 1, true, 2), jumpModel(t, 70, 30, 5), classes,
		structuredModel(t, 33, 20, 4, 8),
	} {
		cells := m.Grid.Cells()
		counts := ownCounts(m.Grid, cells/4+1, 3)
		full := materialized(m, counts)
		p := NewPredictor(m)
		p.Use(personal(t, m, counts))
		var got Distribution
		for range 20 {
			from, at, k := scattered(random, cells), random.Int64N(3000), random.IntN(4)
			want := dense(from, cells)
			for i := range k {
				want = densePredict(full, at+int64(i), want)
			}
			p.Predict(&got, from, at, k)
			checkClose(t, &got, want)
		}
		checkClean(t, p)

		// And back to the popular model.
		from := scattered(random, cells)
		p.Use(nil)
		p.Predict(&got, from, 0, 2)
		checkClose(t, &got, densePredict(m, 1, densePredict(m, 0, dense(from, cells))))
	}
}

func TestPersonalInitial(t *testing.T) {
	m := neighbourModel(t, 2, 2, 1, false, 1)
	m.Initial = Distribution{Cells: []grid.Cell{1, 3}, P: []float64{.5, .5}}
	var got Distribution
	personal(t, m, PersonalCounts{Weight: 10, Visits: []Count{{0, 0, 5}, {3, 3, 25}}}).Initial(&got)
	// 30 visits against 10: .9·.75 of the mass is the user's own.
	want := []float64{.675 / 6, .325 / 2, 0, .325/2 + .675*5/6}
	checkClose(t, &got, want)
	personal(t, m, PersonalCounts{}).Initial(&got)
	if !slices.Equal(got.P, m.Initial.P) || !slices.Equal(got.Cells, m.Initial.Cells) {
		t.Error("a user without visits starts elsewhere than the popular model")
	}
	personal(t, m, PersonalCounts{Visits: []Count{{2, 2, 1e9}}}).Initial(&got)
	if left := 1 - dense(&got, 4)[2]; math.Abs(left-popularStarts) > 1e-6 {
		t.Errorf("many visits leave %v to the popular model", left)
	}
}

func TestNewPersonalRefuses(t *testing.T) {
	m := neighbourModel(t, 3, 3, 1, true, 1)
	for name, tt := range map[string]struct {
		counts PersonalCounts
		want   string
	}{
		"weight":      {PersonalCounts{Weight: -1}, "weight"},
		"no weight":   {PersonalCounts{Weight: math.NaN()}, "weight"},
		"cell":        {PersonalCounts{Transitions: []Count{{1, 9, 1}}}, "cell"},
		"minus":       {PersonalCounts{Transitions: []Count{{-1, 1, 1}}}, "cell"},
		"zero":        {PersonalCounts{Transitions: []Count{{1, 1, 0}}}, "positive"},
		"no number":   {PersonalCounts{Visits: []Count{{1, 1, math.NaN()}}}, "positive"},
		"infinite":    {PersonalCounts{Visits: []Count{{1, 1, math.Inf(1)}}}, "positive"},
		"twice":       {PersonalCounts{Transitions: []Count{{1, 1, 1}, {1, 1, 1}}}, "ascend"},
		"order":       {PersonalCounts{Transitions: []Count{{2, 1, 1}, {1, 2, 1}}}, "ascend"},
		"two in one":  {PersonalCounts{Visits: []Count{{1, 2, 1}}}, "two cells"},
		"visit cells": {PersonalCounts{Visits: []Count{{9, 9, 1}}}, "cell"},
	} {
		if _, err := NewPersonal(m, tt.counts); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewPersonal(nil, PersonalCounts{}); err == nil {
		t.Error("no popular model: no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("following a user of another model did not panic")
		}
	}()
	NewPredictor(m).Use(personal(t, neighbourModel(t, 3, 3, 1, true, 2), PersonalCounts{}))
}
