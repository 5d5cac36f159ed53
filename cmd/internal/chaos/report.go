package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// report is what a run found.
type report struct {
	Settings     settings
	Faults       map[kind]int
	IdleFaults   int
	Gap          time.Duration // longest time for which a partition's committed reader saw nothing
	Delay        time.Duration // longest time from a raw record in its topic to its sanitized one at that reader
	Late         string        // which one
	LoggedErrors int
	StateEqual   bool            // "geodither state verify" found nothing
	Verified     json.RawMessage // its report
	Took         time.Duration
	Violations   []string

	ledger *ledger
}

func (r *report) hardFaults() int {
	n := 0
	for k, count := range r.Faults {
		if slices.Contains(hard, k) {
			n += count
		}
	}
	return n
}

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-21s "+format+"\n", append([]any{name}, args...)...)
	}
	s := r.Settings
	line("seed", "%d", s.Seed)
	line("service", "%d instances (%d static members), %d partitions, %d Kafka nodes", s.Instances, s.Static, s.Partitions, nodes)
	line("hard faults", "%d", r.hardFaults())
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		line("", "%3d %s", r.Faults[k], k)
	}
	if l := r.ledger; l != nil {
		line("records", "%d raw = %d sanitized + %d dead letters", l.Raw, l.Sanitized, l.Dead)
		line("transactions", "%d committed, %d aborted", l.Committed, l.Aborted)
		line("lost", "%d", l.Lost)
		line("duplicates", "%d", l.Duplicates)
		line("out of order", "%d", l.OutOfOrder)
		line("of no raw record", "%d", l.Strangers)
		line("misplaced", "%d raw records of a second producer, %d dead letters wrong_partition", l.Misplaced, l.MisplacedLetters)
		line("budgets", "%d budgets exceeded, of %d users; at most ε %g of %d published in any %v", l.Exceeded, l.Users, l.MostSpent, budgetEpsilon, budgetWindow)
		line("concurrent reader", "%s", equal(l.ReaderDiffer == 0))
		line("read uncommitted", "%d records more, %d fixes with two different releases", l.Uncommitted, l.Differing)
		line("fenced producers", "%d records", l.Zombies)
		line("state verify", "%s", equal(r.StateEqual))
	}
	line("longest silence", "%v in a partition, to a read_committed reader (the feed's own pauses included)", r.Gap)
	line("longest delay", "%v from a raw record to its sanitized one, to that reader (%s)", r.Delay, r.Late)
	line("logged errors", "%d", r.LoggedErrors)
	line("time", "%v", r.Took)
	if len(r.Violations) == 0 {
		line("result", "every promise held")
		return b.String()
	}
	line("result", "FAILED")
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(v, "\n", "\n    "))
	}
	return b.String()
}

func equal(yes bool) string {
	if yes {
		return "equal"
	}
	return "DIFFERS"
}

// writeJSON writes the report for programs.
func (r *report) writeJSON(path string) error {
	violations := r.Violations
	if violations == nil {
		violations = []string{}
	}
	l := r.ledger
	if l == nil {
		l = &ledger{}
	}
	data, err := json.MarshalIndent(map[string]any{
		"seed": r.Settings.Seed, "again": r.Settings.again(),
		"hard_faults": r.hardFaults(), "faults": r.Faults,
		"raw": l.Raw, "sanitized": l.Sanitized, "dead_letters": l.Dead,
		"transactions_committed": l.Committed, "transactions_aborted": l.Aborted,
		"lost": l.Lost, "duplicates": l.Duplicates, "out_of_order": l.OutOfOrder, "strangers": l.Strangers,
		"misplaced": l.Misplaced, "misplaced_dead_letters": l.MisplacedLetters,
		"users": l.Users, "budgets_exceeded": l.Exceeded, "budget": budgetEpsilon, "most_spent": l.MostSpent,
		"reader_equal": r.ledger != nil && l.ReaderDiffer == 0, "uncommitted": l.Uncommitted, "differing": l.Differing,
		"fenced_records": l.Zombies, "state_equal": r.StateEqual, "state_verify": r.Verified,
		"gap_ms": r.Gap.Milliseconds(), "delay_ms": r.Delay.Milliseconds(), "logged_errors": r.LoggedErrors, "took_s": r.Took.Seconds(),
		"violations": violations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
