package attack

import (
	"strings"
	"testing"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/mechanism/evaluation/audit"
)

// TestGuesses: ln of a ratio needs a wrong guess.
func TestGuesses(t *testing.T) {
	for _, c := range []struct {
		hits, misses int64
		estimate     float64
		want         string
	}{
		{20, 5, 1.38629, "20 right guesses, 5 wrong ones in 99 draws: ln of their ratio is 1.3863"},
		{20, 0, 0, "20 right guesses and no wrong one in 99 draws"},
		{0, 0, 0, "no guess in 99 draws"},
		{0, 7, 0, "no right guess and 7 wrong ones in 99 draws"},
	} {
		got := guesses(
			audit.AttackResult{Hits: c.hits, Misses: c.misses, Draws: 99, Estimate: c.estimate})
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestServiceFindings: a failed check of the service is one of the report's findings.
func TestServiceFindings(t *testing.T) {
	r := &serviceaudit.Report{Checks: []*serviceaudit.Check{
		{Name: "rules", Trials: 7},
		{Name: "law", Trials: 9, Failures: 2, Details: []string{"one", "two"}},
	}}
	found := serviceFindings(r)
	if len(found) != 1 || !strings.Contains(found[0], `"law", 2 times in 9 trials: one; two`) {
		t.Errorf("%q", found)
	}
	var out strings.Builder
	if err := printService(&out, r, 1); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"rules  passed  7 trials", "law    FAILED  9 trials"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q does not say %q", out.String(), words)
		}
	}
}
