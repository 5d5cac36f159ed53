package experiment

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func adversaries() Experiment {
	return Experiment{Name: "adversaries", Title: "Adversaries", Plan: planAdversaries, Report: reportAdversaries}
}

// learnedMetric is one thing that an adversary's belief is measured by.
type learnedMetric struct {
	name, axis string
	of         func([]Learned) Band
	log        bool // spans powers of ten
}

func learnedMetrics() []learnedMetric {
	band := func(quantity func(Learned) float64) func([]Learned) Band {
		return func(list []Learned) Band {
			over, by := make([]float64, len(list)), make([]float64, len(list))
			for i, l := range list {
				over[i], by[i] = quantity(l), float64(l.N)
			}
			return Ratio(over, by)
		}
	}
	squared := band(func(l Learned) float64 { return l.Distance })
	return []learnedMetric{
		{"true", "probability of the true cell", band(func(l Learned) float64 { return l.True }), true},
		{"entropy", "entropy, bits", band(func(l Learned) float64 { return l.Bits }), false},
		{"distance", "best guess to truth (rms), km", func(list []Learned) Band { return squared(list).Root() }, false},
	}
}

func reportAdversaries(s *Study, r *Results) (report.Section, error) {
	section := report.Section{Title: "Adversaries", Parts: []report.Part{report.Text(fmt.Sprintf(
		"How much a release tells depends on what was known before. What the same releases (PIM, ε = %g at each timestamp, δ = %g, popular M) tell those who know more or less than the paper's adversary, who knows M and runs the sanitizer's own filter. Weak ones do not know M: they take all cells to be equally likely at every timestamp, or people to walk at random, and work out ΔX and K of that, which are then not those of the releases. Strong ones know M and something more: the cell of the first timestamp, or the user's personal M (learned from all traces, the measured one among them, so that hardly anybody could know as much). ε bounds how much a release can add to what an adversary knows; it does not bound what was known before, nor the sum of many releases. So each one's belief without any release stands beside it: the difference is what the releases have told.",
		s.Options.Epsilon, s.Options.Delta))}}
	long := &report.Table{
		Name: "adversaries", Long: true, Caption: "Every number of the section.",
		Columns: []string{"data", "adversary", "sees", "from timestamp", "to timestamp", "users", "metric", "value", "low", "high"},
	}
	for _, d := range s.Data {
		users, err := s.beliefs(d, r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, s.adversaryFigure(d, users), s.adversaryTable(d, users))
		for a, adversary := range Adversaries() {
			for _, with := range []bool{true, false} {
				for w := range windows {
					list := learnedIn(users, a, w, w+1, with)
					for _, m := range learnedMetrics() {
						if len(list) > 0 {
							row := []string{d.Name, string(adversary), sees(with), fmt.Sprint(d.firstOf(w) + 1), fmt.Sprint(d.firstOf(w + 1)), fmt.Sprint(len(list)), m.name}
							long.Rows = append(long.Rows, append(row, m.of(list).fields()...))
						}
					}
				}
			}
		}
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

func sees(with bool) string {
	if with {
		return "releases"
	}
	return "nothing"
}

// firstOf returns the first timestamp of a window, from 0.
func (d *Data) firstOf(window int) int { return (window*d.Timestamps + windows - 1) / windows }

// timeAxis is the axis of the timestamps of a trace, the same in every panel.
func (d *Data) timeAxis(timestamps int) chart.Axis {
	step := "steps of " + seconds(d.Step)
	if d.EveryFix {
		step = "check-ins"
	}
	return chart.Axis{Label: fmt.Sprintf("timestamp (%s)", step), Min: 1, Max: float64(max(timestamps, 2))}
}

func (s *Study) adversaryFigure(d *Data, users []beliefs) *report.Figure {
	f := &chart.Figure{
		Title:   fmt.Sprintf("%s: what adversaries know over time; PIM, ε = %g, δ = %g", d.Title, s.Options.Epsilon, s.Options.Delta),
		Columns: 2, PanelWidth: 5, PanelHeight: 2.5,
		Note: fmt.Sprintf("%s, 1 run each; means over windows of time. Bands: 95 %% confidence over users; what of one lies below all lines of a logarithmic axis is cut off. Left: from all releases so far. blind: M alone, without any release; on the right the line of whoever knows M. Right: what each one would know without any release. The best guess is the mean of the belief.",
			plural(len(users), "user")),
	}
	if d.Least < d.Timestamps {
		f.Note += " Users whose trace is shorter count as long as it lasts."
	}
	standard := 0
	for a, adversary := range Adversaries() {
		if adversary == Standard {
			standard = a
		}
	}
	for _, m := range learnedMetrics() {
		var row []*chart.Lines
		low, top := math.Inf(1), 0.0
		for _, with := range []bool{true, false} {
			panel := &chart.Lines{Title: "with the releases", X: d.timeAxis(d.Timestamps), Y: chart.Axis{Label: m.axis, Zero: true}}
			if !with {
				panel.Title = "without any release"
			}
			for a, adversary := range Adversaries() {
				panel.Series = append(panel.Series, d.belief(users, a, with, m, chart.Series{Name: adversary.Label(), Look: adversary.look(), NoMarkers: true}))
			}
			if with {
				panel.Series = append(panel.Series, d.belief(users, standard, false, m, chart.Series{Name: "blind", Reference: true}))
			}
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
			row = append(row, panel)
		}
		for _, panel := range row {
			panel.Y.Max = 1.1 * top // the two are to be compared
			if m.log {
				panel.Y.Log, panel.Y.Zero, panel.Y.Min = true, false, low/1.5
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	return &report.Figure{
		Name: "adversaries-" + d.Name, Chart: f,
		Caption: d.Title + ": probability of the true cell, entropy, and distance of the best guess of adversaries who know more and less, with the releases and without.",
	}
}

// belief is a line over the windows of time.
func (d *Data) belief(users []beliefs, adversary int, with bool, m learnedMetric, series chart.Series) chart.Series {
	for w := range windows {
		list := learnedIn(users, adversary, w, w+1, with)
		if len(list) == 0 {
			continue
		}
		band := m.of(list)
		series.X = append(series.X, float64(d.firstOf(w)+d.firstOf(w+1)+1)/2)
		series.Y, series.Low, series.High = append(series.Y, band.Value), append(series.Low, band.Low), append(series.High, band.High)
	}
	return series
}

func (s *Study) adversaryTable(d *Data, users []beliefs) *report.Table {
	table := &report.Table{
		Name: "adversaries-" + d.Name, Caption: d.Title + ": over whole traces, with 95 % confidence over users.",
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
