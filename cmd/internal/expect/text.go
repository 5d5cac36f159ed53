package expect

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
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

	Release  Errors `json:"release_m"`
	Estimate Errors `json:"estimate_m"`
	Blind    Errors `json:"blind_m"`

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
	return Summary{
		Mechanism: o.Mechanism, Epsilon: o.Epsilon, Delta: o.Delta,
		Tracks: x.Tracks, Steps: x.Steps, Seconds: (time.Duration(x.Steps) * x.Step).Seconds(),
		Seed:    x.Seed,
		Release: ErrorsOf(&m.Release), Estimate: ErrorsOf(&m.Estimate), Blind: ErrorsOf(&m.Blind),
		Released:        float64(m.Releases()) / float64(max(all, 1)),
		LocationSetMean: m.LocationSetMean(), DriftRatio: m.DriftRatio(),
		EpsilonHour: x.EpsilonHour, EpsilonDay: x.EpsilonDay, Metric: x.Metric.Summary(o.Mechanism),
	}
}

// String returns a few lines for a person.
func (s Summary) String() string {
	var b strings.Builder
	delta := ""
	if s.Mechanism != law.Codebook {
		delta = fmt.Sprintf(", δ = %g", s.Delta)
	}
	fmt.Fprintf(&b, "expected error with %s, ε = %g a release%s, "+
		"if people move as the model says and report in each step:\n",
		s.Mechanism, s.Epsilon, delta)
	b.WriteString(ErrorsHead)
	b.WriteString(s.Release.Line("release") + s.Estimate.Line("estimate") + s.Blind.Line("blind"))
	fmt.Fprintf(&b,
		"  (%d simulated tracks of %v, seed %d; blind is the estimate without any release)\n",
		s.Tracks, time.Duration(s.Seconds*float64(time.Second)), s.Seed)
	fmt.Fprintf(&b,
		"  a release in %s %% of the steps costs a user about Σε = %s an hour, %s a day\n",
		cli.Percent(s.Released), cli.Sum(s.EpsilonHour), cli.Sum(s.EpsilonDay))
	fmt.Fprintf(&b, "  %s\n", SetLine(s.Mechanism, s.LocationSetMean, s.DriftRatio))
	fmt.Fprintf(&b, "  %s\n", s.Metric)
	if !s.WorthIt() {
		b.WriteString("  that is hardly better than publishing nothing at all: " +
			"choose a larger ε, or fewer and larger releases (interval)\n")
	}
	return b.String()
}

// WorthIt reports whether the estimate is at least a twentieth better than the blind one.
func (s Summary) WorthIt() bool { return s.Estimate.Mean < .95*s.Blind.Mean }

// LogValue returns the essentials for a log; "model inspect" prints the rest.
func (s Summary) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Float64("estimate_mean_m", Whole(s.Estimate.Mean)),
		slog.Float64("blind_mean_m", Whole(s.Blind.Mean)),
		slog.Float64("epsilon_per_day", s.EpsilonDay), slog.Int("simulated_tracks", s.Tracks),
	)
}

// Whole rounds a number of at least 0 to a whole one, for a log.
func Whole(x float64) float64 { return float64(int64(x + .5)) }

// runExpects are the options of the simulation at the start of a service. They are always the same,
// so the numbers do not depend on the machine and its load.
var runExpects = Options{Tracks: 20, Seed: 1}

// Log computes what the settings of a service are worth, while the service runs, and logs it. The
// returned function ends the simulation and waits for it: after it has returned, or once ctx has
// ended, nothing is logged.
func Log(
	ctx context.Context, model *mobility.Model, release mechanism.Options, log *slog.Logger,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		x, err := Simulate(ctx, model, release, runExpects)
		if err != nil || ctx.Err() != nil {
			return // the service reports the error itself, or is about to end
		}
		s := x.Summary()
		log.Info("expected error if people move as the model says; blind is without any release",
			"expected", s)
		if !s.WorthIt() {
			log.Warn("the expected estimate is hardly better than publishing nothing: "+
				"choose a larger epsilon, or fewer and larger releases (release.interval)",
				"estimate_mean_m", Whole(s.Estimate.Mean), "blind_mean_m", Whole(s.Blind.Mean))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
