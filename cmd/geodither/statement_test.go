package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestStatementCites: the command reads a config and the reports of audits, and prints both formats
func TestStatementCites(t *testing.T) {
	before, _, _ := strings.Cut(complete, "release:")
	dir, path := configDir(t, before+"release: {mechanism: codebook, epsilon: 0.5, "+
		"interval: 3h, budget: none}\n")
	r := succeed(t, "audit", "-c", path, "--draws", "2e3", "--json")
	report := write(t, dir, "audit.json", r.out)
	r = succeed(t, "statement", "-c", path, "--json", "--audit", report, "--audit", report)
	var facts struct{ Audits []map[string]any }
	if err := json.Unmarshal([]byte(r.out), &facts); err != nil {
		t.Fatal(err)
	}
	if m := facts.Audits; len(m) != 2 || m[0]["passed"] != true || m[0]["time"] == nil {
		t.Errorf("the facts:\n%s", r.out)
	}
	again := succeed(t, "statement", "-c", path, "--json", "--audit", report, "--audit", report)
	if again.out != r.out {
		t.Errorf("the same config has other facts:\n%s\n%s", r.out, again.out)
	}
	r = succeed(t, "statement", "-c", path, "--audit", report)
	requireWords(t, r.out, "# What `fleet` guarantees", "found nothing", "theorem 12")

	requireMessage(t, call(t, "statement"), cli.ExitUsage, "config")
	requireMessage(t, call(t, "statement", "-c", path, "--audit", path), cli.ExitUsage,
		"is no report of")
	requireMessage(t, call(t, "statement", "-c", filepath.Join(dir, "none.yml")), cli.ExitFailed,
		"config example")
}
