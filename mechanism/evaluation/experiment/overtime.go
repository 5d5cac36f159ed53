package experiment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
)

// overTime is many runs of a single trace, timestamp by timestamp.
var overTime = Experiment{
	Name: "over-time", Title: "Performance over time",
	Plan: func(s *Study) (pieces []Piece) {
		for _, d := range followable(s) {
			pieces = append(pieces, timeline.all(s, s.Ways(Case{d, Popular}, Fixed))...)
		}
		return pieces
	},
	Show: func(p *Page) {
		for _, d := range followable(p.Study) {
			x := &followed{Page: p, data: d, trace: longestFollowed(d)[0]}
			name := "over-time-" + d.Name
			each := x.scores(1)
			each.Name, each.Long = name+"-timestamps", true
			each.Caption = d.Title + ": every timestamp, over the runs."
			p.Figure(name+"-map", x.trajectory())
			p.Figure(name, x.figure(each))
			whole := x.scores(len(x.trace.Steps))
			caption := fmt.Sprintf("%s, over the whole trace of %d timestamps in %d different "+
				"cells, with 95 %% confidence over runs.", d.Title, len(x.trace.Steps),
				x.trace.Distinct())
			p.Table(name, caption,
				whole.Pivot([]string{"mechanism"}, "metric", axes(errorScores)))
			p.Add(each)
		}
	},
}

// timeline measures each timestamp of one trace. The runs are the clusters.
var timeline = &Walks{
	Name: "over-time", Single: true,
	Runs:   func(s *Study) int { return s.Options.TimeRuns },
	Window: func(_ *Data, timestamp int) int { return timestamp },
	Traces: func(_ *Study, d *Data) []Trace { return longestFollowed(d) },
	Probe: func(_ *Study, w *Walk) (Probe, error) {
		if w.Blind {
			return blindErrors([]float64{w.Delta}, metre), nil
		}
		return releaseErrors(metre), nil
	},
	Inputs: func(_ *Study, at Point) string { return fmt.Sprintf("δ %g", at.Delta) },
}

// followable are the data sets with traces over time: check-ins have none.
func followable(s *Study) []*Data {
	return slices.DeleteFunc(slices.Clone(s.Data), func(d *Data) bool { return d.EveryFix })
}

// longestFollowed returns the trace that is followed: of the longest ones with the fewest holes the
// one that visits the most cells, so that there is something to follow.
func longestFollowed(d *Data) []Trace {
	return []Trace{slices.MinFunc(d.Traces, func(a, b Trace) int {
		return cmp.Or(-cmp.Compare(len(a.Steps), len(b.Steps)),
			cmp.Compare(a.Holes(), b.Holes()), -cmp.Compare(a.Distinct(), b.Distinct()))
	})}
}

// followed is the section on one data set.
type followed struct {
	*Page
	data  *Data
	trace Trace
}

func (x *followed) points() []Point { return x.Ways(Case{x.data, Popular}, Fixed) }

// scores are those over windows of so many timestamps.
func (x *followed) scores(width int) *report.Table {
	t := long("", "from timestamp", "to timestamp", "mechanism", "metric")
	for _, at := range x.points() {
		windows := x.Read(timeline, at)
		for from := 0; from+width <= windows.Len(); from += width {
			sample := windows.Between(from, from+width)
			for _, m := range errorScores {
				t.Add(from+1, from+width, at.Label(), m.name, m.of(sample))
			}
		}
	}
	return t
}

// figure draws the metrics over time.
func (x *followed) figure(each *report.Table) *report.Figure {
	n := len(x.trace.Steps)
	width := max(1, n/windows)
	f := &report.Figure{
		Title: fmt.Sprintf("%s over time: ε = %g, δ = %g, popular M", x.data.Title, Fixed.Epsilon,
			Fixed.Delta),
		Columns: 2, PanelWidth: 5, PanelHeight: 2.8,
		Note: fmt.Sprintf("One trace of %d timestamps, %d runs. |ΔX| is the mean over the runs at "+
			"each timestamp; the others are over the runs and windows of %d. Bands: 95 %% "+
			"confidence over further runs; none where no two differ. blind: no release.",
			n, x.Options.TimeRuns, width),
	}
	wide := x.scores(width)
	for _, m := range errorScores {
		t := wide
		if m.name == setScore.name {
			t = each
		}
		panel := &report.Lines{
			X:      timeAxis(x.data, n),
			Y:      report.Axis{Label: m.axis, Log: m.log && m.name != driftScore.name, Zero: true},
			Series: styled(t.Where("metric", m.name).Lines("mechanism", timestamps, nil)),
		}
		if m.name == driftScore.name {
			panel.Series = append(panel.Series, driftGuide([]float64{1, float64(n)}, Fixed.Delta))
		}
		f.Panels = append(f.Panels, panel)
	}
	return f
}

// trajectory is the map of the trace and of its releases. The view of the releases holds the map
// and the inner nine tenths of LM's on each axis, which reach furthest.
func (x *followed) trajectory() *report.Figure {
	d := x.data
	whole := report.Series{Name: "true place", Reference: true}
	for _, c := range x.trace.Cells {
		at := d.Grid.Centre(c)
		whole.X, whole.Y = append(whole.X, at.X), append(whole.Y, at.Y)
	}
	f := &report.Figure{
		Title: d.Title + ": one trace and its releases", PanelWidth: 4, PanelHeight: 3.6,
		Note: fmt.Sprintf("ε = %g at every timestamp, δ = %g. True places are centres of "+
			"cells. The grey frame is the map. Some releases lie further away.",
			Fixed.Epsilon, Fixed.Delta),
		Panels: []report.Panel{
			&report.Map{Title: "true trace", Grid: d.Grid, Series: []report.Series{whole}},
		},
	}
	var view [2]grid.Point
	for i, v := range []Variant{LM, PIM} {
		released := report.Series{Name: v.Label(), NoLine: true}
		for _, s := range x.Read(timeline, Point{
			Case: Case{d, Popular}, Variant: v, Setting: Fixed,
		})[0] { // the first run
			released.X = append(released.X, s.Of[placeX])
			released.Y = append(released.Y, s.Of[placeY])
		}
		if side := d.Grid.CellKM(); i == 0 {
			view[0].X, view[1].X = inner(released.X, float64(d.Grid.Width())*side)
			view[0].Y, view[1].Y = inner(released.Y, float64(d.Grid.Height())*side)
		}
		f.Panels = append(f.Panels, &report.Map{
			Title: v.Label() + ", released in one run", Grid: d.Grid, View: view,
			Series: append(styled([]report.Series{released}), whole),
		})
	}
	return f
}

// inner are the ends of the inner nine tenths of some values and of a map's side.
func inner(values []float64, length float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	cut := len(sorted) / 20
	return min(-.05*length, sorted[cut]), max(1.05*length, sorted[len(sorted)-1-cut])
}
