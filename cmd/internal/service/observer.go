package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas/registry"
)

// phases are the monitor's words for what a task does. A task that waits to try again is about to
// fence.
var phases = map[task.State]monitor.Phase{
	task.Fencing: monitor.Fencing, task.Suspended: monitor.Fencing,
	task.Restoring: monitor.Restoring,
	task.Running:   monitor.Running, task.Committing: monitor.Running,
}

// observer logs what one partition's task does and books its tally when the
// transaction is known to be committed: at once, or after a commit without an
// answer when the committed offset has been read again.
type observer struct {
	task.NopObserver
	log       *slog.Logger // has the partition
	counters  *engine.Counters
	processor processor
	sealed    engine.Tally // of the transaction that is being written
	end       int64        // offset behind its last record
	due       int64        // dueMS after it
	dropped   engine.Tally // of a transaction that was given up; its outcome may still show
	next      int64        // offset behind its last record
	warned    bool         // of misplaced records

	acceptLost bool // a lost changelog is no trouble

	changes *changes // of the instance
	outages *outages // of the instance
	caller  string   // this partition's task, by its name there
	board   *monitor.Partition
	pace    pace // of lines on other trouble
	open    pace // of lines on an open transaction
}

// openPatience is how long a transaction of the input may stay open without a word.
const openPatience = 10 * time.Second

// Fetched implements task.Observer.
func (o *observer) Fetched(b task.Batch, done int64) {
	open := o.board.Fetched(done, b.Next, b.StableEnd, b.End)
	if open == 0 {
		o.open = pace{}
	} else if open >= openPatience && o.open.due(time.Now()) {
		o.log.Warn("records wait behind an open transaction of the input topic", "offset",
			b.StableEnd, "records", b.End-b.StableEnd, "for", open.Round(time.Second))
	}
	o.pace = pace{}
	o.outages.succeeded(o.caller)
}

// misplacedWarning is what the log says when records are refused for where they lie: at
// once for a partition's first one, and then with the totals.
const misplacedWarning = "records are refused (wrong_partition) because they lie in another " +
	"partition than topics.partitioner puts their key; a second partition would give a user a " +
	"second budget. Have every producer use that partitioner; geodither doctor says which " +
	"one was used"

// Moved implements task.Observer.
func (o *observer) Moved(from, to task.State) {
	if phase, ok := phases[to]; ok {
		o.board.Move(phase)
	}
	if from == task.Restoring && to == task.Running {
		o.board.Due(dueMS(o.processor))
	}
	o.log.Debug("task moved", "from", from.String(), "to", to.String())
}

// Erased implements task.Observer.
func (o *observer) Erased(users int) {
	o.log.Info("users erased", "users", users)
}

// Sealed implements task.Observer.
func (o *observer) Sealed(int) {
	o.sealed, o.end = o.processor.Take()
	o.due = dueMS(o.processor)
}

// Committed implements task.Observer.
func (o *observer) Committed(t task.Transaction) {
	o.board.Committed(t.Records, t.Next, t.Took)
	o.board.Due(o.due)
	tally := o.sealed
	o.sealed = engine.Tally{}
	if tally.Misplaced > 0 && !o.warned {
		o.warned = true
		o.log.Warn(misplacedWarning, "records", tally.RecordsIn, "misplaced", tally.Misplaced)
	}
	o.book(tally)
	o.outages.succeeded(o.caller)
}

// book counts a transaction that is known to be committed.
func (o *observer) book(t engine.Tally) {
	t.Transactions++
	o.counters.Book(t)
}

// Dropped implements task.Observer. Of the transaction that was being written it may turn out that
// it is committed. What was processed after that is not.
func (o *observer) Dropped(records int, cause error) {
	o.board.Step()
	given, next := o.processor.Take()
	if o.sealed.RecordsIn > 0 {
		given, next = o.sealed, o.end
	}
	o.sealed = engine.Tally{}
	if records == 0 {
		return
	}
	o.dropped, o.next = given, next
	o.log.Warn("transaction dropped", "records", records, "cause", cause)
}

// Retried implements task.Observer.
func (o *observer) Retried(cause error, wait time.Duration) {
	o.board.Step()
	if isAway(cause) {
		o.outages.failed(o.caller, cause)
		return
	}
	message := "waiting to try again"
	if _, ok := errors.AsType[*registry.Error](cause); ok {
		message = "records wait for the schema registry"
		o.counters.Book(engine.Tally{RegistryWaits: 1})
	}
	level := slog.LevelDebug
	accepted := o.acceptLost && errors.Is(cause, task.ErrLost) // it only looks again
	if !accepted && o.pace.due(time.Now()) {
		level = slog.LevelWarn
	}
	//nolint:sloglint // one of two constants
	o.log.Log(context.Background(), level, message, "cause", cause, "wait", wait)
}

// Restoring implements task.Observer.
func (o *observer) Restoring(p task.RestoreProgress) {
	o.board.Restoring(p.From, p.At, p.End)
	o.log.Info("restoring state", "changelog_records", p.Records, "at", p.At,
		"end", p.End, "took", p.Took)
}

// Restored implements task.Observer.
func (o *observer) Restored(r task.Restore) {
	switch {
	case o.dropped.RecordsIn == 0:
	case r.Committed >= o.next: // its commit had come through
		o.book(o.dropped)
	default:
		o.counters.Book(engine.Tally{Aborts: 1})
	}
	o.dropped = engine.Tally{}
	o.counters.Book(engine.Tally{Restored: int64(r.Records)})
	if r.Assumed {
		o.log.Warn("--accept=lost-account is set and the changelog is empty: every user's account "+
			"of ε begins at 0 here and adds to what was spent before; a further fix of a step "+
			"that was released already is released once more. Take --accept=lost-account out now",
			"input_offset", r.Input)
	}
	if r.Wiped != "" && r.Marked && r.From > 0 {
		o.log.Warn(account.CutChangelog, "begins_at", r.From) //nolint:sloglint // a constant
	}
	if r.OtherSettings {
		o.changes.warn(o.log, r)
	}
	if r.OtherSettings && r.Mark.Open {
		o.log.Warn("--accept=settings is set and the last worker ended in the middle of its work "+
			"under other settings: readers of uncommitted data may see two releases of some fixes",
			"input_offset", r.Input)
	}
	details := []any{"changelog_records", r.Records, "input_offset", r.Input, "took", r.Took}
	switch r.Wiped {
	case "":
	case task.StoreEmpty:
		details = append(details, "fresh", true)
	default:
		details = append(details, "wiped", r.Wiped)
	}
	if r.Mark.Published > r.Input {
		// What comes of the records before it was published before the changelog was written back.
		details = append(details, "published_before", r.Mark.Published)
	}
	o.log.Info("state restored", details...)
}

// changes says in the log that settings have changed, and which: once for an instance, and
// in a short line of each partition, since each changes at an offset of its own.
type changes struct {
	own  job
	log  *slog.Logger
	once sync.Once
}

// warn takes what a partition was restored from, and the partition's own log.
func (c *changes) warn(log *slog.Logger, r task.Restore) {
	if !c.own.goesOn() {
		return // the job is about to refuse them
	}
	c.once.Do(func() {
		c.log.Warn("settings have changed since this group worked last: from here on releases "+
			"are made under the new ones; stop any instance of this group that still runs under "+
			"the old ones",
			"different", c.own.Differences(r.Mark.Settings))
	})
	log.Info("begins under the changed settings",
		"input_offset", r.Input, "old_since", r.Mark.Since)
}

// timed is a processor that says when it has processed a record, and whose time is measured: what
// a service spends on records beside waiting for them and writing them. No result depends on it.
type timed struct {
	task.Processor
	busy  *atomic.Int64 // nanoseconds
	board *monitor.Partition
}

// Process implements task.Processor.
func (t timed) Process(rec task.Record, state []byte, fx *task.Effects) error {
	begun := time.Now()
	err := t.Processor.Process(rec, state, fx)
	t.busy.Add(int64(time.Since(begun)))
	t.board.Processed(rec.Timestamp)
	return err
}
