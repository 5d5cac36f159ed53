package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func (x *parameters) parts(r *study.Results) ([]report.Part, error) {
	parts := []report.Part{report.Text(x.describe())}
	for _, g := range x.Groups() {
		figure, err := x.figure(g, r)
		if err != nil {
			return nil, err
		}
		parts = append(parts, figure)
	}
	table, err := x.table(r)
	if err != nil {
		return nil, err
	}
	return append(parts, table), nil
}

func (x *parameters) file() string {
	return fmt.Sprintf("parameters-%s-%s", x.on.Data.Name, x.on.Kind)
}

// describe says what was measured.
func (x *parameters) describe() string {
	d, traces := x.on.Data, x.Traces(x.on.Data)
	var timestamps, shortest, holes int64
	for i, t := range traces {
		n := int64(len(t.Steps))
		timestamps += n
		holes += t.Holes()
		if i == 0 || n < shortest {
			shortest = n
		}
	}
	return x.prose.Say("case", study.Figures{
		"case": x.on.Title(), "kind": string(x.on.Kind), "folds": d.Folds, "runs": x.Options.Runs,
		"users": d.Users, "able": len(d.Traces), "taken": len(traces),
		"least": d.Least, "most": d.Timestamps, "shortest": shortest, "timestamps": timestamps,
		"everyFix": d.EveryFix, "step": d.Step, "maxGap": d.MaxGap,
		"holes": 100 * float64(holes) / float64(holes+timestamps),
	})
}

// sweep is one column of a figure.
type sweep struct {
	label  string
	values []float64
	at     func(v float64) study.Setting
}

func (x *parameters) sweeps() []sweep {
	o := x.Options
	return []sweep{
		{
			fmt.Sprintf("ε of a release (δ = %g)", o.Delta), o.Epsilons,
			func(v float64) study.Setting { return study.Setting{Epsilon: v, Delta: o.Delta} },
		},
		{
			fmt.Sprintf("δ (ε = %g)", o.Epsilon), o.Deltas,
			func(v float64) study.Setting { return study.Setting{Epsilon: o.Epsilon, Delta: v} },
		},
	}
}

// metrics are those that are drawn: the paper's, and by option the estimate's.
func (x *parameters) metrics() []study.Metric {
	list := study.Metrics()
	if !x.Also(study.AlsoEstimate) {
		list = list[:3]
	}
	return list
}

func (x *parameters) figure(g study.Group, r *study.Results) (*report.Figure, error) {
	figure := &report.Figure{
		Name:    x.file(),
		Caption: x.prose.Say("caption", study.Figures{"case": x.on.Title(), "group": g.Title}),
	}
	title := x.on.Title() + ", over ε (left) and δ (right)"
	if g.Name != "" {
		figure.Name += "-" + g.Name
		title += ": " + g.Title
	}
	f := &chart.Figure{
		Title: title, Columns: 2, PanelWidth: 4.6, PanelHeight: 2.6, SameY: true,
		Note: x.prose.Say("note",
			study.Figures{"users": len(x.Traces(x.on.Data)), "runs": x.Options.Runs}),
	}
	for _, m := range x.metrics() {
		for _, sweep := range x.sweeps() {
			panel, err := x.panel(m, sweep, g, r)
			if err != nil {
				return nil, err
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	figure.Chart = f
	return figure, nil
}

// panel draws a metric over the values of a sweep.
func (x *parameters) panel(
	m study.Metric, over sweep, g study.Group, r *study.Results,
) (*chart.Lines, error) {
	panel := &chart.Lines{
		X: chart.Axis{Label: over.label, Log: true, At: over.values},
		Y: chart.Axis{Label: m.Axis, Log: m.Log, Zero: true},
	}
	draw := func(series chart.Series, tallies func(study.Setting) ([]study.Tally, error)) error {
		for _, v := range over.values {
			of, err := tallies(over.at(v))
			if err != nil {
				return err
			}
			add(&series, v, m.Of(of))
		}
		panel.Series = append(panel.Series, series)
		return nil
	}
	for _, v := range g.Variants {
		tallies := func(at study.Setting) ([]study.Tally, error) { return x.tallies(r, v, at) }
		if err := draw(chart.Series{Name: v.Label(), Look: v.Look()}, tallies); err != nil {
			return nil, err
		}
	}
	blind := func(at study.Setting) ([]study.Tally, error) { return x.blindTallies(r, at.Delta) }
	if err := draw(chart.Series{Name: "blind", Reference: true}, blind); err != nil {
		return nil, err
	}
	if m.Name == "drift" {
		guide := driftGuide(over.values, func(v float64) float64 { return over.at(v).Delta })
		panel.Series = append(panel.Series, guide)
	}
	return panel, nil
}

// table has the figures of every setting.
func (x *parameters) table(r *study.Results) (*report.Table, error) {
	table := &report.Table{
		Name: x.file(), Caption: x.on.Title() + ", with 95 % confidence over users.",
		Columns: []string{"ε", "δ", "mechanism"},
	}
	for _, m := range study.Metrics() {
		table.Columns = append(table.Columns, m.Axis)
	}
	for _, at := range x.Settings() {
		row := func(label string, tallies []study.Tally) []string {
			cells := []string{fmt.Sprint(at.Epsilon), fmt.Sprint(at.Delta), label}
			for _, m := range study.Metrics() {
				cells = append(cells, m.Of(tallies).String())
			}
			return cells
		}
		for _, v := range x.Variants() {
			tallies, err := x.tallies(r, v, at)
			if err != nil {
				return nil, err
			}
			table.Rows = append(table.Rows, row(v.Label(), tallies))
		}
		blind, err := x.blindTallies(r, at.Delta)
		if err != nil {
			return nil, err
		}
		cells := row("blind", blind)
		cells[0], cells[5] = "", "none"
		table.Rows = append(table.Rows, cells)
	}
	return table, nil
}

// rows are every number of the case.
func (x *parameters) rows(r *study.Results) (rows [][]string, err error) {
	add := func(head []string, tallies []study.Tally) {
		var n int64
		for _, t := range tallies {
			n += t.N
		}
		for _, m := range study.Metrics() {
			row := append([]string{x.on.Data.Name, string(x.on.Kind)}, head...)
			row = append(row, fmt.Sprint(len(tallies)), fmt.Sprint(n), m.Name)
			rows = append(rows, append(row, m.Of(tallies).Fields()...))
		}
	}
	for _, v := range x.Variants() {
		for _, at := range x.Settings() {
			tallies, err := x.tallies(r, v, at)
			if err != nil {
				return nil, err
			}
			add(
				[]string{
					v.Mechanism, v.Inference, study.Number(at.Epsilon), study.Number(at.Delta),
				},
				tallies,
			)
		}
	}
	for _, delta := range x.Deltas() {
		tallies, err := x.blindTallies(r, delta)
		if err != nil {
			return nil, err
		}
		add([]string{"blind", "", "", study.Number(delta)}, tallies)
	}
	return rows, nil
}
