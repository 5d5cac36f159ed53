package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

func overTime() Experiment {
	return Experiment{Name: "over-time", Title: "Performance over time", Plan: planOverTime, Report: reportOverTime}
}

// windows is into how many equal parts of a trace drift and distances are averaged for the eye.
const windows = 25

// named is a timeline with its variant; blind has none.
type named struct {
	label, what string
	variant     Variant
	look        int
	blind       bool
	line        timeline
}

func reportOverTime(s *Study, r *Results) (report.Section, error) {
	section := report.Section{Title: "Performance over time", Parts: []report.Part{report.Text(
		"One person's trace, timestamp by timestamp: how the filter settles from knowing nothing but the model, and whether the releases keep it near the truth.")}}
	if len(s.followed()) == 0 {
		section.Parts = append(section.Parts, report.Text("No data set has traces over time: check-ins come hours apart."))
	}
	for _, d := range s.followed() {
		lines, err := s.timelines(d, r)
		if err != nil {
			return section, err
		}
		section.Parts = append(section.Parts, s.overTimeParts(d, lines)...)
	}
	return section, nil
}

func (s *Study) timelines(d *Data, r *Results) (lines []named, err error) {
	at := Setting{s.Options.Epsilon, s.Options.Delta}
	for _, v := range s.Variants() {
		n := named{label: v.Label(), variant: v, what: v.at(at), look: v.look()}
		if err := r.Get(timePiece(d, n.what), &n.line); err != nil {
			return nil, err
		}
		lines = append(lines, n)
	}
	blind := named{label: "blind", what: "blind", blind: true}
	if err := r.Get(timePiece(d, "blind"), &blind.line); err != nil {
		return nil, err
	}
	return append(lines, blind), nil
}

func (s *Study) overTimeParts(d *Data, lines []named) []report.Part {
	t, o := d.overTimeTrace(), s.Options
	text := fmt.Sprintf(`%s: one trace of %d timestamps at steps of %s, with %s without a fix between them, in %d different cells of %s; of the traces with the fewest such steps the one that visits the most cells. M is popular: trained on all users but this one. ε = %g at every timestamp, δ = %g, %s. The true place of a timestamp is the centre of its cell. An observer who sees the releases of the whole trace has cost ε = %s, not %g.`,
		d.Title, len(t.Steps), seconds(d.Step), plural(int(t.Holes()), "step"), t.Distinct(), lengthOf(d.Grid), o.Epsilon, o.Delta, plural(o.TimeRuns, "run"), short(o.Epsilon*float64(len(t.Steps))), o.Epsilon)
	if !d.Open {
		text += " The map shows one person's trace: it is for whoever may see the data, and not to be passed on."
	}
	parts := []report.Part{
		report.Text(text),
		&report.Figure{
			Name: "over-time-" + d.Name + "-map", Chart: s.overTimeMap(d, lines),
			Caption: fmt.Sprintf("%s: the true trace, and what one run of LM and of PIM releases of it.", d.Title),
		},
	}
	for _, g := range s.groups() {
		parts = append(parts, s.overTimeLines(d, g, lines))
	}
	return append(parts, overTimeTable(d, lines), overTimeLong(d, lines))
}

func (s *Study) overTimeMap(d *Data, lines []named) *chart.Figure {
	t := d.overTimeTrace()
	var truth []grid.Point
	for _, c := range t.Cells {
		truth = append(truth, d.Grid.Centre(c))
	}
	start := chart.Overlay{Name: "start of the trace", Points: truth[:1], Markers: true, Look: 3}
	f := &chart.Figure{
		Title: d.Title + ": one trace and its releases", PanelWidth: 4, PanelHeight: 3.6,
		Panels: []chart.Panel{&chart.Map{
			Title: "true trace, on the map", Grid: d.Grid,
			Overlays: []chart.Overlay{{Name: "true place", Points: truth, Line: true, Markers: true, Reference: true}, start},
		}},
	}
	view, share := viewOf(d.Grid, lines[0].line.Places) // LM's releases reach furthest
	for _, n := range lines[:2] {
		f.Panels = append(f.Panels, &chart.Map{
			Title: n.label + ", one run", Grid: d.Grid, View: view,
			Overlays: []chart.Overlay{
				{Name: n.label + ", released", Points: n.line.Places, Markers: true, Look: n.look},
				{Name: "true place", Points: truth, Line: true, Reference: true},
				start,
			},
		})
	}
	f.Note = fmt.Sprintf("ε = %g at every timestamp, δ = %g. True places are centres of cells. The grey frame is the map. The views on the right hold %.0f %% of LM's releases; the others lie further away.",
		s.Options.Epsilon, s.Options.Delta, 100*share)
	return f
}

// viewOf returns corners that hold the map and the inner nine tenths of the places on each axis, and what share of the places they hold.
func viewOf(g *grid.Grid, places []grid.Point) (view [2]grid.Point, share float64) {
	side := g.CellKM()
	axis := func(of func(grid.Point) float64, length float64) (low, high float64) {
		var values []float64
		for _, p := range places {
			values = append(values, of(p))
		}
		slices.Sort(values)
		cut := len(values) / 20
		return min(-.05*length, values[cut]), max(1.05*length, values[len(values)-1-cut])
	}
	view[0].X, view[1].X = axis(func(p grid.Point) float64 { return p.X }, float64(g.Width())*side)
	view[0].Y, view[1].Y = axis(func(p grid.Point) float64 { return p.Y }, float64(g.Height())*side)
	in := 0
	for _, p := range places {
		if p.X >= view[0].X && p.X <= view[1].X && p.Y >= view[0].Y && p.Y <= view[1].Y {
			in++
		}
	}
	return view, float64(in) / float64(len(places))
}

func (s *Study) overTimeLines(d *Data, g group, lines []named) *report.Figure {
	figure := &report.Figure{Name: "over-time-" + d.Name, Caption: d.Title + ": size of the location set, drift ratio and distance to the truth over time"}
	title := fmt.Sprintf("%s over time: ε = %g, δ = %g, popular M", d.Title, s.Options.Epsilon, s.Options.Delta)
	if g.name != "" {
		figure.Name += "-" + g.name
		figure.Caption += ", " + g.title
		title += "; " + g.title
	}
	figure.Caption += "."
	n := len(lines[0].line.Set[0])
	window := max(1, n/windows)
	f := &chart.Figure{
		Title: title, Columns: 2, PanelWidth: 5, PanelHeight: 2.8,
		Note: fmt.Sprintf("One trace of %d timestamps, %s. |ΔX| is the mean over the runs at each timestamp; drift ratio and distances are over the runs and %s. Bands: 95 %% confidence for the mean over further runs of the same trace; none where no two runs differ. blind: the same filter without any release, which no chance enters; its own location set and drift stand beside the others', and its estimate's distance beside releases and estimates.",
			n, plural(s.Options.TimeRuns, "run"), plural(window, "timestamp")),
	}
	for _, m := range Metrics() {
		width := window
		if m.Name == "set" {
			width = 1
		}
		panel := &chart.Lines{X: d.timeAxis(n), Y: chart.Axis{Label: m.Axis, Log: m.Log && m.Name != "drift", Zero: true}}
		for _, l := range lines {
			if !l.blind && !slices.Contains(g.variants, l.variant) {
				continue
			}
			series := chart.Series{Name: l.label, Look: l.look, Reference: l.blind, NoMarkers: m.Name == "set"}
			for from := 0; from+width <= n; from += width {
				band := m.Of(l.line.tallies(from, from+width))
				series.X = append(series.X, float64(from)+float64(width+1)/2)
				series.Y, series.Low, series.High = append(series.Y, band.Value), append(series.Low, band.Low), append(series.High, band.High)
			}
			panel.Series = append(panel.Series, series)
		}
		if m.Name == "drift" {
			panel.Series = append(panel.Series, driftGuide([]float64{1, float64(n)}, func(float64) float64 { return s.Options.Delta }))
		}
		f.Panels = append(f.Panels, panel)
	}
	figure.Chart = f
	return figure
}

func overTimeTable(d *Data, lines []named) *report.Table {
	table := &report.Table{
		Name: "over-time-" + d.Name, Caption: fmt.Sprintf("%s over the whole trace, with 95 %% confidence over runs.", d.Title),
		Columns: []string{"mechanism"},
	}
	for _, m := range Metrics() {
		table.Columns = append(table.Columns, m.Axis)
	}
	for _, l := range lines {
		tallies := l.line.tallies(0, len(l.line.Set[0]))
		row := []string{l.label}
		for _, m := range Metrics() {
			row = append(row, m.Of(tallies).String())
		}
		if l.blind {
			row[3] = "none"
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// overTimeLong has every timestamp.
func overTimeLong(d *Data, lines []named) *report.Table {
	table := &report.Table{
		Name: "over-time-" + d.Name + "-timestamps", Long: true, Caption: d.Title + ": every timestamp, over the runs.",
		Columns: []string{"timestamp", "mechanism", "metric", "value", "low", "high"},
	}
	for _, l := range lines {
		for i := range l.line.Set[0] {
			tallies := l.line.tallies(i, i+1)
			for _, m := range Metrics() {
				band := m.Of(tallies)
				table.Rows = append(table.Rows, append([]string{fmt.Sprint(i + 1), strings.ReplaceAll(l.what, "/", " "), m.Name}, band.fields()...))
			}
		}
	}
	return table
}

func lengthOf(g *grid.Grid) string { return fmt.Sprintf("%g km", math.Round(g.CellM())/1000) }
