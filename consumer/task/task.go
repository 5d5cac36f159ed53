package task

import (
	"context"
	"errors"
)

// Task is one partition's worker. Make one per assignment; it runs once and is
// used by one goroutine.
type Task struct {
	d     Dependencies
	o     Options
	state State
}

// New checks the options and makes a task. A missing dependency panics.
func New(d Dependencies, o Options) (*Task, error) {
	if d.Input == nil || d.Changelog == nil || d.Transactions == nil || d.Store == nil || d.Processor == nil {
		panic("task: every field of Dependencies is required")
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Task{d: d, o: o.withDefaults()}, nil
}

// Run works until ctx is done or something ends it for good. It returns nil
// when ctx is done and the transaction in hand was committed or dropped
// definitely; else an error whose RemedyOf is Leave or Fatal. It may be called
// once.
func (t *Task) Run(ctx context.Context) error {
	if t.state != Created {
		panic("task: Run was called twice")
	}
	return errors.ErrUnsupported
}
