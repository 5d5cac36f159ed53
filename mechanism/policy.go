package mechanism

import (
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/ledger"
)

// What is published where ReleaseInterval holds a release back.
const (
	// BetweenPredict publishes the prior's estimate, ε 0. The default.
	BetweenPredict = "predict"
	// BetweenSkip publishes nothing.
	BetweenSkip = "skip"
)

// What is published where the budget is spent.
const (
	// SpentSuppress publishes nothing. The default with BetweenSkip.
	SpentSuppress = "suppress"
	// SpentRepeat gives the last release again, with the estimate of the present step, ε 0. Where
	// there is none that could be repeated, since the user never had one or the grid has changed,
	// it predicts.
	SpentRepeat = "repeat"
	// SpentPredict publishes the prior's estimate, ε 0. The default otherwise.
	SpentPredict = "predict"
)

// Bounds of the rules of release.
const (
	// MaxSteps bounds intervals and windows: with steps of a second it is 31 years.
	MaxSteps = 1_000_000_000
	// MaxBudget bounds budgets, so that sums of billionths stay far below 2⁶⁴.
	MaxBudget = 1e9
	// HighEpsilonDay is the sum of ε a day and user from which on a service warns. Σε = 20
	// allows an observer's odds between two days of a user to change by a factor of e²⁰, half a
	// billion: what is left is a promise about single releases.
	HighEpsilonDay = 20
)

// Budget limits what the releases of one user may cost. The zero Budget is no limit. Sums are
// exact: every ε counts as the decimal number it is written as, rounded up to a billionth, and the
// limits are rounded down to a billionth. So ten releases of ε = .1 fit a budget of 1.
type Budget struct {
	// Epsilon limits the sum of ε of all fixes in any stretch of time as long as WindowSteps steps,
	// whenever it starts. 0 is no limit; then WindowSteps must be 0 too.
	Epsilon     float64
	WindowSteps int
	// Lifetime limits the sum of ε of all releases of the user. 0 is no limit.
	Lifetime float64
	// Spent is SpentSuppress, SpentRepeat or SpentPredict; empty means what Between does.
	Spent string
}

// Since returns the moment after which a step must have ended if its releases count against the
// window's limit in a given step, in milliseconds since 1970. Whatever states what a window holds
// asks it.
//
// A stretch of time of W steps touches W + 1 steps if it starts within one. So W steps are not
// enough: the fix of the given step may lie at its start, and that of a release just before the end
// of its own step. A release counts unless its step ended W or more before the start of the given
// one. Then its fix is more than W before every fix of that step. This is said in milliseconds, so
// it holds for releases in steps of other lengths too.
func (b Budget) Since(step, stepMS int64) int64 {
	if b.WindowSteps < 1 {
		return ledger.WindowStart(step, 0, stepMS)
	}
	return ledger.WindowStart(step, int64(b.WindowSteps)+1, stepMS)
}

// Until returns when releases of a step that ended at a moment stop to count against the window's
// limit, in milliseconds since 1970: the start of the first step for which Since leaves them out.
func (b Budget) Until(endMS, stepMS int64) int64 {
	steps := endMS / stepMS
	if endMS%stepMS > 0 {
		steps++
	}
	return (steps + int64(b.WindowSteps)) * stepMS
}

// MostReleases is the largest number of releases that a user's fixes can have in any stretch of
// time of a length, under the interval and the hours alone.
func (o Options) MostReleases(step, length time.Duration) int64 {
	// Hours that are no plan are left to Validate.
	plan, _ := hours.New(o.Hours)
	// The stretch touches steps that start up to a step before it. The last millisecond counts, the
	// end of an open stretch does not.
	open, pieces := plan.Most(length + step)
	steps := int64(max(0, open-time.Millisecond) / step)
	return int64(pieces) + steps/int64(max(o.ReleaseInterval, 1))
}

// Limited reports whether there is a limit.
func (b Budget) Limited() bool { return b.Epsilon > 0 || b.Lifetime > 0 }

// policyDefaults fills the empty fields that decide when and what to release.
func (o Options) policyDefaults() Options {
	if o.MinCells == 0 {
		o.MinCells = DefaultMinCells
	}
	if o.Estimate == "" {
		o.Estimate = EstimateMean
	}
	if o.ReleaseInterval == 0 {
		o.ReleaseInterval = 1
	}
	if o.Between == "" {
		o.Between = BetweenPredict
	}
	if o.Budget.Spent == "" {
		o.Budget.Spent = SpentPredict
		if o.Between == BetweenSkip {
			o.Budget.Spent = SpentSuppress
		}
	}
	return o
}

// Hides says whether a report that changes a user's state may leave no record. Every default must
// be filled in, as in what Sanitizer.Options returns.
func (o Options) Hides() bool {
	return o.Between == BetweenSkip || o.Budget.Spent == SpentSuppress && o.Budget.Limited()
}

// validatePolicy reports the faults of the same fields, filled in.
func (o Options) validatePolicy() error {
	errs := []error{
		oneOf("estimate", o.Estimate, EstimateMean, EstimateMedian, EstimateMode),
		oneOf("between", o.Between, BetweenPredict, BetweenSkip),
		oneOf("budget spent", o.Budget.Spent, SpentSuppress, SpentRepeat, SpentPredict),
		validateHours(o.Hours), o.Budget.validate(o.Epsilon),
	}
	if o.ReleaseInterval < 1 || o.ReleaseInterval > MaxSteps {
		errs = append(errs,
			fmt.Errorf("release interval of %d steps is not in 1 to %d", o.ReleaseInterval,
				MaxSteps))
	}
	return errors.Join(errs...)
}

func validateHours(spans []hours.Span) error {
	if _, err := hours.New(spans); err != nil {
		return fmt.Errorf("hours: %w", err)
	}
	return nil
}

// validate reports limits that are no numbers or below one release.
func (b Budget) validate(epsilon float64) error {
	var errs []error
	cost := ledger.CostOf(epsilon)
	for _, limit := range []struct {
		name  string
		value float64
	}{{"budget", b.Epsilon}, {"lifetime budget", b.Lifetime}} {
		switch {
		case !(limit.value >= 0 && limit.value <= MaxBudget):
			errs = append(errs,
				fmt.Errorf("%s of ε %g is not between 0 and %g", limit.name, limit.value,
					MaxBudget))
		case limit.value > 0 && ledger.LimitOf(limit.value) < cost:
			errs = append(errs,
				fmt.Errorf("%s of ε %g is below the ε %g of one release", limit.name, limit.value,
					epsilon))
		}
	}
	if b.WindowSteps < 0 || b.WindowSteps > MaxSteps {
		errs = append(errs, fmt.Errorf("budget window of %d steps is not in 1 to %d", b.WindowSteps,
			MaxSteps))
	}
	if (b.WindowSteps > 0) != (b.Epsilon > 0) {
		errs = append(errs,
			errors.New("a budget needs both its window and its ε"))
	}
	return errors.Join(errs...)
}
