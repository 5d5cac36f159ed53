package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestStatementCites: the command reads a config and the reports of audits, and prints both formats
func TestStatementCites(t *testing.T) {
	before, _, _ := strings.Cut(complete, "release:")
	dir, path := configDir(t, before+"release: {mechanism: codebook, epsilon: 0.5, "+
		"interval: 3h, budget: none}\n")
	r := succeed(t, "audit", "-c", path, "--draws", "2e3", "--json")
	report := write(t, dir, "audit.json", r.out)
	r = succeed(t, "statement", "-c", path, "--audit", report, "--audit", report)
	var sheet struct {
		Deployment map[string]any
		Geodither  struct{ Measured []map[string]any }
	}
	if err := yaml.Unmarshal([]byte(r.out), &sheet); err != nil {
		t.Fatal(err)
	}
	if m := sheet.Geodither.Measured; len(m) != 2 || m[0]["passed"] != true || m[0]["at"] == nil ||
		sheet.Deployment["privacy_loss"] == nil {
		t.Errorf("the data sheet:\n%s", r.out)
	}
	r = succeed(t, "statement", "-c", path, "--format", "md", "--audit", report, "--simulate")
	requireWords(t, r.out, "# Statement on data protection: fleet", "found nothing against",
		"theorem 12 (codebook)", "(blind)")
	requireWords(t, r.err, "simulating what error to expect")

	requireMessage(t, call(t, "statement", "-c", path, "--format", "pdf"), cli.ExitUsage,
		"yaml or md")
	earlier := write(t, dir, "statement.yml", succeed(t, "statement", "-c", path).out)
	succeed(t, "statement", "-c", path, "--diff", earlier)
	other := write(t, dir, "other.yml",
		strings.Replace(read(t, earlier), "epsilon: 0.5", "epsilon: 3", 1))
	r = call(t, "statement", "-c", path, "--diff", other)
	if r.code != cli.ExitFailed || r.err != "geodither: the statements differ\n" {
		t.Errorf("of another ε: exit %d, %s", r.code, r.err)
	}
	requireWords(t, r.out, "differences: 1.", "  - 3\n  + 0.5\n")
	for bad, want := range map[string]string{"none.yml": "none.yml", "audit.json": "no statement"} {
		requireMessage(t, call(t, "statement", "-c", path, "--diff", filepath.Join(dir, bad)),
			cli.ExitUsage, want)
	}
	requireMessage(t, call(t, "statement", "-c", path, "--diff", earlier, "--format", "md"),
		cli.ExitUsage, "leave --format md out")
	requireMessage(t, call(t, "statement"), cli.ExitUsage, "config")
	requireMessage(t, call(t, "statement", "-c", path, "--audit", path), cli.ExitUsage,
		"is no report of")
	requireMessage(t, call(t, "statement", "-c", filepath.Join(dir, "none.yml")), cli.ExitUsage,
		"config example")
}
