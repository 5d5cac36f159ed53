package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Start says where a partition begins that has neither a committed offset nor
// a changelog.
type Start uint8

const (
	// Earliest begins at the first offset that the input holds.
	Earliest Start = iota
	// Latest begins at the input's stable end; the offset is committed before
	// the first record is read, so that a crash does not skip records.
	Latest
	// At begins at Options.Begin. If the input begins behind it, that is lost
	// input.
	At
)

// Dependencies are what a task drives; all but the last are required.
type Dependencies struct {
	Input        Log
	Changelog    Log
	Transactions Transactions
	Store        Store
	Processor    Processor
	// Amender of the Processor; nil if it has none. Then a mark with amendments of
	// the same settings ends the task with ErrAmended.
	Amender Amender
}

// Options have usable zero values.
type Options struct {
	// Name is put in front of every error, say "raw/3". Default "task".
	Name string
	// Start applies to a partition that has never been processed.
	Start Start
	Begin int64 // of Start At
	// SkipLost goes on at the input's first offset when retention has removed
	// records that were not processed yet. Default: stop with ErrInputLost. If
	// the worker before died in the middle of a transaction that began with such
	// records, readers of uncommitted data may see two results of those that are
	// left of it: they were made from states that are lost.
	SkipLost bool

	// Settings is a fingerprint of everything that determines the bytes that the
	// Processor makes, Source the identity of the input topic; at most MarkBytes
	// each. They are written into the changelog's marks. A task whose Source
	// differs from the last mark's ends with ErrSource; one whose Settings
	// differ, while that mark is open, with ErrSettings. Empty, here or in the
	// mark: not checked.
	Settings, Source []byte
	// AcceptSettings goes on where ErrSettings would end the task: readers of
	// uncommitted data may see two different results of some records.
	AcceptSettings bool
	// AcceptLost goes on where ErrLost would end the task, with no state of anybody: at
	// the group's offset, or at the store's if there is none. The mark that the task
	// commits at once says so to the next start, which needs no such option.
	// The same goes for a changelog whose beginning is gone: what is left is restored.
	AcceptLost bool
	// CleanerTrims says that the broker's cleaner moves the start of a compacted log behind
	// what it has removed, so that a changelog that starts behind offset 0 shows no loss.
	// Apache Kafka's cleaner leaves the start where it is; a stand-in for it may not.
	CleanerTrims bool
	// End is the input offset before which the task stops by itself: records
	// from it on are not processed, and Run returns nil when all before it is
	// committed. 0: no end.
	End int64

	// A transaction ends at the first of these: its records, the bytes of all
	// that it writes, the time since its first record. Defaults 1000, 8 MiB,
	// 100 ms. It also ends when a Fetch brings nothing.
	MaxRecords  int
	MaxBytes    int
	MaxInterval time.Duration

	// IdleInterval is how long after the last transaction an idle task commits
	// an offset that has moved past aborted and control records alone. A clean
	// stop commits it at once. Default one minute.
	IdleInterval time.Duration

	// MaxStoreAge is how old a store may be when it has records of the
	// changelog to catch up with. Beyond it tombstones may be gone, and the
	// store is restored in full. Keep it below delete.retention.ms of the
	// changelog. Default 12 h, half of Kafka's default.
	MaxStoreAge time.Duration

	// Retries is how often a call that answered Retry is repeated before the
	// answer is read as Rebuild. Log and Transactions may have tried several
	// times themselves before they answer so, and each repetition lets them do
	// it again: the two multiply, in calls and in time. Default 8.
	Retries int
	// Doubts is how often in a row the committed offset and the changelog may
	// disagree, or bounds may look wrong, before it is Fatal. A broker may show
	// old values for a moment after a change of leader. Default 5.
	Doubts int
	// BackoffMin doubles up to BackoffMax between attempts. Defaults 50 ms, 5 s.
	BackoffMin, BackoffMax time.Duration
	// Grace is what the transaction in hand gets to end after Run's context is
	// done. Keep it below the group's rebalance timeout. Default 5 s.
	Grace time.Duration

	Clock    Clock    // default: the system's
	Observer Observer // default: none
}

// Validate says which option is out of range.
func (o Options) Validate() error {
	switch {
	case o.Start > At:
		return errors.New("task: Start is neither Earliest nor Latest nor At")
	case o.MaxRecords < 0, o.MaxBytes < 0, o.Retries < 0, o.Doubts < 0:
		return errors.New("task: MaxRecords, MaxBytes, Retries and Doubts must not be negative")
	case len(o.Settings) > MarkBytes, len(o.Source) > MarkBytes:
		return fmt.Errorf("task: Settings and Source must not have more than %d bytes", MarkBytes)
	case o.Begin < 0, o.End < 0:
		return errors.New("task: Begin and End must not be negative")
	case o.MaxInterval < 0, o.IdleInterval < 0, o.MaxStoreAge < 0, o.BackoffMin < 0, o.BackoffMax < 0, o.Grace < 0:
		return errors.New("task: durations must not be negative")
	}
	return nil
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	def(&o.Name, "task")
	def(&o.MaxRecords, 1000)
	def(&o.MaxBytes, 8<<20)
	def(&o.MaxInterval, 100*time.Millisecond)
	def(&o.IdleInterval, time.Minute)
	def(&o.MaxStoreAge, 12*time.Hour)
	def(&o.Retries, 8)
	def(&o.Doubts, 5)
	def(&o.BackoffMin, 50*time.Millisecond)
	def(&o.BackoffMax, 5*time.Second)
	def(&o.Grace, 5*time.Second)
	o.BackoffMax = max(o.BackoffMax, o.BackoffMin)
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// SystemClock is the real time.
type SystemClock struct{}

// Now is time.Now.
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
