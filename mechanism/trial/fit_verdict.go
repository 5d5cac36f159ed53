package trial

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/geodither/geodither/mechanism/mobility"
)

// enoughUsers is the number of users from which on a fit's intervals can be trusted.
const enoughUsers = mobility.EnoughForIntervals

// When figures become words.
const (
	// fewDrifts is the least expected number of releases outside the set at which a point of the
	// curve is judged.
	fewDrifts = 5
	// muchDrift is the factor between drift and δ from which on Verdict mentions it: a filter
	// whose sets hold .985 instead of .99 serves as well.
	muchDrift = 1.5
	// muchImpossible is the share of impossible moves from which on Verdict mentions them.
	muchImpossible = .005
)

// Calibration says how a model's certainty compares with the truth.
type Calibration int

// Calibrations.
const (
	// Unclear: fewer users than enoughUsers, or too few releases to tell.
	Unclear Calibration = iota
	// Calibrated: drift is about δ.
	Calibrated
	// TooSure: drift is above δ, and the choice of users does not explain it.
	TooSure
	// TooUnsure: drift is below δ, and sets are larger than they need be.
	TooUnsure
)

// Judge judges a model by the most telling point of its curve: the settings' δ if a correct model
// would have enough releases outside the set there, else the smallest larger δ where it would. A
// model is too sure if drift exceeds 1.5 δ and the whole interval lies above δ, and too unsure in
// the opposite case. With fewer users than enoughUsers the result is Unclear.
func Judge(f mobility.Fit) (Calibration, mobility.FitDelta) {
	var at mobility.FitDelta
	for _, p := range f.Calibration {
		if at = p; p.Delta >= f.Delta && p.Delta*float64(f.Steps) >= fewDrifts {
			break
		}
	}
	switch {
	case f.Users < enoughUsers || at.Delta*float64(f.Steps) < fewDrifts:
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

// FitVerdict says in a few sentences what a fit means and what to try, the most important sentence
// first. Each sentence is a line without its line end.
func FitVerdict(f mobility.Fit) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	what, at := Judge(f)
	drift := fmt.Sprintf("drift at δ = %s is %s", fraction(at.Delta), fraction(at.Drift))
	if f.Users >= enoughUsers && at.Low < at.High {
		drift += fmt.Sprintf(" (%s to %s for other users like these)",
			fraction(at.Low), fraction(at.High))
	} else { // of few users, or of users none of whom drifted, resampling tells nothing
		drift += fmt.Sprintf(" in %s", plural(f.Steps, "step", "steps"))
	}
	switch {
	case f.Users < enoughUsers:
		say("%s: unclear, since %s little about others, and intervals from fewer than %d would "+
			"be too narrow; measure it on %d users or more",
			drift, plural(f.Users, "user tells", "users tell"), enoughUsers, enoughUsers)
	case what == TooSure:
		say("%s: the model is too sure; try more jumps, a larger backoff or a larger radius in "+
			"--smoothing", drift)
	case what == TooUnsure:
		say("%s: the model is too unsure, and its location sets are larger than they need be; "+
			"try fewer jumps, a smaller backoff or a smaller radius in --smoothing", drift)
	case what == Calibrated:
		say("%s: about δ, as it should be", drift)
	default:
		say("%s: unclear, too little to judge by; hold out more users", drift)
	}
	if f.Impossible > muchImpossible {
		say("%.1f %% of the moves are impossible under the model: try a larger radius in "+
			"--smoothing, larger cells or a shorter step", 100*f.Impossible)
	}
	if f.Moves > 0 && f.LogLikelihood < f.LogPopularity {
		say("one step ahead the model predicts worse than popularity alone: check that the step " +
			"suits how often users report")
	}
	if f.Estimate.Mean > .95*f.Blind.Mean {
		say("at ε = %g the estimate is hardly better than publishing nothing (%s off on "+
			"average, model alone %s)", f.Epsilon, kilometres(f.Estimate.Mean),
			kilometres(f.Blind.Mean))
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

// fewestUsers is how many users a fit that others may read must be of, and how many others the
// model that is measured must be trained on. See [Disclosable].
const fewestUsers = 5

// What [Disclosable] says against a fit.
var (
	ErrFewHeld   = fmt.Errorf("a fit of fewer than %d reveals these few", fewestUsers)
	ErrFewOthers = fmt.Errorf("fewer than %d users trained it: a fit reveals how they move",
		fewestUsers)
)

// Disclosable says whether a fit may be stored in a model's file, which everybody may read who has
// the model: nil, or an error that wraps [ErrFewHeld] or [ErrFewOthers]. held is how many users are
// measured, and others is how many users with a transition the measured model is trained on.
//
// Figures are of both groups. That of one user tells how this user moves, and from the fit of a few
// anybody who knows all but one of them can take them off; [MeasureFit] lets no user have more than
// all others together. Five is in the middle of what statistical offices ask for behind a published
// figure, three to ten (Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapter 4).
// The rules prove nothing, as the rest of a model that was learned without differential privacy
// does not.
func Disclosable(held, others int64) error {
	switch {
	case held < fewestUsers:
		return fmt.Errorf("of the users held out %d were measured: %w", held, ErrFewHeld)
	case others < fewestUsers:
		return fmt.Errorf("of the training users %d have two steps without a gap: %w", others,
			ErrFewOthers)
	}
	return nil
}
