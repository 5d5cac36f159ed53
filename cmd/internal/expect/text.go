package expect

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// Summary is an expectation as it is printed. Distances are in metres.
type Summary struct {
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`
	Tracks    int     `json:"tracks"`
	Steps     int     `json:"steps"`
	Seconds   float64 `json:"track_seconds"`
	Seed      uint64  `json:"seed"`
	// HoursOnly says that the tracks report in release.hours alone; else they do around the clock.
	HoursOnly bool `json:"hours_only,omitempty"`
	// WindowPart of the budget's window is simulated, with that part of its budget; 1: all of it.
	WindowPart float64 `json:"window_part"`

	Release  Errors `json:"release_m"`
	Estimate Errors `json:"estimate_m"`
	Blind    Errors `json:"blind_m"`
	// EstimateLasting and EstimateSpent are Estimate while the budget holds one more release, and
	// of the records that are published after that, 0 where there are none. BlindLasting is Blind
	// meanwhile. The budget of a new user is spent for the first time after LastsSeconds with
	// reports, 0 where it outlasts the tracks.
	EstimateLasting Errors  `json:"estimate_budget_lasting_m"`
	BlindLasting    Errors  `json:"blind_budget_lasting_m"`
	EstimateSpent   Errors  `json:"estimate_budget_spent_m"`
	LastsSeconds    float64 `json:"budget_lasts_seconds"`

	Released        float64       `json:"released"` // share of the steps with a release
	LocationSetMean float64       `json:"location_set_mean"`
	DriftRatio      float64       `json:"drift_ratio"`
	EpsilonHour     float64       `json:"epsilon_per_hour"`
	EpsilonDay      float64       `json:"epsilon_per_day"`
	Metric          MetricSummary `json:"metric"`
}

// Summary returns the summary of an expectation.
func (x *Expectation) Summary() Summary {
	o, all := x.Options, int64(0)
	for _, n := range x.Kinds {
		all += n
	}
	m := &x.Score
	lasts := time.Duration(0)
	if x.LastingSteps < all {
		steps := float64(x.LastingSteps) / float64(x.Tracks) / x.Part
		lasts = time.Duration(steps * float64(x.Step))
	}
	return Summary{
		Mechanism: o.Mechanism, Epsilon: o.Epsilon, Delta: o.Delta,
		Tracks: x.Tracks, Steps: x.Steps, Seconds: (time.Duration(x.Steps) * x.Step).Seconds(),
		Seed: x.Seed, HoursOnly: len(o.Hours) > 0, WindowPart: x.Part,
		Release: ErrorsOf(&m.Release), Estimate: ErrorsOf(&m.Estimate), Blind: ErrorsOf(&m.Blind),
		EstimateLasting: ErrorsOf(&x.Lasting.Estimate),
		BlindLasting:    ErrorsOf(&x.Lasting.Blind),
		EstimateSpent:   ErrorsOf(&x.Spent.Estimate), LastsSeconds: lasts.Seconds(),
		Released:        float64(m.Releases()) / float64(max(all, 1)),
		LocationSetMean: m.LocationSetMean(), DriftRatio: m.DriftRatio(),
		EpsilonHour: engine.Rounded(x.EpsilonHour), EpsilonDay: engine.Rounded(x.EpsilonDay),
		Metric: x.Metric.Summary(o.Mechanism),
	}
}

// String returns a few lines for a person, with LittleGain as the last one.
func (s Summary) String() string {
	if text := s.LittleGain(); text != "" {
		return s.Figures() + "  " + cli.Sentence(text) + "\n"
	}
	return s.Figures()
}

// Figures is String without LittleGain.
func (s Summary) Figures() string {
	var b strings.Builder
	delta := ""
	if s.Mechanism != law.Codebook {
		delta = fmt.Sprintf(", δ = %g", s.Delta)
	}
	fmt.Fprintf(&b, "Expected error with %s, ε = %g a release%s, "+
		"if people move as the model says and report in each step (%s):\n",
		s.Mechanism, s.Epsilon, delta, s.When())
	estimate, blind := s.Judged()
	b.WriteString(ErrorsHead)
	b.WriteString(s.Release.Line("release") + estimate.Line("estimate"))
	b.WriteString(blind.Line(ModelAlone))
	base := "estimate: of all reports"
	if s.lasting() {
		base = "estimate: while the budget lasts, as \"geodither tune\" plans"
	}
	if s.EstimateSpent != (Errors{}) {
		b.WriteString(s.EstimateSpent.Line("spent"))
		base += "; spent: while it is spent"
	}
	fmt.Fprintf(&b, "  (%s; model alone: of the same\n  reports without any release; %d simulated "+
		"tracks of %v, seed %d)\n", base, s.Tracks,
		cli.Duration(time.Duration(s.Seconds*float64(time.Second))), s.Seed)
	if s.LastsSeconds > 0 {
		fmt.Fprintf(&b, "  %s.\n", cli.Sentence(s.Verdict()))
	}
	fmt.Fprintf(&b, "  %s %% of the steps have a release. A user's releases add up to about ε = "+
		"%s an hour, and to at most %s in 24 hours.\n", percent(s.Released), cli.Sum(s.EpsilonHour),
		engine.Grouped(s.EpsilonDay))
	fmt.Fprintf(&b, "  %s.\n", cli.Sentence(SetLine(s.Mechanism, s.LocationSetMean, s.DriftRatio)))
	fmt.Fprintf(&b, "  %s\n", s.Metric.Text("the simulated releases"))
	return b.String()
}

// leastLasting is how long a budget lasts that is judged while it lasts. One that is spent within
// minutes leaves nearly all of a user's records without a release.
const leastLasting = time.Hour

// Judged are the errors that a plan is judged by, of the estimate and of the model alone: while the
// budget lasts, as "geodither tune" plans for the time in which somebody reports. Where that is
// less than an hour they are those of all reports.
func (s Summary) Judged() (estimate, blind Errors) {
	if s.lasting() {
		return s.EstimateLasting, s.BlindLasting
	}
	return s.Estimate, s.Blind
}

// lasting says that Judged are errors while the budget lasts.
func (s Summary) lasting() bool { return s.LastsSeconds >= leastLasting.Seconds() }

// LittleGain is [trial.LittleGain] of the mean distances that the plan is judged by.
func (s Summary) LittleGain() string {
	estimate, blind := s.Judged()
	return trial.LittleGain(estimate.Mean, blind.Mean)
}

// When says at which times the tracks report.
func (s Summary) When() string {
	text := "reports around the clock assumed"
	if s.HoursOnly {
		text = "reports within release.hours alone assumed"
	}
	if s.WindowPart < 1 {
		text += fmt.Sprintf("; simulated for %.4g h, with that part of the budget's longer "+
			"window", s.Seconds/time.Hour.Seconds())
	}
	return text
}

// Verdict says which error to expect, that of Judged, and under which assumption. Unless the budget
// outlasts the tracks it also says how long it lasts, and which error follows.
func (s Summary) Verdict() string {
	off := func(e Errors) string {
		return fmt.Sprintf("%s on average, %s in the median", cli.Metres(e.Mean),
			cli.Metres(e.Median))
	}
	estimate, blind := s.Judged()
	text := fmt.Sprintf("the estimate is off by %s; the model alone by %s", off(estimate),
		off(blind))
	if s.LastsSeconds == 0 {
		return text + "; " + s.When()
	}
	which := "the budget lasts for about %s of reports only; over all reports %s; %s; %s"
	if s.lasting() {
		which = "while the budget lasts, about %s of reports from the start, %s; %s; %s"
	}
	after := "while it is spent, nothing is published"
	if s.EstimateSpent != (Errors{}) {
		after = "while it is spent, the estimate is off by " +
			cli.Metres(s.EstimateSpent.Mean) + " on average"
	}
	lasts := time.Duration(s.LastsSeconds * float64(time.Second)).Round(time.Minute)
	return fmt.Sprintf(which, cli.Duration(max(lasts, time.Minute)), text, after, s.When())
}

// LogValue returns the essentials for a log; "model inspect" prints the rest. The errors are those
// of Judged. How long the budget lasts, and the error after it, are there only if the simulated
// tracks spend it.
func (s Summary) LogValue() slog.Value {
	estimate, blind := s.Judged()
	attrs := []slog.Attr{
		slog.Float64("estimate_mean_m", Whole(estimate.Mean)),
		slog.Float64("blind_mean_m", Whole(blind.Mean)),
	}
	if s.LastsSeconds > 0 {
		attrs = append(attrs, slog.Float64("budget_lasts_s", Whole(s.LastsSeconds)))
	}
	if s.EstimateSpent != (Errors{}) {
		attrs = append(attrs,
			slog.Float64("estimate_budget_spent_mean_m", Whole(s.EstimateSpent.Mean)))
	}
	return slog.GroupValue(append(attrs, slog.Float64("epsilon_per_day", s.EpsilonDay),
		slog.Int("simulated_tracks", s.Tracks))...)
}

// Whole rounds a number of at least 0 to a whole one, for a log.
func Whole(x float64) float64 { return float64(int64(x + .5)) }

// Log computes what the settings of a service are worth, while the service runs, and logs it. The
// returned function ends the simulation and waits for it: after it has returned, or once ctx has
// ended, nothing is logged.
func Log(
	ctx context.Context, model *mobility.Model, release mechanism.Options, tracks int,
	log *slog.Logger,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e := Options{Tracks: tracks, Seed: Seed, ErrorsAlone: true}
		x, err := Simulate(ctx, model, release, e)
		if err != nil || ctx.Err() != nil {
			return // the service reports the error itself, or is about to end
		}
		s := x.Summary()
		log.Info("expected error if people move as the model says; blind is without any release",
			"expected", s)
		if text := s.LittleGain(); text != "" {
			estimate, blind := s.Judged()
			log.Warn("the expected estimate gains little over publishing nothing", "advice", text,
				"estimate_mean_m", Whole(estimate.Mean), "blind_mean_m", Whole(blind.Mean))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// percent prints a share in percent, with a decimal where a whole number would be small.
func percent(share float64) string {
	if share < .1 {
		return fmt.Sprintf("%.1f", 100*share)
	}
	return fmt.Sprintf("%.0f", 100*share)
}
