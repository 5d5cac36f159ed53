package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/demo"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// demoOnce runs the demo to its end in a temporary folder of its own, which it
// has to leave empty.
func demoOnce(t *testing.T, more ...string) demo.Report {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := succeed(t, append([]string{"demo", "--once", "--json"}, more...)...)
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	var report demo.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.out), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"records_in", "records_out", "dead_letters", "users", "releases",
		"repeats", "late", "location_set_mean", "drift_ratio", "median_release_m",
		"median_estimate_m", "median_blind_m", "events_per_second",
	} {
		if _, ok := fields[name].(float64); !ok {
			t.Errorf("the report's %s is %v, want a number", name, fields[name])
		}
	}
	if strings.Contains(r.err, "\x1b") {
		t.Errorf("escape codes without a terminal: %q", r.err)
	}
	if report.RecordsOut != report.RecordsIn-report.DeadLetters-report.Silent ||
		report.RecordsOut != report.Releases+report.Repeats+report.Predictions {
		t.Errorf("the report does not add up: %+v", report)
	}
	return report
}

func TestDemoOnce(t *testing.T) {
	one := demoOnce(t)
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	if one.RecordsIn != int64(len(fixes))+3 || one.DeadLetters != 3 ||
		one.Users != 8 || one.Late != 0 {
		t.Errorf("the sample's %d fixes and 3 broken records gave %+v", len(fixes), one)
	}
	if one.Releases < 16 || one.EpsilonSpent > 8*20 || one.Predictions < 1000 ||
		one.MedianReleaseM >= one.MedianEstimateM/2 ||
		one.MedianEstimateM >= one.MedianBlindM/2 {
		t.Errorf("a plan of 20 a day should halve the error of the model: %+v", one)
	}
	// A code point is the mean of the posterior after it, up to the steps of its lattice.
	often := demoOnce(t, withConfig(t, "release: {epsilon: 4, budget: none}")...)
	if often.MedianEstimateM <= 0 || math.Abs(often.MedianReleaseM/often.MedianEstimateM-1) > .02 ||
		often.MedianEstimateM >= often.MedianBlindM/4 || often.LocationSetMean < 1 ||
		often.DriftRatio != 0 {
		t.Errorf("release and estimate should be close, and far better than blind: %+v", often)
	}
	if raceDetector {
		return // one run shows the races there are
	}
	again := demoOnce(t)
	for _, r := range []*demo.Report{&one, &again} {
		if r.EventsPerSecond <= 0 || r.BusyMicros <= 0 || r.BusyMicros > 1e6 {
			t.Errorf("%g records/s, %g µs each", r.EventsPerSecond, r.BusyMicros)
		}
		r.EventsPerSecond, r.BusyMicros = 0, 0 // times, which differ
	}
	if one != again {
		t.Errorf("the same seed gives another report: %+v and %+v", one, again)
	}
}

func TestDemoVehicles(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	args := append(withConfig(t, "release: {mechanism: knorm, epsilon: 8, budget: none}"),
		"--vehicles", "4")
	r, again := demoOnce(t, args...), demoOnce(t, args...)
	if r.Users != 12 || r.RecordsIn < 1536+4*250 || r.Mechanism != "knorm" || r.Epsilon != 8 {
		t.Errorf("4 vehicles beside 8 buses gave %+v", r)
	}
	if r.SanitizedSHA256 != again.SanitizedSHA256 {
		t.Error("the same seed gives other records")
	}
}

// TestDemoRules: with settings that skip and suppress, each fix is still
// accounted for, and no user costs more than the budget.
func TestDemoRules(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	r := demoOnce(t,
		withConfig(t, "release: {interval: 2m, between: skip, budget: {lifetime: 40}}")...)
	if r.Silent == 0 || r.Releases != 8*6 ||
		math.Abs(r.EpsilonSpent-8*6*6.6) > 1e-9 {
		t.Errorf("an interval and a budget of six releases for eight buses gave %+v", r)
	}
}

// TestDemoText is the report for a person.
func TestDemoText(t *testing.T) {
	if raceDetector {
		t.Skip("one demo shows the races there are")
	}
	t.Setenv("TMPDIR", t.TempDir())
	out := succeed(t, "demo", "--once").out
	for _, word := range []string{
		"1536 records in, 1533 out, 3 dead letters: each fix answered exactly once",
		"consume --brokers 127.0.0.1:", "cells are possible", "by the model alone",
		"release   codebook, ε = 6.6 for each release, at most one every 40 minutes",
		"budget    Σε ≤ 20 in any 24 hours, for each vehicle",
		"Σε per user: ", "As fast as it goes: ",
	} {
		if !strings.Contains(out, word) {
			t.Errorf("the report does not say %q:\n%s", word, out)
		}
	}
}

// TestDemoInterrupted: Ctrl-C ends the live view well, and leaves nothing
// behind; the report does not claim what it did not verify. What was to run to
// its end has failed.
func TestDemoInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	b := start(t, nil, "demo")
	eventually(t, "a line of the view",
		func() bool { return strings.Contains(b.out.String(), "  releases ") })
	if code := b.stop(t); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, b.log)
	}
	if out := b.out.String(); strings.Contains(out, "exactly once") ||
		!strings.Contains(out, "interrupted") {
		t.Errorf("the report of an interrupted demo:\n%s", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, log := new(shared), new(shared)
	go func() {
		eventually(t, "the beginning", func() bool {
			return strings.Contains(log.String(), "consume --brokers")
		})
		cancel()
	}()
	err := demo.Run(ctx, demo.Options{
		Once: true, JSON: true, Speed: 10, Seed: 1, Logger: slog.New(slog.DiscardHandler),
		Release: func(*mobility.Model) (mechanism.Options, error) {
			return mechanism.Options{Epsilon: 4, Delta: .01}, nil
		},
	}, cli.Streams{Out: out, Err: log})
	if !errors.Is(err, context.Canceled) || out.String() != "" {
		t.Errorf("%v, output %q, %s", err, out, log)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
