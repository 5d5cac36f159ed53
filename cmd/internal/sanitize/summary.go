package sanitize

import (
	"fmt"
	"io"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// Summary is what a run released, what it cost, and how far it is from the truth. Errors are in
// metres; "blind" is the same filter without any release.
type Summary struct {
	Fixes        int64 `json:"fixes"`
	SkippedLines int64 `json:"skipped_lines"`
	OutsideMap   int64 `json:"outside_map"` // clamped or refused
	Clamped      int64 `json:"clamped"`     // of these, taken as in the nearest cell
	Users        int   `json:"users"`

	// Refused are fixes that the service would refuse too, by reason; they have no record.
	Refused map[schemas.Reason]int64 `json:"refused,omitempty"`
	// SwappedMap of the fixes outside the map lie on it with latitude and longitude swapped.
	SwappedMap int64 `json:"swapped_on_map,omitempty"`

	// What came of the others; the last three have no record.
	Releases    int64 `json:"releases"`
	Repeats     int64 `json:"repeats"`
	Predictions int64 `json:"predictions"`
	Skipped     int64 `json:"skipped"`
	Suppressed  int64 `json:"suppressed"`
	Late        int64 `json:"late"`

	EpsilonPerUser  float64              `json:"epsilon_per_user_mean"` // Σε
	EpsilonMax      float64              `json:"epsilon_per_user_max"`  // Σε
	Metric          expect.MetricSummary `json:"metric"`
	LocationSetMean float64              `json:"location_set_mean"`
	DriftRatio      float64              `json:"drift_ratio"`

	Release  expect.Errors `json:"release_m"`
	Estimate expect.Errors `json:"estimate_m"`
	Blind    expect.Errors `json:"blind_m"`
	*Past                  // nil: not measured, or nobody can follow the records

	MicrosPerFix float64  `json:"microseconds_per_fix"` // of one core
	Mechanism    string   `json:"mechanism"`
	Inference    string   `json:"inference"`
	Epsilon      float64  `json:"epsilon"`
	Delta        float64  `json:"delta"`
	ModelID      string   `json:"model_id"`
	LaterIDs     []string `json:"later_model_ids,omitempty"`
}

// Summary sums the run up, with what the reader has skipped.
func (r *Run) Summary(skips *traces.Skips) Summary {
	o := r.workers[0].engine.Options()
	s := Summary{
		Fixes: r.fixes, SkippedLines: skips.Total,
		OutsideMap: r.clamped + r.refused[schemas.ReasonOutsideMap], Clamped: r.clamped,
		Refused: r.refused, SwappedMap: r.swapped, Users: len(r.users),
		Releases: r.kinds[mechanism.Released], Repeats: r.kinds[mechanism.Repeated],
		Predictions: r.kinds[mechanism.Predicted], Skipped: r.kinds[mechanism.Skipped],
		Suppressed: r.kinds[mechanism.Suppressed],
		Late:       r.kinds[mechanism.Late], Metric: r.metric.Summary(o.Mechanism),
		LocationSetMean: r.metrics.LocationSetMean(), DriftRatio: r.metrics.DriftRatio(),
		Release:  expect.ErrorsOf(&r.metrics.Release),
		Estimate: expect.ErrorsOf(&r.metrics.Estimate), Blind: expect.ErrorsOf(&r.metrics.Blind),
		Mechanism: o.Mechanism, Inference: o.Inference, Epsilon: o.Epsilon, Delta: o.Delta,
		ModelID: r.settings.Model.ID(),
		Past:    r.past,
	}
	for _, v := range r.settings.Later {
		s.LaterIDs = append(s.LaterIDs, v.ID.Model.String())
	}
	for _, u := range r.users {
		s.EpsilonMax = max(s.EpsilonMax, u.state.EpsilonSpent)
	}
	if s.Users > 0 {
		s.EpsilonPerUser = float64(s.Releases) * o.Epsilon / float64(s.Users)
	}
	if s.Fixes > 0 {
		s.MicrosPerFix = float64(r.took.Nanoseconds()) / 1000 / float64(s.Fixes)
	}
	return s
}

// Print prints the summary for a person.
func (s Summary) Print(out io.Writer, skips *traces.Skips) {
	fmt.Fprintf(out, "%d fixes of %d users: %d releases, %d repeats, %d predictions.\n"+
		"%d late, %d outside the map.\n", s.Fixes, s.Users, s.Releases, s.Repeats, s.Predictions,
		s.Late, s.OutsideMap)
	s.printRefused(out)
	if s.Skipped+s.Suppressed > 0 {
		cli.Say(out, "Without a record, as the settings have it: %d skipped, %d suppressed "+
			"(budget spent).", s.Skipped, s.Suppressed)
	}
	if s.Releases > 0 {
		cli.Say(out, "Each release has a price, ε = %g. A user's releases add up to %s on "+
			"average, and to %s for the user with the most.", s.Epsilon,
			engine.Grouped(s.EpsilonPerUser), engine.Grouped(s.EpsilonMax))
		cli.Say(out, "%s", s.Metric.Text("these releases"))
		set := expect.SetLine(s.Mechanism, s.LocationSetMean, s.DriftRatio)
		cli.Say(out, "%s.", cli.Sentence(set))
	}
	measured := s.Releases + s.Repeats
	if measured+s.Predictions > 0 { // an error of no record is not 0 m
		fmt.Fprint(out, expect.ErrorsHead, s.Release.Line("release"), s.Estimate.Line("estimate"))
		if s.Past != nil {
			fmt.Fprint(out, s.Interval.Line("smoothed"), s.All.Line("with all"))
		}
		fmt.Fprint(out, s.Blind.Line(expect.ModelAlone))
		cli.Say(out, "%d fixes have a release, and the other rows are of all %d with a record. "+
			"The estimate uses all releases so far, the model alone none.", measured,
			measured+s.Predictions)
		if s.Past != nil {
			s.printPast(out)
		}
	}
	if text := trial.LittleGain(s.Estimate.Mean, s.Blind.Mean); text != "" {
		cli.Say(out, "WARNING: %s.", text)
	}
	if s.SkippedLines > 0 {
		fmt.Fprintln(out, skips)
	}
}

// printPast prints what the records show of the past, below the table of errors.
func (p *Past) printPast(out io.Writer) {
	cli.Say(out, "Smoothed is what the same records show of a fix %s later, and with all what "+
		"they show when all of them are there. \"geodither smooth\" computes it, and so can "+
		"an attacker.", p.lag)
	if p.Unsmoothed > 0 {
		cli.Say(out, "%d records cannot be followed.", p.Unsmoothed)
	}
}

// printRefused says what was left out as the service would leave it out, and guesses why.
func (s *Summary) printRefused(out io.Writer) {
	parts := make([]string, 0, len(s.Refused))
	for _, reason := range schemas.Reasons() {
		if n := s.Refused[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	if len(parts) > 0 {
		cli.Say(out, "Left out, as the service refuses them: %s.", strings.Join(parts, ", "))
	}
	if s.Refused[schemas.ReasonOutsideMap] > 0 {
		cli.Say(out, "A config (-c) with \"input: {outside: clamp}\" takes a fix outside the map "+
			"as in its nearest cell.")
	}
	if s.Refused[schemas.ReasonKeyDestroyed] > 0 {
		cli.Say(out, "The key file has no noise for the days of these fixes (key_destroyed). Was "+
			"it advanced, or is it the wrong file?")
	}
	if 2*s.SwappedMap > s.OutsideMap {
		cli.Say(out, "%s", engine.SwappedAdvice)
	}
}
