package service

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// New returns a service that sanitizes. It checks the options and connects to nothing yet.
func New(o Options) (*Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := host(o)
	processor, err := engine.NewProcessor(s.options.Settings, engine.Partition{Of: 1})
	if err != nil {
		return nil, err
	}
	if s.keep, err = s.tryVersions(); err != nil {
		return nil, err
	}
	return s.does(&sanitizing{s.options.Settings, s, processor.Options().Mechanism}), nil
}

// sanitizing is the job that makes sanitized records of raw ones.
type sanitizing struct {
	engine.Settings // all but the numbers of schemas, which the service learns later
	service         *Service
	mechanism       string // by name, the default filled in
}

func (j *sanitizing) begin(context.Context) error { return nil }

// judge implements job.
func (j *sanitizing) judge(at engine.Partition) (checks.Judge, error) {
	return engine.NewProcessor(j.Settings, at)
}

func (j *sanitizing) started() []any {
	o := j.service.options
	return []any{
		"group", o.Group, "input_topic", o.Topics.Raw, "output_topic", o.Topics.Sanitized,
		"partitions", j.service.partitions, "model", j.Model.ID(), "mechanism", j.mechanism,
		"epsilon", j.Release.Epsilon, "delta", j.Release.Delta,
	}
}

func (j *sanitizing) goesOn() bool { return true }

func (j *sanitizing) explained(err error) error { return err } // it says what to do already

func (j *sanitizing) work(
	at engine.Partition, d *task.Dependencies, o *task.Options,
) (processor, error) {
	p, err := engine.NewProcessor(j.service.options.Settings, at)
	if err != nil {
		return nil, err
	}
	o.Names = j.KeyFingerprint()
	if !j.service.replays() {
		o.Partitioner = j.PartitionerName(at.Of)
		d.Eraser = engine.NewEraser(j.Key)
		return p, nil
	}
	// It has no account of its own, so it erases nothing.
	w := j.service.options.Windows[at.Number]
	o.Settings = w.Settings
	// Not at whatever retention has left when it begins.
	o.Start, o.Begin, o.End = task.At, w.Origin, w.End
	return w.processor(p), nil
}

// processor returns what processes the records of the window.
func (w Window) processor(p *engine.Processor) processor {
	p.Refuse(w.Refused)
	if w.Second {
		p.Note(schemas.SecondRelease)
	}
	return &windowed{p, w.From}
}
