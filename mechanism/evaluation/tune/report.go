package tune

import (
	"fmt"
	"math"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/trial"
)

// Report returns the result as a page, with the errors drawn and every measurement in a table.
func (r *Result) Report() *report.Report {
	means := report.Section{Title: "What this means"}
	for _, line := range r.means() {
		means.Parts = append(means.Parts, report.Text(line))
	}
	means.Parts = append(means.Parts, r.figure())
	if p := r.Promise; p != nil {
		means.Parts = append(means.Parts, report.Text(p.look()))
	}
	choice := report.Section{Title: "What to choose"}
	for _, line := range r.Words() {
		choice.Parts = append(choice.Parts, report.Text(line))
	}
	plans := report.Section{Title: "What a day's ε buys", Parts: []report.Part{
		report.Text("The best plan found for each Σε a day: what the releases of 24 hours may " +
			"add up to. It adds up from day to day. blind is the best estimate of the model " +
			"alone; gain is the part of its error that the releases take away, of the mean or of " +
			"the median, whichever gains less."),
		r.table("plans", "The best plan for each Σε a day", r.Plans, false),
		report.Text("What the same records show of the past to a reader who waits and smooths " +
			"them (\"geodither smooth\"), as an attacker can. Where the model is wrong far " +
			"ahead, all records can be worse than a lag of one interval, or than none."),
		r.past(),
		report.Text("What all records of a day tell about one moment: ln of the largest ratio " +
			"between two cells of their odds after all records and before any. ε bounds what one " +
			"release adds to it. Each is measured at reports."),
		r.told(),
	}}
	how := report.Section{Title: "How it was measured", Parts: []report.Part{
		report.Text(fmt.Sprintf("Errors are distances from each fix to the estimate published for "+
			"it, also between releases; low and high hold the median of 95 %% of samples of "+
			"users, too narrowly below ten of them; runs are other noise on the same fixes, and "+
			"releases those of all runs. A day starts at 4 in the morning and is one unit, "+
			"with its gaps. Who reports for a part of it may spend less than the day's ε: the "+
			"column spent says how much. A model never knew the users it was measured on: %d "+
			"users in turn, and %d more that the choice has not seen. %d settings were looked at "+
			"on about %d time steps with a fix, and %d of them measured on about %d; what is "+
			"promised and checked, on %d, with other noise.",
			r.Users, r.Held, len(r.Scouted), r.Options.scoutBins(), len(r.Measured),
			r.Options.bins(), enough*r.Options.bins())),
		r.table("measured", "The best settings of each Σε a day", r.Measured, true),
		r.table("scouted", "All settings, on a small sample", r.Scouted, true),
	}}
	if chosen := r.chosen(); len(chosen) > 0 {
		choice.Parts = append(choice.Parts, r.table("chosen",
			"The choice: as promised, and on the users that had no part in it", chosen, false))
	}
	return &report.Report{
		Title: "How to release", Sections: []report.Section{means, choice, plans, how},
	}
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

// table has a row for each outcome.
func (r *Result) table(name, caption string, outcomes []Outcome, long bool) *report.Table {
	t := &report.Table{Name: name, Caption: caption, Long: long, Columns: []string{
		"Σε a day", "mechanism", "releases a day", "ε", "every", "δ", "cell, m", "step", "calendar",
		"median error, km", "mean error, km", "blind median, km", "blind mean, km", "gain",
		"good for", "spent", "share between neighbours", "drift", "|ΔX|",
		"users", "days", "fixes", "runs", "releases",
	}}
	for i := range outcomes {
		o := &outcomes[i]
		t.Add(o.DayEpsilon, o.Mechanism, int(o.ReleasesDay()), o.Epsilon, Short(o.Interval),
			o.Delta, o.CellM, Short(o.Step), o.Calendar,
			report.Band{Value: o.MedianKM, Low: o.LowKM, High: o.HighKM}, o.MeanKM, o.BlindKM,
			o.BlindMeanKM, o.Gain(), o.goodFor(), o.SpentDay, o.NearShare, o.Drift, o.SetMean,
			o.Users, o.Days, int(o.Fixes), o.Runs, int(o.Releases))
	}
	return t
}

// past has a row for each plan and lag.
func (r *Result) past() *report.Table {
	t := &report.Table{
		Name: "past", Caption: "What the records of each plan show of the past, by the lag",
		Columns: []string{"Σε a day", "lag", "median error, km", "mean error, km", "best"},
	}
	for i := range r.Plans {
		o := &r.Plans[i]
		for _, p := range append([]Past{{atOnce, o.MedianKM, o.MeanKM}}, o.Past...) {
			best := ""
			if p == o.BestPast() {
				best = "best"
			}
			t.Add(o.DayEpsilon, p.words(), p.MedianKM, p.MeanKM, best)
		}
	}
	return t
}

// told has two rows for each plan.
func (r *Result) told() *report.Table {
	t := &report.Table{
		Name: "moment", Caption: "What all records of a day tell about one moment",
		Columns: []string{"Σε a day", "moments", "number", "median", "99 %", "largest"},
	}
	for i := range r.Plans {
		o := &r.Plans[i]
		for j, f := range []trial.ToldFigures{o.Told.Releases, o.Told.Between} {
			name := [...]string{"of a release", "between releases"}[j]
			t.Add(o.DayEpsilon, name, f.Moments, f.Median, f.P99, f.Largest)
		}
	}
	return t
}

// Later is what the records of the plans show of the past, for a terminal.
func (r *Result) Later() *report.Table {
	t := &report.Table{Columns: []string{
		"Σε", "one interval later", "all records", "best lag", "ln odds of a moment",
	}}
	both := func(p Past) string { return length(p.MedianKM) + ", " + length(p.MeanKM) }
	for i := range r.Plans {
		o := &r.Plans[i]
		f := o.Told.Releases
		t.Add(o.DayEpsilon, both(o.Past[0]), both(o.Past[len(o.Past)-1]), o.BestPast().words(),
			fmt.Sprintf("%.1f, at most %.1f", f.Median, f.Largest))
	}
	return t
}

// Frontier is what is read first: a row for the model alone, and one for each plan.
func (r *Result) Frontier() *report.Table {
	t := &report.Table{Columns: []string{"Σε", "releases", "median", "mean", "gain", "good for"}}
	for i := range r.Plans {
		p := &r.Plans[i]
		if i == 0 {
			t.Add("0", "the model alone", length(p.BlindKM), length(p.BlindMeanKM), "-",
				"nothing of one user")
		}
		t.Add(p.DayEpsilon, p.plan(), length(p.MedianKM), length(p.MeanKM),
			fmt.Sprintf("%.0f %%", 100*p.Gain()), p.goodFor())
	}
	return t
}

// means is what the choice means, in three sentences.
func (r *Result) means() []string {
	p := r.Promise
	if p == nil {
		return []string{
			r.noChoice(),
			"The picture has the best plan for each Σε a day.",
			fmt.Sprintf("Without any release the model alone has a median error of %s.",
				length(r.Plans[0].BlindKM)),
		}
	}
	limit, worth := " = "+report.Short(math.Exp(p.DayEpsilon))+" at most", ""
	if p.DayEpsilon >= mechanism.HighEpsilonDay {
		limit = " at most, which is hardly a limit for a whole day: each release has its own, e^" +
			report.Short(p.Epsilon)
	}
	if p.Gain() < trial.LeastGain {
		worth = ", so it is hardly worth its ε"
	}
	return []string{
		fmt.Sprintf("Release with ε = %s every %s, until Σε = %s a day is spent.",
			report.Short(p.Epsilon), Short(p.Interval), report.Short(p.DayEpsilon)),
		fmt.Sprintf("A reader's guess is then off by %s in the median while somebody reports, and "+
			"by %s without any release%s.", length(p.MedianKM), length(p.BlindKM), worth),
		fmt.Sprintf("All records of a day change the odds of two places by a factor of e^%s%s.",
			report.Short(p.DayEpsilon), limit),
	}
}

// marks are the target and the choice, as further lines of the picture.
func (r *Result) marks() (marks []report.Series) {
	o := &r.Options
	first, last, highest := math.Inf(1), 0., 0.
	for i := range r.Plans {
		p := &r.Plans[i]
		first, last = min(first, p.DayEpsilon), max(last, p.DayEpsilon)
		highest = max(highest, p.MedianKM, p.MeanKM)
	}
	switch {
	case o.TargetKM > 0:
		marks = append(marks, report.Series{
			Name: "target", Guide: true, X: []float64{first, last},
			Y: []float64{o.TargetKM, o.TargetKM},
		})
	case o.TargetEpsilonDay > 0:
		marks = append(marks, report.Series{
			Name: "target", Guide: true, X: []float64{o.TargetEpsilonDay, o.TargetEpsilonDay},
			Y: []float64{0, highest},
		})
	}
	if p := r.Promise; p != nil {
		marks = append(marks, report.Series{
			Name: "the choice", NoLine: true, X: []float64{p.DayEpsilon}, Y: []float64{p.MedianKM},
		})
	}
	return marks
}

// figure draws the errors of the best plans against Σε a day, with the target and the choice.
func (r *Result) figure() *report.Figure {
	errors := report.Table{Columns: []string{"of", "Σε", "km"}}
	for i := range r.Plans {
		p := &r.Plans[i]
		errors.Add("median", p.DayEpsilon, p.MedianKM)
		errors.Add("mean", p.DayEpsilon, p.MeanKM)
		errors.Add("median of the model alone", p.DayEpsilon, p.BlindKM)
		errors.Add("mean of the model alone", p.DayEpsilon, p.BlindMeanKM)
	}
	return &report.Figure{
		Name: "plans", Title: "What the best plan of each Σε a day leaves of the error",
		Note: fmt.Sprintf("Distances of estimates from the truth while somebody reports, on "+
			"%d users that the models had not seen.", r.Users),
		Panels: []report.Panel{&report.Lines{
			Title: "error against Σε a day", X: report.Axis{Label: "Σε a day", Log: true},
			Y:      report.Axis{Label: "error while reporting, km", Zero: true},
			Series: append(errors.Lines("of", []string{"Σε"}, nil), r.marks()...),
		}},
	}
}
