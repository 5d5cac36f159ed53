package task

import "time"

// Observer hears what a task does, for metrics and a live view. Calls come from
// the task's goroutine, in order, and must be quick. Embed NopObserver to
// implement a part of it.
type Observer interface {
	// Moved: the task has gone from one state of its life to another.
	Moved(from, to State)
	// Fetched: an answer of the input. The lag is stableEnd - next, in offsets;
	// next does not yet say what is committed.
	Fetched(records int, next, stableEnd int64)
	// Committed: a transaction is known to be committed. Called after the store
	// has it or has failed on it, exactly once for each committed transaction of this task whose
	// outcome Commit itself told. One that was found committed only after a
	// recovery is not reported here; it shows in Restored.
	Committed(Transaction)
	// Dropped: the records processed since the last commit are given up (or
	// their outcome is not known) and will be read again where needed. Called
	// for every recovery and before an unclean end, also with records 0.
	Dropped(records int, cause error)
	// Retried: a call answered Retry or a recovery waits; made again after wait.
	Retried(cause error, wait time.Duration)
	// Restoring: a restore that takes long is on its way; about once a second.
	Restoring(RestoreProgress)
	// Restored: the store has caught up with the changelog.
	Restored(Restore)
}

// Transaction sums up a committed transaction.
type Transaction struct {
	Records, Output, DeadLetters int           // input records, records written; all 0 if it moves the offset only
	Changes                      int           // distinct keys with a new state
	Bytes                        int           // keys and values written
	Next                         int64         // the committed input offset
	Took                         time.Duration // from the first record to the store
	Commit                       time.Duration // the part from Produce on
}

// RestoreProgress says how far a restore has come.
type RestoreProgress struct {
	Records int           // changelog records read
	At, End int64         // changelog offsets: where it is, and where it ends
	Took    time.Duration // so far
}

// Restore sums up how a store has caught up.
type Restore struct {
	Wiped     string // why the store was restored in full, "" if it was not
	Records   int    // changelog records read
	From, To  int64  // changelog offsets
	Committed int64  // the group's offset, -1 if there was none
	Input     int64  // where processing goes on
	// Assumed: the changelog is lost, and AcceptLost lets the task go on without any
	// state. A caller should warn.
	Assumed bool
	// Mark is the last one in the changelog; Marked is false if there is none.
	Mark   Mark
	Marked bool
	// OtherSettings: Mark is of other settings than the task's.
	OtherSettings bool
	Took          time.Duration
}

// NopObserver does nothing.
type NopObserver struct{}

// Moved does nothing.
func (NopObserver) Moved(_, _ State) {}

// Fetched does nothing.
func (NopObserver) Fetched(int, int64, int64) {}

// Committed does nothing.
func (NopObserver) Committed(Transaction) {}

// Dropped does nothing.
func (NopObserver) Dropped(int, error) {}

// Retried does nothing.
func (NopObserver) Retried(error, time.Duration) {}

// Restoring does nothing.
func (NopObserver) Restoring(RestoreProgress) {}

// Restored does nothing.
func (NopObserver) Restored(Restore) {}
