package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// Following is a job that reads what a sanitizing service publishes. It has no key and spends no ε:
// all that it writes follows from its input.
type Following struct {
	Fingerprints
	// Try refuses a later version of the model that the job cannot use, and returns what should
	// stay in memory.
	Try func(v *engine.Version) (keep any, err error)
	// Processor returns what processes the records of a partition, with the numbers of schemas that
	// the output has in the registry.
	Processor func(at engine.Partition, ids schemas.IDs) (Processor, error)
	// Eraser returns what erases users of a partition; nil: nothing does.
	Eraser func() task.Eraser
	// StartOver says how to begin again where states or input are lost, behind "start".
	StartOver string
	// Delay says in the log when a record is written that was read.
	Delay string
}

// NewFollowing returns a service that does a job on a sanitized topic, which the options name as
// Topics.Raw, into a topic that they name as Topics.Sanitized. It checks the options, which must
// not have a key, and connects to nothing yet.
func NewFollowing(o Options, f Following) (*Service, error) {
	err := errors.Join(o.hosting()...)
	if !o.Key.IsZero() || o.Windows != nil {
		err = errors.Join(err, errors.New(
			"service: a service that follows a topic takes no key and no window"))
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Processor(engine.Partition{Of: 1}, schemas.IDs{}); err != nil {
		return nil, err
	}
	s := host(o)
	return s, s.does(&following{f, s})
}

type following struct {
	Following
	service *Service
}

func (j *following) try(v *engine.Version) (any, error) { return j.Try(v) }

func (j *following) begin(context.Context) error { return nil }

func (j *following) started() []any {
	o := j.service.options
	return []any{
		"group", o.Group, "input_topic", o.Topics.Raw, "output_topic", o.Topics.Sanitized,
		"partitions", j.service.partitions, "model", o.Model.ID(),
		"delay", j.Delay,
	}
}

func (j *following) goesOn() bool { return true }

// explained replaces the ways out of states that this job can do without: they save accounts of ε.
func (j *following) explained(err error) error {
	what, found := lostInput(j, j.service.options, err)
	if !found {
		return err
	}
	return &startOver{what, j.StartOver, err}
}

// lostInput says what a fatal error of a job without accounts of ε means, if its states or its
// input are lost, or of other settings.
func lostInput(own Fingerprints, o Options, err error) (what string, found bool) {
	var before *task.SettingsError
	var apart *task.DivergedError
	switch {
	case errors.As(err, &before):
		return "the last instance was killed under other settings: " +
			own.Differences(before.Found), true
	case errors.Is(err, task.ErrSource):
		return o.Topics.Raw + " was made again since the changelog was written", true
	case errors.Is(err, task.ErrInputLost):
		return "records of " + o.Topics.Raw + " were lost before they were read", true
	case errors.As(err, &apart) && apart.Committed > apart.Input:
		return fmt.Sprintf("the changelog %s has lost its end, or somebody moved group %s",
			o.Topics.Changelog, o.Group), true
	case errors.Is(err, task.ErrLost):
		return fmt.Sprintf("the changelog %s is lost, or the folder %s belongs to another",
			o.Topics.Changelog, o.StateDir), true
	}
	return "", false
}

func (j *following) work(
	at engine.Partition, d *task.Dependencies, _ *task.Options,
) (Processor, error) {
	if j.Eraser != nil {
		d.Eraser = j.Eraser()
	}
	return j.Processor(at, j.service.options.SchemaIDs)
}

// startOver is the error of a job that can begin again: no account of ε is among its states.
type startOver struct {
	what, how string
	cause     error
}

// Error leaves out the ways out that the cause names, which are those of another job.
func (e *startOver) Error() string {
	return fmt.Sprintf("%s (%s). Stop all instances, and start %s", e.what, task.Facts(e.cause),
		e.how)
}

func (e *startOver) Unwrap() error { return e.cause }
