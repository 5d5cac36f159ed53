package expect

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

func expected(t *testing.T, release mechanism.Options, e Options) *Expectation {
	t.Helper()
	x, err := Simulate(t.Context(), town(t), release, e)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestExpect: what is expected is worth what it should be: little of a small ε, more
// of a large one, and never the same as nothing; and it counts its costs.
func TestExpect(t *testing.T) {
	e := Options{Tracks: 30, Steps: 40, Seed: 7}
	weak := expected(t, mechanism.Options{Epsilon: .01, Delta: .01}, e)
	strong := expected(t, mechanism.Options{Epsilon: 20, Delta: .01}, e)
	for _, x := range []*Expectation{weak, strong} {
		m := &x.Score
		if x.Tracks != 30 || x.Steps != 40 || m.Estimate.Len() != 30*40 || m.Blind.Len() != 30*40 ||
			m.Releases() != 30*40 {
			t.Errorf("simulated %d tracks of %d steps, %d estimates, %d releases",
				x.Tracks, x.Steps, m.Estimate.Len(), m.Releases())
		}
		if m.DriftRatio() > .05 || m.LocationSetMean() < 5 {
			t.Errorf("drift %v, sets of %v cells", m.DriftRatio(), m.LocationSetMean())
		}
	}
	if near := strong.Score.Estimate.RMS(); near > strong.Score.Blind.RMS()/2 || near < 200 {
		t.Errorf("at ε = 20 the estimate is off by %v m, without releases by %v m",
			near, strong.Score.Blind.RMS())
	}
	if far := weak.Score.Estimate.RMS() / weak.Score.Blind.RMS(); far < .98 || far > 1.02 {
		t.Errorf("at ε = .01 the estimate is off by %v of what it is without releases", far)
	}
	if weak.Score.Blind.RMS() != strong.Score.Blind.RMS() {
		t.Error("the blind baseline depends on ε")
	}
	if math.Abs(strong.EpsilonHour-20*60) > 1e-6 ||
		math.Abs(strong.EpsilonDay-20*(60*24+1)) > 1e-6 {
		t.Errorf("ε %v an hour, %v a day", strong.EpsilonHour, strong.EpsilonDay)
	}
	if m := strong.Metric.Summary(law.Lattice); !(1 < m.Within200M.Median &&
		m.Within200M.Largest <= m.Within1KM.Largest && m.Within1KM.Largest <= m.Farthest.Largest) ||
		m.FarthestKM <= 0 {
		t.Errorf("metric view %+v", m)
	}
	if again := expected(t, mechanism.Options{Epsilon: 20, Delta: .01},
		e); !reflect.DeepEqual(again, strong) {
		t.Error("the same arguments give another expectation")
	}
}

// TestExpectRules: costs are those of the rules of release, and a budget bounds
// them also where the simulated time is too short to meet it.
func TestExpectRules(t *testing.T) {
	e := Options{Tracks: 3, Steps: 40}
	for _, c := range []struct {
		name      string
		change    func(o *mechanism.Options)
		hour, day float64
		kind      mechanism.Kind
	}{
		{
			"interval", func(o *mechanism.Options) { o.ReleaseInterval = 10 }, 6, 145,
			mechanism.Predicted,
		},
		{
			"skip", func(o *mechanism.Options) {
				o.ReleaseInterval, o.Between = 10,
					mechanism.BetweenSkip
			}, 6, 145, mechanism.Skipped,
		},
		{
			"window", func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{
					Epsilon: 50, WindowSteps: 120,
				}
			}, 50, 600, mechanism.Released,
		},
		{
			"lifetime", func(o *mechanism.Options) { o.Budget.Lifetime = 70 }, 60, 70,
			mechanism.Released,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			release := mechanism.Options{Epsilon: 1, Delta: .01}
			c.change(&release)
			x := expected(t, release, e)
			if math.Abs(x.EpsilonHour-c.hour) > 1e-9 || math.Abs(x.EpsilonDay-c.day) > 1e-9 ||
				x.Kinds[c.kind] == 0 {
				t.Errorf("ε %v an hour and %v a day, want %v and %v; kinds %v",
					x.EpsilonHour, x.EpsilonDay, c.hour, c.day, x.Kinds)
			}
		})
	}
}

// TestWindow: by default the whole window of the budget is simulated, at least a day, and the error
// is told apart while the budget lasts and after it.
func TestWindow(t *testing.T) {
	release := mechanism.Options{Mechanism: law.Codebook, Epsilon: 20, ReleaseInterval: 2}
	release.Budget = mechanism.Budget{
		Epsilon: 1200, WindowSteps: 2000, Spent: mechanism.SpentPredict,
	}
	s := expected(t, release, Options{Tracks: 3, Seed: 7}).Summary()
	if s.Steps != 2000 || math.Abs(s.LastsSeconds-120*60) > 20*60 {
		t.Errorf("%d steps, and the budget lasts %v s", s.Steps, s.LastsSeconds)
	}
	lasting, spent, whole := s.EstimateLasting.Mean, s.EstimateSpent.Mean, s.Estimate.Mean
	share := s.LastsSeconds / (2000 * 60)
	if !(lasting < .7*spent) || math.Abs(lasting*share+spent*(1-share)-whole) > .02*whole {
		t.Errorf("off by %v while the budget lasts, by %v after it, by %v in all", lasting, spent,
			whole)
	}
	text := s.String()
	for _, words := range []string{
		"while the budget lasts", "while it is spent", "around the clock assumed",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is missing in:\n%s", words, text)
		}
	}
	if by, _ := s.Judged(); by != s.EstimateLasting ||
		!strings.Contains(text, s.EstimateLasting.Line("estimate")) ||
		!strings.Contains(text, s.BlindLasting.Line(ModelAlone)) ||
		!strings.Contains(text, s.EstimateSpent.Line("spent")) {
		t.Errorf("a budget that lasts two hours is judged by %+v", by)
	}
	s.LastsSeconds = 59 * 60
	said := s.Verdict()
	if by, blind := s.Judged(); by != s.Estimate || blind != s.Blind ||
		!strings.Contains(said, "estimate is off by "+cli.Metres(by.Mean)+" on average") ||
		!strings.Contains(said, "the model alone by "+cli.Metres(blind.Mean)+" on average") {
		t.Errorf("a budget that lasts less than an hour is judged by %+v: %s", by, said)
	}
	release.Budget = mechanism.Budget{}
	if s := expected(t, release, Options{Tracks: 1}).Summary(); s.Steps != 1440 ||
		s.LastsSeconds != 0 || s.EstimateSpent != (Errors{}) ||
		strings.Contains(s.Verdict(), "budget") {
		t.Errorf("without a budget: %+v", s)
	}
}

// TestShift: with hours the tracks report in them alone, a week from Monday on, and a budget that
// lasts for them is not spent; without them the output says what it assumes.
func TestShift(t *testing.T) {
	release := mechanism.Options{Mechanism: law.Codebook, Epsilon: 1, ReleaseInterval: 60}
	// A shift has eight releases. The first one of the next day may lie less than 24 hours later.
	release.Budget = mechanism.Budget{Epsilon: 9, WindowSteps: 1440, Spent: mechanism.SpentPredict}
	around := expected(t, release, Options{Tracks: 2, Seed: 7}).Summary()
	if around.LastsSeconds == 0 || !strings.Contains(around.String(), "around the clock assumed") {
		t.Errorf("without hours the budget lasts %v s:\n%s", around.LastsSeconds, around)
	}
	// Monday to Friday
	release.Hours = []hours.Span{{Days: 0b0111110, From: 9 * 60, To: 17 * 60, Zone: "UTC"}}
	x := expected(t, release, Options{Tracks: 2, Seed: 7})
	s := x.Summary()
	if x.Steps != 7*1440 || x.Reports != 5*8*60 || x.Score.Estimate.Len() != 2*5*8*60 ||
		x.Score.Releases() != 2*5*8 || s.LastsSeconds != 0 || s.EpsilonDay != 9 {
		t.Errorf("%d steps, %d reports, %d releases, the budget lasts %v s, ε %v a day", x.Steps,
			x.Reports, x.Score.Releases(), s.LastsSeconds, s.EpsilonDay)
	}
	const threeOf = 19.799999999999997 // as 6.6 + 6.6 + 6.6 is added up
	x.EpsilonHour, x.EpsilonDay = threeOf, threeOf
	if s := x.Summary(); s.EpsilonDay != 19.8 || s.EpsilonHour != 19.8 {
		t.Errorf("Σε is printed as %v an hour and %v a day", s.EpsilonHour, s.EpsilonDay)
	}
	if text := s.String(); !strings.Contains(text, "within release.hours alone assumed") {
		t.Errorf("the hours are not named:\n%s", text)
	}
}

// TestLongWindow: of a window of months a part is simulated, with that part of its budget.
func TestLongWindow(t *testing.T) {
	release := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, ReleaseInterval: 60}
	release.Budget = mechanism.Budget{
		Epsilon: 620, WindowSteps: 62 * 1440, Spent: mechanism.SpentSuppress,
	}
	x := expected(t, release, Options{Tracks: 1, Seed: 7})
	s := x.Summary()
	if x.Steps != 31*1440 || x.Part != .5 || x.Options.Budget.Epsilon != 620 ||
		math.Abs(s.LastsSeconds-310*3600) > 7200 || s.EstimateSpent != (Errors{}) {
		t.Errorf("%d steps, part %v, the budget lasts %v s", x.Steps, x.Part, s.LastsSeconds)
	}
	for _, words := range []string{"simulated for 744 h", "nothing is published"} {
		if !strings.Contains(s.String(), words) {
			t.Errorf("%q is missing in:\n%s", words, s)
		}
	}
}

// TestExpectEnds with the context.
func TestExpectEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Simulate(ctx, town(t), mechanism.Options{Epsilon: 1, Delta: .01},
		Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	var told [][2]int64
	enough := errors.New("enough")
	progress := func(done, total int64) error {
		if told = append(told, [2]int64{done, total}); done == 15 {
			return enough
		}
		return nil
	}
	e := Options{Tracks: 4, Steps: 10, Progress: progress}
	if _, err := Simulate(t.Context(), town(t), mechanism.Options{Epsilon: 1, Delta: .01},
		e); !errors.Is(err, enough) || len(told) != 15 || told[14] != [2]int64{15, 40} {
		t.Errorf("got %v after it told %v", err, told)
	}
	if _, err := Simulate(t.Context(), town(t), mechanism.Options{}, Options{}); err == nil {
		t.Error("there is no ε, and no error")
	}
}

// TestExpectationEndsWithTheService: the caller that stopped it may close the log.
func TestExpectationEndsWithTheService(t *testing.T) {
	var log strings.Builder // not safe beside another goroutine
	model, release := town(t), mechanism.Options{Epsilon: 1, Delta: .01}
	logger := slog.New(slog.NewTextHandler(&log, nil))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	Log(ended, model, release, 0, logger)()
	if log.Len() > 0 {
		t.Errorf("after the end of the context: %s", &log)
	}
	Log(t.Context(), model, release, 0, logger)() // the race detector sees a line that comes later
	if lines := strings.Count(log.String(), "\n"); lines > 2 {
		t.Errorf("%d lines: %s", lines, &log)
	}
}

// TestMetricSaysOfWhichPlaces: the factors hold within a location set alone, and
// their readers have to be told.
func TestMetricSaysOfWhichPlaces(t *testing.T) {
	var v MetricView
	v.Add("u", 0, 1, law.Metric{Within200M: 1.5, Within1KM: 2, Across: 3, WidthKM: 4})
	text := v.Summary(law.Lattice).Text("these releases")
	if !strings.Contains(text, "two places of its location set") ||
		!strings.Contains(text, "outside") {
		t.Errorf("%q does not say for which places it holds", text)
	}
	v = MetricView{}
	v.Add("u", 0, 1, law.Metric{Within200M: 3, Within1KM: 3, Across: 3, WidthKM: 4})
	text = v.Summary(law.Codebook).Text("these releases")
	if strings.Contains(text, "location set") || strings.Contains(text, "outside") ||
		!strings.Contains(text, "or not at all if both vote for the same code point") {
		t.Errorf("%q does not say what holds for the codebook", text)
	}
}

// TestHourOfNeighbours: ε between neighbours adds up over a user's last hour, for each user alone,
// and hours that are not whole do not count.
func TestHourOfNeighbours(t *testing.T) {
	var v MetricView
	const minute = 60_000
	for i := range int64(200) {
		v.Add("u", i*minute, 2, law.Metric{NearShare: .25})
		if i < 50 {
			v.Add("short", i*minute, 2, law.Metric{NearShare: 1})
		}
	}
	v.Add("u", 1000*minute, 2, law.Metric{NearShare: 1}) // after a long silence
	s := v.Summary(law.Codebook)
	if s.NearEpsilonHour != (Factors{Largest: 30, Median: 30}) || len(v.hours) != 141 ||
		slices.Min(v.hours) != 2 {
		t.Errorf("hours of %v, %d of them, the least %v", s.NearEpsilonHour, len(v.hours),
			slices.Min(v.hours))
	}
	if want := (200*.25 + 50 + 1) / 251; s.NearShare != want {
		t.Errorf("a share of %v, want %v", s.NearShare, want)
	}
	for name, words := range map[string]string{
		law.Codebook: "A release tells 40 % of the pairs of neighbouring cells apart (mean over " +
			"these releases; a pair counts by how likely the user is there). In the median hour " +
			"this adds up to ε = 30, in the worst to 30, and for some pairs to the ε of all",
		law.Lattice: "A release uses at most 40 % of its ε between two neighbouring cells",
	} {
		if text := v.Summary(name).Text("these releases"); !strings.Contains(text, words) {
			t.Errorf("%s: %q lacks %q", name, text, words)
		}
	}
}

func town(t *testing.T) *mobility.Model {
	t.Helper()
	model, err := servicetest.TownModel()
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// TestCodebookHasNoLocationSet: what is printed of a codebook does not speak of cells outside a
// set, and its releases tell places apart by e^ε at most.
func TestCodebookHasNoLocationSet(t *testing.T) {
	o := mechanism.Options{Mechanism: law.Codebook, Epsilon: 2, Delta: .01}
	x := expected(t, o, Options{Tracks: 10, Steps: 20, Seed: 7})
	text := x.Summary().String()
	for _, words := range []string{
		"Expected error with codebook", "cells are possible on average",
		"vote for the same code point",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is missing in:\n%s", words, text)
		}
	}
	if strings.Contains(text, "outside") {
		t.Errorf("a codebook has no outside:\n%s", text)
	}
	if most := x.Metric.Summary(law.Codebook).Farthest.Largest; !(1 < most && most <= math.Exp(2)) {
		t.Errorf("a factor of %v at ε = 2", most)
	}
}

// TestTracks: where tracks are short, all are simulated, and of a whole day 20 or more.
func TestTracks(t *testing.T) {
	release := mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .02}
	if x := expected(t, release, Options{Steps: 10}); x.Tracks != mostTracks {
		t.Errorf("%d tracks of at most %d", x.Tracks, mostTracks)
	}
	if x := expected(t, release, Options{ErrorsAlone: true}); x.Steps != 1440 || x.Tracks < 20 {
		t.Errorf("%d tracks of %d steps", x.Tracks, x.Steps)
	}
}
