package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
)

// MostEpsilonDay is MostEpsilon of 24 hours.
func MostEpsilonDay(o mechanism.Options, step time.Duration) float64 {
	return MostEpsilon(o, step, 24*time.Hour)
}

// MostEpsilon bounds what the releases of one user can cost in any stretch of fix times of a
// length, whenever it starts: as many releases as the interval and the hours leave room for, at
// most the limit of each of the budget's windows that cover the stretch, and at most the lifetime's
// limit.
//
// A limit counts in full, although releases of the present ε may not fill it: those of another ε
// may have filled it before. Where settings have changed it bounds stretches that start after the
// change.
func MostEpsilon(o mechanism.Options, step, length time.Duration) float64 {
	most := o.Epsilon * float64(o.MostReleases(step, length))
	if b := o.Budget; b.WindowSteps > 0 {
		// A window longer than the stretch counts as one that is as long.
		window := min(length, time.Duration(min(int64(b.WindowSteps), int64(length/step)+1))*step)
		limits := float64(length/window) * b.Epsilon
		if rest := length % window; rest > 0 {
			limits += min(b.Epsilon, o.Epsilon*float64(o.MostReleases(step, rest)))
		}
		most = min(most, limits)
	}
	if b := o.Budget; b.Lifetime > 0 {
		most = min(most, b.Lifetime)
	}
	return most
}

// BudgetAdvice says in a sentence or two what the releases of a user may cost under options that
// Validate accepts, and whether that is worth a warning: there is no limit, or it is so high that
// it promises nothing about a day.
func BudgetAdvice(o mechanism.Options, step time.Duration) (text string, warn bool) {
	most := MostEpsilonDay(o, step)
	spend := fmt.Sprintf("a user's releases of a day add up to at most ε = %s", Grouped(most))
	short := budgetShort(o, step)
	unlimited := o.Budget.WindowSteps == 0 && o.Budget.Lifetime == 0
	if unlimited {
		spend += ". release.budget is none: the sum grows as long as a user reports"
	}
	if most > mechanism.HighEpsilonDay {
		budget := "lower release.budget"
		if unlimited {
			budget = "set release.budget"
		}
		spend += fmt.Sprintf(". More than %d a day hardly protects where somebody was that day: "+
			"choose a longer interval or a smaller epsilon, or %s",
			mechanism.HighEpsilonDay, budget)
	}
	if o.Epsilon > mechanism.HighEpsilonDay {
		spend += fmt.Sprintf(". One release of ε = %s is more than that: it protects hardly "+
			"better than a release without noise", Grouped(o.Epsilon))
	}
	return spend + short, unlimited || most > mechanism.HighEpsilonDay || short != ""
}

// budgetShort says that users who report all the time, or in all of the hours, spend the budget
// before its window ends; "" where they do not.
func budgetShort(o mechanism.Options, step time.Duration) string {
	window := time.Duration(o.Budget.WindowSteps) * step
	lasts, needed, within := time.Duration(budgetLasts(o))*step, window, ""
	if plan, err := hours.New(o.Hours); err == nil && plan != nil && window > 0 {
		needed, _ = plan.Most(window)
		within = fmt.Sprintf(" (of which %.4g h lie within release.hours)", needed.Hours())
	}
	if lasts >= needed {
		return ""
	}
	return fmt.Sprintf(". Users who report for longer than %.2g h in %.4g h%s spend their budget "+
		"and then get no release. If yours do, choose a longer interval or a smaller epsilon",
		lasts.Hours(), window.Hours(), within)
}

// budgetLasts returns in how many steps a user who reports in each of them spends the budget of a
// window.
func budgetLasts(o mechanism.Options) int {
	if o.Epsilon <= 0 {
		return 0
	}
	releases := math.Floor(o.Budget.Epsilon/o.Epsilon + 1e-9)
	return int(min(releases*float64(max(o.ReleaseInterval, 1)), mechanism.MaxSteps))
}

// HoursAdvice says how far steps reach over the borders of release.hours; "" where they do not. A
// step has a release if it starts within the hours, so that no rule looks at the time of a fix.
func HoursAdvice(o mechanism.Options, step time.Duration) string {
	// Hours that are no plan are left to Validate.
	plan, _ := hours.New(o.Hours)
	late, beyond := plan.Cut(step)
	if late == 0 && beyond == 0 {
		return ""
	}
	return fmt.Sprintf("the hours do not start or end where steps of %v do: a fix up to %v after "+
		"they close can have a release, and one up to %v after they open has none", step, beyond,
		late)
}

// NightsOpen reports whether releases may be drawn from 21 to 6 h, when people are at home.
func NightsOpen(spans []hours.Span) bool {
	const rise, bed = 6 * 60, 21 * 60
	return len(spans) == 0 || slices.ContainsFunc(spans, func(s hours.Span) bool {
		return s.From < rise || s.To > bed || s.To < s.From
	})
}

// Rounded rounds a sum of ε to a billionth, the unit in which ε is counted: 3 releases of 6.6 are
// 19.8.
func Rounded(epsilon float64) float64 { return math.Round(epsilon*1e9) / 1e9 }

// Grouped writes a sum for people, rounded up: 2880 as 2,880, and at most two decimals.
func Grouped(x float64) string {
	x = math.Ceil(x*100-1e-6) / 100
	whole, decimals, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if decimals != "" {
		whole += "." + decimals
	}
	return whole
}
