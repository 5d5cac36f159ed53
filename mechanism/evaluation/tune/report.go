package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
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

// Later is what the records of the plans show of the past, for a terminal.
func (r *Result) Later() *report.Table {
	t := &report.Table{Columns: []string{
		"Σε", "one interval later", "all records", "best lag",
	}}
	both := func(p Past) string { return length(p.MedianKM) + ", " + length(p.MeanKM) }
	for i := range r.Plans {
		o := &r.Plans[i]
		t.Add(o.DayEpsilon, both(o.Past[0]), both(o.Past[len(o.Past)-1]), o.BestPast().words())
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

// Words say what to choose, a paragraph each.
func (r *Result) Words() (lines []string) {
	o := &r.Options
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("Plans are made for the median day: it has %s from the first report to the last, and "+
		"reports in %s of them. For users who report for longer the budget ends before their day "+
		"does.", Short(r.Lengths[1]), Short(r.Lengths[2]))
	if blind := r.Plans[0].BlindKM; o.TargetKM > 0 && blind <= o.TargetKM {
		say("The model alone reaches %s: the median error without any release is %s.",
			length(o.TargetKM), length(blind))
	}
	if r.Promise == nil {
		return append(lines, r.noChoice())
	}
	p := r.Promise
	if o.TargetKM > 0 {
		say("The cheapest plan found for a median error of %s: %s.", length(o.TargetKM), p.Words())
	} else {
		say("The best plan found for Σε = %s a day: %s.",
			report.Short(o.TargetEpsilonDay), p.Words())
	}
	if text := trial.LittleGain(1-p.Gain(), 1); text != "" {
		say("WARNING: this plan is hardly worth its ε: %s.", text)
	}
	if p.DayEpsilon > mechanism.HighEpsilonDay {
		say("Above Σε = %d a day it hardly protects where somebody was over a day.",
			mechanism.HighEpsilonDay)
	}
	say("While they report, expect a median error of %s%s and a mean error of %s. The model "+
		"alone has a median of %s and a mean of %s. This was measured again, with other noise "+
		"than the choice.",
		p.band(), p.doubt(), length(p.MeanKM), length(p.BlindKM), length(p.BlindMeanKM))
	if len(p.Past) > 0 {
		lines = append(lines, p.pastWords())
	}
	if b := r.Bound; b != nil && b.Between <= mechanism.HighEpsilonDay {
		say("Records of any number of days change these odds by e^%.1f at most if users report in "+
			"every step (theorem 15 of PROOFS.md).", math.Ceil(10*b.Between)/10)
	}
	lines = append(lines, p.nearWords())
	if r.Others == nil {
		say("There were too few users to check this on some that had no part in the choice.")
	} else {
		say("Checked on %s that had no part in the choice: a median error of %s%s, the model "+
			"alone %s.%s Such records are good for: %s.", users(r.Others.Users), r.Others.band(),
			r.Others.doubt(), length(r.Others.BlindKM), r.worse(), r.Others.goodFor())
	}
	say("The model is learned without differential privacy from all of these traces: its readers " +
		"learn about them, and ε does not cover that.")
	say("What is learned of a home adds up over nights. Limit it with \"release.hours\" or a " +
		"lifetime budget.")
	return lines
}

// worse says by how much the median error of the held-out users is above that of the choice, where
// it is more than a rounding.
func (r *Result) worse() string {
	more := math.Round(100 * (r.Others.MedianKM/r.Promise.MedianKM - 1))
	if !(more >= 1) {
		return ""
	}
	return fmt.Sprintf(" The check is %.0f %% worse: expect that for other users.", more)
}

// goodFor says what records with such errors tell: of one user, or only of all.
func (o *Outcome) goodFor() string {
	switch {
	case o.Gain() < trial.LeastGain:
		return "the fleet, not one user"
	case o.MedianKM < .3:
		return "one user's street"
	case o.MedianKM < 1:
		return "one user's neighbourhood"
	case o.MedianKM < 3:
		return "one user's district"
	}
	return "one user's part of town"
}

// pastWords say what the records show of the past.
func (o *Outcome) pastWords() string {
	first, all, best := o.Past[0], o.Past[len(o.Past)-1], o.BestPast()
	text := fmt.Sprintf("A reader who waits for later records can smooth these (\"geodither "+
		"smooth\"), and so can an attacker. That has a median error of %s and a mean of %s with "+
		"all records of a day", length(all.MedianKM), length(all.MeanKM))
	if first != all {
		text += fmt.Sprintf(", and %s and %s with a lag of %s",
			length(first.MedianKM), length(first.MeanKM), first.words())
	}
	switch best {
	case first, all:
		text += ". The best lag is " + best.words()
	default:
		text += fmt.Sprintf(". The best is %s (%s and %s)", best.words(),
			length(best.MedianKM), length(best.MeanKM))
	}
	return text + "."
}

// nearWords say what a release means for places that are near each other.
func (o *Outcome) nearWords() string {
	text := fmt.Sprintf("No release tells two places of the map apart by more than e^ε = %s.",
		report.Short(math.Exp(o.Epsilon)))
	if o.Mechanism == law.Codebook {
		return text + fmt.Sprintf(" It may do so by all of that with two neighbouring cells, "+
			"where a border of the codebook runs between them: so it does with %.0f %% of such "+
			"pairs (mean over the releases of these users; pairs weighted by where the user may "+
			"be).", 100*o.NearShare)
	}
	return text + fmt.Sprintf(" On average, %.0f %% of ε tells two neighbouring cells apart. In "+
		"%.0f %% of releases the true cell is none of the likely ones, and the nearest of these "+
		"stands for it.", 100*o.NearShare, 100*o.Drift)
}

// noChoice says why nothing is chosen, and what comes nearest.
func (r *Result) noChoice() string {
	o := &r.Options
	switch {
	case o.TargetKM == 0 && o.TargetEpsilonDay == 0:
		return "Name an error or a Σε a day to have a plan chosen."
	case o.TargetEpsilonDay > 0:
		return fmt.Sprintf("No plan can be made for Σε = %s a day.",
			report.Short(o.TargetEpsilonDay))
	}
	best := slices.MinFunc(r.Plans, func(a, b Outcome) int {
		return cmp.Compare(a.MedianKM, b.MedianKM)
	})
	if r.OutOfReach {
		return fmt.Sprintf("A median error of %s is not reached by far. The nearest plan has %s, "+
			"at Σε = %g a day, the largest that is tried: %s. Smaller cells may take off "+
			"about %s, so nothing else was tried. Name a larger error, or none "+
			"to see what each Σε a day brings.", length(o.TargetKM), length(best.MedianKM),
			best.DayEpsilon, best.Words(), length(.4*best.CellM/1000))
	}
	return fmt.Sprintf("No plan of at most Σε = %g a day reaches a median error of %s. The "+
		"nearest is %s, at Σε = %s a day: %s. Smaller cells or shorter steps may reach it.",
		Axis[len(Axis)-1], length(o.TargetKM), length(best.MedianKM),
		report.Short(best.DayEpsilon), best.Words())
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

// plan names a setting's releases: how many of which ε, and how often.
func (s Setting) plan() string {
	if s.ReleasesDay() == 1 {
		return "1 × " + report.Short(s.Epsilon)
	}
	return fmt.Sprintf("%d × %s, every %s",
		s.ReleasesDay(), report.Short(s.Epsilon), Short(s.Interval))
}

// Words name a setting.
func (s Setting) Words() string {
	text := fmt.Sprintf("mechanism %s, a release of ε = %s every %s until %d a day are spent, "+
		"cells of %s, steps of %s", s.Mechanism, report.Short(s.Epsilon), Short(s.Interval),
		s.ReleasesDay(), length(s.CellM/1000), Short(s.Step))
	if s.Calendar {
		text += ", a model with four parts of the day"
	}
	if s.Mechanism == law.Codebook {
		return text
	}
	return text + fmt.Sprintf(", δ = %g", s.Delta)
}

// band is the median error with its interval, in one unit.
func (o *Outcome) band() string {
	if o.MedianKM < .9995 {
		return fmt.Sprintf("%.0f m (%.0f to %.0f)", 1000*o.MedianKM, 1000*o.LowKM, 1000*o.HighKM)
	}
	return fmt.Sprintf("%.2f km (%.2f to %.2f)", o.MedianKM, o.LowKM, o.HighKM)
}

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

// look says how to look at a choice on a map.
func (o *Outcome) look() string {
	text := fmt.Sprintf("To see this choice on a map, beside the truth, run \"geodither explore "+
		"--model model.avro\" in this folder, with your traces behind it. Append #mechanism=%s"+
		"&epsilon=%g&interval=%d&budget=%g", o.Mechanism, o.Epsilon, o.Interval/o.Step,
		o.DayEpsilon)
	if o.Delta > 0 && o.Mechanism != law.Codebook {
		text += fmt.Sprintf("&delta=%g", o.Delta)
	}
	return text + " to the address that it prints."
}

// length is a distance in words, metres below a kilometre.
func length(km float64) string {
	if km < .9995 {
		return strconv.FormatFloat(1000*km, 'f', 0, 64) + " m"
	}
	return strconv.FormatFloat(km, 'f', 2, 64) + " km"
}

// words name the lag.
func (p Past) words() string {
	if p.Lag == atOnce {
		return "at once"
	}
	if p.Lag == 0 {
		return "all records"
	}
	return Short(p.Lag)
}
