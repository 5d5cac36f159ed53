package audit

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
)

var update = flag.Bool("update", false,
	"write the table of planted faults into mechanism/PROOFS.md")

// TestFaults plants one fault after the other under an interval, hours and a budget, and compares
// what the second implementation and the command find with the table of mechanism/PROOFS.md.
// Without GEODITHER_AUDIT_FAULTS=1 it plants a few.
func TestFaults(t *testing.T) {
	all := faults()
	rows, missed := make([]string, len(all)), 0
	t.Run("plant", func(t *testing.T) {
		for i, f := range all {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				if !f.quick {
					long(t)
				}
				s := ruled(f.settings(t))
				began := time.Now()
				r, err := probe(f.plant(Engine), s, f.sizes, 7, alarms)
				if err != nil {
					t.Fatal(err)
				}
				if found := len(r.findings()) > 0; found == (f.missed != "") {
					t.Errorf("found: %v", found)
				}
				report, err := Run(t.Context(), f.plant(Engine), s,
					Options{Seed: 7, Draws: commandDraws})
				if err != nil {
					t.Fatal(err)
				}
				rows[i] = row(i+1, f, r, report)
				t.Logf("%v, %q; %q", time.Since(began), r.findings(), report.Findings)
			})
		}
	})
	for _, f := range all {
		if f.missed != "" {
			missed++
		}
	}
	if len(all) < 28 || len(all)-missed < 26*len(all)/28 {
		t.Errorf("%d of %d faults are missed", missed, len(all))
	}
	compareTable(t, rows, summary(all))
}

// ruled returns the settings with an interval, hours and a budget.
func ruled(s Settings) Settings {
	s.Release.ReleaseInterval = 2
	s.Release.Hours = []hours.Span{{Days: 0x7f, From: 60, To: 18 * 60, Zone: "UTC"}}
	s.Release.Budget = mechanism.Budget{
		Epsilon: 4, WindowSteps: 10, Lifetime: 50, Spent: mechanism.SpentRepeat,
	}
	return s
}

// commandDraws is the number of releases in the duels of the table. The command draws eight times
// as many unless it is told otherwise.
const commandDraws = DefaultDraws / 8

func row(number int, f fault, r *probed, report *Report) string {
	found, mark := first(r.checks), ""
	if found == "" {
		found = "**missed**: " + f.missed
	}
	if f.example {
		mark = " †"
	}
	return fmt.Sprintf("| %d | %s%s | %s | %d | %s |\n", number, f.name, mark, found, r.records,
		cmp.Or(first(report.Checks), "–"))
}

// first returns the name of the first check that failed.
func first(all []*Check) string {
	for _, c := range all {
		if c.Failures > 0 {
			return c.Name
		}
	}
	return ""
}

// summary counts by group what is found.
func summary(all []fault) string {
	text := "\n| group | found | planted |\n|---|---|---|\n"
	line := func(name string, of func(fault) bool) {
		found, planted := 0, 0
		for _, f := range all {
			if !of(f) {
				continue
			}
			if planted++; f.missed == "" {
				found++
			}
		}
		text += fmt.Sprintf("| %s | %d | %d |\n", name, found, planted)
	}
	for i, f := range all {
		if i == 0 || all[i-1].group != f.group {
			line(f.group, func(o fault) bool { return o.group == f.group })
		}
	}
	line("in all", func(fault) bool { return true })
	return text
}

const (
	proofs     = "../../../mechanism/PROOFS.md"
	tableBegin = "<!-- table of planted faults: GEODITHER_AUDIT_FAULTS=1 go test " +
		"./cmd/internal/audit -run TestFaults -update -->\n"
	tableEnd = "<!-- end of the table -->\n"
)

func compareTable(t *testing.T, rows []string, sums string) {
	t.Helper()
	text, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	was, tail, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s lacks the marks of the table", proofs)
	}
	table := "| | planted fault | found by | records | the command |\n|---|---|---|---|---|\n" +
		strings.Join(rows, "") + sums
	if !whole {
		for _, row := range rows {
			if !strings.Contains(was, row) {
				t.Errorf("the table of %s lacks %s", proofs, row)
			}
		}
		return
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(proofs, []byte(head+tableBegin+table+tableEnd+tail),
			0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table {
		t.Errorf("the table of %s is another one: run with -update and read the difference; now "+
			"it is\n%s", proofs, table)
	}
}
