package experiment

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// learnedMetric is one thing that an adversary's belief is measured by.
type learnedMetric struct {
	name, axis string
	of         func([]Learned) study.Band
	log        bool // spans powers of ten
}

func learnedMetrics() []learnedMetric {
	band := func(quantity func(Learned) float64) func([]Learned) study.Band {
		return func(list []Learned) study.Band {
			over, by := make([]float64, len(list)), make([]float64, len(list))
			for i, l := range list {
				over[i], by[i] = quantity(l), float64(l.N)
			}
			return study.Ratio(over, by)
		}
	}
	squared := band(func(l Learned) float64 { return l.Distance })
	return []learnedMetric{
		{
			"true", "probability of the true cell", band(func(l Learned) float64 { return l.True }),
			true,
		},
		{"entropy", "entropy, bits", band(func(l Learned) float64 { return l.Bits }), false},
		{
			"distance", "best guess to truth (rms), km",
			func(list []Learned) study.Band { return squared(list).Root() }, false,
		},
	}
}

func reportAdversaries(s *study.Study, r *study.Results) (report.Section, error) {
	o := s.Options
	intro := study.NewProse(adversariesText).Say("intro",
		study.Figures{"epsilon": o.Epsilon, "delta": o.Delta})
	section := report.Section{Title: "Adversaries", Parts: []report.Part{report.Text(intro)}}
	long := &report.Table{
		Name: "adversaries", Long: true, Caption: "Every number of the section.",
		Columns: []string{
			"data", "adversary", "sees", "from timestamp", "to timestamp", "users", "metric",
			"value", "low", "high",
		},
	}
	for _, x := range eachAdversaries(s) {
		users, err := x.beliefs(r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, x.figure(users), x.table(users))
		long.Rows = append(long.Rows, x.rows(users)...)
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

// rows are every number: of each adversary, with and without releases, in each window of time.
func (x *adversaries) rows(users []beliefs) (rows [][]string) {
	for a, adversary := range Adversaries() {
		for _, with := range []bool{true, false} {
			for w := range windows {
				list := learnedIn(users, a, w, w+1, with)
				if len(list) == 0 {
					continue
				}
				from, to := fmt.Sprint(x.firstOf(w)+1), fmt.Sprint(x.firstOf(w+1))
				for _, m := range learnedMetrics() {
					row := []string{
						x.data.Name, string(adversary), sees(with), from, to, fmt.Sprint(len(list)),
						m.name,
					}
					rows = append(rows, append(row, m.of(list).Fields()...))
				}
			}
		}
	}
	return rows
}

func sees(with bool) string {
	if with {
		return "releases"
	}
	return "nothing"
}

// firstOf returns the first timestamp of a window, from 0.
func (x *adversaries) firstOf(window int) int {
	return (window*x.data.Timestamps + windows - 1) / windows
}

func (x *adversaries) figure(users []beliefs) *report.Figure {
	d, o := x.data, x.Options
	f := &chart.Figure{
		Title: fmt.Sprintf("%s: what adversaries know over time; PIM, ε = %g, δ = %g",
			d.Title, o.Epsilon, o.Delta),
		Note: x.prose.Say("note",
			study.Figures{"users": len(users), "shorter": d.Least < d.Timestamps}),

		Columns: 2, PanelWidth: 5, PanelHeight: 2.5,
	}
	for _, m := range learnedMetrics() {
		f.Panels = append(f.Panels, x.row(users, m)...)
	}
	return &report.Figure{
		Name: "adversaries-" + d.Name, Chart: f, Caption: x.prose.Say("caption",
			study.Figures{"data": d.Title}),
	}
}

// row is the two panels of a metric, with the releases and without, on one scale.
func (x *adversaries) row(users []beliefs, m learnedMetric) []chart.Panel {
	with, without := x.panel(users, m, true), x.panel(users, m, false)
	low, top := math.Inf(1), 0.0
	for _, panel := range []*chart.Lines{with, without} {
		for _, series := range panel.Series {
			for i, y := range series.Y {
				top = max(top, y)
				if high := series.High[i]; high > top {
					top = high
				}
				if y > 0 {
					low = min(low, y)
				}
			}
		}
	}
	for _, panel := range []*chart.Lines{with, without} {
		panel.Y.Max = 1.1 * top
		if m.log {
			panel.Y.Log, panel.Y.Zero, panel.Y.Min = true, false, low/1.5
		}
	}
	return []chart.Panel{with, without}
}

// panel draws what each adversary believes, and with the releases also what M alone gives away.
func (x *adversaries) panel(users []beliefs, m learnedMetric, with bool) *chart.Lines {
	panel := &chart.Lines{
		Title: "with the releases", X: timeAxis(x.data, x.data.Timestamps),
		Y: chart.Axis{Label: m.axis, Zero: true},
	}
	if !with {
		panel.Title = "without any release"
	}
	blind := 0
	for a, adversary := range Adversaries() {
		series := chart.Series{Name: adversary.Label(), Look: adversary.look(), NoMarkers: true}
		panel.Series = append(panel.Series, x.belief(users, a, with, m, series))
		if adversary == Standard {
			blind = a
		}
	}
	if with {
		series := chart.Series{Name: "blind", Reference: true}
		panel.Series = append(panel.Series, x.belief(users, blind, false, m, series))
	}
	return panel
}

// belief is a line over the windows of time.
func (x *adversaries) belief(
	users []beliefs, adversary int, with bool, m learnedMetric, series chart.Series,
) chart.Series {
	for w := range windows {
		if list := learnedIn(users, adversary, w, w+1, with); len(list) > 0 {
			add(&series, float64(x.firstOf(w)+x.firstOf(w+1)+1)/2, m.of(list))
		}
	}
	return series
}

func (x *adversaries) table(users []beliefs) *report.Table {
	table := &report.Table{
		Name: "adversaries-" + x.data.Name, Caption: x.data.Title + ": over whole traces, with " +
			"95 % confidence over users.",
		Columns: []string{"adversary", "sees"},
	}
	for _, m := range learnedMetrics() {
		table.Columns = append(table.Columns, m.axis)
	}
	for a, adversary := range Adversaries() {
		for _, with := range []bool{true, false} {
			row := []string{adversary.Label(), sees(with)}
			list := learnedIn(users, a, 0, windows, with)
			for _, m := range learnedMetrics() {
				row = append(row, m.of(list).String())
			}
			table.Rows = append(table.Rows, row)
		}
	}
	return table
}
