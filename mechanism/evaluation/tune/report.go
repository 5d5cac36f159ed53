package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// Report returns the result as a page, with the frontier drawn and every measurement in a table.
func (r *Result) Report() *report.Report {
	choice := report.Section{Title: "What to choose"}
	for _, line := range r.Words() {
		choice.Parts = append(choice.Parts, report.Text(line))
	}
	curve := report.Section{Title: "What error costs how much", Parts: []report.Part{
		report.Text("The settings that nothing of the same mechanism beats: whatever costs less " +
			"has a larger median error. ε a day bounds what the releases of 24 hours tell about " +
			"a user who reports all day; it adds up from day to day. A release tells two likely " +
			"places 200 m or 1 km from each other by a factor, at worst e^ε, and the logarithms " +
			"of the median release's factor, added up, are what of ε a day goes to such places."),
		report.Text(nearPlaces),
	}}
	if len(r.Frontier) > 0 {
		table := r.table("frontier", "The frontier", r.Frontier, false)
		curve.Parts = append(curve.Parts, table, r.figure())
	} else {
		curve.Parts = append(curve.Parts, report.Text(
			"No setting that was tried is better than the model alone by more than 3 %."))
	}
	how := report.Section{Title: "How it was measured", Parts: []report.Part{
		report.Text(fmt.Sprintf("Errors are distances from each fix to the estimate published "+
			"for it, also between releases; low and high hold the median of 95 %% of samples of "+
			"users, too "+
			"narrowly below ten of them; runs are other noise on the same fixes, and releases "+
			"those of all runs. "+
			"A model never knew the users it was measured on: %d users in turn, and %d more that "+
			"the choice has not seen. blind is the same estimate without any release. "+
			"%d settings were looked at on about %d time steps with a fix, and %d of them "+
			"measured on about %d; what is promised and checked, on %d.",
			r.Users, r.Held, len(r.Scouted), r.Options.ScoutBins, len(r.Measured), r.Options.Bins,
			enough*r.Options.Bins)),
		r.table("measured", "Settings near the frontier, and those tried on the way to a target",
			r.Measured, true),
		r.table("scouted", "All settings, on a small sample", r.Scouted, true),
	}}
	if chosen := r.chosen(); len(chosen) > 0 {
		choice.Parts = append(choice.Parts, r.table("chosen",
			"The choice: as promised, and on the users that had no part in it", chosen, false))
	}
	return &report.Report{Title: "How to release", Sections: []report.Section{choice, curve, how}}
}

// chosen are the promise and its check.
func (r *Result) chosen() (both []Outcome) {
	for _, o := range []*Outcome{r.Promise, r.Others} {
		if o != nil {
			both = append(both, *o)
		}
	}
	return both
}

// blind is the least median error without any release, of any map and step.
func (r *Result) blind() float64 {
	least := math.Inf(1)
	for _, o := range r.Scouted {
		least = min(least, o.BlindKM)
	}
	return least
}

// columns are what a table of outcomes shows.
var columns = []string{
	"mechanism", "ε a day", "within 200 m", "within 1 km",
	"cell, m", "step", "release every", "ε", "δ",
	"median error, km", "low", "high", "mean error, km", "blind, km",
	"share between neighbours", "factor in 200 m", "worst in 200 m",
	"factor in 1 km", "worst in 1 km", "drift", "|ΔX|",
	"users", "fixes", "runs", "releases",
}

func (r *Result) table(name, caption string, outcomes []Outcome, long bool) *report.Table {
	t := &report.Table{Name: name, Caption: caption, Columns: columns, Long: long}
	for i := range outcomes {
		o := &outcomes[i]
		t.Rows = append(t.Rows, report.Strings(
			o.Mechanism, Number(o.EpsilonDay()), Number(o.Day200M()), Number(o.Day1KM()),
			Number(o.CellM), Short(o.Step), Short(o.Interval), Number(o.Epsilon), Number(o.Delta),
			fixed(o.MedianKM), fixed(o.LowKM), fixed(o.HighKM), fixed(o.MeanKM), fixed(o.BlindKM),
			fixed(o.NearShare), Number(o.Factor200M), Number(o.Worst200M),
			Number(o.Factor1KM), Number(o.Worst1KM),
			strconv.FormatFloat(o.Drift, 'f', 4, 64), strconv.FormatFloat(o.SetMean, 'f', 1, 64),
			strconv.Itoa(o.Users), strconv.FormatInt(o.Fixes, 10), strconv.Itoa(o.Runs),
			strconv.FormatInt(o.Releases, 10),
		))
	}
	return t
}

// figure draws the least error against what it costs, for each mechanism and release interval.
func (r *Result) figure() *report.Figure {
	f := &chart.Figure{
		Title: "What error costs how much",
		Note: fmt.Sprintf("The least median distance of estimates from the truth with a release "+
			"every so often, over cells, steps and δ; on %d users that the models had not seen. "+
			"Blind is the same without any release.", r.Users),
		Columns: 3,
	}
	for _, mechanism := range r.Options.Mechanisms {
		f.Panels = append(f.Panels, r.panels(mechanism)...)
	}
	return &report.Figure{
		Name:    "frontier",
		Caption: "Median error against ε a day, and against what of it tells near places apart",
		Chart:   f,
	}
}

// panels draw the outcomes of one mechanism.
func (r *Result) panels(mechanism string) (drawn []chart.Panel) {
	panels := []struct {
		title, label string
		x            func(*Outcome) float64
	}{
		{"what a day costs", "ε a day", func(o *Outcome) float64 { return o.EpsilonDay() }},
		{"what of it tells places 200 m apart", "ε a day within 200 m", (*Outcome).Day200M},
		{"what of it tells places 1 km apart", "ε a day within 1 km", (*Outcome).Day1KM},
	}
	for _, p := range panels {
		lines := &chart.Lines{
			Title: mechanism + ": " + p.title, X: chart.Axis{Label: p.label, Log: true},
			Y: chart.Axis{Label: "median error, km", Log: true},
		}
		left, right := math.Inf(1), 0.0
		for _, interval := range r.intervals() {
			s := chart.Series{Name: "release every " + Short(interval)}
			for _, o := range r.envelope(mechanism, interval, p.x) {
				s.X, s.Y = append(s.X, p.x(&o)), append(s.Y, o.MedianKM)
				left, right = min(left, p.x(&o)), max(right, p.x(&o))
			}
			if len(s.X) > 0 {
				lines.Series = append(lines.Series, s)
			}
		}
		blind := r.blind()
		if left >= right {
			left, right = right/2, 2*right // a line needs a length
		}
		lines.Series = append(lines.Series, chart.Series{
			Name: "blind", X: []float64{left, right}, Y: []float64{blind, blind}, Reference: true,
		})
		if r.Promise != nil && r.Promise.Mechanism == mechanism {
			lines.Series = append(lines.Series, chart.Series{
				Name: "chosen", X: []float64{p.x(r.Promise)}, Y: []float64{r.Promise.MedianKM},
				NoLine: true,
			})
		}
		drawn = append(drawn, lines)
	}
	return drawn
}

// intervals are those that were tried, ascending.
func (r *Result) intervals() (all []time.Duration) {
	for i := range r.Scouted {
		all = append(all, r.Scouted[i].Interval)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// envelope returns the outcomes with a mechanism and an interval that nothing of less x beats,
// those of the large sample as far as there are some.
func (r *Result) envelope(
	mechanism string, interval time.Duration, x func(*Outcome) float64,
) (best []Outcome) {
	measured := map[Setting]bool{}
	for i := range r.Measured {
		measured[r.Measured[i].Setting] = true
	}
	var list []Outcome
	for _, o := range slices.Concat(r.Measured, slices.DeleteFunc(slices.Clone(r.Scouted),
		func(o Outcome) bool { return measured[o.Setting] })) {
		if o.Mechanism == mechanism && o.Interval == interval {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(
		list,
		func(a, b Outcome) int {
			return cmp.Or(cmp.Compare(x(&a), x(&b)), cheaper(a.Setting, b.Setting))
		},
	)
	for _, o := range list {
		if len(best) > 0 && o.MedianKM >= best[len(best)-1].MedianKM {
			continue
		}
		if last := len(best) - 1; last >= 0 && x(&o) == x(&best[last]) {
			best = best[:last]
		}
		best = append(best, o)
	}
	return best
}

// Length is a distance in words, metres below a kilometre.
func Length(km float64) string {
	if km < .9995 {
		return strconv.FormatFloat(1000*km, 'f', 0, 64) + " m"
	}
	return strconv.FormatFloat(km, 'f', 2, 64) + " km"
}

func fixed(km float64) string { return strconv.FormatFloat(km, 'f', 3, 64) }
