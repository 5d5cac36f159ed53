package service

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// job is what a service makes of the records of its input topic. Everything else in this package
// serves any job, except what its comment limits to one.
type job interface {
	Fingerprints
	// try refuses a later version of the model that the job cannot use, and returns what should
	// stay in memory.
	try(v *engine.Version) (keep any, err error)
	// begin checks the input before the group is joined. The topics are there.
	begin(ctx context.Context) error
	// started returns the attributes of the log's line about the start.
	started() []any
	// goesOn says whether the job goes on under other settings, and does not refuse them.
	goesOn() bool
	// explained returns a fatal error with what to do about it.
	explained(err error) error
	// work returns what processes the records of a partition. It completes the task with what
	// erases users, if anything does, and with other options than the service's.
	work(at engine.Partition, d *task.Dependencies, o *task.Options) (Processor, error)
}

// judging is a job whose input is looked at before anything of it is processed.
type judging interface {
	// judge returns what says of a partition's records what would become of them.
	judge(at engine.Partition) (judge, error)
}

// Fingerprints tell whether two instances, or one and its predecessor, would write the same bytes.
type Fingerprints interface {
	// Fingerprint is in the changelog's marks, GroupFingerprint in what instances tell each other.
	Fingerprint() []byte
	GroupFingerprint() []byte
	// Differences and DifferencesInGroup name the settings in which a fingerprint differs.
	Differences(fingerprint []byte) string
	DifferencesInGroup(fingerprint []byte) string
}

// Processor is what processes the records of one partition.
type Processor interface {
	task.Processor
	// Key is task.Dependencies.Key.
	Key(rec task.Record) ([]byte, error)
	// Take returns what was counted since its last call, and the offset behind the last record.
	Take() (engine.Tally, int64)
}

// awaited is a Processor that writes by the clock, and not for each record.
type awaited interface {
	// DueMS is when it has to have written what follows, Unix milliseconds; 0: at no time.
	DueMS() int64
}

// dueMS is DueMS of an awaited Processor, and 0 of any other one.
func dueMS(p Processor) int64 {
	if a, ok := p.(awaited); ok {
		return a.DueMS()
	}
	return 0
}
