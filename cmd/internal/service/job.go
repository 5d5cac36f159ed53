package service

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
)

// job is what a service makes of the records of its input topic. Everything else in this package
// serves any job, except what its comment limits to one.
type job interface {
	// Fingerprint is in the changelog's marks, GroupFingerprint in what instances tell each other:
	// two that are equal say that both write the same bytes.
	Fingerprint() []byte
	GroupFingerprint() []byte
	// Differences and DifferencesInGroup name the settings in which a fingerprint differs.
	Differences(fingerprint []byte) string
	DifferencesInGroup(fingerprint []byte) string
	// begin finds out what the job needs to know of its input. The topics are there.
	begin(ctx context.Context) error
	// started returns the attributes of the log's line about the start.
	started() []any
	// goesOn says whether the job goes on under other settings, and does not refuse them.
	goesOn() bool
	// explained returns a fatal error with what to do about it.
	explained(err error) error
	// work returns what processes the records of a partition. It completes the task with what
	// erases users, if anything does, and with other options than the service's.
	work(at engine.Partition, d *task.Dependencies, o *task.Options) (processor, error)
	// judge returns what says of a raw partition's first records what would become of them.
	judge(at engine.Partition) (checks.Judge, error)
}

// processor is what processes the records of one partition.
type processor interface {
	task.Processor
	// Key is task.Dependencies.Key.
	Key(rec task.Record) (key []byte, read any, err error)
	// Take returns what was counted since its last call, and the offset behind the last record.
	Take() (engine.Tally, int64)
}
