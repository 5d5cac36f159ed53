package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

func (x *overTime) parts(lines []named) []report.Part {
	d, t, o := x.data, x.trace, x.Options
	parts := []report.Part{
		report.Text(x.prose.Say("trace", study.Figures{
			"data": d.Title, "timestamps": len(t.Steps), "step": d.Step, "holes": int(t.Holes()),
			"cells": t.Distinct(), "cell": study.LengthOf(d.Grid), "epsilon": o.Epsilon,
			"delta": o.Delta,
			"runs":  o.TimeRuns, "spent": o.Epsilon * float64(len(t.Steps)), "open": d.Open,
		})),
		&report.Figure{
			Name: "over-time-" + d.Name + "-map", Chart: x.trajectory(lines),
			Caption: x.prose.Say("map.caption", study.Figures{"data": d.Title}),
		},
	}
	for _, g := range x.Groups() {
		parts = append(parts, x.lines(g, lines))
	}
	return append(parts, x.table(lines), x.long(lines))
}

// trajectory is the map of the trace and of its releases.
func (x *overTime) trajectory(lines []named) *chart.Figure {
	d := x.data
	var truth []grid.Point
	for _, c := range x.trace.Cells {
		truth = append(truth, d.Grid.Centre(c))
	}
	start := chart.Overlay{Name: "start of the trace", Points: truth[:1], Markers: true, Look: 3}
	whole := chart.Overlay{
		Name: "true place", Points: truth, Line: true, Markers: true, Reference: true,
	}
	f := &chart.Figure{
		Title: d.Title + ": one trace and its releases", PanelWidth: 4, PanelHeight: 3.6,
		Panels: []chart.Panel{&chart.Map{
			Title: "true trace, on the map", Grid: d.Grid, Overlays: []chart.Overlay{whole, start},
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
	f.Note = x.prose.Say("map.note", study.Figures{
		"epsilon": x.Options.Epsilon, "delta": x.Options.Delta, "share": 100 * share,
	})
	return f
}

// viewOf returns corners that hold the map and the inner nine tenths of the places on each axis,
// and what share of the places they hold.
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

// lines is the figure of a group's metrics over time.
func (x *overTime) lines(g study.Group, lines []named) *report.Figure {
	d, o := x.data, x.Options
	figure := &report.Figure{
		Name:    "over-time-" + d.Name,
		Caption: x.prose.Say("lines.caption", study.Figures{"data": d.Title, "group": g.Title}),
	}
	title := fmt.Sprintf("%s over time: ε = %g, δ = %g, popular M", d.Title, o.Epsilon, o.Delta)
	if g.Name != "" {
		figure.Name += "-" + g.Name
		title += "; " + g.Title
	}
	n := len(lines[0].line.Set[0])
	window := max(1, n/windows)
	f := &chart.Figure{
		Title: title, Columns: 2, PanelWidth: 5, PanelHeight: 2.8,
		Note: x.prose.Say("lines.note",
			study.Figures{"timestamps": n, "runs": o.TimeRuns, "window": window}),
	}
	for _, m := range study.Metrics() {
		width := window
		if m.Name == "set" {
			width = 1
		}
		panel := &chart.Lines{
			X: timeAxis(d, n), Y: chart.Axis{
				Label: m.Axis, Log: m.Log && m.Name != "drift", Zero: true,
			},
		}
		for _, l := range lines {
			if l.blind || slices.Contains(g.Variants, l.variant) {
				panel.Series = append(panel.Series, l.series(m, width))
			}
		}
		if m.Name == "drift" {
			guide := driftGuide([]float64{1, float64(n)}, func(float64) float64 { return o.Delta })
			panel.Series = append(panel.Series, guide)
		}
		f.Panels = append(f.Panels, panel)
	}
	figure.Chart = f
	return figure
}

// series is the line of a metric over windows of so many timestamps.
func (n *named) series(m study.Metric, width int) chart.Series {
	series := chart.Series{
		Name: n.label, Look: n.look, Reference: n.blind, NoMarkers: m.Name == "set",
	}
	for from := 0; from+width <= len(n.line.Set[0]); from += width {
		band := m.Of(n.line.tallies(from, from+width))
		add(&series, float64(from)+float64(width+1)/2, band)
	}
	return series
}

func (x *overTime) table(lines []named) *report.Table {
	table := &report.Table{
		Name:    "over-time-" + x.data.Name,
		Caption: x.data.Title + " over the whole trace, with 95 % confidence over runs.",
		Columns: []string{"mechanism"},
	}
	for _, m := range study.Metrics() {
		table.Columns = append(table.Columns, m.Axis)
	}
	for _, l := range lines {
		tallies := l.line.tallies(0, len(l.line.Set[0]))
		row := []string{l.label}
		for _, m := range study.Metrics() {
			row = append(row, m.Of(tallies).String())
		}
		if l.blind {
			row[3] = "none"
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// long has every timestamp.
func (x *overTime) long(lines []named) *report.Table {
	table := &report.Table{
		Name: "over-time-" + x.data.Name + "-timestamps", Long: true,
		Caption: x.data.Title + ": every timestamp, over the runs.",
		Columns: []string{"timestamp", "mechanism", "metric", "value", "low", "high"},
	}
	for _, l := range lines {
		what := strings.ReplaceAll(l.what, "/", " ")
		for i := range l.line.Set[0] {
			tallies := l.line.tallies(i, i+1)
			for _, m := range study.Metrics() {
				row := []string{fmt.Sprint(i + 1), what, m.Name}
				table.Rows = append(table.Rows, append(row, m.Of(tallies).Fields()...))
			}
		}
	}
	return table
}
