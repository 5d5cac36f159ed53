package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
		report.Text("The settings that nothing beats: whatever costs less has a larger median error. ε a day bounds what the releases of 24 hours tell about a user who " +
			"reports all day; it adds up from day to day. Near places are told apart less than far ones: a release tells two likely places 200 m or 1 km from each " +
			"other by a factor, at worst e^ε, and the logarithms of the median release's factor, added up, are what of ε a day goes to such places."),
	}}
	if len(r.Frontier) > 0 {
		curve.Parts = append(curve.Parts, r.table("frontier", "The frontier", r.Frontier, false), r.figure())
	} else {
		curve.Parts = append(curve.Parts, report.Text("No setting that was tried is better than the model alone by more than 3 %."))
	}
	how := report.Section{Title: "How it was measured", Parts: []report.Part{
		report.Text(fmt.Sprintf("Errors are distances from each fix to the estimate published for it, also between releases; low and high hold the median of 95 %% of samples of users, too "+
			"narrowly below ten of them; runs are other noise on the same fixes, and releases those of all runs. "+
			"A model never knew the users it was measured on: %d users in turn, and %d more that the choice has not seen. blind is the same estimate without any release. "+
			"%d settings were looked at on about %d time steps with a fix, and %d of them measured on about %d; what is promised and checked, on %d.",
			r.Users, r.Held, len(r.Scouted), r.Options.ScoutBins, len(r.Measured), r.Options.Bins, enough*r.Options.Bins)),
		r.table("chosen", "The choice: as promised, and on the users that had no part in it", r.chosen(), false),
		r.table("measured", "Settings near the frontier, and those tried on the way to a target", r.Measured, true),
		r.table("scouted", "All settings, on a small sample", r.Scouted, true),
	}}
	return &report.Report{Title: "How to release", Sections: []report.Section{choice, curve, how}}
}

// Words say what to choose, a paragraph each.
func (r *Result) Words() (lines []string) {
	o := &r.Options
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(r.LeftOut) > 0 {
		var times []string
		for _, interval := range r.LeftOut {
			times = append(times, Short(interval))
		}
		say("A release every %s was not tried: most of the traces are shorter than two of these.", strings.Join(times, " or "))
	}
	if blind := r.blind(); o.TargetKM > 0 && blind <= o.TargetKM {
		say("The model alone reaches %s: the median error without any release is %s.", Length(o.TargetKM), Length(blind))
	}
	if r.Promise == nil {
		return append(lines, r.noChoice())
	}
	p := r.Promise
	if o.TargetKM > 0 {
		say("The cheapest setting found for a median error of %s: %s.", Length(o.TargetKM), p.Words())
	} else {
		say("The least error found for an ε of %s a day: %s.", Number(o.TargetEpsilonDay), p.Words())
	}
	say("It costs at most ε = %s in 24 hours, counted in whole steps: up to %d releases of ε = %s. Of that, ε = %s tells likely places 200 m apart from each other, and %s those 1 km apart.",
		Number(p.EpsilonDay()), p.ReleasesDay(), Number(p.Epsilon), Number(p.Day200M()), Number(p.Day1KM()))
	anew := "This was measured anew, with other noise than the choice."
	if r.Raised > 0 {
		anew = fmt.Sprintf("This was measured anew, with other noise than the choice; for that ε had to be raised from %s.", Number(r.Raised))
	}
	say("Half of the estimates are to be expected within %s of the truth%s, the mean error is %s; without any release half are within %s. %s",
		p.Error(), p.doubt(), Length(p.MeanKM), Length(p.BlindKM), anew)
	say("The median release tells two likely places 200 m apart by a factor of %s (the worst: %s), places 1 km apart by %s (%s), and none tells any two, likely or not, by more than e^ε = %s. "+
		"In %.0f %% of releases the true cell is none of the likely ones, and the nearest of these stands for it.",
		Factor(p.Factor200M), Factor(p.Worst200M), Factor(p.Factor1KM), Factor(p.Worst1KM), Number(math.Exp(p.Epsilon)), 100*p.Drift)
	if p.Factor200M > telling {
		say("So each release all but says where in the neighbourhood somebody is. To hide more, allow a larger error, or set a limit to that factor.")
	}
	if r.Others == nil {
		say("There were too few users to check this on some that had no part in the choice.")
	} else {
		say("Checked on %s that had no part in the choice: %s%s, without any release %s.", users(r.Others.Users), r.Others.Error(), r.Others.doubt(), Length(r.Others.BlindKM))
	}
	say("The model is learned without differential privacy from all of these traces: whoever has it learns about them, and ε does not cover that.")
	return lines
}

// noChoice says why nothing is chosen, and what comes nearest.
func (r *Result) noChoice() string {
	o := &r.Options
	limit := ""
	if o.MostFactor200M > 0 {
		limit = fmt.Sprintf(" while the median release tells places 200 m apart by a factor of at most %s", Number(o.MostFactor200M))
	}
	switch {
	case o.TargetKM == 0 && o.TargetEpsilonDay == 0:
		return "Name an error or an ε a day to have a setting chosen."
	case r.Missed != nil:
		return fmt.Sprintf("What was chosen does not keep to the target%s when it is measured anew, with other noise: %s gives %s, and a factor of %s in 200 m.",
			limit, r.Missed.Words(), r.Missed.Error(), Factor(r.Missed.Factor200M))
	case o.TargetEpsilonDay > 0:
		return fmt.Sprintf("No setting that was tried costs at most ε = %s a day and is better than the model alone, whose median error is %s,%s.", Number(o.TargetEpsilonDay), Length(r.blind()), limit)
	case len(r.Frontier) == 0 && limit != "":
		return fmt.Sprintf("No setting that was tried is better than the model alone%s. Allow a larger factor, or try a smaller ε.", limit)
	case len(r.Frontier) == 0:
		return "No setting that was tried is better than the model alone. Give other cells, steps or a larger ε."
	}
	best := r.Frontier[len(r.Frontier)-1]
	advice := "Smaller cells, shorter steps or a larger ε may reach it."
	if limit != "" {
		advice = "Allow a larger error or a larger factor, or try more ε between those tried."
	}
	return fmt.Sprintf("No setting that was tried reaches a median error of %s%s. The nearest is %s, at ε = %s a day: %s. %s",
		Length(o.TargetKM), limit, Length(best.MedianKM), Number(best.EpsilonDay()), best.Words(), advice)
}

// doubt is what to add to an interval over few users.
func (o *Outcome) doubt() string {
	if o.Users >= 10 {
		return ""
	}
	return fmt.Sprintf(" (of %s: the brackets are too narrow)", users(o.Users))
}

func users(n int) string {
	if n == 1 {
		return "1 user"
	}
	return strconv.Itoa(n) + " users"
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

// Words name a setting.
func (s Setting) Words() string {
	return fmt.Sprintf("cells of %s, steps of %s, a release every %s, ε = %s, δ = %g", Length(s.CellM/1000), Short(s.Step), Short(s.Interval), Number(s.Epsilon), s.Delta)
}

// columns are what a table of outcomes shows.
var columns = []string{
	"ε a day", "within 200 m", "within 1 km", "cell, m", "step", "release every", "ε", "δ", "median error, km", "low", "high", "mean error, km", "blind, km",
	"factor in 200 m", "worst in 200 m", "factor in 1 km", "worst in 1 km", "drift", "|ΔX|", "users", "fixes", "runs", "releases",
}

func (r *Result) table(name, caption string, outcomes []Outcome, long bool) *report.Table {
	t := &report.Table{Name: name, Caption: caption, Columns: columns, Long: long}
	for i := range outcomes {
		o := &outcomes[i]
		t.Rows = append(t.Rows, []string{
			Number(o.EpsilonDay()), Number(o.Day200M()), Number(o.Day1KM()), Number(o.CellM), Short(o.Step), Short(o.Interval), Number(o.Epsilon), Number(o.Delta),
			fixed(o.MedianKM), fixed(o.LowKM), fixed(o.HighKM), fixed(o.MeanKM), fixed(o.BlindKM),
			Number(o.Factor200M), Number(o.Worst200M), Number(o.Factor1KM), Number(o.Worst1KM),
			strconv.FormatFloat(o.Drift, 'f', 4, 64), strconv.FormatFloat(o.SetMean, 'f', 1, 64),
			strconv.Itoa(o.Users), strconv.FormatInt(o.Fixes, 10), strconv.Itoa(o.Runs), strconv.FormatInt(o.Releases, 10),
		})
	}
	return t
}

// figure draws the least error against what it costs, for each release interval.
func (r *Result) figure() *report.Figure {
	panels := []struct {
		title, label string
		x            func(*Outcome) float64
	}{
		{"What a day costs", "ε a day", func(o *Outcome) float64 { return o.EpsilonDay() }},
		{"What of it tells places 200 m apart", "ε a day within 200 m", (*Outcome).Day200M},
		{"What of it tells places 1 km apart", "ε a day within 1 km", (*Outcome).Day1KM},
	}
	f := &chart.Figure{
		Title: "What error costs how much",
		Note: fmt.Sprintf("The least median distance of estimates from the truth with a release every so often, over cells, steps and δ; on %d users that the models had not seen. "+
			"Blind is the same without any release.", r.Users),
		Columns: 3,
	}
	for _, p := range panels {
		lines := &chart.Lines{Title: p.title, X: chart.Axis{Label: p.label, Log: true}, Y: chart.Axis{Label: "median error, km", Log: true}}
		left, right := math.Inf(1), 0.0
		for _, interval := range r.intervals() {
			s := chart.Series{Name: "release every " + Short(interval)}
			for _, o := range r.envelope(interval, p.x) {
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
		lines.Series = append(lines.Series, chart.Series{Name: "blind", X: []float64{left, right}, Y: []float64{blind, blind}, Reference: true})
		if r.Promise != nil {
			lines.Series = append(lines.Series, chart.Series{Name: "chosen", X: []float64{p.x(r.Promise)}, Y: []float64{r.Promise.MedianKM}, NoLine: true})
		}
		f.Panels = append(f.Panels, lines)
	}
	return &report.Figure{Name: "frontier", Caption: "Median error against ε a day, and against what of it tells near places apart", Chart: f}
}

// intervals are those that were tried, ascending.
func (r *Result) intervals() (all []time.Duration) {
	for i := range r.Scouted {
		all = append(all, r.Scouted[i].Interval)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// envelope returns the outcomes with an interval that nothing of less x beats, those of the large sample as far as there are some.
func (r *Result) envelope(interval time.Duration, x func(*Outcome) float64) (best []Outcome) {
	measured := map[Setting]bool{}
	for i := range r.Measured {
		measured[r.Measured[i].Setting] = true
	}
	var list []Outcome
	for _, o := range slices.Concat(r.Measured, slices.DeleteFunc(slices.Clone(r.Scouted), func(o Outcome) bool { return measured[o.Setting] })) {
		if o.Interval == interval {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b Outcome) int { return cmp.Or(cmp.Compare(x(&a), x(&b)), cheaper(a.Setting, b.Setting)) })
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

// Error is the median error with its interval, in one unit.
func (o *Outcome) Error() string {
	if o.MedianKM < .9995 {
		return fmt.Sprintf("%.0f m (%.0f to %.0f)", 1000*o.MedianKM, 1000*o.LowKM, 1000*o.HighKM)
	}
	return fmt.Sprintf("%.2f km (%.2f to %.2f)", o.MedianKM, o.LowKM, o.HighKM)
}

// telling is a factor by which two places are as good as told apart.
const telling = 10

// mostFactor is a factor beyond which it makes no difference.
const mostFactor = 1000

// Factor is one in words.
func Factor(x float64) string {
	if x > mostFactor {
		return "> 1000"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Number is one with three significant digits, without an exponent where it is short enough.
func Number(x float64) string {
	switch {
	case x >= 1000 && x < 1e7:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 1e7:
		return strconv.FormatFloat(x, 'e', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func fixed(km float64) string { return strconv.FormatFloat(km, 'f', 3, 64) }

// Short is a time without the parts that are zero.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
