package experiment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/report"
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
			showFollowed(p, d, longestFollowed(d)[0])
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

// showFollowed shows a trace and its releases on the map, and the scores over time.
func showFollowed(p *Page, d *Data, t Trace) {
	name, n := "over-time-"+d.Name, len(t.Steps)
	p.Add(trajectory(p, name+"-map", d, t))
	width := max(1, n/windows)
	chart := &report.Chart{
		Name: name, Title: fmt.Sprintf("%s over time: ε = %g, δ = %g, popular M", d.Title,
			Fixed.Epsilon, Fixed.Delta),
		Note: fmt.Sprintf("One trace of %d timestamps, %d runs. Values are means over the runs "+
			"and over windows of %d timestamps. Bars: 95 %% confidence over further runs; none "+
			"where no two differ. blind: no release.", n, p.Options.TimeRuns, width),
	}
	for _, m := range errorScores {
		rows := overWindowsOf(p, d, width).Where("metric", m.name)
		chart.Panels = append(chart.Panels, report.Panel{
			X: timeAxis(d), Y: m.y(), Series: rows.Lines("mechanism", timestamps, nil),
		})
	}
	p.Add(chart)
	caption := fmt.Sprintf("%s, over the whole trace of %d timestamps in %d different cells, with "+
		"95 %% confidence over runs.", d.Title, n, t.Distinct())
	p.Table(name, caption,
		overWindowsOf(p, d, n).Pivot([]string{"mechanism"}, "metric", axes(errorScores)))
	p.Table(name+"-timestamps", d.Title+": every timestamp, over the runs.",
		overWindowsOf(p, d, 1))
}

// overWindowsOf returns the scores over windows of so many timestamps.
func overWindowsOf(p *Page, d *Data, width int) *report.Table {
	t := numbers("", "from timestamp", "to timestamp", "mechanism", "metric")
	for _, at := range p.Ways(Case{d, Popular}, Fixed) {
		read := p.Read(timeline, at)
		for from := 0; from+width <= read.Len(); from += width {
			sample := read.Between(from, from+width)
			for _, m := range errorScores {
				t.Add(from+1, from+width, at.Label(), m.name, m.bandOf(sample))
			}
		}
	}
	return t
}

// trajectory draws the trace, and the releases of the first run of the paper's mechanisms.
func trajectory(p *Page, name string, d *Data, t Trace) *report.Chart {
	whole := report.Series{Name: "true place"}
	for _, c := range t.Cells {
		at := d.Grid.Centre(c)
		whole.X, whole.Y = append(whole.X, at.X), append(whole.Y, at.Y)
	}
	chart := &report.Chart{
		Name: name, Title: d.Title + ": one trace and its releases in one run",
		Note: fmt.Sprintf("ε = %g at every timestamp, δ = %g. True places are centres of cells. "+
			"Kilometres are from the map's south-west corner.", Fixed.Epsilon, Fixed.Delta),
	}
	for _, v := range []Variant{LM, PIM} {
		released := report.Series{Name: v.Label(), Points: true}
		for _, s := range p.Read(timeline, Point{
			Case: Case{d, Popular}, Variant: v, Setting: Fixed,
		})[0] {
			released.X = append(released.X, s.Of[placeX])
			released.Y = append(released.Y, s.Of[placeY])
		}
		chart.Panels = append(chart.Panels, report.Panel{
			Title: v.Label(), Series: []report.Series{released, whole},
			X: report.Axis{Label: "east, km"}, Y: report.Axis{Label: "north, km"},
		})
	}
	return chart
}
