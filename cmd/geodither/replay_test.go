package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/pipeline"
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
	states := func(name string) string { return filepath.Join(s.dir, "replay", name) }

	killed := s.replay(t, "--output-topic", output, "--state-dir", states("a"))
	s.await(t, killed, "again", s.fed/10)
	killed.kill(t)
	if n := s.answered(t, "again"); n >= s.fed {
		t.Fatalf("all %d records were answered before the kill; the test shows nothing", n)
	}
	a := s.replay(t, "--output-topic", output, "--state-dir", states("a"))
	b := s.replay(t, "--output-topic", output, "--state-dir", states("b"))
	for _, p := range []*process{a, b} {
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("a replay did not end well: %v\n%s", err, p.log)
		}
	}
	requireSame(t, s.read(t, "town.sanitized", false), s.read(t, "again.sanitized", false))
	requireNoOther(t, s.read(t, "town.sanitized", false), s.read(t, "again.sanitized", true))
	if r := succeed(t, "replay", "-c", s.config, "--output-topic", output); !strings.Contains(r.out, "done") {
		t.Errorf("once more: %s", r.out)
	}
}

// TestReplayCommand: plan, refusal, cost and usage in words.
func TestReplayCommand(t *testing.T) {
	s := newTownService(t)
	output := s.prefix + "again.sanitized"
	r := succeed(t, "replay", "-c", s.config, "--output-topic", output, "--dry-run")
	requireWords(t, r.out, "process from", "none: byte for byte the first release", output)
	var plan pipeline.ReplayPlan
	r = succeed(t, "replay", "-c", s.config, "--output-topic", output, "--from", "5", "--to", "2100-01-01T00:00:00Z", "--dry-run", "--json")
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Read != s.fed || plan.Publish != s.fed-3*5 || !plan.Identical || plan.Done {
		t.Errorf("the plan for %d records is %s", s.fed, r.out)
	}
	if lines := s.readIfThere(t, "again.sanitized", true); len(lines) > 0 {
		t.Errorf("a dry run has published")
	}

	other := s.edit(t, "epsilon: 1", "epsilon: 2")
	requireMessage(t, call(t, "replay", "-c", other, "--output-topic", output), exitFailed,
		"second release", "settings are not those of the first release", "ε = 2", "--spend-again")
	r = succeed(t, "replay", "-c", other, "--output-topic", output, "--dry-run")
	requireWords(t, r.out, "differs", "a second release", "needs --spend-again")
	requireMessage(t, call(t, "replay", "-c", s.config, "--output-topic", output, "--from", "yesterday"), exitUsage, `"yesterday"`, "2026-11-21T08:00:00Z")
	requireMessage(t, call(t, "replay", "-c", s.config, "--output-topic", s.prefix+"raw"), exitFailed, "topics.sanitized")
}
