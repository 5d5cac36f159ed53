package main

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/deploy"
)

// TestExplain: every remedy can be listed and printed without a config, and an unknown name is
// refused with how to list them.
func TestExplain(t *testing.T) {
	list := succeed(t, "explain").out
	for _, r := range deploy.Remedies() {
		if !strings.Contains(list, r.Name+" ") {
			t.Errorf("the list has no %s:\n%s", r.Name, list)
		}
		requireWords(t, succeed(t, "explain", r.Name).out, r.What, r.Do)
	}
	requireWords(t, succeed(t, "explain", "(changelog-lost)").out, "rebuild-changelog",
		"--accept=lost-account")
	requireMessage(t, call(t, "explain", "changelog-found"), cli.ExitUsage, "no error is named",
		"lists all names")
}
