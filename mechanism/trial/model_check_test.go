package trial

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
	for name, tt := range map[string]struct {
		model *mobility.Model
		want  []string
	}{
		"good": {model: good()},
		"sure": {model: with(.5, func(c int, row map[int]float64) {
			if c < 10 {
				only(row, c+1)
			}
		}), want: []string{"too sure"}},
		"short step": {
			model: with(.98, nil), want: []string{"step and cells"},
		},
		"long step": {
			model: with(.001, nil), want: []string{"step and cells"},
		},
		"drift": {model: planted(func(m *mobility.Model) {
			fit := calibrated
			fit.Calibration = []mobility.FitDelta{{Delta: .01, Drift: .08, Low: .07, High: .09}}
			m.Provenance.Fit = &fit
		}), want: []string{"fit"}},
		"open data": {
			model: planted(func(m *mobility.Model) { m.Provenance.Privacy = nil }),
		},
		"one person": {
			model: planted(func(m *mobility.Model) {
				m.Provenance.Privacy, m.Provenance.Report.Users = nil, 1
			}),
			want: []string{"few users"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, r := range CheckModel(tt.model) {
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

// lineModel is a line of cells on which a vehicle stays with a probability, else goes one cell on
// or back. change may alter a row.
func lineModel(
	t *testing.T, cells int, stay float64, change func(cell int, row map[int]float64),
) *mobility.Model {
	t.Helper()
	rows := make([]map[int]float64, cells)
	for c := range rows {
		row := map[int]float64{c: stay}
		row[max(c-1, 0)] += (1 - stay) / 2
		row[min(c+1, cells-1)] += (1 - stay) / 2
		if change != nil {
			change(c, row)
		}
		rows[c] = row
	}
	return chain(t, cells, 1, nil, func(from, to grid.Cell) float64 { return rows[from][int(to)] })
}
