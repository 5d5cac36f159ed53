package task

import (
	"context"
	"time"
)

// Record is one record of an input or changelog partition. Timestamp is Kafka's record timestamp in
// milliseconds. A nil Value in a changelog is a tombstone.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           Headers // nil: none; those of a changelog are not read
	Read              any     // what Dependencies.Key has read of it, for Process; nil: nothing
}

// Headers are those of a record. Last returns the value of the last one of a name, and false if
// there is none. The memory is the record's.
type Headers interface {
	Last(name string) (value []byte, found bool)
}

// Message is one record to write. Timestamp is in milliseconds.
type Message struct {
	Key, Value []byte
	Timestamp  int64
	Headers    []Header // mostly none; they are kept as they are, and must not be reused
	To         Target   // of outputs; all else goes to the partition with the input's number
}

// Target is the partition that a message goes to. The zero Target is the partition with the same
// number as the task's input.
type Target int32

// ToPartition is the partition with a number.
func ToPartition(number int32) Target { return Target(number + 1) }

// Partition returns the number of the partition, for a task whose input has the number own.
func (t Target) Partition(own int32) int32 {
	if t == 0 {
		return own
	}
	return int32(t) - 1
}

// Header is one header of a message.
type Header struct{ Name, Value string }

// Effects is what processing one record does. The task hands in an empty one, whose slices keep
// their capacity, and copies all bytes before it calls Process again, so the processor may reuse
// its buffers.
type Effects struct {
	Output      []Message // in order
	DeadLetters []Message // in order
	State       []byte    // new state of the state's key; empty if it does not change
	Forget      bool      // remove the state of the state's key; State must be empty
	// Time is the record's, by which versions count: those that start at or before it, and no
	// others, may have a part in these effects; 0: none has.
	Time int64
}

// Processor turns a record and the state of its key (Dependencies.Key) into effects. It is a
// function of its arguments alone: processing the same record twice must give the same bytes,
// because a retry publishes them again to readers of uncommitted data.
//
// The state is empty for a key that has none. State and record are valid during the call only and
// must not be modified. A bad record is a dead letter, not an error: an error stops the task as
// Fatal unless it carries a Remedy. For a key that ValidKey refuses, Process gets no state and must
// leave State empty.
type Processor interface {
	Process(rec Record, state []byte, fx *Effects) error
}

// Partitioned is the side of a processor that has states of the whole partition beside those of
// keys, and that acts when the partition was read past a time. It holds these states in its own
// memory: a function of the last Restored and of what was processed and passed since. Every failure
// ends in another Restored, so what is not committed is forgotten.
//
// It is used by one goroutine, the one that calls Process.
type Partitioned interface {
	// Restored gives the states as they are committed, by name, after each restoration. The memory
	// is valid during the call. An error is Fatal unless it carries a Remedy.
	Restored(states []Change) error
	// Changes returns the states that differ from what Restored and earlier Changes said, by name;
	// an empty Value removes one. A name may be empty. It is called once for each transaction, so
	// states are encoded that often and not for each record, and a transaction writes what it has
	// changed alone. The memory is valid until the next call.
	Changes() []Change
	// Deadline returns the earliest append time, in Unix milliseconds, that the processor waits to
	// be past; ok is false if it waits for none. It is called often.
	Deadline() (ms int64, ok bool)
	// Passed says that every record of the partition with an append time of at most ms, the last
	// Deadline, was processed. The task calls it after it has read what there was to read, at
	// another offset where a transaction was aborted. So what it does must follow from those
	// records alone. Deadline must be later afterwards. State and Forget must stay empty. An error
	// is one of Process.
	Passed(ms int64, fx *Effects) error
	// Expires returns a test for states of keys, and for what remains of erased ones, that mean
	// nothing any more: without such a state Process gives the same bytes as with it, now and
	// later, or an error. It returns nil if none can have expired since the last call; it is called
	// often. The first call after Restored never returns nil if states can expire. The task removes
	// the states in transactions of their own, some at a time.
	Expires() func(state []byte) bool
}

// Ended is a Log that knows its whole end. The input of a Partitioned must be one.
type Ended interface {
	// High asks the broker for the offset after the last record, of open transactions too.
	High(ctx context.Context) (end int64, err error)
}

// Batch is an answer to Fetch. Records have ascending offsets from the offset asked for on, and
// include no records of aborted transactions and no control records. Next is the offset to ask for
// next: it is after the last record, and moves past aborted and control records too. StableEnd is
// the end of the committed data at the time of this answer, and End the end of all data, open
// transactions included; both are for the lag. Epoch is the leader epoch of what lies before Next,
// -1 if it is not known or nothing was read. The memory belongs to the log and is valid until the
// next Fetch.
type Batch struct {
	Records              []Record
	Next, StableEnd, End int64
	Epoch                int32
}

// Epochs is a Log that knows where its leader epochs end. The task then finds out whether the input
// has lost records that were processed, and has grown again since: an election that was not clean
// does that, or a disk that was put back.
type Epochs interface {
	// EpochEnd asks the broker where the records of a leader epoch and of all earlier ones end in
	// the log as it is now; -1 if the broker does not know.
	EpochEnd(ctx context.Context, epoch int32) (end int64, err error)
}

// Log is the read_committed view of one partition. Its methods are called one at a time. Fetch may
// be called from another goroutine than the rest, and beside a call of Transactions.
type Log interface {
	// Fetch returns records from offset on. It waits for records to arrive, for the given time at
	// most, and then returns none and Next equal to offset. An offset outside the bounds is an
	// error.
	Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error)
	// Bounds asks the broker for the first offset and the last stable offset.
	Bounds(ctx context.Context) (first, end int64, err error)
}

// Outputs is what one transaction writes. The memory belongs to the task. It is valid during
// Produce only, and does not change meanwhile.
type Outputs struct {
	Output, DeadLetters, Changelog []Message
}

// Transactions is a transactional producer of one input partition, which also commits the input
// offset. Its methods are called one at a time, each after the one before has returned. Produce and
// Commit may be called from another goroutine than the rest, while the task uses its Logs, its
// Store and its Processor.
type Transactions interface {
	// Fence shuts out every earlier holder of the transactional id and returns when that holder's
	// open transaction is completed. If this worker is no longer a current member of its group,
	// Fence returns Leave and shuts out nobody: a zombie must not fence the rightful owner. It may
	// be called at any time, and then starts over.
	Fence(ctx context.Context) error
	// Committed returns the group's committed input offset. found is false only if the broker said
	// that there is none.
	Committed(ctx context.Context) (offset int64, found bool, err error)
	// Produce adds to the open transaction, and opens one if there is none. It is called at most
	// once a transaction, unless it answered Retry. changelogEnd is the offset after the
	// transaction's last record in the changelog. If it is smaller than it can be, the changelog is
	// no longer the one that was restored from, and the task drops the transaction.
	Produce(ctx context.Context, out Outputs) (changelogEnd int64, err error)
	// Commit adds the input offset next to the transaction and commits it. Nil means definitely
	// committed, on every partition. changelogEnd is an offset of the changelog after the
	// transaction's last record there, and not after any later record. Any error but Retry leaves
	// the outcome open, and the transaction too: readers of committed data wait at its first record
	// until the next Fence of the partition's owner, whichever that is, or until the broker ends it
	// at the transaction's timeout.
	Commit(ctx context.Context, next int64) (changelogEnd int64, err error)
	// Abort drops the open transaction; without one it does nothing. It is not called after a
	// Commit that has failed. It is best effort: Fence follows.
	Abort(ctx context.Context) error
}

// Positions say which prefix of the input and of the changelog a store holds. The type is an alias
// of an unnamed type, so that a store need not import this package.
type Positions = struct {
	// Input is the input offset that the states belong to: they contain all records before it. -1
	// if it is not known yet, because a full restoration is under way.
	Input int64
	// Changelog is the changelog offset from which a restoration goes on; -1 if all of it has to be
	// restored, because the store's program did not know all records of the changelog.
	Changelog int64
	// AppliedMS is a time, in Unix milliseconds, at which the store's values were the last ones in
	// the changelog.
	AppliedMS int64
}

// Change is a new value of a key; an empty Value removes the key. It is an alias for the same
// reason as Positions.
type Change = struct{ Key, Value []byte }

// Store holds the states of one partition. It is a cache of the partition's changelog, used by one
// goroutine. Errors of a store are Fatal unless they carry a Remedy.
type Store interface {
	// Positions returns those of the last Apply that survived; found is false in an empty store.
	Positions() (p Positions, found bool, err error)
	// Get returns the value of a key, nil if there is none. It is valid until the next call to the
	// store.
	Get(key []byte) ([]byte, error)
	// Apply writes changes and positions as one: after a crash the store has all of them or none. A
	// crash may lose any number of the last calls, but never one without all that came after it.
	// Apply keeps none of the memory. If a key occurs several times, its last change counts. Beside
	// users' keys the store gets MarkKey with the last mark, and what lies under PartitionKey,
	// RequestKey and KeptKey, so that a lost changelog can be written back from a store.
	Apply(changes []Change, p Positions) error
	// Wipe removes everything, the positions first or at once.
	Wipe() error
	// Reserved visits what lies under PartitionKey, RequestKey or KeptKey. Visits, here and of
	// After, end with the first error, and return it. Keys and values are valid during the call.
	Reserved(name string, visit func(key, value []byte) error) error
	// After visits the states of keys after a key, in their order; nil: all.
	After(key []byte, visit func(key, value []byte) error) error
}

// Keeper is a Store that can keep a copy of itself. If the loss of the changelog was accepted
// (Options.AcceptLost), the store may hold the only states left, so the task asks for a copy before
// it wipes the store. After an error it wipes nothing.
type Keeper interface {
	Keep() error
}

// Eraser is the side of a processor that knows what remains of an erased key. All four methods are
// functions of their arguments. Their results are valid until the next call of the same method.
type Eraser interface {
	// Kept returns the changelog's key, KeptKey and a name, under which lies what remains of a key.
	Kept(key []byte) []byte
	// Erase returns what remains of a key that is erased at an input offset: records from there on
	// are processed without its state. The request's time is that of the erasure. The state and
	// what remained of an earlier erasure are empty if there is none. The result is empty if the
	// key was never known.
	Erase(r Request, offset int64, state, kept []byte) (remains []byte, err error)
	// Recall returns the state with which an erased key starts again, and what remains under
	// Kept then. The state is empty if it starts as a new key.
	Recall(kept []byte) (state, remains []byte, err error)
	// Owes reports whether what remains counts under other names too, as an account does, so that
	// it must not be lost with its name.
	Owes(kept []byte) (bool, error)
}

// Eraseable is a Store that forgets removed values for good. If the task has an Eraser, its store
// must be one.
type Eraseable interface {
	// Purge makes sure that the store's files do not hold removed values any more.
	Purge() error
}

// Clock tells the time and lets it pass.
type Clock interface {
	// Now may be called from two goroutines at a time.
	Now() time.Time
	// Sleep waits for d or until ctx is done, and then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}
