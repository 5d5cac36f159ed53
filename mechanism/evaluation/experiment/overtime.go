package experiment

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

//go:embed overtime.md
var overTimeText string

// overTime is many runs of a single trace, timestamp by timestamp.
var overTime = study.Experiment{
	Name: "over-time", Title: "Performance over time", Text: overTimeText,
	Plan: func(s *study.Study) (pieces []study.Piece) {
		for _, d := range followable(s) {
			for _, at := range s.Ways(study.Case{Data: d, Kind: study.Popular}, s.Fixed()) {
				pieces = append(pieces, timeline.Pieces(s, at)...)
			}
		}
		return pieces
	},
	Show: showOverTime,
}

// timeline measures each timestamp of one trace. The runs are the clusters.
var timeline = &study.Walks{
	Name: "over-time", Single: true,
	Runs:   func(s *study.Study) int { return s.Options.TimeRuns },
	Window: func(_ *study.Data, timestamp int) int { return timestamp },
	Traces: func(_ *study.Study, d *study.Data) []study.Trace { return longestFollowed(d) },
	Probe: func(_ *study.Study, w *study.Walk) (study.Probe, error) {
		if w.Blind {
			return blindErrors([]float64{w.Delta}, metre), nil
		}
		return releaseErrors(metre), nil
	},
	Inputs: func(_ *study.Study, at study.Point) string { return fmt.Sprintf("δ %g", at.Delta) },
}

// followable are the data sets with traces over time: check-ins have none.
func followable(s *study.Study) []*study.Data {
	return slices.DeleteFunc(slices.Clone(s.Data),
		func(d *study.Data) bool { return d.EveryFix })
}

// longestFollowed returns the trace that is followed: of the longest ones with the fewest holes the
// one that visits the most cells, so that there is something to follow.
func longestFollowed(d *study.Data) []study.Trace {
	return []study.Trace{slices.MinFunc(d.Traces, func(a, b study.Trace) int {
		return cmp.Or(-cmp.Compare(len(a.Steps), len(b.Steps)),
			cmp.Compare(a.Holes(), b.Holes()), -cmp.Compare(a.Distinct(), b.Distinct()))
	})}
}

func showOverTime(p *study.Page) {
	p.Text("intro", nil)
	list := followable(p.Study)
	if len(list) == 0 {
		p.Text("none", nil)
	}
	for _, d := range list {
		x := &followed{
			Page: p, data: d, trace: longestFollowed(d)[0], lines: map[string]study.Windows{},
		}
		x.points = p.Ways(study.Case{Data: d, Kind: study.Popular}, p.Fixed())
		for _, at := range x.points {
			x.lines[at.Label()] = p.Read(timeline, at)
		}
		x.show()
	}
}

// followed is the section on one data set.
type followed struct {
	*study.Page
	data   *study.Data
	trace  study.Trace
	points []study.Point
	lines  map[string]study.Windows // by the points' names
}

func (x *followed) show() {
	d, t, o := x.data, x.trace, x.Options
	x.Text("trace", study.Figures{
		"data": d.Title, "timestamps": len(t.Steps), "step": d.Step, "holes": int(t.Holes()),
		"cells": t.Distinct(), "cell": study.LengthOf(d.Grid), "epsilon": o.Epsilon,
		"delta": o.Delta,
		"runs":  o.TimeRuns, "spent": o.Epsilon * float64(len(t.Steps)), "open": d.Open,
	})
	name := "over-time-" + d.Name
	x.Figure(name+"-map", x.Say("map.caption", study.Figures{"data": d.Title}), x.trajectory())
	each := x.scores(1)
	each.Name, each.Long = name+"-timestamps", true
	each.Caption = d.Title + ": every timestamp, over the runs."
	for _, g := range x.Groups() {
		x.Figure(g.File(name),
			x.Say("lines.caption", study.Figures{"data": d.Title, "group": g.Title}),
			x.figure(g, each))
	}
	x.Table(name, d.Title+" over the whole trace, with 95 % confidence over runs.",
		x.scores(len(t.Steps)).Pivot([]string{"mechanism"}, "metric", axes(errorScores())))
	x.Add(each)
}

// scores are those over windows of so many timestamps.
func (x *followed) scores(width int) *report.Table {
	t := study.Long("", "from timestamp", "to timestamp", "mechanism", "metric")
	for _, at := range x.points {
		windows := x.lines[at.Label()]
		for from := 0; from+width <= windows.Len(); from += width {
			sample := windows.Between(from, from+width)
			for _, m := range errorScores() {
				t.Add(from+1, from+width, at.Label(), m.name, m.of(sample))
			}
		}
	}
	return t
}

// figure draws a group's metrics over time.
func (x *followed) figure(g study.Group, each *report.Table) *chart.Figure {
	d, o, n := x.data, x.Options, len(x.trace.Steps)
	width := max(1, n/windows)
	title := fmt.Sprintf("%s over time: ε = %g, δ = %g, popular M", d.Title, o.Epsilon, o.Delta)
	f := &chart.Figure{
		Title: g.Titled(title, "; "), Columns: 2, PanelWidth: 5, PanelHeight: 2.8,
		Note: x.Say("lines.note",
			study.Figures{"timestamps": n, "runs": o.TimeRuns, "window": width}),
	}
	wide := x.scores(width)
	for _, m := range errorScores() {
		t := wide
		if m.name == setScore.name {
			t = each
		}
		panel := &chart.Lines{
			X: timeAxis(d, n),
			Y: chart.Axis{Label: m.axis, Log: m.log && m.name != driftScore.name, Zero: true},
			Series: styled(t.Where("metric", m.name).Where("mechanism", g.Labels()...).
				Lines("mechanism", timestamps, nil)),
		}
		if m.name == driftScore.name {
			panel.Series = append(panel.Series, driftGuide([]float64{1, float64(n)}, x.fixedDelta))
		}
		f.Panels = append(f.Panels, panel)
	}
	return f
}

func (x *followed) fixedDelta(float64) float64 { return x.Options.Delta }

// trajectory is the map of the trace and of its releases.
func (x *followed) trajectory() *chart.Figure {
	d := x.data
	var truth []grid.Point
	for _, c := range x.trace.Cells {
		truth = append(truth, d.Grid.Centre(c))
	}
	whole, start := placed("true place", truth), placed("start of the trace", truth[:1])
	whole.Reference, start.NoLine, start.Look = true, true, 3
	f := &chart.Figure{
		Title: d.Title + ": one trace and its releases", PanelWidth: 4, PanelHeight: 3.6,
		Panels: []chart.Panel{&chart.Map{
			Title: "true trace, on the map", Grid: d.Grid, Series: []chart.Series{whole, start},
		}},
	}
	var view [2]grid.Point
	share := 0.
	for i, v := range []study.Variant{study.LM, study.PIM} {
		places := placesOf(x.lines[v.Label()])
		if i == 0 { // LM's releases reach furthest
			view, share = viewOf(d.Grid, places)
		}
		released := placed(v.Label()+", released", places)
		released.NoLine, released.Look = true, v.Look()
		f.Panels = append(f.Panels, &chart.Map{
			Title: v.Label() + ", one run", Grid: d.Grid, View: view,
			Series: []chart.Series{released, whole, start},
		})
	}
	f.Note = x.Say("map.note", study.Figures{
		"epsilon": x.Options.Epsilon, "delta": x.Options.Delta, "share": 100 * share,
	})
	return f
}

// placed is a series of places.
func placed(name string, places []grid.Point) chart.Series {
	s := chart.Series{Name: name}
	for _, p := range places {
		s.X, s.Y = append(s.X, p.X), append(s.Y, p.Y)
	}
	return s
}

// placesOf are the releases of the first run.
func placesOf(runs study.Windows) (places []grid.Point) {
	for _, s := range runs[0] {
		places = append(places, grid.Point{X: s.Of[placeX], Y: s.Of[placeY]})
	}
	return places
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
