package fit

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/geodither/geodither/mechanism/mobility"
)

// EnoughUsers is how many users a fit must be of for its intervals to be believed.
const EnoughUsers = mobility.EnoughForIntervals

// OrSelect ends a sentence of [Verdict] on the smoothing of a model.
const OrSelect = ", or let \"geodither model fit --select\" choose"

// When figures become words.
const (
	// fewDrifts is how many releases outside the set a point of the curve must let expect to be
	// judged.
	fewDrifts = 5
	// muchDrift is the factor between drift and δ that is worth a word: a filter whose sets hold
	// .985 instead of .99 serves as well.
	muchDrift = 1.5
	// muchImpossible is the share of impossible moves that is worth a word.
	muchImpossible = .005
)

// Calibration says how a model's certainty compares with the truth.
type Calibration int

// Calibrations.
const (
	// Unclear: fewer users than [EnoughUsers], or too few releases to tell.
	Unclear Calibration = iota
	// Calibrated: drift is about δ.
	Calibrated
	// TooSure: drift is above δ, and for more reasons than the choice of users.
	TooSure
	// TooUnsure: drift is below δ, and sets are larger than they need be.
	TooUnsure
)

var calibrationNames = [...]string{"unclear", "calibrated", "too sure", "too unsure"}

// String returns it in words.
func (c Calibration) String() string { return calibrationNames[c] }

// Judge judges the model by the point of its curve that tells most: that of the settings' δ, if
// enough of its releases lie outside the set that a right model would have more than a handful,
// else the smallest larger δ of which that is true. A model is too sure if drift is more than half
// as much again as δ and the whole interval lies above δ; too unsure the other way round. Of fewer
// users than [EnoughUsers] it is unclear.
func Judge(f mobility.Fit) (Calibration, mobility.FitDelta) {
	var at mobility.FitDelta
	for _, p := range f.Calibration {
		if at = p; p.Delta >= f.Delta && p.Delta*float64(f.Steps) >= fewDrifts {
			break
		}
	}
	switch {
	case f.Users < EnoughUsers || at.Delta*float64(f.Steps) < fewDrifts:
		return Unclear, at
	case at.Drift > muchDrift*at.Delta && at.Low > at.Delta:
		return TooSure, at
	case at.Drift < at.Delta/muchDrift && at.High < at.Delta:
		return TooUnsure, at
	case at.High > 2*muchDrift*at.Delta || at.Drift > muchDrift*at.Delta ||
		at.Drift < at.Delta/muchDrift:
		return Unclear, at
	}
	return Calibrated, at
}

// Verdict says in a few sentences, the most important first, what a fit means and what to try. Each
// is a line without its end.
func Verdict(f mobility.Fit) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	what, at := Judge(f)
	drift := fmt.Sprintf("drift at δ = %s is %s", fraction(at.Delta), fraction(at.Drift))
	if f.Users >= EnoughUsers && at.Low < at.High {
		drift += fmt.Sprintf(
			" (%s to %s for other users like these)", fraction(at.Low), fraction(at.High),
		)
	} else { // of few users, or of users none of whom drifted, resampling tells nothing
		drift += fmt.Sprintf(" in %s", plural(f.Steps, "step", "steps"))
	}
	switch {
	case f.Users < EnoughUsers:
		say("%s: unclear, since %s little about others, and intervals from fewer than %d would "+
			"be too narrow; measure it on %d users or more",
			drift, plural(f.Users, "user tells", "users tell"), EnoughUsers, EnoughUsers)
	case what == TooSure:
		say(
			"%s: the model is too sure; try more jumps, a larger backoff or a larger radius "+
				"in --smoothing"+OrSelect,
			drift,
		)
	case what == TooUnsure:
		say(
			"%s: the model is too unsure, and its location sets are larger than they need be; "+
				"try fewer jumps, a smaller backoff or a smaller radius in --smoothing"+OrSelect,
			drift,
		)
	case what == Calibrated:
		say("%s: about δ, as it should be", drift)
	default:
		say("%s: unclear, too little to judge by; hold out more users", drift)
	}
	if f.Impossible > muchImpossible {
		say(
			"%.1f %% of the moves are impossible under the model: try a larger radius in "+
				"--smoothing, larger cells or a shorter step",
			100*f.Impossible,
		)
	}
	if f.Moves > 0 && f.LogLikelihood < f.LogPopularity {
		say(
			"one step ahead the model foretells worse than popularity alone: check that the step " +
				"suits how often users report",
		)
	}
	if f.Estimate.Mean > .95*f.Blind.Mean {
		say(
			"at ε = %g the estimate is hardly better than publishing nothing (%s off on average, "+
				"blind %s)",
			f.Epsilon, kilometres(f.Estimate.Mean), kilometres(f.Blind.Mean),
		)
	}
	return lines
}

// fraction writes a share of at least a millionth with two significant digits, as .08 for 0.08.
func fraction(x float64) string {
	if !(x >= 1e-6) {
		return "0"
	}
	digits := max(2, 1-int(math.Floor(math.Log10(x))))
	text := strings.TrimRight(strconv.FormatFloat(x, 'f', digits, 64), "0")
	return strings.TrimSuffix(strings.TrimPrefix(text, "0"), ".")
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func kilometres(metres float64) string { return fmt.Sprintf("%.2f km", metres/1000) }
