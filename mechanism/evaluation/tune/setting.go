package tune

import (
	"cmp"
	"math"
	"time"

	"github.com/geodither/geodither/mechanism"
)

// Setting is what is chosen.
type Setting struct {
	Mechanism      string        // of law.Names
	CellM          float64       // side of a cell, metres
	Step           time.Duration // of the model
	Interval       time.Duration // least time between two releases of a user, a multiple of Step
	Epsilon, Delta float64       // of each release; without a location set Delta is 0
}

// ReleasesDay is the largest number of releases of one user in any 24 hours.
func (s Setting) ReleasesDay() int64 {
	const day = 24 * time.Hour
	return int64((day + s.Interval - 1) / s.Interval)
}

// EpsilonDay bounds what a user's releases of any 24 hours cost together: the sum of their ε, for
// who reports all day long. Who reports less spends less.
func (s Setting) EpsilonDay() float64 { return float64(s.ReleasesDay()) * s.Epsilon }

// with returns the setting with another ε.
func (s Setting) with(epsilon float64) Setting {
	s.Epsilon = epsilon
	return s
}

// place is the setting without its ε: what a target's ε is looked for in.
func (s Setting) place() Setting { return s.with(0) }

// options are the mechanism's: those given, with the setting's in them.
func (s Setting) options(o mechanism.Options) mechanism.Options {
	o.Mechanism, o.Epsilon, o.Delta = s.Mechanism, s.Epsilon, s.Delta
	o.ReleaseInterval = int(s.Interval / s.Step)
	return o
}

// cheaper orders settings by their cost, and those of equal cost by everything else, so that any
// order of candidates comes to the same choice.
func cheaper(a, b Setting) int {
	return cmp.Or(cmp.Compare(a.EpsilonDay(), b.EpsilonDay()),
		cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.CellM, b.CellM),
		cmp.Compare(a.Step, b.Step), cmp.Compare(a.Interval, b.Interval),
		cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Epsilon, b.Epsilon))
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
