package engine

import (
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas/mapping"
)

// Tally is what has come of records, in numbers, which counters
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
	RecordsSkipped                                 int64                   // by a rule
	SkippedByRule                                  [mapping.MaxRules]int64 // see Input.Rules

	Moved, Restarted, Adopted      int64
	Transactions, Aborts, Restored int64
	RegistryWaits                  int64

	Epsilon  float64  // Σε of the releases, over all users
	Lateness Lateness // by how much late fixes were late
	Ahead    Lateness // by how much accepted fixes were ahead of their Kafka records, if they were
	Sets     SetSizes // what SetCells is the sum of
	Refusals Refusals // the dead letters by reason
}

// counter is one number of a Tally: its name in the log, and what it counts.
type counter struct {
	name, help string
	report     bool // the service's reports have it
	of         func(*Tally) *int64
}

// Whether a counter is in the service's reports.
const (
	logged = true
	silent = false
)

// counters are all of them, in the order of the reports: the one place that names them.
var counters = []counter{
	{
		"records_in", "raw records read", logged,
		func(t *Tally) *int64 { return &t.RecordsIn },
	},
	{
		"records_out", "sanitized records published", logged,
		func(t *Tally) *int64 { return &t.RecordsOut },
	},
	{
		"dead_letters", "records refused, late ones included", logged,
		func(t *Tally) *int64 { return &t.DeadLetters },
	},
	{
		"late", "records of a step before the user's last one", logged,
		func(t *Tally) *int64 { return &t.Late },
	},
	{
		"outside_clamped", "fixes outside the map that counted as in its nearest cell", logged,
		func(t *Tally) *int64 { return &t.OutsideClamped },
	},
	{
		"outside_refused", "fixes outside the map that became dead letters", logged,
		func(t *Tally) *int64 { return &t.OutsideRefused },
	},
	{
		"outside_swapped",
		"fixes outside the map that lie on it with latitude and longitude swapped", silent,
		func(t *Tally) *int64 { return &t.OutsideSwapped },
	},
	{
		"misplaced", "records refused for lying in another partition than their key's", logged,
		func(t *Tally) *int64 { return &t.Misplaced },
	},
	{
		"key_destroyed", "records refused since the noise key of their day was destroyed", silent,
		func(t *Tally) *int64 { return &t.Destroyed },
	},
	{
		"releases", "sanitized records that carry a fresh release", logged,
		func(t *Tally) *int64 { return &t.Releases },
	},
	{
		"repeats", "sanitized records that repeat an earlier release", logged,
		func(t *Tally) *int64 { return &t.Repeats },
	},
	{
		"predictions", "sanitized records that carry no release, only an estimate", logged,
		func(t *Tally) *int64 { return &t.Predictions },
	},
	{
		"skipped", "fixes without a record: it was not time for a release", logged,
		func(t *Tally) *int64 { return &t.Skipped },
	},
	{
		"suppressed", "fixes without a record: the budget was spent", logged,
		func(t *Tally) *int64 { return &t.Suppressed },
	},
	{
		"records_skipped", "records that a rule of the section input skips", logged,
		func(t *Tally) *int64 { return &t.RecordsSkipped },
	},
	{
		"transactions", "transactions committed", logged,
		func(t *Tally) *int64 { return &t.Transactions },
	},
	{
		"aborts", "transactions dropped, whose records are done again", logged,
		func(t *Tally) *int64 { return &t.Aborts },
	},
	{
		"registry_waits", "attempts at records that the schema registry held up", silent,
		func(t *Tally) *int64 { return &t.RegistryWaits },
	},
	{
		"versions_adopted", "versions of the model that a partition adopted", logged,
		func(t *Tally) *int64 { return &t.Adopted },
	},
	{
		"states_moved", "states that went on under another model of the same grid", logged,
		func(t *Tally) *int64 { return &t.Moved },
	},
	{
		"states_restarted", "states that started again under a model of another grid", logged,
		func(t *Tally) *int64 { return &t.Restarted },
	},
	{
		"changelog_restored", "changelog records replayed into the store", silent,
		func(t *Tally) *int64 { return &t.Restored },
	},
	{
		"location_set_cells", "sum of |ΔX| over the releases; under codebook of the prior's cells",
		silent,
		func(t *Tally) *int64 { return &t.SetCells },
	},
	{
		"budget_exhausted", "fixes without a fresh release, since a budget was spent", silent,
		func(t *Tally) *int64 { return &t.Exhausted },
	},
	{
		"drifts", "releases whose true cell lay outside ΔX; 0 under codebook", silent,
		func(t *Tally) *int64 { return &t.Drifts },
	},
}

// All gives each number by its name in the log.
func (t *Tally) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, c := range counters {
			if !yield(c.name, *c.of(t)) {
				return
			}
		}
	}
}

// latenessAfter is the counter behind which a report has the lateness.
const latenessAfter = "late"

// LogAttrs returns what a report of the service says, as slog's keys and values.
func (t *Tally) LogAttrs() []any {
	var attrs []any
	for _, c := range counters {
		if c.report {
			attrs = append(attrs, c.name, *c.of(t))
		}
		if c.name == latenessAfter {
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

// add adds another tally.
func (t *Tally) add(more *Tally) {
	for _, c := range counters {
		*c.of(t) += *c.of(more)
	}
	for i, n := range more.SkippedByRule {
		t.SkippedByRule[i] += n
	}
	t.Epsilon += more.Epsilon
	t.Lateness.merge(&more.Lateness)
	t.Ahead.merge(&more.Ahead)
	t.Sets.merge(&more.Sets)
	t.Refusals.merge(&more.Refusals)
}

// Silent is the number of fixes that have neither a sanitized record nor a dead letter.
func (t Tally) Silent() int64 {
	return t.Skipped + t.Suppressed + t.RecordsSkipped
}

// Fixes is the number of fixes that were read, without those that a rule skips.
func (t Tally) Fixes() int64 { return t.RecordsOut + t.DeadLetters + t.Silent() - t.RecordsSkipped }

// SkippedBy says in words how many records each rule has skipped since an earlier tally, as in
// "_type is location 3, tombstone 1". The names are those of Input.Rules.
func (t *Tally) SkippedBy(rules []string, before Tally) string {
	var parts []string
	for i, name := range rules {
		if n := t.SkippedByRule[i] - before.SkippedByRule[i]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Outside is the number of fixes outside the map, clamped or refused.
func (t Tally) Outside() int64 { return t.OutsideClamped + t.OutsideRefused }

// LocationSetMean is the mean |ΔX| over the releases, in cells; 0 without any.
func (t Tally) LocationSetMean() float64 { return ratio(t.SetCells, t.Releases) }

// DriftRatio is the share of releases whose true cell lay outside ΔX.
func (t Tally) DriftRatio() float64 { return ratio(t.Drifts, t.Releases) }

func ratio(n, d int64) float64 {
	if d == 0 {
		return 0
	}
	return float64(n) / float64(d)
}

// outcome counts what came of one accepted fix. A late one is counted as a dead letter
// elsewhere.
func (t *Tally) outcome(o mechanism.Outcome, migration mechanism.Migration) {
	if o.Changed { // else the state is not stored, and is brought to its model again
		switch migration {
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

// place counts how an accepted fix, or one that was refused for it, lies to the map.
func (t *Tally) place(p Placement, refused bool) {
	switch {
	case !p.Outside:
		return
	case refused:
		t.OutsideRefused++
	default:
		t.OutsideClamped++
	}
	if p.Swapped {
		t.OutsideSwapped++
	}
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
	c.total.add(&t)
}

// Snapshot is the totals by now.
func (c *Counters) Snapshot() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
