package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// Tally is what has come of records, in numbers, which Numbers
// explains. It names no user.
//
// Every fix read is in exactly one of Releases, Repeats, Predictions, Skipped,
// Suppressed, DeadLetters and RecordsSkipped. A record has one fix, unless
// Input.Mapping finds several.
//
// The numbers of drifts and of fixes outside the map are secret-side: they are
// functions of true locations. They are kept as totals only, never by user or by record.
type Tally struct {
	RecordsIn, RecordsOut, DeadLetters int64

	Releases, Repeats, Predictions                 int64 // RecordsOut is their sum
	Skipped, Suppressed                            int64
	Late, Misplaced, Destroyed                     int64
	OutsideClamped, OutsideRefused, OutsideSwapped int64
	SetCells, Drifts, Exhausted                    int64
	RecordsSkipped                                 int64                       // by a rule
	SkippedByRule                                  [mapping.MaxRules + 1]int64 // see Input.Rules

	Moved, Restarted               int64
	Transactions, Aborts, Restored int64
	RegistryWaits                  int64

	Epsilon  float64  // Σε of the releases, over all users
	Lateness Lateness // by how much late fixes were late
	Ahead    Lateness // by how much accepted fixes were ahead of their Kafka records, if they were
	Sets     SetSizes // what SetCells is the sum of
	Refusals Refusals // the dead letters by reason
}

// Number is one number of a Tally: the names under which the log, /status and /metrics have it, and
// what it counts. In /metrics each is a counter, and Help is that of the first one of a metric.
type Number struct {
	Name   string // in the log and in /status
	Logged bool   // the service's reports have it
	Metric string // without the namespace; empty: there is none
	Label  string // as in kind=released; empty: none
	Help   string
}

// Whether a number is in the service's reports.
const (
	logged = true
	silent = false
)

// Numbers are all of them, in the order of the reports: the one place that names them. Do not
// change them.
var Numbers = [numbers]Number{
	{
		"records_in", logged, "records_read_total", "",
		"Raw records read, of committed transactions.",
	},
	{
		"records_out", logged, "", "",
		"sanitized records published",
	},
	{
		"dead_letters", logged, "", "",
		"records refused, late ones included; \"counts\" writes no dead letter of them",
	},
	{
		"late", logged, "fixes_late_total", "",
		"Fixes of a step before the user's last one; in the stage windows of \"counts\", of a " +
			"window that was closed.",
	},
	{
		"outside_clamped", logged, "records_outside_total", "outcome=clamped",
		"Fixes outside the map: counted as in its nearest cell, or refused.",
	},
	{
		"outside_refused", logged, "records_outside_total", "outcome=refused",
		"fixes outside the map that became dead letters",
	},
	{
		"outside_swapped", silent, "", "",
		"fixes outside the map that lie on it with latitude and longitude swapped",
	},
	{
		"misplaced", logged, "", "",
		"records refused for lying in another partition than their key's",
	},
	{
		"key_destroyed", silent, "", "",
		"records refused since the noise key of their day was destroyed",
	},
	{
		"releases", logged, "records_written_total", "kind=released",
		"Sanitized records: with a fresh release, with an earlier one again, or with an " +
			"estimate alone.",
	},
	{
		"repeats", logged, "records_written_total", "kind=repeated",
		"sanitized records that repeat an earlier release",
	},
	{
		"predictions", logged, "records_written_total", "kind=predicted",
		"sanitized records that carry no release, only an estimate",
	},
	{
		"skipped", logged, "records_withheld_total", "",
		"Fixes without a record, because it was not time for a release (between: skip).",
	},
	{
		"suppressed", logged, "records_suppressed_total", "",
		"Fixes without a record, because the budget was spent.",
	},
	{
		"records_skipped", logged, "", "",
		"records that a rule of the section input skips",
	},
	{
		"transactions", logged, "transactions_total", "result=committed",
		"Transactions with records or offsets, by how they ended. The records of an " +
			"aborted one are done again.",
	},
	{
		"aborts", logged, "transactions_total", "result=aborted",
		"transactions dropped, whose records are done again",
	},
	{
		"registry_waits", silent, "registry_waits_total", "",
		"How often a partition's records were tried in vain, because the schema registry " +
			"did not answer or lacked their schema.",
	},
	{
		"states_moved", logged, "states_migrated_total", "outcome=moved",
		"States that came under another model: moved on to one of the same grid, or " +
			"restarted on another one.",
	},
	{
		"states_restarted", logged, "states_migrated_total", "outcome=restarted",
		"states that started again under a model of another grid",
	},
	{
		"changelog_restored", silent, "restored_records_total", "",
		"Records of the changelog that were read to restore states.",
	},
	{
		"location_set_cells", silent, "", "",
		"sum of |ΔX| over the releases; under codebook of the prior's cells",
	},
	{
		"budget_exhausted", silent, "budget_exhausted_total", "",
		"Fixes without a fresh release, since a budget was spent.",
	},
	{
		"drifts", silent, "drifts_total", "",
		"Releases whose true cell lay outside the location set; always 0 under codebook.",
	},
}

// Values returns the numbers, in the order of Numbers.
func (t *Tally) Values() (all [numbers]int64) {
	for i, n := range t.numbers() {
		all[i] = *n
	}
	return all
}

// numbers is how many Numbers there are.
const numbers = 24

// numbers returns where the numbers are, in the order of Numbers.
func (t *Tally) numbers() [numbers]*int64 {
	return [numbers]*int64{
		&t.RecordsIn, &t.RecordsOut, &t.DeadLetters, &t.Late, &t.OutsideClamped,
		&t.OutsideRefused, &t.OutsideSwapped, &t.Misplaced, &t.Destroyed, &t.Releases,
		&t.Repeats, &t.Predictions, &t.Skipped, &t.Suppressed, &t.RecordsSkipped,
		&t.Transactions, &t.Aborts, &t.RegistryWaits, &t.Moved, &t.Restarted,
		&t.Restored, &t.SetCells, &t.Exhausted, &t.Drifts,
	}
}

// latenessAfter is the number behind which a report has the lateness.
const latenessAfter = "late"

// LogAttrs returns what a report of the service says, as slog's keys and values.
func (t *Tally) LogAttrs() []any {
	var attrs []any
	values := t.Values()
	for i, n := range Numbers {
		if n.Logged {
			attrs = append(attrs, n.Name, values[i])
		}
		if n.Name == latenessAfter {
			attrs = append(attrs, "lateness", t.Lateness.String())
		}
	}
	return attrs
}

// Counted is LogAttrs without what is 0 or empty, after the reasons of refusals. It suits a run
// that ended before it began, whose error must not drown in zeros.
func (t *Tally) Counted() (attrs []any) {
	all := append([]any{"reasons", t.Refusals.String()}, t.LogAttrs()...)
	for i := 0; i < len(all); i += 2 {
		if value := all[i+1]; value != "" && value != "none" && value != int64(0) {
			attrs = append(attrs, all[i], value)
		}
	}
	return attrs
}

// Minus returns what t has more than an earlier tally.
func (t Tally) Minus(earlier Tally) Tally {
	t.addTimes(&earlier, -1)
	return t
}

// addTimes adds another tally so many times. A test holds that no number is forgotten.
func (t *Tally) addTimes(more *Tally, times int64) {
	sum := t.numbers()
	for i, n := range more.Values() {
		*sum[i] += times * n
	}
	addNumbers(t.SkippedByRule[:], more.SkippedByRule[:], times)
	t.Epsilon += float64(times) * more.Epsilon
	t.Lateness.addTimes(&more.Lateness, times)
	t.Ahead.addTimes(&more.Ahead, times)
	addNumbers(t.Sets[:], more.Sets[:], times)
	t.Refusals.addTimes(&more.Refusals, times)
}

// Silent is the number of fixes that have neither a sanitized record nor a dead letter.
func (t Tally) Silent() int64 {
	return t.Skipped + t.Suppressed + t.RecordsSkipped
}

// Fixes is the number of fixes that were read, without those that a rule skips. Records that answer
// no fix, such as those of windows, are not among them.
func (t Tally) Fixes() int64 {
	return t.Releases + t.Repeats + t.Predictions + t.DeadLetters + t.Refusals.Sound +
		t.Silent() - t.RecordsSkipped
}

// SkippedBy says in words how many records each rule has skipped, as in "_type is location 3,
// tombstone 1". The names are those of Input.Rules.
func (t *Tally) SkippedBy(rules []string) string {
	var parts []string
	for i, name := range rules {
		if n := t.SkippedByRule[i]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Refuse counts a fix that is refused: a dead letter, or in "counts" one that does not count.
func (t *Tally) Refuse(reason schemas.Reason, value []byte) {
	t.DeadLetters++
	if reason == schemas.ReasonWrongPartition {
		t.Misplaced++
	}
	t.Refusals.Add(reason, value)
}

// Counters are totals over all partitions of one instance. They count what has been
// committed, so a transaction that was aborted and done again counts once. Any number of
// goroutines may use them. The zero value is ready.
type Counters struct {
	// Busy is the time that records took from their bytes to the result's, in nanoseconds over
	// all partitions: without Kafka and the store, and with what an aborted transaction did in
	// vain.
	Busy atomic.Int64

	mu    sync.Mutex
	total Tally
}

// Book adds what was committed.
func (c *Counters) Book(t Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.addTimes(&t, 1)
}

// Snapshot is the totals by now.
func (c *Counters) Snapshot() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// count counts what came of an accepted fix, or of one that is refused for its place. A late one is
// counted as a dead letter elsewhere.
func (t *Tally) count(r *Result, refused bool) {
	if r.Placement.Swapped {
		t.OutsideSwapped++
	}
	if refused {
		t.OutsideRefused++
		return
	}
	if r.Placement.Outside {
		t.OutsideClamped++
	}
	o := &r.Outcome
	if o.Changed { // else the state is not stored, and is brought to its model again
		switch r.Migration {
		case mechanism.PosteriorKept:
			t.Moved++
		case mechanism.StartedAnew:
			t.Restarted++
		case mechanism.Unchanged:
		}
	}
	switch o.Kind {
	case mechanism.Released:
		t.Releases++
		t.Epsilon += o.Epsilon
		t.SetCells += int64(o.SetSize)
		t.Sets.Add(o.SetSize)
		if o.Drift {
			t.Drifts++
		}
	case mechanism.Repeated:
		t.Repeats++
	case mechanism.Predicted:
		t.Predictions++
	case mechanism.Late:
		t.Late++
		t.Lateness.Add(r.LateMS)
	case mechanism.Skipped:
		t.Skipped++
	case mechanism.Suppressed:
		t.Suppressed++
	}
	if o.Kind.Published() {
		t.RecordsOut++
	}
	if o.Exhausted {
		t.Exhausted++
	}
}
