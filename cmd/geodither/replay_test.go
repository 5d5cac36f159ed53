package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// replay starts the command in a process of its own, which can be killed.
func (s *townService) replay(t *testing.T, args ...string) *process {
	t.Helper()
	return s.command(t, append([]string{"replay", "-c", s.config}, args...)...)
}

// TestReplayKilled: a replay that is killed in the middle and run again, by two
// instances then, gives what the first release gave.
func TestReplayKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	s := &townService{crashWorld: newCrashWorld(t)}
	s.fed = s.feed(t, 60, 40)
	s.serve(t, "town", s.fed, nil)
	s.config = filepath.Join(s.dir, "town.yml")
	output := s.prefix + "again.sanitized"
	beside := s.edit(t, "town-state", "other-state")

	killed := s.replay(t, "--output-topic", output)
	s.await(t, killed, "again", s.fed/10)
	killed.kill(t)
	if n := s.answered(t, "again"); n >= s.fed {
		t.Fatalf("all %d records were answered before the kill; the test shows nothing", n)
	}
	a := s.replay(t, "--output-topic", output)
	b := s.command(t, "replay", "-c", beside, "--output-topic", output)
	for _, p := range []*process{a, b} {
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("a replay did not end well: %v\n%s", err, p.log)
		}
	}
	requireSame(t, s.read(t, "town.sanitized", false), s.read(t, "again.sanitized", false))
	requireNoOther(t, s.read(t, "town.sanitized", false), s.read(t, "again.sanitized", true))
	if r := succeed(t, "replay", "-c", s.config,
		"--output-topic", output); !strings.Contains(r.out, "done") {
		t.Errorf("once more: %s", r.out)
	}
}

// TestReleaseHours: a service and sanitize release within the hours alone, and predict outside of
// them; what the service has published verifies and is replayed byte for byte; and aggregate
// follows all users of both.
func TestReleaseHours(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	s := &townService{crashWorld: newCrashWorld(t)}
	const from, to = 1_699_999_740_000, 1_699_999_860_000 // 22:09 and 22:11 UTC
	s.release = `{mechanism: codebook, epsilon: 1, budget: none, ` +
		`hours: [{days: tue, from: "23:09", to: "23:11", zone: Europe/Berlin}]}`
	s.fed = s.feed(t, 20, 10)
	s.serve(t, "town", s.fed, nil)
	s.config = filepath.Join(s.dir, "town.yml")

	if r := succeed(t, "state", "verify", "-c", s.config); !strings.Contains(r.out, "verified") {
		t.Errorf("state verify says %s", r.out)
	}
	succeed(t, "replay", "-c", s.config, "--output-topic", s.prefix+"again.sanitized")
	requireSame(t, s.read(t, "town.sanitized", false), s.read(t, "again.sanitized", false))

	traces, published := filepath.Join(s.dir, "raw.csv"), filepath.Join(s.dir, "town.ndjson")
	var fixes []schemas.Raw
	for fix, err := range fleet.New(s.model, 20, 7).Fixes(t.Context(), 10,
		time.UnixMilli(1_700_000_000_000)) {
		if err != nil {
			t.Fatal(err)
		}
		fixes = append(fixes, fix)
	}
	write(t, s.dir, "raw.csv", servicetest.TownCSV(fixes))
	succeed(t, "sanitize", "-c", s.config, "--in", traces, "--out", published)
	for name, lines := range map[string]string{
		"run": succeed(t, "consume", "--brokers", s.addr, "--topic", s.prefix+"town.sanitized",
			"--format", "json").out,
		"sanitize": read(t, published),
	} {
		kinds := map[bool]map[string]int{true: {}, false: {}}
		for _, r := range decoded(t, lines) {
			at := r.Step * s.model.Step.Milliseconds()
			kinds[from <= at && at < to][r.Kind]++
			if (r.Epsilon > 0) != (r.Kind == schemas.KindReleased) {
				t.Errorf("%s: a %s record has cost %g", name, r.Kind, r.Epsilon)
			}
		}
		if fmt.Sprint(kinds) != "map[false:map[predicted:120] true:map[released:80]]" {
			t.Errorf("%s: within the hours %v, outside of them %v", name, kinds[true], kinds[false])
		}
		r := succeed(t, "aggregate", "-c", s.config, "--window", "10m", "--in",
			write(t, s.dir, name+".ndjson", lines))
		if !strings.Contains(r.err, "followed    all") {
			t.Errorf("%s: not every record is followed:\n%s", name, r.err)
		}
		for window, sum := range sumOfColumn(t, r.out, "posterior") {
			if math.Abs(sum-20) > .01 {
				t.Errorf("%s: %g vehicles in the window from %s", name, sum, window)
			}
		}
	}
}

// TestReplayCommand: plan, refusal, cost and usage in words.
func TestReplayCommand(t *testing.T) {
	s := newTownService(t)
	output := s.prefix + "again.sanitized"
	r := succeed(t, "replay", "-c", s.config, "--output-topic", output, "--dry-run")
	requireWords(t, r.out, "process from", "none: these are the first releases again", output)
	var plan replay.Plan
	r = succeed(t, "replay", "-c", s.config, "--output-topic", output, "--from", "5",
		"--to", "2100-01-01T00:00:00Z", "--dry-run", "--json")
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
		t.Fatal(err)
	}
	if !plan.Identical || plan.Done || plan.Cost != nil || plan.Partitions[0].From != 5 {
		t.Errorf("the plan for %d records is %s", s.fed, r.out)
	}
	if lines := s.readIfThere(t, "again.sanitized", true); len(lines) > 0 {
		t.Errorf("a dry run has published")
	}

	other := s.edit(t, "epsilon: 1", "epsilon: 2")
	requireMessage(t, call(t, "replay", "-c", other, "--output-topic", output), cli.ExitFailed,
		"second release", "settings are not those of the first release",
		"Different: release.epsilon", "without a bound", "--accept=second-release")
	requireMessage(t, call(t, "replay", "-c", s.config, "--output-topic", output,
		"--from", "yesterday"),
		cli.ExitUsage, `"yesterday"`, "2026-11-21T08:00:00Z")
	requireMessage(t, call(t, "replay", "-c", s.config, "--output-topic", s.prefix+"raw"),
		cli.ExitFailed, "topics.sanitized")
}
