package experiment

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

func parameters() Experiment {
	return Experiment{Name: "parameters", Title: "Impact of parameters", Plan: planParameters, Report: reportParameters}
}

func reportParameters(s *Study, r *Results) (report.Section, error) {
	o := s.Options
	section := report.Section{Title: "Impact of parameters", Parts: []report.Part{report.Text(fmt.Sprintf(
		"How the size of the location set, the drift and the distances change with ε and with δ. ε is swept at δ = %g, and δ at ε = %g; ε is spent at every timestamp. Each user is one trace. Bands are 95 %% confidence intervals that treat users as independent and nothing within a user: they say how the mean would differ for other users like these. Beside the releases stands the blind baseline, the same filter without any release: its location set, its drift, and the distance of its estimate, which is what an observer knows who sees nothing.",
		o.Delta, o.Epsilon))}}
	for _, c := range s.Cases() {
		parts, err := s.caseParts(c, r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, parts...)
	}
	long, err := s.parametersLong(r)
	if err != nil {
		return section, err
	}
	section.Parts = append(section.Parts, long)
	return section, nil
}

func (s *Study) caseParts(c Case, r *Results) ([]report.Part, error) {
	parts := []report.Part{report.Text(s.describe(c))}
	for _, g := range s.groups() {
		figure, err := s.caseFigure(c, g, r)
		if err != nil {
			return nil, err
		}
		parts = append(parts, figure)
	}
	table, err := s.caseTable(c, r)
	if err != nil {
		return nil, err
	}
	return append(parts, table), nil
}

func fileOf(c Case) string { return fmt.Sprintf("parameters-%s-%s", c.Data.Name, c.Kind) }

// describe says what was measured.
func (s *Study) describe(c Case) string {
	d, traces := c.Data, s.Traces(c.Data)
	var timestamps, shortest, holes int64
	for i, t := range traces {
		n := int64(len(t.Steps))
		timestamps += n
		holes += t.Holes()
		if i == 0 || n < shortest {
			shortest = n
		}
	}
	what := fmt.Sprintf("%s: %d of %d users have a trace of %d timestamps or more", c.Title(), len(d.Traces), d.Users, d.Least)
	if len(traces) < len(d.Traces) {
		what += fmt.Sprintf(", of whom %d were taken", len(traces))
	}
	what += fmt.Sprintf("; at most %d of each count, the shortest trace has %d, together %d, each in %s. ", d.Timestamps, shortest, timestamps, plural(s.Options.Runs, "run"))
	if d.EveryFix {
		what += "A timestamp is a check-in, whatever the time since the last one. "
	} else {
		what += fmt.Sprintf("A timestamp is a step of %s with a fix; gaps of up to %s are predicted across, which are %.0f %% of the steps. ",
			seconds(d.Step), seconds(d.MaxGap), 100*float64(holes)/float64(holes+timestamps))
	}
	switch c.Kind {
	case Popular:
		what += fmt.Sprintf("M is trained on other users: %d parts of the users take turns to be left out.", d.Folds)
	case Personal:
		what += "M is the user's own, over the popular one where the user has never been, learned from all of the user's traces and thus also from the one that is measured, as the paper has it: nobody gets figures as good as these. Such an M is itself a description of the person, and assumed public."
	case PersonalEarlier:
		what += "M is the user's own, from traces before the measured one only, over the popular one. Such an M is itself a description of the person, and assumed public."
	}
	return what
}

// sweep is one column of a figure.
type sweep struct {
	label  string
	values []float64
	at     func(v float64) Setting
}

func (s *Study) sweeps() []sweep {
	o := s.Options
	return []sweep{
		{fmt.Sprintf("ε of a release (δ = %g)", o.Delta), o.Epsilons, func(v float64) Setting { return Setting{v, o.Delta} }},
		{fmt.Sprintf("δ (ε = %g)", o.Epsilon), o.Deltas, func(v float64) Setting { return Setting{o.Epsilon, v} }},
	}
}

// metrics are those that are drawn: the paper's, and by option the estimate's.
func (s *Study) metrics() []Metric {
	list := Metrics()
	if !s.also(AlsoEstimate) {
		list = list[:3]
	}
	return list
}

func (s *Study) caseFigure(c Case, g group, r *Results) (*report.Figure, error) {
	figure := &report.Figure{Name: fileOf(c), Caption: fmt.Sprintf("%s: size of the location set, drift ratio and distance to the truth over ε (left) and δ (right)", c.Title())}
	title := c.Title() + ", over ε (left) and δ (right)"
	if g.name != "" {
		figure.Name += "-" + g.name
		figure.Caption += ", " + g.title
		title += ": " + g.title
	}
	figure.Caption += "."
	f := &chart.Figure{
		Title: title, Columns: 2, PanelWidth: 4.6, PanelHeight: 2.6, SameY: true,
		Note: fmt.Sprintf("%s, %s each. Bands, and bars where one would have no width: 95 %% confidence over users; none where no two differ. blind: the same filter without any release.",
			plural(len(s.Traces(c.Data)), "user"), plural(s.Options.Runs, "run")),
	}
	for _, m := range s.metrics() {
		for _, sweep := range s.sweeps() {
			panel := &chart.Lines{X: chart.Axis{Label: sweep.label, Log: true, At: sweep.values}, Y: chart.Axis{Label: m.Axis, Log: m.Log, Zero: true}}
			add := func(series chart.Series, tallies func(Setting) ([]Tally, error)) error {
				for _, v := range sweep.values {
					of, err := tallies(sweep.at(v))
					if err != nil {
						return err
					}
					band := m.Of(of)
					series.X, series.Y = append(series.X, v), append(series.Y, band.Value)
					series.Low, series.High = append(series.Low, band.Low), append(series.High, band.High)
				}
				panel.Series = append(panel.Series, series)
				return nil
			}
			for _, v := range g.variants {
				err := add(chart.Series{Name: v.Label(), Look: v.look()}, func(at Setting) ([]Tally, error) { return s.Tallies(r, c, v, at) })
				if err != nil {
					return nil, err
				}
			}
			err := add(chart.Series{Name: "blind", Reference: true}, func(at Setting) ([]Tally, error) { return s.BlindTallies(r, c, at.Delta) })
			if err != nil {
				return nil, err
			}
			if m.Name == "drift" {
				panel.Series = append(panel.Series, driftGuide(sweep.values, func(v float64) float64 { return sweep.at(v).Delta }))
			}
			f.Panels = append(f.Panels, panel)
		}
	}
	figure.Chart = f
	return figure, nil
}

// driftGuide is the drift that a right M has at most, on average.
func driftGuide(x []float64, delta func(float64) float64) chart.Series {
	guide := chart.Series{Name: "δ: the drift that a right M has at most, on average", X: x, Guide: true}
	for _, v := range x {
		guide.Y = append(guide.Y, delta(v))
	}
	return guide
}

// caseTable has the figures of the fixed ε and δ, and of the ends of the sweeps.
func (s *Study) caseTable(c Case, r *Results) (*report.Table, error) {
	table := &report.Table{
		Name: fileOf(c), Caption: c.Title() + ", with 95 % confidence over users.",
		Columns: []string{"ε", "δ", "mechanism"},
	}
	for _, m := range Metrics() {
		table.Columns = append(table.Columns, m.Axis)
	}
	for _, at := range s.Settings() {
		row := func(label string, tallies []Tally) []string {
			cells := []string{fmt.Sprint(at.Epsilon), fmt.Sprint(at.Delta), label}
			for _, m := range Metrics() {
				cells = append(cells, m.Of(tallies).String())
			}
			return cells
		}
		for _, v := range s.Variants() {
			tallies, err := s.Tallies(r, c, v, at)
			if err != nil {
				return nil, err
			}
			table.Rows = append(table.Rows, row(v.Label(), tallies))
		}
		blind, err := s.BlindTallies(r, c, at.Delta)
		if err != nil {
			return nil, err
		}
		cells := row("blind", blind)
		cells[0], cells[5] = "", "none"
		table.Rows = append(table.Rows, cells)
	}
	return table, nil
}

// parametersLong has every number of every case.
func (s *Study) parametersLong(r *Results) (*report.Table, error) {
	table := &report.Table{
		Name: "parameters", Long: true, Caption: "Every number of the section.",
		Columns: []string{"data", "model", "mechanism", "inference", "epsilon", "delta", "users", "timestamps", "metric", "value", "low", "high"},
	}
	for _, c := range s.Cases() {
		add := func(head []string, tallies []Tally) {
			var n int64
			for _, t := range tallies {
				n += t.N
			}
			for _, m := range Metrics() {
				row := append([]string{c.Data.Name, string(c.Kind)}, head...)
				row = append(row, fmt.Sprint(len(tallies)), fmt.Sprint(n), m.Name)
				table.Rows = append(table.Rows, append(row, m.Of(tallies).fields()...))
			}
		}
		for _, v := range s.Variants() {
			for _, at := range s.Settings() {
				tallies, err := s.Tallies(r, c, v, at)
				if err != nil {
					return nil, err
				}
				add([]string{v.Mechanism, v.Inference, number(at.Epsilon), number(at.Delta)}, tallies)
			}
		}
		for _, delta := range s.deltas() {
			tallies, err := s.BlindTallies(r, c, delta)
			if err != nil {
				return nil, err
			}
			add([]string{"blind", "", "", number(delta)}, tallies)
		}
	}
	return table, nil
}

// preface says what the study is.
func (s *Study) preface() []string {
	var sets []string
	for _, d := range s.Data {
		sets = append(sets, fmt.Sprintf("%s (%d users, cells of %s, %d × %d of them)", d.Title, d.Users, lengthOf(d.Grid), d.Grid.Width(), d.Grid.Height()))
	}
	size := "All figures"
	if s.Options.Quick {
		size = "A quick look with few users, runs and parameters: all figures"
	}
	return []string{
		fmt.Sprintf("The experiments of Xiao and Xiong, Protecting Locations with Differential Privacy under Temporal Correlations (CCS 2015, section 6), on: %s. The data are as they were given, which may be a part of what the paper had.", strings.Join(sets, "; ")),
		fmt.Sprintf("%s come from seed %d: the same data, seed, options and program give the same report, but for the times that releases take. LM is the paper's Laplace mechanism and PIM its planar isotropic mechanism. Inference is by the law that makes the releases, in which a cell outside the location set is released as its surrogate; the paper's own formula differs there and is measured only where it is named. Location sets are the fewest cells, even a single one. ε is what a single release costs; releases of one user add up.", size, s.Options.Seed),
	}
}
