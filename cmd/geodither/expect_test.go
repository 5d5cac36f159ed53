package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/modelview"
)

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
	var s modelview.Summary
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
		var s modelview.Summary
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
			expect.Whole(s.Expected.Estimate.Mean), expect.Whole(s.Expected.Blind.Mean), s.Expected.EpsilonDay)
		if log := b.log.String(); !strings.Contains(log, want) || strings.Contains(log, warning) == worth {
			t.Errorf("ε = %s: want %s, and a warning: %t; the log says\n%s", epsilon, want, !worth, log)
		}
	}
}
