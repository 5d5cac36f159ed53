package fit

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestCheck plants one fault after the other into a model without any.
func TestCheck(t *testing.T) {
	calibrated := mobility.Fit{
		Users: 50, Steps: 10_000, Delta: .01,
		Calibration: []mobility.FitDelta{{Delta: .01, Drift: .011, Low: .008, High: .014}},
	}
	good := func() *mobility.Model {
		m := lineModel(t, 50, .5, nil)
		m.Provenance = mobility.Provenance{
			Privacy: &mobility.Privacy{Epsilon: "1"}, Fit: &calibrated,
			Report: mobility.Report{Users: 100},
		}
		return m
	}
	planted := func(change func(m *mobility.Model)) *mobility.Model {
		m := good()
		change(m)
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	with := func(stay float64, change func(int, map[int]float64)) *mobility.Model {
		m := lineModel(t, 50, stay, change)
		m.Provenance = good().Provenance
		return m
	}
	only := func(row map[int]float64, to int) {
		clear(row)
		row[to] = 1
	}
	startAt := func(m *mobility.Model, cells ...grid.Cell) {
		m.Initial = mobility.Distribution{Cells: cells}
		for range cells {
			m.Initial.P = append(m.Initial.P, 1/float64(len(cells)))
		}
	}
	for name, tt := range map[string]struct {
		model *mobility.Model
		delta float64
		want  []string
	}{
		"good": {model: good(), delta: .01},
		"a cell that holds on": {model: with(.5, func(c int, row map[int]float64) {
			if c == 7 {
				only(row, 7)
			}
		}), delta: .01, want: []string{"never left"}},
		"a wall": {model: func() *mobility.Model {
			m := with(.5, func(c int, row map[int]float64) {
				if c == 19 {
					delete(row, 20)
					row[18] = .5
				}
			})
			startAt(m, 3, 4, 5)
			return m
		}(), delta: .01, want: []string{"never reached", "no start"}},
		"sure": {model: with(.5, func(c int, row map[int]float64) {
			if c < 10 {
				only(row, c+1)
			}
		}), delta: .01, want: []string{"too sure"}},
		"short step": {
			model: with(.98, nil), delta: .01, want: []string{"step and cells"},
		},
		"long step": {
			model: with(.001, nil), delta: .01, want: []string{"step and cells"},
		},
		"few starts": {
			model: planted(func(m *mobility.Model) { startAt(m, 3, 4) }), delta: .01,
			want: []string{"no start"},
		},
		"drift": {model: planted(func(m *mobility.Model) {
			fit := calibrated
			fit.Calibration = []mobility.FitDelta{{Delta: .01, Drift: .08, Low: .07, High: .09}}
			m.Provenance.Fit = &fit
		}), delta: .01, want: []string{"fit"}},
		"open data": {
			model: planted(func(m *mobility.Model) { m.Provenance.Privacy = nil }), delta: .01,
		},
		"one person": {
			model: planted(func(m *mobility.Model) {
				m.Provenance.Privacy, m.Provenance.Report.Users = nil, 1
			}),
			delta: .01, want: []string{"few users"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, r := range Check(tt.model, tt.delta) {
				names = append(names, r.Name)
				if len(r.Text) < 20 {
					t.Errorf("%s: %q", r.Name, r.Text)
				}
			}
			if !slices.Equal(names, tt.want) {
				t.Errorf("remarks %q, want %q", names, tt.want)
			}
		})
	}
}

// TestCheckPruning: on a map of many cells the default pruning costs a small δ dear.
func TestCheckPruning(t *testing.T) {
	m := lineModel(t, mobility.PruneCells+1, .5, nil)
	has := func(delta float64) bool {
		return slices.ContainsFunc(Check(m, delta),
			func(r Remark) bool { return r.Name == "pruning" })
	}
	if has(.01) || !has(.0005) {
		t.Error("pruning is not judged by δ")
	}
}
