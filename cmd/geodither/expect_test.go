package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/expect"
)

// TestModelInspectExpects: what is printed is what is simulated, for people and
// programs, and only where it is asked for.
func TestModelInspectExpects(t *testing.T) {
	_, path := townFiles(t, t.TempDir())
	release := func(settings string) []string {
		return append([]string{"model", "inspect", path},
			withConfig(t, "release: {"+settings+", budget: none}")...)
	}
	args := release("mechanism: lattice, epsilon: 12, delta: 0.3, interval: 2m")
	text := succeed(t, args...).out
	for _, word := range []string{
		"Expected error with lattice, ε = 12 a release", "release ", "estimate ", "model alone ",
		"simulated tracks of 24 hours, seed 1", "The location set has", "within 200 m",
		"about ε = 360 an hour, and to at most 8,652 in 24 hours",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in:\n%s", word, text)
		}
	}
	if again := succeed(t, args...).out; again != text {
		t.Error("the same seed gives another text")
	}
	var s expect.Model
	if err := json.Unmarshal([]byte(succeed(t, append(args, "--json")...).out),
		&s); err != nil || s.Expected == nil {
		t.Fatalf("%v, %+v", err, s)
	}
	if e := s.Expected; e.Tracks != fewTracks || e.Released != .5 || e.EpsilonDay != 8652 ||
		e.Estimate.Mean <= 0 || e.Estimate.Mean >= e.Blind.Mean || e.Metric.Farthest.Largest <= 1 {
		t.Errorf("expected %+v", e)
	}
	if plain := succeed(t, "model", "inspect",
		path).out; strings.Contains(plain, "Expected error") {
		t.Errorf("nobody has asked for what is expected:\n%s", plain)
	}
	weak := succeed(t, release("mechanism: lattice, epsilon: 0.01, delta: 0.01")...).out
	if !strings.Contains(weak, "nearer to the truth than the model alone") {
		t.Errorf("a release that tells nothing is not called so:\n%s", weak)
	}
	requireMessage(t, call(t, release("mechanism: lattice, epsilon: 1")...),
		cli.ExitUsage, "mechanism lattice needs delta")
	requireMessage(t, call(t, release("mechanism: codebook, epsilon: 1, interval: 90s")...),
		cli.ExitUsage, "no multiple")
}

// TestRunSaysWhatToExpect: a service that starts simulates what its settings are worth, before
// there is a broker, and warns if the estimate is no better than without releases.
func TestRunSaysWhatToExpect(t *testing.T) {
	t.Parallel()
	for epsilon, worth := range map[string]bool{"12": true, "0.01": false} {
		_, path := configDir(t, strings.NewReplacer("one:9092, two:9092", "127.0.0.1:1",
			"{mechanism: lattice",
			"{mechanism: codebook, epsilon: "+epsilon+", budget: none} #").Replace(complete))
		o, _, err := config.Service(path)
		if err != nil {
			t.Fatal(err)
		}
		x, err := expect.Simulate(t.Context(), o.Model, o.Release,
			expect.Options{Tracks: fewTracks, Seed: expect.Seed})
		if err != nil {
			t.Fatal(err)
		}
		s := x.Summary()
		b := start(t, nil, "run", "-c", path)
		const warning = "gains little over publishing nothing"
		eventually(t, "the expectation", func() bool {
			log := b.log.String()
			return strings.Contains(log, `"expected":`) && (worth || strings.Contains(log, warning))
		})
		b.stop(t)
		want := fmt.Sprintf(`"expected":{"estimate_mean_m":%g,"blind_mean_m":%g,`+
			`"epsilon_per_day":%g,"simulated_tracks":%d}`,
			expect.Whole(s.Estimate.Mean), expect.Whole(s.Blind.Mean), s.EpsilonDay, s.Tracks)
		if log := b.log.String(); !strings.Contains(log, want) ||
			strings.Contains(log, warning) == worth {
			t.Errorf("ε = %s: want %s, and a warning: %t; the log says\n%s",
				epsilon, want, !worth, log)
		}
	}
}
