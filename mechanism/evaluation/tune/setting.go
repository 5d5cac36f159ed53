package tune

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// day is the window of a plan's budget.
const day = 24 * time.Hour

// Setting is a plan of a day's releases, and the model that they are drawn under.
type Setting struct {
	Mechanism string        // of law.Names
	CellM     float64       // side of a cell, metres
	Step      time.Duration // of the model
	Calendar  bool          // the model has a matrix for each part of the day
	// DayEpsilon is Σε a day: what a user's releases of any 24 hours may add up to.
	DayEpsilon     float64
	Interval       time.Duration // least time between two releases of a user, a multiple of Step
	Epsilon, Delta float64       // of each release; without a location set Delta is 0
}

// ReleasesDay is the largest number of releases of one user in any 24 hours: as many as the budget
// pays for and the interval leaves room for.
func (s Setting) ReleasesDay() int64 {
	const rounding = 1e-9 // a quotient may be a little less than its whole number
	return min(s.options().MostReleases(s.Step, day), int64(s.DayEpsilon/s.Epsilon+rounding))
}

// options are the mechanism's. A spent budget leaves predictions, which cost nothing.
func (s Setting) options() mechanism.Options {
	return mechanism.Options{
		Mechanism: s.Mechanism, Epsilon: s.Epsilon, Delta: s.Delta,
		ReleaseInterval: int(s.Interval / s.Step),
		Budget: mechanism.Budget{
			Epsilon: s.DayEpsilon, WindowSteps: int((day + s.Step - 1) / s.Step),
			Spent: mechanism.SpentPredict,
		},
	}
}

// cheaper orders settings by their cost, and those of equal cost by everything else, so that any
// order of candidates comes to the same choice.
func cheaper(a, b Setting) int {
	calendar := 0
	switch {
	case b.Calendar && !a.Calendar:
		calendar = -1
	case a.Calendar && !b.Calendar:
		calendar = 1
	}
	return cmp.Or(cmp.Compare(a.DayEpsilon, b.DayEpsilon),
		cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.CellM, b.CellM),
		cmp.Compare(a.Step, b.Step), calendar,
		cmp.Compare(a.Interval, b.Interval), cmp.Compare(a.Delta, b.Delta),
		cmp.Compare(a.Epsilon, b.Epsilon))
}

// plans returns the ways to spend a setting's DayEpsilon that are worth a try: releases of about 4,
// 6 or 9 of ε, as small ones waste a budget (RESULTS.md, "When to release"), spread over each of
// the times that a day may last. A shorter day has shorter intervals, and its budget ends with it.
func (s Setting) plans(lengths []time.Duration) (all []Setting) {
	for _, length := range lengths {
		for _, about := range []float64{4, 6, 9} {
			most := max(1, math.Floor(float64(length)/float64(s.Step)))
			releases := min(max(1, math.Round(s.DayEpsilon/about)), most)
			s.Epsilon = decimals(s.DayEpsilon/releases, math.Floor)
			s.Interval = spread(length, int64(releases), s.Step)
			if law.ValidateEpsilon(s.Epsilon) != nil || slices.ContainsFunc(all, s.resembles) {
				continue
			}
			for _, s.Delta = range s.deltas() {
				all = append(all, s)
			}
		}
	}
	return all
}

// deltas returns the δ that are tried: none for a codebook, which has no location set; else the one
// that tells near places apart least, and the one whose error was about the least of six on the
// traces of RESULTS.md: the smaller ε is, the larger the noise, and the more a smaller set is
// worth.
func (s Setting) deltas() []float64 {
	const small, forSmallEpsilon, forLargeEpsilon = .01, .6, .3
	switch {
	case s.Mechanism == law.Codebook:
		return []float64{0}
	case s.Epsilon <= 2:
		return []float64{small, forSmallEpsilon}
	}
	return []float64{small, forLargeEpsilon}
}

// resembles says whether another plan has the same ε, at an interval within a fifth.
func (s Setting) resembles(other Setting) bool {
	const fifth = 1.2
	short, long := min(s.Interval, other.Interval), max(s.Interval, other.Interval)
	return s.Epsilon == other.Epsilon && float64(long) <= fifth*float64(short)
}

// spread returns the interval at which so many releases last for a time: whole steps, or tens of
// steps where that makes little difference.
func spread(length time.Duration, releases int64, step time.Duration) time.Duration {
	const many = 50
	interval := length / time.Duration(releases)
	unit := step
	if interval > many*step {
		unit = 10 * step
	}
	return max(step, (interval+unit-1)/unit*unit)
}

// decimals returns x with two significant digits, up or down; an ε is a decimal number that people
// read.
func decimals(x float64, round func(float64) float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return x
	}
	digits := 1 - int(math.Floor(math.Log10(x)))
	var rounded float64
	if digits >= 0 {
		scale := math.Pow10(digits)
		rounded = round(x*scale) / scale
	} else { // a whole number times a power of ten is exact, its division by one is not
		scale := math.Pow10(-digits)
		rounded = round(x/scale) * scale
	}
	return rounded
}
