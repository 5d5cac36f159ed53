package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Start says where processing begins in a partition that has neither a committed offset nor a
// changelog.
type Start uint8

const (
	// Earliest begins at the first offset that the input holds.
	Earliest Start = iota
	// Latest begins at the input's stable end. The task commits that offset before it reads the
	// first record, so that a crash does not skip records.
	Latest
	// At begins at Options.Begin. If the input begins after that, the records between are lost
	// input.
	At
)

// Dependencies are what a task drives. The last three may be nil, all others are required.
type Dependencies struct {
	Input        Log
	Changelog    Log
	Transactions Transactions
	Store        Store
	Processor    Processor
	// Key returns the key of the state that a record is processed on; nil: it is the record's. It
	// is a function of the record. The result is valid until its next call. A record of no state
	// has an empty one. What it has read to find the key is the record's Read for Process. An error
	// is one of Processor.Process.
	Key func(rec Record) (key []byte, read any, err error)
	// Eraser is the Processor's, nil if the task erases nothing. Store must then be Eraseable.
	Eraser Eraser
	// Partitioned is the Processor's, nil if it has no states of the partition. Input must then be
	// Ended, and records must have the times at which the broker appended them.
	Partitioned Partitioned
}

// DefaultMaxStoreAge is Options.MaxStoreAge unless it is set.
const DefaultMaxStoreAge = 12 * time.Hour

// Options have usable zero values.
type Options struct {
	// Name precedes every error, say "raw/3". Default "task".
	Name string
	// Start applies to a partition that has never been processed.
	Start Start
	Begin int64 // of Start At
	// SkipLost goes on at the input's first offset when retention has removed records that were not
	// processed yet, and where the task was when the input has lost its end and grown beyond that
	// again. Without it the task ends with ErrInputLost. If the last worker died in the
	// middle of a transaction that began with such records, readers of uncommitted data may see two
	// different results of the transaction's remaining records, because the first ones were made
	// from states that are lost.
	SkipLost bool

	// Settings is a fingerprint of everything that determines the bytes that the Processor makes,
	// and Source the identity of the input topic; each has at most MarkBytes. The task writes them
	// into the changelog's marks. A task whose Source differs from the last mark's ends with
	// ErrSource. A task whose Settings differ from those of an open mark ends with ErrSettings.
	// Nothing is checked if the value is empty, here or in the mark.
	Settings, Source []byte
	// Versions are what the Processor's bytes depend on beside Settings, starts ascending, at most
	// MaxVersions. The task writes them into its marks. A task ends with ErrVersions if they differ
	// from those of a mark of the same Settings for a record that was processed (CheckVersions). It
	// ends with ErrSettings if they differ at all from those of an open mark.
	Versions []Version
	// AcceptSettings goes on where ErrSettings would end the task. Readers of uncommitted data may
	// then see two different results of some records.
	AcceptSettings bool
	// AcceptLost goes on where ErrLost would end the task, without any state: at the group's
	// offset, or at the store's if the group has none. The task commits a mark at once, so the next
	// start does not need the option. If only the beginning of the changelog is gone, the task
	// restores what is left.
	AcceptLost bool
	// Names is a fingerprint of what names the values that an Eraser keeps, at most MarkBytes. The
	// task writes it into its marks. A task whose Names are not those of the last mark ends with
	// ErrKept if the changelog keeps accounts, unless AcceptLost. Empty: nothing is checked.
	Names []byte
	// Partitioner names what puts a key into an input partition, at most MarkBytes. The task writes
	// it into its marks. A task whose Partitioner is not that of the last mark ends with
	// ErrPartitioner, unless AcceptLost: keys that lie elsewhere now have their states, and what
	// remains of erased keys, in another partition. Empty: nothing is checked.
	Partitioner string
	// CleanerTrims says that the broker's log cleaner moves the start of a compacted log past the
	// records that it has removed, so that a changelog that starts after offset 0 shows no loss.
	// Apache Kafka's cleaner leaves the start where it is; a stand-in for it may not.
	CleanerTrims bool
	// End is the input offset at which the task stops by itself: it does not process records from
	// End on, and Run returns nil when everything before End is committed. 0 means no end.
	End int64

	// A transaction ends as soon as it reaches one of these: its number of records, the bytes of
	// everything that it writes, or the time since its first record. Defaults 1000, 8 MiB, 100 ms.
	// The task looks at the clock after every fourth record, and after every Fetch.
	//
	// A transaction also ends when a Fetch brings nothing. It may take longer than MaxInterval if
	// the transaction before it is still being written. The task holds two of them in memory at
	// most: one that is being written and one that grows.
	MaxRecords  int
	MaxBytes    int
	MaxInterval time.Duration

	// IdleInterval is how long after the last transaction an idle task commits an offset that has
	// only moved past aborted and control records. A clean stop commits it at once. Default one
	// minute.
	IdleInterval time.Duration

	// MaxStoreAge is how old a store may be when the changelog has records that it lacks. The
	// tombstones that an older store lacks may be gone, so it is restored in full. Keep MaxStoreAge
	// below delete.retention.ms of the changelog. Default 12 h, half of Kafka's default.
	MaxStoreAge time.Duration

	// Skew is how far this machine's clock and those of the input's brokers are apart at most, with
	// the time that replication takes. A partition was read past a time this much later. Only a
	// Partitioned needs it. Default one minute.
	Skew time.Duration

	// Retries is how often the task repeats a call that answered Retry before it reads the answer
	// as Rebuild. Log and Transactions may have tried several times themselves before they answer
	// Retry, and each repetition lets them do so again: the two numbers multiply, in calls and in
	// time. Default 8.
	Retries int
	// Doubts is how often in a row the committed offset and the changelog may disagree, or bounds
	// may look wrong, before that is Fatal. A broker may show old values for a moment after a
	// change of leader. Default 5.
	Doubts int
	// BackoffMin is the first wait between attempts. It doubles up to BackoffMax. Defaults 50 ms
	// and 5 s.
	BackoffMin, BackoffMax time.Duration
	// Grace is how long the transaction in hand may take to end after Run's context is done. Keep
	// it below the group's rebalance timeout. Default 5 s.
	Grace time.Duration

	Clock    Clock    // default: the system's
	Observer Observer // default: none
}

// Validate returns an error about an option that is out of range.
func (o Options) Validate() error {
	switch {
	case o.Start > At:
		return errors.New("task: Start is no Earliest, Latest or At")
	case o.MaxRecords < 0, o.MaxBytes < 0, o.Retries < 0, o.Doubts < 0:
		return errors.New("task: MaxRecords, MaxBytes, Retries or Doubts is negative")
	case max(len(o.Settings), len(o.Source), len(o.Names), len(o.Partitioner)) > MarkBytes:
		return fmt.Errorf("task: Settings, Source, Names or Partitioner exceeds %d bytes",
			MarkBytes)
	case len(o.Versions) > MaxVersions:
		return fmt.Errorf("task: %d versions, at most %d fit into a mark", len(o.Versions),
			MaxVersions)
	case checkVersions(o.Versions) != nil:
		return checkVersions(o.Versions)
	case o.Begin < 0, o.End < 0:
		return errors.New("task: Begin or End is negative")
	case min(o.MaxInterval, o.IdleInterval, o.MaxStoreAge, o.BackoffMin, o.BackoffMax,
		o.Grace, o.Skew) < 0:
		return errors.New("task: durations must not be negative")
	}
	return nil
}

// withDefaults replaces zero values by the defaults.
func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "task")
	o.MaxRecords = cmp.Or(o.MaxRecords, 1000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 8<<20)
	o.MaxInterval = cmp.Or(o.MaxInterval, 100*time.Millisecond)
	o.IdleInterval = cmp.Or(o.IdleInterval, time.Minute)
	o.MaxStoreAge = cmp.Or(o.MaxStoreAge, DefaultMaxStoreAge)
	o.Skew = cmp.Or(o.Skew, time.Minute)
	o.Retries = cmp.Or(o.Retries, 8)
	o.Doubts = cmp.Or(o.Doubts, 5)
	o.BackoffMin = cmp.Or(o.BackoffMin, 50*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 5*time.Second)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	o.BackoffMax = max(o.BackoffMax, o.BackoffMin)
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	return o
}

// SystemClock is the system's clock.
type SystemClock struct{}

// Now returns time.Now().
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or until ctx is done.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
