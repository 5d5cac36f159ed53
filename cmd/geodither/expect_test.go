package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// townModel is the model of the town.
func townModel(t *testing.T) *mobility.Model {
	t.Helper()
	_, path := townFiles(t, t.TempDir())
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func expected(t *testing.T, release mechanism.Options, e expectOptions) *expectation {
	t.Helper()
	x, err := expect(t.Context(), townModel(t), release, e)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestExpect: what is expected is worth what it should be: little of a small ε, more
// of a large one, and never the same as nothing; and it counts its costs.
func TestExpect(t *testing.T) {
	e := expectOptions{Tracks: 30, Steps: 40, Seed: 7}
	weak := expected(t, mechanism.Options{Epsilon: .01, Delta: .01}, e)
	strong := expected(t, mechanism.Options{Epsilon: 20, Delta: .01}, e)
	for _, x := range []*expectation{weak, strong} {
		m := &x.Metrics
		if x.Tracks != 30 || x.Steps != 40 || m.Estimate.Len() != 30*40 || m.Blind.Len() != 30*40 || m.Releases() != 30*40 {
			t.Errorf("simulated %d tracks of %d steps, %d estimates, %d releases", x.Tracks, x.Steps, m.Estimate.Len(), m.Releases())
		}
		if m.DriftRatio() > .05 || m.LocationSetMean() < 5 {
			t.Errorf("drift %v, sets of %v cells", m.DriftRatio(), m.LocationSetMean())
		}
	}
	if near := strong.Metrics.Estimate.RMS(); near > strong.Metrics.Blind.RMS()/2 || near < 200 {
		t.Errorf("at ε = 20 the estimate is off by %v m, without releases by %v m", near, strong.Metrics.Blind.RMS())
	}
	if far := weak.Metrics.Estimate.RMS() / weak.Metrics.Blind.RMS(); far < .98 || far > 1.02 {
		t.Errorf("at ε = .01 the estimate is off by %v of what it is without releases", far)
	}
	if weak.Metrics.Blind.RMS() != strong.Metrics.Blind.RMS() {
		t.Error("the blind baseline depends on ε")
	}
	if math.Abs(strong.EpsilonHour-20*60) > 1e-6 || math.Abs(strong.EpsilonDay-20*60*24) > 1e-6 {
		t.Errorf("ε %v an hour, %v a day", strong.EpsilonHour, strong.EpsilonDay)
	}
	if m := strong.Metric.summary(); !(1 < m.Within200M.Median && m.Within200M.Largest <= m.Within1KM.Largest && m.Within1KM.Largest <= m.Across.Largest) || m.WidthKM <= 0 {
		t.Errorf("metric view %+v", m)
	}
	if again := expected(t, mechanism.Options{Epsilon: 20, Delta: .01}, e); !reflect.DeepEqual(again, strong) {
		t.Error("the same arguments give another expectation")
	}
}

// TestExpectRules: costs are those of the rules of release, and a budget bounds
// them also where the simulated time is too short to meet it.
func TestExpectRules(t *testing.T) {
	e := expectOptions{Tracks: 3, Steps: 40}
	for _, c := range []struct {
		name      string
		change    func(o *mechanism.Options)
		hour, day float64
		kind      mechanism.Kind
	}{
		{"interval", func(o *mechanism.Options) { o.ReleaseInterval = 10 }, 6, 144, mechanism.Predicted},
		{"skip", func(o *mechanism.Options) { o.ReleaseInterval, o.Between = 10, mechanism.BetweenSkip }, 6, 144, mechanism.Skipped},
		{"window", func(o *mechanism.Options) { o.Budget = mechanism.Budget{Epsilon: 50, WindowSteps: 120} }, 50, 600, mechanism.Released},
		{"lifetime", func(o *mechanism.Options) { o.Budget.Lifetime = 70 }, 60, 70, mechanism.Released},
	} {
		t.Run(c.name, func(t *testing.T) {
			release := mechanism.Options{Epsilon: 1, Delta: .01}
			c.change(&release)
			x := expected(t, release, e)
			if math.Abs(x.EpsilonHour-c.hour) > 1e-9 || math.Abs(x.EpsilonDay-c.day) > 1e-9 || x.Kinds[c.kind] == 0 {
				t.Errorf("ε %v an hour and %v a day, want %v and %v; kinds %v", x.EpsilonHour, x.EpsilonDay, c.hour, c.day, x.Kinds)
			}
		})
	}
}

// TestExpectEnds with the context.
func TestExpectEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := expect(ctx, townModel(t), mechanism.Options{Epsilon: 1, Delta: .01}, expectOptions{}); !errors.Is(err, context.Canceled) {
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
	e := expectOptions{Tracks: 4, Steps: 10, Progress: progress}
	if _, err := expect(t.Context(), townModel(t), mechanism.Options{Epsilon: 1, Delta: .01}, e); !errors.Is(err, enough) || len(told) != 15 || told[14] != [2]int64{15, 40} {
		t.Errorf("got %v after it told %v", err, told)
	}
	if _, err := expect(t.Context(), townModel(t), mechanism.Options{}, expectOptions{}); err == nil {
		t.Error("there is no ε, and no error")
	}
}

// TestModelInspectExpects: what is printed is what is simulated, for people and
// programs, and only where it is asked for.
func TestModelInspectExpects(t *testing.T) {
	_, path := townFiles(t, t.TempDir())
	args := []string{"model", "inspect", "--epsilon", "12", "--delta", "0.3", "--interval", "2m", "--tracks", "5", "--steps", "30", "--seed", "9"}
	text := succeed(t, append(args, path)...).out
	for _, word := range []string{"expected error with lattice, ε = 12 a release", "release ", "estimate ", "blind ", "5 simulated tracks of 30m0s, seed 9", "ε = 360 an hour, 8640 a day", "|ΔX|", "within 200 m"} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in:\n%s", word, text)
		}
	}
	if again := succeed(t, append(args, path)...).out; again != text {
		t.Error("the same seed gives another text")
	}
	var s modelSummary
	if err := json.Unmarshal([]byte(succeed(t, append(args, "--json", path)...).out), &s); err != nil || s.Expected == nil {
		t.Fatalf("%v, %+v", err, s)
	}
	if e := s.Expected; e.Tracks != 5 || e.Released != .5 || e.EpsilonDay != 8640 || e.Estimate.Mean <= 0 || e.Estimate.Mean >= e.Blind.Mean || e.Metric.Across.Largest <= 1 {
		t.Errorf("expected %+v", e)
	}
	if plain := succeed(t, "model", "inspect", path).out; strings.Contains(plain, "expected error") {
		t.Errorf("nobody has asked for what is expected:\n%s", plain)
	}
	if weak := succeed(t, "model", "inspect", "--epsilon", "0.01", "--delta", "0.01", "--tracks", "5", path).out; !strings.Contains(weak, "hardly better than publishing nothing") {
		t.Errorf("a release that tells nothing is not called so:\n%s", weak)
	}
	requireMessage(t, call(t, "model", "inspect", "--epsilon", "1", path), cli.ExitUsage, "--epsilon and --delta belong together")
	requireMessage(t, call(t, "model", "inspect", "--epsilon", "1", "--delta", "0.01", "--interval", "90s", path), cli.ExitUsage, "whole multiple")
	requireMessage(t, call(t, "model", "inspect", "--epsilon", "1", "--delta", "0.01", "--tracks", "0", path), cli.ExitUsage, "--tracks")
}

// TestRunSaysWhatToExpect beside its start, before there is a broker, in the numbers
// of model inspect; and warns where they are no better than without releases.
func TestRunSaysWhatToExpect(t *testing.T) {
	for epsilon, worth := range map[string]bool{"12": true, "0.01": false} {
		dir, path := configDir(t, strings.NewReplacer("one:9092, two:9092", "127.0.0.1:1", "{mechanism: laplace", "{epsilon: "+epsilon+", delta: 0.1, budget: none} #").Replace(complete))
		var s modelSummary
		text := succeed(t, "model", "inspect", "--epsilon", epsilon, "--delta", "0.1", "--tracks", "20", "--json", filepath.Join(dir, "model.avro")).out
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Expected == nil {
			t.Fatalf("%v: %s", err, text)
		}
		b := start(t, nil, "run", "-c", path)
		const warning = "hardly better than publishing nothing"
		eventually(t, "the expectation", func() bool {
			log := b.log.String()
			return strings.Contains(log, `"expected":`) && (worth || strings.Contains(log, warning))
		})
		b.stop(t)
		want := fmt.Sprintf(`"expected":{"estimate_mean_m":%g,"blind_mean_m":%g,"epsilon_per_day":%g,"simulated_tracks":20}`,
			whole(s.Expected.Estimate.Mean), whole(s.Expected.Blind.Mean), s.Expected.EpsilonDay)
		if log := b.log.String(); !strings.Contains(log, want) || strings.Contains(log, warning) == worth {
			t.Errorf("ε = %s: want %s, and a warning: %t; the log says\n%s", epsilon, want, !worth, log)
		}
	}
}

// TestExpectationEndsWithTheService: whoever has stopped it may close the log.
func TestExpectationEndsWithTheService(t *testing.T) {
	var log strings.Builder // not safe beside another goroutine
	o := pipeline.Options{
		Settings: pipeline.Settings{Model: townModel(t), Release: mechanism.Options{Epsilon: 1, Delta: .01}},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	logExpectation(ended, o)()
	if log.Len() > 0 {
		t.Errorf("after the end of the context: %s", &log)
	}
	logExpectation(t.Context(), o)() // the race detector sees a line that comes later
	if lines := strings.Count(log.String(), "\n"); lines > 2 {
		t.Errorf("%d lines: %s", lines, &log)
	}
}
