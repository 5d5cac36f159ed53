package task

import "time"

// Observer hears what a task does, for metrics and a live view. Calls come from the task's
// goroutine, in order, and must be quick. Embed NopObserver to implement a part of it.
type Observer interface {
	// Moved says that the task has gone from one state of its life to another.
	Moved(from, to State)
	// Fetched says that the input has answered with a batch, whose memory is valid during the call.
	// Everything before done is committed, or had nothing to commit: the lag is the batch's End
	// less done, in offsets.
	Fetched(b Batch, done int64)
	// Sealed says that a transaction of so many records is complete and is being written. What is
	// processed after this call belongs to the next one. Committed or Dropped says how it has
	// ended; before that, no other one is sealed.
	Sealed(records int)
	// Committed says that a transaction is known to be committed. It is called after the store has
	// applied the transaction or failed to, once for each committed transaction of this task whose
	// outcome Commit itself returned. A transaction that turns out to be committed only after a
	// recovery is not reported here; it shows in Restored.
	Committed(Transaction)
	// Dropped says that the records processed since the last commit are given up, or that their
	// outcome is not known. They will be read again if they have to be. It is called for every
	// recovery and before an unclean end, also if records is 0.
	Dropped(records int, cause error)
	// Retried says that a call has answered Retry, or that a recovery follows, after wait.
	Retried(cause error, wait time.Duration)
	// Restoring says how far a long restoration is, about once a second.
	Restoring(RestoreProgress)
	// Restored says that the store has caught up with the changelog.
	Restored(Restore)
	// Erased says that so many keys were erased, and that the store's files are rid of them.
	Erased(keys int)
}

// Transaction sums up a committed transaction.
type Transaction struct {
	Records     int           // of the input; 0 if the offset moves alone, or a time was passed
	Output      int           // records written
	DeadLetters int           // records written
	Changes     int           // distinct keys with a new state
	Bytes       int           // of the keys and values written
	Next        int64         // the committed input offset
	Took        time.Duration // from the first record until it was known to be committed
	Commit      time.Duration // the part from Produce on
}

// RestoreProgress says how far a restoration is.
type RestoreProgress struct {
	Records int           // changelog records read
	From    int64         // changelog offset: where it began
	At, End int64         // changelog offsets: where it is, and where it ends
	Took    time.Duration // until now
}

// Restore sums up a restoration.
type Restore struct {
	Wiped     string // why the store was restored in full, "" if it was not
	Records   int    // changelog records read
	From, To  int64  // changelog offsets
	Committed int64  // the group's offset, -1 if there was none
	Input     int64  // where processing goes on
	// Assumed says that the changelog is lost, and that AcceptLost lets the task go on without any
	// state. A caller should warn.
	Assumed bool
	// Mark is the last one in the changelog; Marked is false if there is none.
	Mark   Mark
	Marked bool
	// OtherSettings says that Mark was written with other settings than the task's.
	OtherSettings bool
	Took          time.Duration
}

// NopObserver does nothing.
type NopObserver struct{}

// Moved does nothing.
func (NopObserver) Moved(_, _ State) {}

// Fetched does nothing.
func (NopObserver) Fetched(Batch, int64) {}

// Sealed does nothing.
func (NopObserver) Sealed(int) {}

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

// Erased does nothing.
func (NopObserver) Erased(int) {}
