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
	"github.com/geodither/geodither/mechanism/law"
)

// Words say what to choose, a paragraph each.
func (r *Result) Words() (lines []string) {
	o := &r.Options
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(r.LeftOut) > 0 {
		var times []string
		for _, interval := range r.LeftOut {
			times = append(times, Short(interval))
		}
		say("A release every %s was not tried: most of the traces are shorter than two of these.",
			strings.Join(times, " or "))
	}
	if blind := r.blind(); o.TargetKM > 0 && blind <= o.TargetKM {
		say("The model alone reaches %s: the median error without any release is %s.",
			Length(o.TargetKM), Length(blind))
	}
	if r.Promise == nil {
		lines = append(lines, r.noChoice())
		if len(o.Mechanisms) > 1 {
			lines = append(lines, nearPlaces)
		}
		return lines
	}
	p := r.Promise
	if o.TargetKM > 0 {
		say("The cheapest setting found for a median error of %s: %s.",
			Length(o.TargetKM), p.Words())
	} else {
		say("The least error found for an ε of %s a day: %s.",
			Number(o.TargetEpsilonDay), p.Words())
	}
	say("It costs at most ε = %s in 24 hours, counted in whole steps: up to %d releases of ε = "+
		"%s.", Number(p.EpsilonDay()), p.ReleasesDay(), Number(p.Epsilon))
	if p.EpsilonDay() > mechanism.HighEpsilonDay {
		say("Above ε = %d a day it hardly protects where somebody was over a day.",
			mechanism.HighEpsilonDay)
	}
	anew := "This was measured anew, with other noise than the choice."
	if r.Raised > 0 {
		anew = fmt.Sprintf("This was measured anew, with other noise than the choice; for that ε "+
			"had to be raised from %s.", Number(r.Raised))
	}
	say("Half of the estimates are to be expected within %s of the truth%s, the mean error is "+
		"%s; without any release half are within %s. %s",
		p.Band(), p.doubt(), Length(p.MeanKM), Length(p.BlindKM), anew)
	lines = append(lines, p.nearWords()...)
	if r.Others == nil {
		say("There were too few users to check this on some that had no part in the choice.")
	} else {
		say("Checked on %s that had no part in the choice: %s%s, without any release %s.",
			users(r.Others.Users), r.Others.Band(), r.Others.doubt(), Length(r.Others.BlindKM))
	}
	if text := r.compared(); text != "" {
		lines = append(lines, text)
	}
	say("The model is learned without differential privacy from all of these traces: whoever has " +
		"it learns about them, and ε does not cover that.")
	return lines
}

// nearPlaces says when to take which mechanism.
const nearPlaces = "A codebook hides which neighbourhood somebody is in, with the least error. " +
	"It divides the map into regions: two places in one region are not told apart, and two " +
	"places on the two sides of a border are, by the full factor e^ε, however near they are. " +
	"release.near in a config bounds that by a smaller factor, with a larger error. " +
	"With lattice and a small δ, such as .01, near places of the location set are told apart " +
	"less than far ones, with a larger error; with δ of .3 or more and a large ε hardly so, and " +
	"cells outside the set are told apart by up to e^ε."

// nearWords say what a release means for places that are near each other.
func (o *Outcome) nearWords() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if o.Mechanism == law.Codebook {
		say("A release tells no two places of the map apart by more than e^ε = %s. It may do so "+
			"by all of that with two neighbouring cells, where the border of two code points' "+
			"regions runs between them: so it does with %.0f %% of such pairs, weighted by where "+
			"people are.", Number(math.Exp(o.Epsilon)), 100*o.NearShare)
		return lines
	}
	say("Of ε = %s a day, %s tells likely places 200 m apart from each other, and %s those 1 km "+
		"apart. The median release tells two likely places 200 m apart by a factor of %s (the "+
		"worst: %s), places 1 km apart by %s (%s), and none tells any two, likely or not, by more "+
		"than e^ε = %s. In %.0f %% of releases the true cell is none of the likely ones, and the "+
		"nearest of these stands for it.",
		Number(o.EpsilonDay()), Number(o.Day200M()), Number(o.Day1KM()), Factor(o.Factor200M),
		Factor(o.Worst200M), Factor(o.Factor1KM), Factor(o.Worst1KM), Number(math.Exp(o.Epsilon)),
		100*o.Drift)
	if o.Factor200M > telling {
		say("So each release all but says where in the neighbourhood somebody is. To hide more, " +
			"allow a larger error, or set a limit to that factor.")
	}
	return lines
}

// compared says what each mechanism reaches, where more than one was tried, and when to take which;
// empty: only one was tried.
func (r *Result) compared() string {
	o := &r.Options
	if len(o.Mechanisms) < 2 {
		return ""
	}
	var parts []string
	for _, mechanism := range o.Mechanisms {
		i := slices.IndexFunc(r.Best, func(b Outcome) bool { return b.Mechanism == mechanism })
		if i < 0 {
			parts = append(parts, mechanism+" does not reach the target")
			continue
		}
		best := &r.Best[i]
		parts = append(parts, fmt.Sprintf("%s with %s at ε = %s a day, of which %s tells "+
			"neighbouring cells apart on average, and places 200 m apart up to a factor of %s in "+
			"a release (%s)", mechanism, Length(best.MedianKM), Number(best.EpsilonDay()),
			Number(best.DayBeside()), Factor(best.Factor200M), best.Words()))
	}
	return "The best of each mechanism, as first measured: " + strings.Join(parts, "; ") + ". " +
		nearPlaces
}

// noChoice says why nothing is chosen, and what comes nearest.
func (r *Result) noChoice() string {
	o := &r.Options
	limit := ""
	if o.MostFactor200M > 0 {
		limit = fmt.Sprintf(" while the median release tells places 200 m apart by a factor of "+
			"at most %s", Number(o.MostFactor200M))
	}
	switch {
	case o.TargetKM == 0 && o.TargetEpsilonDay == 0:
		return "Name an error or an ε a day to have a setting chosen."
	case r.Missed != nil:
		return fmt.Sprintf("What was chosen does not keep to the target%s when it is measured "+
			"anew, with other noise: %s gives %s, and a factor of %s in 200 m.",
			limit, r.Missed.Words(), r.Missed.Band(), Factor(r.Missed.Factor200M))
	case o.TargetEpsilonDay > 0:
		return fmt.Sprintf("No setting that was tried costs at most ε = %s a day and is better "+
			"than the model alone, whose median error is %s,%s.", Number(o.TargetEpsilonDay),
			Length(r.blind()), limit)
	case len(r.Frontier) == 0 && limit != "":
		return fmt.Sprintf("No setting that was tried is better than the model alone%s. Allow a "+
			"larger factor, or try a smaller ε.", limit)
	case len(r.Frontier) == 0:
		return "No setting that was tried is better than the model alone. Give other cells, " +
			"steps or a larger ε."
	}
	best := slices.MinFunc(r.Frontier,
		func(a, b Outcome) int { return cmp.Compare(a.MedianKM, b.MedianKM) })
	advice := "Smaller cells, shorter steps or a larger ε may reach it."
	if limit != "" {
		advice = "Allow a larger error or a larger factor, or try more ε between those tried."
	}
	return fmt.Sprintf("No setting that was tried reaches a median error of %s%s. The nearest is "+
		"%s, at ε = %s a day: %s. %s",
		Length(o.TargetKM), limit, Length(best.MedianKM), Number(best.EpsilonDay()), best.Words(),
		advice)
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

// Words name a setting.
func (s Setting) Words() string {
	text := fmt.Sprintf("mechanism %s, cells of %s, steps of %s, a release every %s, ε = %s",
		s.Mechanism, Length(s.CellM/1000), Short(s.Step), Short(s.Interval), Number(s.Epsilon))
	if s.Mechanism == law.Codebook {
		return text
	}
	return text + fmt.Sprintf(", δ = %g", s.Delta)
}

// Band is the median error with its interval, in one unit.
func (o *Outcome) Band() string {
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
