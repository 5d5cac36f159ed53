package mechanism

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// What the tests of this package share: sanitizers and their steps, mechanisms, models, walks.

// newSanitizer makes a sanitizer under the key of seed 1.
func newSanitizer(tb testing.TB, m *mobility.Model, o Options) *Sanitizer {
	tb.Helper()
	return sanitizerWith(tb, m, noise.NewKeyed(noise.KeyFromSeed(1)), o)
}

// sanitizerWith takes the lattice where a test names no mechanism: those are the tests of location
// sets, surrogates and padding, and of rules that are the same under each mechanism.
func sanitizerWith(tb testing.TB, m *mobility.Model, streams noise.Streams, o Options) *Sanitizer {
	tb.Helper()
	o.Mechanism = cmp.Or(o.Mechanism, law.Lattice)
	s, err := NewSanitizer(m, streams, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func mustStep(tb testing.TB, s *Sanitizer, state *State, in Input) Outcome {
	tb.Helper()
	out, err := s.Step(state, in)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// follow steps a new user through reports at some steps, all with a release wanted, and returns the
// outcomes.
func follow(t *testing.T, s *Sanitizer, state *State, steps ...int64) []Outcome {
	t.Helper()
	path := walk(s.model, 3, 400)
	var outs []Outcome
	for _, step := range steps {
		before := state.AppendBinary(nil)
		out := mustStep(t, s, state, Input{
			User: "u", Step: step, Cell: path[step%400],
			Release: true,
		})
		if same := bytes.Equal(before, state.AppendBinary(nil)); same == out.Changed {
			t.Errorf("step %d: the state stays: %t, but the outcome is %+v", step, same, out)
		}
		outs = append(outs, out)
	}
	return outs
}

// kindsOf is a short text of outcomes: the kinds' first letters, a capital where the state has
// changed.
func kindsOf(outs []Outcome) string {
	text := ""
	for _, o := range outs {
		letter := map[Kind]string{
			Released: "r", Repeated: "=", Predicted: "p", Late: "l",
			Skipped: "s", Suppressed: "x",
		}[o.Kind]
		if o.Changed {
			letter = strings.ToUpper(letter)
			if o.Kind == Repeated {
				letter = "≠"
			}
		}
		text += letter
	}
	return text
}

func copyState(s *State) State {
	var c State
	c.CopyFrom(s)
	return c
}

func mustMechanism(tb testing.TB, name string) law.Mechanism {
	tb.Helper()
	m, err := law.New(law.Options{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Models for tests and benchmarks. Weights are fixed numbers, so the figures they lead to can be
// repeated.

// weightedModel builds a model from the unnormalized weight of every move (dx, dy) with |dx|, |dy|
// ≤ reach, and starts at the middle.
func weightedModel(
	tb testing.TB, width, height, reach int, cellKM float64,
	weight func(column, row, dx, dy int) float64,
) *mobility.Model {
	tb.Helper()
	g, err := grid.Plain(width, height, cellKM)
	if err != nil {
		tb.Fatal(err)
	}
	m := &mobility.Matrix{RowStart: []int64{0}}
	for row := range height {
		for column := range width {
			first, total := len(m.Values), 0.0
			for dy := -reach; dy <= reach; dy++ {
				for dx := -reach; dx <= reach; dx++ {
					x, y := column+dx, row+dy
					if x < 0 || y < 0 || x >= width || y >= height {
						continue
					}
					if w := weight(column, row, dx, dy); w > 0 {
						m.Columns = append(m.Columns, grid.Cell(y*width+x))
						m.Values = append(m.Values, w)
						total += w
					}
				}
			}
			for i := first; i < len(m.Values); i++ {
				m.Values[i] /= total
			}
			m.RowStart = append(m.RowStart, int64(len(m.Values)))
		}
	}
	middle := grid.Cell(height/2*width + width/2)
	model := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m},
		Initial: mobility.Distribution{Cells: []grid.Cell{middle}, P: []float64{1}},
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// roadModel is a town of 32×32 cells with a street every fourth row and column. Vehicles mostly
// stay or go on along their street; elsewhere they drift to a street.
func roadModel(tb testing.TB) *mobility.Model {
	tb.Helper()
	const every, stay, along, off = 4, 100, 4, .01
	street := func(column, row int) bool { return column%every == 0 || row%every == 0 }
	return weightedModel(tb, 32, 32, 1, 0.34, func(column, row, dx, dy int) float64 {
		switch {
		case dx == 0 && dy == 0:
			return stay
		case dx != 0 && dy != 0:
			return 0
		case street(column+dx, row+dy):
			return along
		}
		return off
	})
}

// denseModel mostly stays and else moves to any of the 25 cells around.
func denseModel(tb testing.TB, width, height int) *mobility.Model {
	tb.Helper()
	const stay = 60
	return weightedModel(tb, width, height, 2, 0.34, func(_, _, dx, dy int) float64 {
		if dx == 0 && dy == 0 {
			return stay
		}
		return 1 / float64(1+dx*dx+dy*dy)
	})
}

// walk returns steps cells of a path that follows the model from its initial cell, by a fixed
// generator.
func walk(m *mobility.Model, seed uint64, steps int) []grid.Cell {
	c := m.Initial.Cells[0]
	path := make([]grid.Cell, steps)
	for i := range path {
		seed = seed*6364136223846793005 + 1442695040888963407
		u := float64(seed>>11) * 0x1p-53
		columns, values := m.Matrices[0].Entries(c)
		for j, v := range values {
			c = columns[j]
			if u -= v; u < 0 {
				break
			}
		}
		path[i] = c
	}
	return path
}
