package main

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/deploy"
	"github.com/geodither/geodither/schemas"
)

// TestExplain: every remedy and every reason can be listed and printed without a config, and an
// unknown name is refused with how to list them.
func TestExplain(t *testing.T) {
	list := succeed(t, "explain").out
	for _, r := range deploy.Remedies() {
		if !strings.Contains(list, r.Name+" ") {
			t.Errorf("the list has no %s:\n%s", r.Name, list)
		}
		requireWords(t, succeed(t, "explain", r.Name).out, r.What, r.Do)
	}
	for _, reason := range schemas.Reasons() {
		if !strings.Contains(list, "\n"+string(reason.Kind())+" ") {
			t.Errorf("the list has no %s:\n%s", reason, list)
		}
		succeed(t, "explain", string(reason))
	}
	requireWords(t, succeed(t, "explain", "malformed").out, "neither Avro nor JSON",
		"Likely cause: ", "encoding.raw")
	requireWords(t, succeed(t, "explain", "(changelog-lost)").out, "rebuild-changelog",
		"--accept=lost-account")
	requireMessage(t, call(t, "explain", "changelog-found"), cli.ExitUsage, "nothing is named",
		"lists all names")
}
