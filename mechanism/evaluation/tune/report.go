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

// Frontier has a row for the model alone, and one for each plan, to read.
func (r *Result) Frontier() *report.Table {
	t := &report.Table{Columns: []string{
		"ε a day", "releases × ε", "median", "mean", "gain", "good for",
	}}
	fleet := "the fleet alone"
	if r.few() {
		fleet = "nothing"
	}
	t.Add("0", "the model alone", length(r.Plans[0].BlindKM), length(r.Plans[0].BlindMeanKM), "-",
		fleet)
	for i := range r.Plans {
		p := &r.Plans[i]
		t.Add(p.DayEpsilon, p.plan(), length(p.MedianKM), length(p.MeanKM),
			fmt.Sprintf("%.0f %%", 100*p.Gain()), p.goodFor(fleet))
	}
	return t
}

// fewCounted is the number of users below which counts by the hour at an ε of 1 a day tell less
// than the guess that all zones have the same.
const fewCounted = 100

func (r *Result) few() bool { return r.Users+r.Held < fewCounted }

// Verdict says what to choose and what it is worth, a paragraph each.
func (r *Result) Verdict() (lines []string) {
	p := r.Promise
	if p == nil {
		return []string{r.noChoice()}
	}
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	say("The plan is a release of ε = %s every %s, at most %d a day, which add up to %s. A cell "+
		"is %s wide, a step lasts %s.", report.Short(p.Epsilon), spoken(p.Interval),
		p.ReleasesDay(), report.Short(p.DayEpsilon), length(p.CellM/1000), spoken(p.Step))
	text := fmt.Sprintf("While somebody reports, half of the estimates are within %s of the truth "+
		"(%s to %s; %s), and by the model alone within %s.", length(p.MedianKM), length(p.LowKM),
		length(p.HighKM), users(p.Users), length(p.BlindKM))
	if o := r.Others; o != nil {
		text += fmt.Sprintf(" For %s outside the choice it is %s.", users(o.Users),
			length(o.MedianKM))
	}
	say("%s", text)
	if p.Gain() < trial.LeastGain {
		worth := "hardly better than"
		if p.Gain() <= 0 {
			worth = "no better than"
		}
		instead := "Publish counts instead: such records tell about the fleet, not about one user."
		if r.few() {
			instead = fmt.Sprintf("Counts of %s are mostly noise, too: nothing here helps so "+
				"small a fleet.", users(r.Users+r.Held))
		}
		say("WARNING: this is %s the model alone, which costs nothing. %s", worth, instead)
	}
	if p.DayEpsilon > mechanism.HighEpsilonDay {
		say("WARNING: more than ε = %d a day hardly protects where somebody was that day.",
			mechanism.HighEpsilonDay)
	}
	near := "Between two neighbouring cells it uses %.0f %% of ε on average."
	if p.Mechanism == law.Codebook {
		near = "It tells %.0f %% of neighbouring cells apart, and the others not at all."
	}
	say("One release changes the odds between two places by a factor of at most e^ε = %s. "+near,
		report.Short(math.Exp(p.Epsilon)), 100*p.NearShare)
	say("Many nights show where somebody lives: set \"release.hours\" or a lifetime budget. " +
		"The model was learned without differential privacy.")
	return lines
}

// noChoice says why nothing is chosen, and what comes nearest.
func (r *Result) noChoice() string {
	o := &r.Options
	switch {
	case o.TargetKM == 0 && o.TargetEpsilonDay == 0:
		return "Name an error (--target-radius) or a limit of ε a day (--target-epsilon) to have " +
			"a plan chosen."
	case o.TargetEpsilonDay > 0:
		return fmt.Sprintf("No plan can be made for ε = %s a day.",
			report.Short(o.TargetEpsilonDay))
	}
	best := slices.MinFunc(r.Plans, func(a, b Outcome) int {
		return cmp.Compare(a.MedianKM, b.MedianKM)
	})
	return fmt.Sprintf("No plan of at most ε = %g a day reaches a median error of %s. The "+
		"nearest is %s, at ε = %s a day.", Axis[len(Axis)-1], length(o.TargetKM),
		length(best.MedianKM), report.Short(best.DayEpsilon))
}

// Report returns the verdict, the frontier as a table and as a chart, and all numbers of the plans.
func (r *Result) Report() *report.Report {
	var parts []report.Part
	for _, line := range r.Verdict() {
		parts = append(parts, report.Text(line))
	}
	frontier := r.Frontier()
	frontier.Caption = "The best plan for each limit of what a user's releases of a day add up " +
		"to, with errors while somebody reports."
	parts = append(parts, frontier)
	errors := report.Table{Columns: []string{"of", "Σε", "km"}}
	for i := range r.Plans {
		p := &r.Plans[i]
		median := report.Band{Value: p.MedianKM, Low: p.LowKM, High: p.HighKM}
		errors.Add("median", p.DayEpsilon, median)
		errors.Add("mean", p.DayEpsilon, p.MeanKM)
		errors.Add("median of the model alone", p.DayEpsilon, p.BlindKM)
		errors.Add("mean of the model alone", p.DayEpsilon, p.BlindMeanKM)
	}
	parts = append(parts, &report.Chart{
		Name: "plans", Title: "What the best plan of each Σε a day leaves of the error",
		Note: fmt.Sprintf("Distances from fixes to the estimates published for them, also between "+
			"releases, on %s that the models had not seen. Bars hold the median of 95 %% of "+
			"samples of users, too narrowly below ten of them.", users(r.Users)),
		Panels: []report.Panel{{
			X: report.Axis{Label: "Σε a day", Log: true}, Y: report.Axis{Label: "error, km"},
			Series: errors.Lines("of", []string{"Σε"}, nil),
		}},
	}, r.table("plans", "All figures of these plans.", r.Plans))
	if r.Others != nil {
		parts = append(parts, r.table("chosen",
			"The choice, and the same on users that had no part in it.",
			[]Outcome{*r.Promise, *r.Others}))
	}
	title := fmt.Sprintf("How to release %s: %s, %s", cmp.Or(r.Options.Name, "the traces"),
		users(r.Users+r.Held), r.First.Format(time.DateOnly))
	if last := r.Last.Format(time.DateOnly); last != r.First.Format(time.DateOnly) {
		title += " to " + last
	}
	return &report.Report{
		Title: title, Sections: []report.Section{{Title: "Verdict", Parts: parts}},
	}
}

// table has a row for each outcome.
func (r *Result) table(name, caption string, outcomes []Outcome) *report.Table {
	t := &report.Table{Name: name, Caption: caption, Columns: []string{
		"Σε a day", "mechanism", "releases a day", "ε", "every", "δ", "cell, m", "step", "calendar",
		"median error, km", "mean error, km", "blind median, km", "blind mean, km", "gain",
		"spent", "share between neighbours", "users", "days",
	}}
	for i := range outcomes {
		o := &outcomes[i]
		t.Add(o.DayEpsilon, o.Mechanism, int(o.ReleasesDay()), o.Epsilon, Short(o.Interval),
			o.Delta, o.CellM, Short(o.Step), o.Calendar,
			report.Band{Value: o.MedianKM, Low: o.LowKM, High: o.HighKM}, o.MeanKM, o.BlindKM,
			o.BlindMeanKM, o.Gain(), o.SpentDay, o.NearShare, o.Users, o.Days)
	}
	return t
}

// goodFor says what records with such errors tell: of one user, or what the fleet's say.
func (o *Outcome) goodFor(fleet string) string {
	switch {
	case o.Gain() <= 0:
		return "nothing"
	case o.Gain() < trial.LeastGain:
		return fleet
	case o.MedianKM < .3:
		return "a user's street"
	case o.MedianKM < 1:
		return "a user's neighbourhood"
	case o.MedianKM < 3:
		return "a user's district"
	}
	return "a user's part of town"
}

// plan names a setting's releases: how many of which ε, and how often.
func (s Setting) plan() string {
	if s.ReleasesDay() == 1 {
		return "1 × " + report.Short(s.Epsilon)
	}
	return fmt.Sprintf("%d × %s, every %s",
		s.ReleasesDay(), report.Short(s.Epsilon), spoken(s.Interval))
}

func users(n int) string {
	if n == 1 {
		return "1 user"
	}
	return strconv.Itoa(n) + " users"
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

// spoken is a time for a sentence: "1m" would look like a metre.
func spoken(d time.Duration) string {
	words := strings.NewReplacer("h", " h ", "m", " min ", "s", " s ")
	return strings.TrimSpace(words.Replace(Short(d)))
}

// length is a distance in words, metres below a kilometre.
func length(km float64) string {
	if km < .9995 {
		return strconv.FormatFloat(1000*km, 'f', 0, 64) + " m"
	}
	return strconv.FormatFloat(km, 'f', 2, 64) + " km"
}
