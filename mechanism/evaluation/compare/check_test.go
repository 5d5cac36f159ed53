package compare

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
		model      *mobility.Model
		delta      float64
		want       []string
		suspicious int
	}{
		"good": {model: good(), delta: .01},
		"a cell that holds on": {model: with(.5, func(c int, row map[int]float64) {
			if c == 7 {
				only(row, 7)
			}
		}), delta: .01, want: []string{"never left"}, suspicious: 1},
		"a wall": {model: func() *mobility.Model {
			m := with(.5, func(c int, row map[int]float64) {
				if c == 19 {
					delete(row, 20)
					row[18] = .5
				}
			})
			startAt(m, 3, 4, 5)
			return m
		}(), delta: .01, want: []string{"never reached", "no start"}, suspicious: 2},
		"sure": {model: with(.5, func(c int, row map[int]float64) {
			if c < 10 {
				only(row, c+1)
			}
		}), delta: .01, want: []string{"too sure"}, suspicious: 1},
		"short step": {
			model: with(.98, nil), delta: .01, want: []string{"step and cells"}, suspicious: 1,
		},
		"long step": {
			model: with(.001, nil), delta: .01, want: []string{"step and cells"}, suspicious: 1,
		},
		"few starts": {
			model: planted(func(m *mobility.Model) { startAt(m, 3, 4) }), delta: .01,
			want: []string{"no start"}, suspicious: 1,
		},
		"no fit": {
			model: planted(func(m *mobility.Model) { m.Provenance.Fit = nil }), delta: .01,
			want: []string{"no fit"},
		},
		"drift": {model: planted(func(m *mobility.Model) {
			fit := calibrated
			fit.Calibration = []mobility.FitDelta{{Delta: .01, Drift: .08, Low: .07, High: .09}}
			m.Provenance.Fit = &fit
		}), delta: .01, want: []string{"fit"}, suspicious: 1},
		"open data": {
			model: planted(func(m *mobility.Model) { m.Provenance.Privacy = nil }), delta: .01,
			want: []string{"privacy"},
		},
		"one person": {
			model: planted(func(m *mobility.Model) {
				m.Provenance.Privacy, m.Provenance.Report.Users = nil, 1
			}),
			delta: .01, want: []string{"privacy", "few users"}, suspicious: 1,
		},
		"a law of gaps": {
			model: planted(func(m *mobility.Model) { m.Gaps = mobility.GapLaw{{Chain: 1}} }),
			delta: .01, want: []string{"gaps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			suspicious := 0
			for _, r := range Check(tt.model, tt.delta) {
				if len(names) == 0 || names[len(names)-1] != r.Name { // a fit has several lines
					names = append(names, r.Name)
				}
				if r.Suspicious {
					suspicious++
				}
				if len(r.Text) < 20 {
					t.Errorf("%s: %q", r.Name, r.Text)
				}
			}
			if !slices.Equal(names, tt.want) || (suspicious == 0) != (tt.suspicious == 0) ||
				suspicious < tt.suspicious {
				t.Errorf("remarks %q, %d of them suspicious, want %q and %d",
					names, suspicious, tt.want, tt.suspicious)
			}
		})
	}
}

// TestCheckPruning: on a map of many cells the default pruning costs a small δ dear.
func TestCheckPruning(t *testing.T) {
	m := lineModel(t, mobility.PruneCells+1, .5, nil)
	has := func(delta float64) bool {
		return slices.ContainsFunc(Check(m, delta),
			func(r Remark) bool { return r.Name == "pruning" && r.Suspicious })
	}
	if has(.01) || !has(.0005) {
		t.Error("pruning is not judged by δ")
	}
}
